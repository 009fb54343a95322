import GATTClient
import HealthReadings
import Testing

@testable import HealthDevices

/// Contacts with rings that record, go on, forget and lose octets, in an order that a seed makes up.
@Suite struct O2RingAttackTests {
    /// A night's samples, each of five octets by the published table.
    private static func octets(_ name: String, _ samples: [(UInt8, UInt8)]) -> [UInt8] {
        let digits = name.utf8.map { Int($0) - 48 }
        let parts = stride(from: 0, to: 14, by: 2).map { 10 * digits[$0] + digits[$0 + 1] }
        let year = 100 * parts[0] + parts[1]
        let size = 40 + 5 * samples.count
        let duration = 4 * samples.count
        var octets: [UInt8] = [3, 0, UInt8(year & 255), UInt8(year >> 8)]
        octets += parts[2...].map { UInt8($0) }
        octets += [UInt8(size & 255), UInt8(size >> 8 & 255), 0, 0, UInt8(duration & 255), UInt8(duration >> 8)]
        octets += [UInt8](repeating: 0, count: 25)
        for (saturation, pulse) in samples { octets += [saturation, pulse, 0, 5, 0] }
        return octets
    }

    private struct Night {
        var start: WallTime
        var samples: [(UInt8, UInt8)]
        var name: String { start.description.filter(\.isNumber) }
    }

    @Test(
        "whatever happens between contacts and in them, each night is stored once and with all its samples",
        arguments: 0..<40)
    func contacts(seed: Int) async throws {
        var numbers = SeededNumbers(seed)
        let (log, store) = (EventLog(), RecordingStore(EventLog()))
        let ring = EmulatedO2Ring(log: log)
        var (nights, seen): ([Night], [String: Int]) = ([], [:])
        var reader = MeterReader(journal: store, memory: store)
        var questions = 0
        for contact in 0..<10 {
            let isLast = contact == 9
            func samples(_ count: Int) -> [(UInt8, UInt8)] {
                (0..<count).map { _ in
                    (UInt8.random(in: 85...100, using: &numbers), UInt8.random(in: 45...110, using: &numbers))
                }
            }
            switch Int.random(in: 0..<4, using: &numbers) {
            case 0 where !nights.isEmpty:
                nights[nights.count - 1].samples += samples(Int.random(in: 1...150, using: &numbers))
            case 1: break
            default:
                if !nights.isEmpty, Bool.random(using: &numbers) { nights[nights.count - 1].samples += samples(7) }
                guard let start = WallTime("2026-10-\(10 + contact)T22:1\(contact):00") else { continue }
                nights.append(Night(start: start, samples: samples(Int.random(in: 1...200, using: &numbers))))
            }
            let listed = nights.suffix(4).map { ($0.name, Self.octets($0.name, $0.samples)) }
            let kind = isLast ? 9 : Int.random(in: 0..<10, using: &numbers)
            let many = Int.random(in: 1...3, using: &numbers)
            let odd = Set((0..<many).map { _ in questions + Int.random(in: 0..<12, using: &numbers) })
            let piece = [100, 240, 512].randomElement(using: &numbers) ?? 512
            ring.change { behaviour in
                behaviour.recordings = listed.map { (name: $0.0, octets: $0.1) }
                behaviour.pieceOfRecording = piece
                (behaviour.damages, behaviour.repeats, behaviour.delays) = ([], [], [])
                (behaviour.ignores, behaviour.cutAfterQuestions) = ({ _ in false }, nil)
                switch kind {
                case 0: behaviour.damages = odd
                case 1: behaviour.repeats = odd
                case 2: behaviour.delays = odd
                case 3: behaviour.ignores = { odd.contains($0) }
                case 4: behaviour.cutAfterQuestions = many * 3
                default: break
                }
            }
            if Bool.random(using: &numbers) { reader = MeterReader(journal: store, memory: store) }
            let summary = try await reader.read(ring)
            questions += ring.commands.count
            #expect(kind == 4 || summary.isComplete, "contact \(contact), \(kind): \(summary)")
            if summary.isComplete { for night in nights.suffix(4) { seen[night.name] = night.samples.count } }
            var stored: [String: [Int]] = [:]
            for record in store.records {
                guard case .vital(let value) = record.value, value.kind == .spo2 else { continue }
                let name = record.baseTime?.description.filter(\.isNumber) ?? ""
                stored[name, default: []].append(value.series?.count ?? 0)
            }
            let once = stored.values.allSatisfy { $0.count == 1 }
            let whole = seen.allSatisfy { name, count in stored[name].map { $0[0] >= count } ?? false }
            // What the ring does not hear closes nothing there.
            let mayBeOpen = kind == 3 || kind == 4
            #expect(
                once && whole && (mayBeOpen || !ring.isOpen), "contact \(contact), \(kind): \(stored), wanted \(seen)")
        }
        for night in nights.suffix(4) {
            let found = store.records.compactMap { record -> [Int64?]? in
                guard case .vital(let value) = record.value, value.kind == .heartRate,
                    record.baseTime == night.start
                else { return nil }
                return value.series?.map { $0.value?.significand }
            }
            #expect(found == [night.samples.map { Int64($0.1) }])
        }
    }
}

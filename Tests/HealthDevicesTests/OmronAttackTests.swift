import GATTClient
import HealthReadings
import Testing

@testable import HealthDevices

/// Numbers that look random and are the same in each run.
struct SeededNumbers: RandomNumberGenerator {
    private var state: UInt64

    init(_ seed: Int) { state = UInt64(seed) &* 0x9E37_79B9_7F4A_7C15 &+ 0x1234_5678_9ABC_DEF1 }

    mutating func next() -> UInt64 {
        state ^= state << 13
        state ^= state >> 7
        state ^= state << 17
        return state
    }
}

/// Contacts with monitors that measure, wrap, are cut off and write half a record, in an order that a seed makes up.
@Suite struct OmronAttackTests {
    private static let key = [UInt8](repeating: 0x5A, count: 16)

    /// A measurement: its place in time says everything of it.
    private struct Measurement: Hashable {
        let number: Int
        let user: Int

        var systolic: Int { 100 + number % 101 }
        private var parts: (month: Int, day: Int, hour: Int, minute: Int, second: Int) {
            let minutes = number * 7
            return (
                1 + minutes / 1440 / 28 % 12, 1 + minutes / 1440 % 28, minutes / 60 % 24, minutes % 60, number % 60
            )
        }
        var time: WallTime? {
            let (month, day, hour, minute, second) = parts
            return WallTime(year: 2026, month: month, day: day, hour: hour, minute: minute, second: second)
        }

        /// The octets, by the published table and by nothing of the decoder: octets of words, the sum of all but the last word.
        func octets(_ length: Int, highFirst: Bool) -> [UInt8] {
            let parts = parts
            let day = UInt16(parts.month) << 10 | UInt16(parts.day) << 5 | UInt16(parts.hour)
            let minute = 1 << 12 | UInt16(parts.minute) << 6 | UInt16(parts.second)
            let pairs: [(UInt8, UInt8)] =
                [
                    (70, UInt8(systolic - 25)), (26, 64), (UInt8(day >> 8), UInt8(day & 255)),
                    (UInt8(minute >> 8), UInt8(minute & 255)), (0, 0x80), (0, UInt8(number & 255)),
                ] + (length == 16 ? [(0, 0)] : [])
            let body = pairs.flatMap { highFirst ? [$0.0, $0.1] : [$0.1, $0.0] }
            let sum = UInt8(body.reduce(0) { $0 + Int($1) } % 256)
            return body + (highFirst ? [0, sum] : [sum, 0])
        }
    }

    /// What each user has in the ring, by slots.
    private struct Ring {
        let count: Int
        var slots: [Measurement?]
        var measured = 0

        init(count: Int) { (self.count, slots) = (count, Array(repeating: nil, count: count)) }

        var cursor: Int? {
            measured == 0 ? nil : measured % count | (measured >= count ? 0x4000 : 0)
        }

        mutating func measure(_ times: Int, user: Int) {
            for _ in 0..<times {
                slots[measured % count] = Measurement(number: measured, user: user)
                measured += 1
            }
        }
    }

    private static let models = [
        "omron_hem7322t", "omron_hem6161t", "omron_hem7361t", "omron_hem7155t", "omron_hem7143t1", "omron_hem7140t1",
        "omron_hem7380t1", "omron_hem7155tmw3",
    ]

    @Test(
        "promise 2 and 3: whatever happens between contacts and in them, each record is stored once",
        arguments: models)
    func contacts(model: String) async throws {
        let memory = try #require(Catalogue()[model]?.omronMemory)
        let isHighFirst = memory.layout.order == .highFirst
        for seed in 0..<3 {
            var numbers = SeededNumbers(seed)
            let log = EventLog()
            let store = RecordingStore(log)
            var behaviour = try EmulatedOmron.Behaviour.memory(model, records: [])
            (behaviour.key, behaviour.longestRead) = (Self.key, memory.longestRead)
            let monitor = EmulatedOmron(behaviour, log: log)
            var rings = memory.users.map { _ in Ring(count: memory.count) }
            func newReader() -> MeterReader {
                MeterReader(journal: store, memory: store, model: model, secrets: Secrets([.device(7): Self.key]))
            }
            var reader = newReader()
            var wanted: Set<Measurement> = []
            for contact in 0..<9 {
                let isLast = contact == 8
                for user in rings.indices {
                    let most = [0, 1, 3, memory.count - 1, memory.count, memory.count + 1].randomElement(
                        using: &numbers)
                    rings[user].measure(most ?? 0, user: user)
                }
                // Of the newest record a part is written.
                let half =
                    Int.random(in: 0..<4, using: &numbers) == 0 && !isLast
                    ? rings.indices.randomElement(using: &numbers) : nil
                let (cut, refused) = (
                    Int.random(in: 0..<3, using: &numbers) == 0 && !isLast
                        ? Int.random(in: 0..<30, using: &numbers) : nil,
                    Int.random(in: 0..<5, using: &numbers) == 0 && !isLast
                        ? UInt16.random(in: 0..<UInt16(memory.count), using: &numbers) : nil
                )
                let now = rings
                let place = memory.users.randomElement(using: &numbers)
                monitor.change { behaviour in
                    for (user, ring) in now.enumerated() {
                        behaviour.slots[user] = ring.slots.map {
                            $0?.octets(memory.layout.length, highFirst: isHighFirst)
                        }
                        behaviour.cursors[user] = ring.cursor
                        if user == half, ring.measured > 0 {
                            behaviour.slots[user][(ring.measured - 1) % ring.count]?[3] ^= 0x55
                        }
                    }
                    behaviour.cutAfterReads = cut
                    behaviour.refusals = [:]
                    if let refused, let place {
                        behaviour.refusals[place + refused * UInt16(memory.layout.length)] = 2
                    }
                }
                if Bool.random(using: &numbers) { reader = newReader() }
                let summary = try await reader.read(monitor)
                let isOdd = cut != nil || refused != nil
                #expect(isOdd || summary.error == nil, "seed \(seed), contact \(contact): \(summary)")
                if summary.isComplete, !isOdd {
                    for (user, ring) in rings.enumerated() {
                        let newest = ring.measured > 0 ? (ring.measured - 1) % ring.count : 0
                        for (slot, record) in ring.slots.enumerated() where user != half || slot != newest {
                            if let record { wanted.insert(record) }
                        }
                    }
                }
                let stored = store.records.map { record -> String in
                    guard case .bloodPressure(let value) = record.value else { return "" }
                    let systolic = value.systolic.number.number.map { "\($0)" } ?? ""
                    return "\(record.userSlot ?? 0) \(record.baseTime?.description ?? "") \(systolic)"
                }
                let known = Set(stored)
                let missing = wanted.filter { each in
                    !known.contains("\(each.user + 1) \(each.time?.description ?? "") \(each.systolic)")
                }
                #expect(
                    missing.isEmpty,
                    "seed \(seed), contact \(contact): \(missing.map { "\($0.user) \($0.number)" }.sorted())")
                #expect(known.count == stored.count && monitor.writesToMemory == 0)
                guard missing.isEmpty else { return }
            }
        }
    }

    /// hass-omron's requests 193 and 195 show the log of an HEM-7380T1 that does so.
    @Test(
        "promise 2: a monitor whose memory is full moves its records down, and says the same of each new one: it comes",
        arguments: models)
    func movedDown(model: String) async throws {
        let memory = try #require(Catalogue()[model]?.omronMemory)
        let isHighFirst = memory.layout.order == .highFirst
        let (length, count) = (memory.layout.length, memory.count)
        let store = RecordingStore(EventLog())
        var behaviour = try EmulatedOmron.Behaviour.memory(model, records: [])
        (behaviour.key, behaviour.longestRead) = (Self.key, memory.longestRead)
        let monitor = EmulatedOmron(behaviour, log: EventLog())
        let reader = MeterReader(journal: store, memory: store, model: model, secrets: Secrets([.device(7): Self.key]))
        // Each user's newest record stands in the last slot, and the next is written behind it.
        for (contact, new) in [0, 1, 0, 2, 1].enumerated() {
            let moved = [0, 1, 1, 3, 4][contact]
            monitor.change { behaviour in
                for user in memory.users.indices {
                    behaviour.cursors[user] = 0x4000
                    behaviour.slots[user] = (0..<count).map { slot in
                        Measurement(number: slot + moved, user: user).octets(length, highFirst: isHighFirst)
                    }
                }
            }
            // The emulated monitor's clock goes on by an hour.
            let summary = try await reader.read(monitor)
            #expect(summary.isComplete && summary.error == nil, "contact \(contact), \(new) new: \(summary)")
            #expect(store.readingCount == memory.users.count * (count + moved), "contact \(contact), \(new) new")
        }
        #expect(monitor.writesToMemory == 0)
    }
}

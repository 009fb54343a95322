import HealthReadings

@testable import HealthDevices

extension FuzzTarget {
    /// Pieces of what a Microlife monitor sends, each with its length in front, and a record of its memory.
    static let microlife = FuzzTarget(
        "microlife", longest: 160,
        seeds: { _ in
            let record: [UInt8] = [134, 70, 68, 22, 7, 17, 17, 2, 128, 0]
            let head: [UInt8] = [0, 0, 2, 1] + [UInt8](repeating: 0, count: 33)
            let history = MicrolifeFrame(.monitor, 0, head + record + record).encoded
            let pieces = stride(from: 0, to: history.count, by: 20).flatMap { place -> [UInt8] in
                let piece = history[place..<min(place + 20, history.count)]
                return [UInt8(piece.count)] + piece
            }
            let refusal = MicrolifeFrame(.monitor, 0x91).encoded
            return [pieces, [UInt8(refusal.count)] + refusal, [1, 0] + record]
        }
    ) { octets in
        var pieces = MicrolifePieces()
        var rest = octets[...]
        while let count = rest.popFirst().map({ Int($0 % 21) }) {
            guard let message = pieces.take(Array(rest.prefix(count))) else {
                rest = rest.dropFirst(count)
                continue
            }
            rest = rest.dropFirst(count)
            guard let frame = try? MicrolifeFrame(decoding: message) else { continue }
            expect(frame.encoded == message, "a message is not what its octets say")
            _ = MicrolifeIdentity(frame)
            guard let history = try? MicrolifeHistory(frame) else { continue }
            expect(history.payloads.count <= history.records.count, "records that were not sent")
            var keys: Set<ReadingID> = []
            for payload in history.payloads {
                guard case .record(let record) = MicrolifeRecord.decode(payload) else { continue }
                let frame = Frame(
                    format: .microlifeRecord, payload: payload, receivedAt: Instant(seconds: 0), ordinal: 0)
                let identity = ReadingIdentity(of: record, epoch: 0, frame: frame, contactStart: Instant(seconds: 0))
                expect(
                    keys.insert(identity.id(device: nil, kind: .bloodPressure)).inserted,
                    "two records of a memory are one reading")
            }
        }
        let decoded = MicrolifeRecord.decode(octets)
        expect(decoded == MicrolifeRecord.decode(octets), "the same frame says two things")
        if case .record(let record) = decoded { _ = record.document().text }
    }
}

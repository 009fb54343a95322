import HealthReadings

@testable import HealthDevices

extension FuzzTarget {
    /// Pieces of what an Omron monitor sends, and a record of its memory: the first octet picks the model, then pieces
    /// follow, each with its channel and its length in front.
    static let omron = FuzzTarget(
        "omron", longest: 128,
        seeds: { _ in
            let block = OmronFrame(.hasRead, address: 0x02AC, count: 14, data: [UInt8](repeating: 7, count: 14)).encoded
            let record: [UInt8] = [0x52, 0x6B, 0x16, 0x48, 0x15, 0x92, 0x11, 0x20, 0, 0x5B, 0x69, 0x80, 0xEA, 0x29]
            let pieces: [UInt8] = [0, 16] + Array(block.prefix(16)) + [1, 6] + Array(block.dropFirst(16))
            let refusal: [UInt8] = [0, 8, 8, 0x81, 0, 2, 0xAC, 14, 0xE7, 0xC2]
            let slot: [UInt8] = [0x02, 0xAC] + record
            return Catalogue.omronMonitors.indices.flatMap { model -> [[UInt8]] in
                let first = UInt8(model)
                return [[first] + pieces, [first] + refusal, [first] + slot]
            }
        }
    ) { octets in
        guard let first = octets.first else { return }
        let models = Catalogue.omronMonitors
        guard let memory = models[Int(first) % models.count].omronMemory,
            let request = OmronRequest.read(memory.layout.length, at: memory.address(0, of: 0))
        else { return expect(false, "a row has no memory") }
        var exchange = OmronExchange(request, channels: memory.stack.channels)
        var rest = octets.dropFirst()
        while rest.count >= 2 {
            let (channel, length) = (Int(rest.removeFirst() % 5), Int(rest.removeFirst() % 70))
            switch exchange.take(Array(rest.prefix(length)), on: channel) {
            case .answered(let frame, let message):
                expect(frame.data.count == memory.layout.length, "an answer of another length")
                expect(message.starts(with: frame.encoded), "an answer is not what its octets say")
            case .refused, .ended, .malformed, .waiting: break
            }
            rest = rest.dropFirst(length)
        }
        let payload = Array(octets.dropFirst())
        let decoded = memory.decode(payload)
        expect(decoded == memory.decode(payload), "the same frame says two things")
        if case .record(let record) = decoded {
            expect(record.baseTime != nil && record.userSlot != nil, "a record without time or user")
            expect(payload.count == memory.layout.length + 2, "a record of another length")
            _ = record.document().text
        }
        _ = (memory.position(of: 0, in: payload), memory.wallTime(payload))
    }
}

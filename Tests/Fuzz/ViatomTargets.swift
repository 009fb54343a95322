import GATTProfiles
import HealthReadings

@testable import HealthDevices

extension FuzzTarget {
    /// Pieces of what a BP2 sends, each with its length in front, and a record of its list.
    static let viatom = FuzzTarget(
        "viatom", longest: 200,
        seeds: { _ in
            let record: [UInt8] =
                [0x66, 0xB4, 0x0F, 0x69, 0xD7, 0x53, 3, 0, 1, 0, 0, 0, 0, 0x7E, 0, 0x4C, 0, 0x62, 0, 0x40, 0]
                + [UInt8](repeating: 0, count: 16)
            func frame(_ command: UInt8, _ payload: [UInt8]) -> [UInt8] {
                ViatomFrame(command: command, direction: 1, number: 1, payload: payload).encoded
            }
            let messages = frame(0xF2, [84, 0, 0, 0]) + frame(0xF3, [1, 1, 0, 0, 0, 0, 0, 0, 0, 0] + record + record)
            let pieces = stride(from: 0, to: messages.count, by: 20).flatMap { place -> [UInt8] in
                let piece = messages[place..<min(place + 20, messages.count)]
                return [UInt8(piece.count)] + piece
            }
            return [pieces, [0] + record]
        }
    ) { octets in
        var pieces = ViatomPieces()
        var list: ViatomList?
        var rest = octets[...]
        while let count = rest.popFirst().map({ Int($0 % 64) }) {
            for message in pieces.take(Array(rest.prefix(count))) {
                guard let frame = try? ViatomFrame(decoding: message) else { continue }
                expect(frame.encoded == message, "a message is not what its octets say")
                _ = ViatomInformation(frame.payload)
                if frame.command == 0xF2 { list = try? ViatomList(frame.payload) }
                guard frame.command == 0xF3, var open = list else { continue }
                let payloads = open.take(frame.payload)
                expect(open.count <= open.size, "a list has more octets than it has")
                expect(
                    payloads.allSatisfy { $0.count == ViatomPressure.length + 1 }, "a record of another length")
                list = open
            }
            rest = rest.dropFirst(count)
        }
        let decoded = ViatomPressure.decode(octets)
        expect(decoded == ViatomPressure.decode(octets), "the same frame says two things")
        if case .record(let record) = decoded {
            expect(record.baseTime != nil || record.occurrence != nil, "a record that cannot be known again")
            _ = record.document().text
        }
    }
}

extension FuzzTarget {
    /// Pieces of an oximeter's stream: the first octet picks the stream, then pieces follow, each with its length in front.
    static let oximeterStream = FuzzTarget(
        "oximeter-stream", longest: 96,
        seeds: { _ in
            let message: [UInt8] = [0xAA, 0x55, 0x0F, 0x08, 0x01, 0x62, 0x39, 0x00, 0x44, 0x00, 0xC0, 0xE3]
            return [
                [0, 12] + message, [0, 5] + message.prefix(5) + [7] + message.dropFirst(5), [1, 4, 0x81, 56, 99, 68],
                [2, 5, 0x80, 0, 0, 72, 98],
                [3, 21] + O2RingAnswer(payload: [98, 66, 0, 0, 0, 0, 0, 97, 0, 3, 11, 1, 0]).encoded,
            ]
        }
    ) { octets in
        let streams = OximeterStream.allCases
        guard let first = octets.first else { return }
        var reader = OximeterStreamReader(streams[Int(first) % streams.count])
        var rest = octets.dropFirst()
        while let count = rest.popFirst().map({ Int($0 % 32) }) {
            if let value = reader.take(Array(rest.prefix(count))) {
                let saturation = value.saturation.number.number?.significand ?? 0
                expect((1...100).contains(saturation), "a saturation beyond what there is")
                expect((value.pulseRate.number.number?.significand ?? 0) > 0, "a pulse of nothing")
            }
            rest = rest.dropFirst(count)
        }
    }
}

extension FuzzTarget {
    /// Pieces of what an O2Ring answers, each with its length in front.
    static let o2ring = FuzzTarget(
        "o2ring", longest: 128,
        seeds: { _ in
            let worn = O2RingAnswer(payload: [98, 66, 0, 0, 0, 0, 0, 97, 0, 3, 11, 1, 0]).encoded
            let unworn = O2RingAnswer(payload: [255, 255, 255, 0, 0, 0, 0, 96, 0, 5, 0, 0, 0]).encoded
            return [
                [20] + worn.prefix(20) + [1] + worn.suffix(1), [21] + unworn + [21] + worn,
                [8] + O2RingAnswer(status: 9, payload: []).encoded,
            ]
        }
    ) { octets in
        var pieces = O2RingPieces()
        var reader = OximeterStreamReader(.o2ring)
        var (rest, count) = (octets[...], 0)
        while let length = rest.popFirst().map({ Int($0 % 64) }) {
            let piece = Array(rest.prefix(length))
            let answers = pieces.take(piece)
            count += answers.count { O2RingValues($0) != nil }
            for answer in answers {
                expect(
                    (try? O2RingAnswer(decoding: answer.encoded)) == answer, "an answer is not what its octets say")
            }
            if let value = reader.take(piece) {
                let newest = answers.last { O2RingValues($0) != nil }.flatMap { O2RingValues($0) }
                expect(newest?.isWorn == true, "a value of an oximeter that isn't worn")
                expect(
                    value.saturation.number.number?.significand == newest.map { Int64($0.saturation) },
                    "a saturation that was not sent")
                expect(
                    value.pulseRate.number.number?.significand == newest.map { Int64($0.pulse) },
                    "a pulse that was not sent")
            }
            expect(reader.answers == count, "an answer is counted twice or not at all")
            rest = rest.dropFirst(length)
        }
        if let answer = try? O2RingAnswer(decoding: octets) {
            expect(answer.encoded == octets, "an answer is not what its octets say")
        }
    }
}

import GATTClient
import GATTProfiles
import HealthReadings

extension FuzzTarget {
    /// A characteristic's value: two octets of its number, big-endian, then the value.
    static let characteristic = FuzzTarget("characteristic", longest: 64, seeds: Captures.values) { octets in
        guard octets.count >= 2 else { return }
        let known = StandardFrameDecoder.knownCharacteristics
        // Nearly every number is unknown: it picks one of the known instead.
        let number = UInt16(octets[0]) << 8 | UInt16(octets[1])
        let characteristic = known.contains(number) ? number : known[Int(number) % known.count]
        let value = Array(octets.dropFirst(2))
        let decoder = StandardFrameDecoder()
        let frame = Frame(
            format: FrameFormat(characteristic: characteristic), payload: value, receivedAt: Instant(microseconds: 0),
            ordinal: 0)
        switch decoder.decode(frame, model: nil) {
        case .record(let record):
            _ = record.document().text
            if case .glucose(let glucose) = record.value, record.exclusion == nil {
                expect(glucose.concentration?.number.number != nil, "a reading without a number is not excluded")
            }
        case .malformed(let error): _ = error.description
        case .glucoseContext, .nothing, .sensor, .entry, .imported, .withdrawal, .figures: break
        }
        _ = try? decoder.describe(characteristic: characteristic, octets: value)?.text
        _ = decoder.characteristics(accepting: value)
    }

    /// A record access procedure: the first octet picks the request; then events, each an octet of its kind and, for a
    /// value of 2A52, an octet of its length and the value.
    static let recordAccess = FuzzTarget(
        "record-access", longest: 256,
        seeds: { _ in
            [
                [0, 1, 1, 0, 4, 6, 0, 1, 1], [4, 0, 4, 5, 0, 2, 0], [0, 0, 4, 6, 0, 1, 6],
                [1, 2, 2, 2, 0, 4, 6, 0, 3, 1],
                [2, 1, 3, 0, 4, 6, 0, 3, 7], [3, 1, 4],
            ]
        }
    ) { octets in
        var rest = octets[...]
        let requests: [RecordAccessRequest] = [
            .report(.all), .report(.atLeast(.sequenceNumber(9))), .report(.last), .count(.all), .abort,
        ]
        guard let first = rest.popFirst() else { return }
        var procedure = RecordAccessProcedure(requests[Int(first) % requests.count])
        _ = procedure.begin()
        var ended: RecordAccessOutcome?
        while let kind = rest.popFirst() {
            switch kind % 6 {
            case 0:
                let value = Array(rest.dropFirst().prefix(Int(rest.popFirst() ?? 0)))
                rest = rest.dropFirst(value.count)
                _ = procedure.received(value)
                if let response = try? RecordAccessResponse(decoding: value) {
                    let again = try? RecordAccessResponse(decoding: response.encoded)
                    expect(again == response, "\(response) is not what its encoding says")
                }
                if let request = try? RecordAccessRequest(decoding: value) {
                    let again = try? RecordAccessRequest(decoding: request.encoded)
                    expect(again == request, "\(request) is not what its encoding says")
                }
            case 1: _ = procedure.receivedRecord()
            case 2: _ = procedure.waited(.seconds(Int(kind)))
            case 3: _ = procedure.abort()
            case 4: _ = procedure.disconnected()
            default: _ = procedure.written()
            }
            expect(ended == nil || procedure.outcome == ended, "a procedure that had ended ended again")
            ended = procedure.outcome
        }
    }
}

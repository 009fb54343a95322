import GATTProfiles
import HealthReadings
import TestSupport
import Testing

@Suite("any octets")
struct HostileInputTests {
    @Test("no value of 0 to 2 octets traps any decoder, exhaustively")
    func shortValues() {
        let decoder = StandardFrameDecoder()
        #expect(decoder.characteristics(accepting: []) == DeviceInformationString.Kind.allCases.map(\.rawValue))
        for first in UInt8.min ... .max {
            _ = decoder.characteristics(accepting: [first])
            for second in trials(0...255, round: Int(first)) {
                _ = decoder.characteristics(accepting: [first, UInt8(second)])
            }
        }
    }

    @Test("no value of 0 to 64 octets traps any decoder or a running procedure")
    func randomValues() {
        let decoder = StandardFrameDecoder()
        for length in 0...64 {
            forAll(200) { generator in
                let octets = generator.octets(length)
                _ = decoder.characteristics(accepting: octets)
                for request in [RecordAccessRequest.report(.all), .count(.all), .abort] {
                    var procedure = RecordAccessProcedure(request)
                    _ = procedure.begin()
                    _ = procedure.received(octets)
                    _ = procedure.waited(.seconds(31))
                    _ = procedure.received(octets)
                }
                return true
            }
        }
    }

    @Test(
        "promise 5: each length a value's flags make too short is refused, each longer one accepted", arguments: 0...255
    )
    func everyFlag(flags: Int) throws {
        let tail = [UInt8](repeating: 1, count: 40)
        let lengths: [(UInt16, Int)] = [
            (0x2A18, 10 + (flags & 1 == 0 ? 0 : 2) + (flags & 2 == 0 ? 0 : 3) + (flags & 8 == 0 ? 0 : 2)),
            (
                0x2A34,
                3 + (flags & 0x80 == 0 ? 0 : 1) + (flags & 1 == 0 ? 0 : 3) + (flags & 2 == 0 ? 0 : 1)
                    + (flags & 4 == 0 ? 0 : 1) + (flags & 8 == 0 ? 0 : 3) + (flags & 16 == 0 ? 0 : 3)
                    + (flags & 64 == 0 ? 0 : 2)
            ),
            (
                0x2A35,
                7 + (flags & 2 == 0 ? 0 : 7) + (flags & 4 == 0 ? 0 : 2) + (flags & 8 == 0 ? 0 : 1)
                    + (flags & 16 == 0 ? 0 : 2)
            ),
            (
                0x2A36,
                7 + (flags & 2 == 0 ? 0 : 7) + (flags & 4 == 0 ? 0 : 2) + (flags & 8 == 0 ? 0 : 1)
                    + (flags & 16 == 0 ? 0 : 2)
            ),
        ]
        for (characteristic, length) in lengths {
            let whole = [UInt8(flags)] + tail
            for short in 0..<length {
                let error = try #require(malformed(characteristic, Array(whole[..<short])))
                #expect(error.octet <= short)
                #expect(error.found == "the end after \(short) octet\(short == 1 ? "" : "s")")
            }
            for long in length...whole.count { #expect(malformed(characteristic, Array(whole[..<long])) == nil) }
        }
    }

    @Test("promise 5: an error names the subject, what was expected, where, and what was found")
    func errorText() {
        let error = malformed(0x2A18, hex("03 0100 EA07 0B 14 0C 1E 05 3C"))
        #expect(
            error?.description
                == "Glucose Measurement (2A18): expected time offset (2 octets) at octet 10, found the end after 11 octets"
        )
    }
}

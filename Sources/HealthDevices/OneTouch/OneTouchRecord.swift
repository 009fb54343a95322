import GATTProfiles
import HealthReadings

/// A glucose record of a OneTouch meter: time u32, mg/dL u16, control solution u8, four octets more.
///
/// The time is the meter's local time. Layout: xDrip, Tidepool. What the last four octets say is not public; they change
/// nothing.
///
/// A meter that shows HI or LO has no status for it: it sends a number beyond 20 … 600 mg/dL (Tidepool's uploader).
public enum OneTouchRecord {
    /// Octets of the record, behind the 06 that says that it comes.
    package static let length = 11
    /// What the meter shows as a number, in mg/dL; LO below, HI above.
    private static let numbers: ClosedRange<Int64> = 20...600

    /// Decodes a frame of `FrameFormat.oneTouchRecord`.
    public static func decode(_ payload: [UInt8]) -> DecodedFrame {
        do throws(MalformedFrame) {
            guard payload.count >= 2 else {
                throw MalformedFrame(
                    subject: "OneTouch record", expected: "its number (2 octets)", octet: 0,
                    found: "the end after \(payload.count) octets")
            }
            let frame = try OneTouchFrame(decoding: Array(payload.dropFirst(2)))
            guard case .answer(let octets) = OneTouchAnswer(frame), octets.count >= length else {
                throw MalformedFrame(
                    subject: "OneTouch record", expected: "0x06 and \(length) octets", octet: 7,
                    found: "\(frame.payload.count) octets, the first \(frame.payload.first ?? 0)")
            }
            return .record(record(UInt16(payload[0]) | UInt16(payload[1]) << 8, octets))
        } catch {
            return .malformed(error)
        }
    }

    private static func record(_ number: UInt16, _ octets: [UInt8]) -> Record {
        let value = Int64(octets[4]) | Int64(octets[5]) << 8
        let concentration = Quantity(ExactDecimal(significand: value), .milligramsPerDecilitre)
        let isControl = octets[6] != 0
        var (status, exclusion): (ReadingStatus, Exclusion?) = ([], nil)
        if value == 0 {
            exclusion = .noValue
        } else if isControl {
            exclusion = .controlSolution
        } else if !Plausibility.isPlausible(glucose: concentration) {
            exclusion = .implausible
        } else if !numbers.contains(value) {
            (status, exclusion) = (value < numbers.lowerBound ? .resultTooLow : .resultTooHigh, .notANumber)
        }
        return Record(
            value: .glucose(
                GlucoseValue(
                    concentration: value == 0 ? nil : concentration,
                    sampleType: isControl ? .controlSolution : nil, sampleLocation: nil)),
            sequence: number, baseTime: OneTouch.wallTime(OneTouch.word(octets[0..<4])), status: status,
            exclusion: exclusion)
    }

    /// Whether something was measured.
    static func hasValue(_ octets: [UInt8]) -> Bool { octets.count > 5 && (octets[4] != 0 || octets[5] != 0) }

    /// The record's own time; nil where the octets are no record, or have none.
    static func baseTime(_ octets: [UInt8]) -> WallTime? {
        octets.count < 4 ? nil : OneTouch.wallTime(OneTouch.word(octets[0..<4]))
    }
}

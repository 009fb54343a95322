import HealthReadings

/// A value of a standard characteristic that a device sent from its memory, and of which nobody knows when it was measured.
///
/// Such a device sends its memory at each contact. If a value without a time were known by its contact, as one is that was
/// measured just now, it would be another record each time, made when it was received.
package struct RecalledValue: Sendable, Hashable {
    /// Octets of a frame in front of the value.
    private static let head = 3

    private let characteristic: UInt16
    private let octets: [UInt8]
    /// What tells it from others: its values, its user, and what an unset clock showed.
    package let record: Record

    /// - Parameters:
    ///   - characteristic: the characteristic's assigned number.
    ///   - octets: the value as it came.
    ///   - wasAskedFor: whether the device was sending what it was asked for: all that it has stored.
    ///   - isKept: whether the device sends all that it keeps, whenever it is connected.
    /// - Returns: `nil` for a value that has a time, or was measured just now as far as is known; for what is no record; and for
    ///   characteristics whose records no device sends again.
    package init?(_ characteristic: UInt16, _ octets: [UInt8], wasAskedFor: Bool, isKept: Bool) {
        var record: Record
        switch characteristic {
        case PulseOximeterSpotCheck.assignedNumber:
            guard let spot = try? PulseOximeterSpotCheck(decoding: octets), wasAskedFor || spot.status.isFromStorage
            else { return nil }
            record = spot.record
        case BloodPressureMeasurement.assignedNumber:
            // A cuff that sends no time stamp has no clock, and sends each record when it is made.
            guard isKept, let measurement = try? BloodPressureMeasurement(decoding: octets),
                measurement.timeStamp != nil
            else { return nil }
            record = measurement.record
        default: return nil
        }
        guard record.baseTime == nil else { return nil }
        Self.mark(&record, characteristic, octets)
        (record.status, record.exclusion) = ([], nil)
        self.characteristic = characteristic
        self.octets = octets
        self.record = record
    }

    /// The frame's octets.
    ///
    /// - Parameter occurrence: which of the equal values of its contact it is, from 0.
    package func payload(occurrence: UInt8) -> [UInt8] {
        [occurrence, UInt8(truncatingIfNeeded: characteristic), UInt8(truncatingIfNeeded: characteristic >> 8)] + octets
    }

    /// Decodes a frame of `FrameFormat.recalledValue`.
    ///
    /// - Parameter value: decodes the frame of the value itself.
    package static func decode(_ frame: Frame, value: (Frame) -> DecodedFrame) -> DecodedFrame {
        guard frame.payload.count >= head else {
            return .malformed(
                MalformedFrame(
                    subject: "recalled value", expected: "its place and its characteristic (\(head) octets)", octet: 0,
                    found: "the end after \(frame.payload.count) octets"))
        }
        let characteristic = UInt16(frame.payload[1]) | UInt16(frame.payload[2]) << 8
        var own = frame
        own.format = FrameFormat(characteristic: characteristic)
        own.payload = Array(frame.payload.dropFirst(head))
        let decoded = value(own)
        guard case .record(var record) = decoded else { return decoded }
        record.occurrence = frame.payload[0]
        mark(&record, characteristic, own.payload)
        return .record(record)
    }

    /// Keeps what an unset clock showed: it tells equal values apart, and says of none when it was measured.
    private static func mark(_ record: inout Record, _ characteristic: UInt16, _ octets: [UInt8]) {
        guard record.baseTime == nil, characteristic == PulseOximeterSpotCheck.assignedNumber,
            let stamp = (try? PulseOximeterSpotCheck(decoding: octets))?.timeStamp?.wallTime
        else { return }
        (record.baseTime, record.timeOffsetIsUnknown) = (stamp, true)
    }
}

extension FrameFormat {
    /// A value of a standard characteristic that a device sent from its memory without a time that can be trusted: which of
    /// the equal values of its contact it is (an octet, from 0), the characteristic's assigned number (two octets, low
    /// first), then the value as it came.
    public static let recalledValue = FrameFormat(rawValue: 0x1_0090)
}

import HealthReadings

/// What the statuses that a device sends with a measurement mean for its value: one rule for all profiles.
///
/// | the device says | what becomes of the value |
/// |---|---|
/// | invalid, not available, calibrating, test or demonstration data, a setting, typed in, failed | excluded as `error_record` |
/// | questionable, an early estimate, a weak or disturbed signal | kept and delivered, marked ``ReadingStatus/questionable`` |
/// | anything else, and reserved bits | nothing |
///
/// The bits of 2A18, 2A35 and 2AA7 have a status each and mark a value by that; ``ReadingStatus/measurementFailed`` has those
/// that exclude it. The conditions of the first two lines are those of Measurement Status in ISO/IEEE 11073-10206 and 11073-20601.
/// A value beyond a limit that is set in the device is like any other: it may be the one that matters.
struct MeasurementVerdict {
    /// What the reading's status says.
    let status: ReadingStatus
    /// Whether the number is no value of a person.
    let isNoValue: Bool

    /// The verdict for bits that have a status each.
    @inline(__always)
    init(_ status: ReadingStatus) {
        self.status = status
        isNoValue = !status.isDisjoint(with: .measurementFailed)
    }

    /// The verdict for bits that have none.
    ///
    /// - Parameters:
    ///   - bits: the bits as sent.
    ///   - excluding: the bits that exclude the value.
    ///   - doubting: the bits that mark it.
    init(_ bits: UInt64, excluding: UInt64, doubting: UInt64) {
        status = bits & doubting == 0 ? [] : .questionable
        isNoValue = bits & excluding != 0
    }

    /// Why the record is never delivered, whatever its value is; `nil` if the value decides.
    @inline(__always)
    var exclusion: Exclusion? { isNoValue ? .errorRecord : nil }
}

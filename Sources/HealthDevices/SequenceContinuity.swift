import GATTClient
import GATTProfiles
import HealthReadings

/// Finds out whether a meter's numbers go on from the newest record that is stored of it, by looking at records before
/// they are stored.
struct SequenceContinuity {
    /// How the meter's newest record stands to the newest one that is stored.
    enum Newest: Sendable, Hashable {
        /// None came that can be read.
        case unseen
        /// It is that record.
        case same
        /// Its number is higher.
        case later
        /// Its number is lower, or the same at another base time: the meter has restarted or wrapped its numbers.
        case restarted
        /// It cannot be told: a clock that was never set, or a meter that sends everything when asked for its newest.
        case unclear
    }

    /// A record as far as it is compared.
    private struct Numbered: Hashable {
        var sequence: UInt16
        var baseTime: WallTime?
        var octets: [UInt8]
    }

    private let last: LastRecord
    private let session: ContinuousGlucoseSession?
    private(set) var newest = Newest.unseen
    /// Whether the stored record came again, so that the numbers behind it are its successors.
    private(set) var hasMet = false
    private var candidate: Numbered?

    /// - Parameter session: the session of a continuous sensor; nil for a meter.
    init(after last: LastRecord, session: ContinuousGlucoseSession? = nil) {
        self.last = last
        self.session = session
    }

    /// Looks at what comes when the newest record was asked for.
    ///
    /// - Returns: whether a sequence epoch begins with it.
    mutating func lookAtNewest(_ values: [CharacteristicValue]) -> Bool {
        let before = newest
        for record in records(values) where record != candidate {
            newest = candidate == nil ? compare(record) : .unclear
            candidate = record
        }
        return newest == .restarted && before == .unseen
    }

    /// Looks at what comes when the records from the stored one on were asked for.
    mutating func look(_ values: [CharacteristicValue]) {
        // A base time proves nothing that may be another session's, too.
        guard !hasMet, session?.mayBeAnother != true else { return }
        hasMet = records(values).contains { compare($0) == .same }
    }

    private func compare(_ record: Numbered) -> Newest {
        if record.sequence > last.sequence { return .later }
        if record.sequence < last.sequence { return .restarted }
        guard let ours = last.baseTime, let theirs = record.baseTime else { return .unclear }
        return ours == theirs ? .same : .restarted
    }

    private func records(_ values: [CharacteristicValue]) -> [Numbered] {
        guard let session else {
            return values.filter { $0.uuid == GlucoseTransfer.measurement }.compactMap { value in
                (try? GlucoseMeasurement(decoding: value.octets)).map {
                    Numbered(sequence: $0.sequenceNumber, baseTime: $0.baseTime.wallTime, octets: value.octets)
                }
            }
        }
        return values.filter { $0.uuid == ContinuousGlucoseSession.measurement }
            .flatMap { session.records(in: $0.octets) }
            .compactMap { record in
                (try? record.measurement()).map {
                    Numbered(
                        sequence: $0.timeOffset, baseTime: session.wallTime(atMinute: $0.timeOffset),
                        octets: record.value)
                }
            }
    }
}

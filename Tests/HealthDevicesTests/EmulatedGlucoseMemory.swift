import GATTClient
import GATTProfiles
import HealthReadings

/// A glucose meter's or a continuous sensor's memory behind a Record Access Control Point.
struct EmulatedGlucoseMemory: Sendable {
    enum Question: Sendable, Hashable { case count, all, last, atLeast, other, abort }

    /// The octets of 2A18, or of values of 2AA7, oldest first; a short one counts as a record.
    var records: [[UInt8]]
    /// It is a continuous sensor, and puts so many values into a notification.
    var valuesPerNotification: Int?
    var hasControlPoint = true
    var isDescending = false
    /// Response codes these are refused with.
    var refuses: [Question: UInt8] = [:]
    /// Nothing is said to these.
    var silentOn: Set<Question> = []
    /// What is sent in place of the answer to these.
    var rubbish: [Question: [[UInt8]]] = [:]
    /// So many records come behind the answer.
    var lateRecords = 0
    /// These numbers are lost on the way.
    var loses: Set<UInt16> = []
    /// Each record is sent so many times.
    var copies = 1
    /// A context for each record.
    var hasContexts = false
    /// Asked for the newest, it sends everything.
    var dumpsOnLast = false
    /// The response code that ends a report in place of success.
    var endsReportsWith: UInt8 = 1
    /// A report never ends.
    var withholdsAnswer = false

    init(_ records: [[UInt8]]) { self.records = records }

    func answer(to octets: [UInt8]) -> [(BluetoothUUID, [UInt8])] {
        guard let request = try? RecordAccessRequest(decoding: octets) else { return [control([6, 0, octets[0], 2])] }
        let (question, selection) = Self.question(request)
        if let rubbish = rubbish[question] { return rubbish.map(control) }
        if silentOn.contains(question) { return [] }
        if let code = refuses[question] { return [control([6, 0, request.opCode, code])] }
        guard let selection else { return [control([6, 0, 3, 1])] }
        let chosen = select(selection)
        if case .count = request {
            return [
                control([5, 0, UInt8(truncatingIfNeeded: chosen.count), UInt8(truncatingIfNeeded: chosen.count >> 8)])
            ]
        }
        guard !chosen.isEmpty else { return [control([6, 0, 1, 6])] }
        let kept = chosen.filter { !loses.contains(sequence($0)) }
        var values = notifications(of: kept).flatMap { record in
            Array(repeating: [(measurement, record)] + context(of: record), count: copies).flatMap(\.self)
        }
        if withholdsAnswer { return values }
        values.insert(control([6, 0, 1, endsReportsWith]), at: max(0, values.count - lateRecords))
        return values
    }

    /// The characteristic of the records.
    var measurement: BluetoothUUID { valuesPerNotification == nil ? 0x2A18 : 0x2AA7 }

    /// The values that leave the device together.
    private func notifications(of records: [[UInt8]]) -> [[UInt8]] {
        guard let size = valuesPerNotification else { return records }
        return stride(from: 0, to: records.count, by: size).map { start in
            Array(records[start..<min(start + size, records.count)].joined())
        }
    }

    private func control(_ octets: [UInt8]) -> (BluetoothUUID, [UInt8]) { (0x2A52, octets) }

    private func context(of record: [UInt8]) -> [(BluetoothUUID, [UInt8])] {
        hasContexts && record.count >= 3 ? [(0x2A34, [0x02, record[1], record[2], 0x01])] : []
    }

    private func select(_ selection: RecordSelection) -> [[UInt8]] {
        let ordered = isDescending ? records.reversed() : records
        switch selection {
        case .last where !dumpsOnLast: return records.suffix(1)
        case .atLeast(.sequenceNumber(let least)): return ordered.filter { sequence($0) >= least }
        default: return ordered
        }
    }

    private static func question(_ request: RecordAccessRequest) -> (Question, RecordSelection?) {
        switch request {
        case .abort: (.abort, nil)
        case .count(let selection): (.count, selection)
        case .report(.all): (.all, .all)
        case .report(.last): (.last, .last)
        case .report(.atLeast(let bound)): (.atLeast, .atLeast(bound))
        case .report(let selection): (.other, selection)
        }
    }

    private func sequence(_ record: [UInt8]) -> UInt16 {
        let place = valuesPerNotification == nil ? 1 : 4
        return record.count < place + 2 ? 0 : UInt16(record[place]) | UInt16(record[place + 1]) << 8
    }
}

/// A record of 2A18 whose base time follows from its number and the day its meter's numbers began.
func glucoseRecord(_ sequence: UInt16, since start: WallTime = .spring, value: UInt16 = 95) -> [UInt8] {
    GlucoseMeasurement(
        sequenceNumber: sequence, baseTime: DateTime(start.advanced(byMinutes: Int(sequence))), timeOffset: 60,
        concentration: .init(
            value: MedFloat16(rawValue: 0xB000 | value), unit: .kilogramsPerLitre, type: .capillaryWholeBlood,
            location: .finger)
    ).encoded
}

func glucoseRecords(_ sequences: ClosedRange<UInt16>, since start: WallTime = .spring) -> [[UInt8]] {
    sequences.map { glucoseRecord($0, since: start) }
}

extension WallTime {
    static let spring = WallTime(secondsSinceEpoch: 1_770_000_000)
    static let summer = WallTime(secondsSinceEpoch: 1_780_000_000)
}

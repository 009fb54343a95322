import GRDB
import HealthReadings

/// A reading as its row: one list of columns, written and read in the same order.
enum ReadingRow {
    /// The columns of `reading AS r` with ``joins`` that make a reading.
    static let columns = """
        r.key, r.id, r.kind, r.device, r.sequence, r.base_time, r.time_offset_minutes, r.time_offset_unknown, \
        r.a_digits, r.a_exponent, r.a_unit, r.b_digits, r.b_exponent, r.b_unit, \
        r.c_digits, r.c_exponent, r.c_unit, r.p_digits, r.p_exponent, r.p_unit, \
        r.sample_type, r.sample_location, r.status, r.user_slot, r.record_exclusion, r.time_exclusion, \
        r.time, r.time_basis, r.time_uncertainty_minutes, r.clock_difference, r.clock_read_at, r.received_at, \
        c.reading, c.carbohydrate, c.carbohydrate_digits, c.carbohydrate_exponent, c.carbohydrate_unit, \
        c.meal, c.tester, c.health, c.exercise_intensity, c.exercise_seconds, \
        c.medication, c.medication_digits, c.medication_exponent, c.medication_unit, \
        c.hba1c_digits, c.hba1c_exponent, c.hba1c_unit, \
        s.source, s.minute, s.glucose, s.temperature, s.adjustment, s.quality, s.flags, s.has_error, s.calibration
        """
    /// What a reading's columns come from besides its own row.
    static let joins = """
        LEFT JOIN reading_context AS c ON c.reading = r.key LEFT JOIN sensor_record AS s ON s.reading = r.key
        """
    /// How many there are: what a statement adds begins at this column.
    static let count: Int32 = 58

    static let insert = """
        INSERT INTO reading (
            id, kind, device, user, sequence_epoch, clash, sequence, base_time, time_offset_minutes,
            time_offset_unknown, a_digits, a_exponent, a_unit, b_digits, b_exponent, b_unit,
            c_digits, c_exponent, c_unit, p_digits, p_exponent, p_unit, sample_type, sample_location, status, user_slot,
            record_exclusion, time_exclusion, time, time_basis, time_uncertainty_minutes, clock_difference,
            clock_read_at, received_at
        ) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)
        """

    static func key(_ row: PreparedStatement) -> Int64 { row.int(0) }

    static func device(_ row: PreparedStatement) -> Int64 { row.int(3) }

    static func reading(_ row: PreparedStatement, devices: DeviceCache) throws -> Reading {
        let time = ResolvedTime(
            instant: row.optionalInt(26).map(Instant.init(seconds:)), basis: try TimeBasis(code: row.int(27)),
            uncertaintyMinutes: row.optionalInt(28).map(Int.init),
            clock: row.optionalInt(29).map { difference in
                ClockComparison(differenceSeconds: difference, readAt: Instant(microseconds: row.int(30)))
            })
        let record = try record(row)
        return Reading(
            id: try row.readingID(1), record: record, context: row.isNull(32) ? nil : try context(row),
            device: try devices.description(device(row)), time: time,
            excluded: try record.exclusion ?? row.optionalInt(25).map(Exclusion.init(code:)),
            receivedAt: Instant(microseconds: row.int(31)))
    }

    static func record(_ row: PreparedStatement) throws -> Record {
        let value: RecordValue
        switch try ReadingKind(code: row.int(2)) {
        case .glucose:
            value = .glucose(
                GlucoseValue(
                    concentration: try quantity(row, 8),
                    sampleType: row.optionalInt(20).flatMap {
                        GlucoseSampleType(rawValue: UInt8(truncatingIfNeeded: $0))
                    },
                    sampleLocation: row.optionalInt(21).flatMap {
                        GlucoseSampleLocation(rawValue: UInt8(truncatingIfNeeded: $0))
                    }))
        case .bloodPressure:
            guard let systolic = try quantity(row, 8), let diastolic = try quantity(row, 11),
                let meanArterial = try quantity(row, 14)
            else { throw StoreError.corrupt(detail: "a blood pressure lacks one of its pressures") }
            value = .bloodPressure(
                BloodPressureValue(
                    systolic: systolic, diastolic: diastolic, meanArterial: meanArterial, pulse: try quantity(row, 17)))
        }
        return Record(
            value: value, sequence: row.optionalInt(4).map { UInt16(truncatingIfNeeded: $0) },
            baseTime: row.optionalInt(5).map(WallTime.init(secondsSinceEpoch:)),
            timeOffsetMinutes: row.optionalInt(6).map { Int16(truncatingIfNeeded: $0) },
            timeOffsetIsUnknown: row.int(7) != 0,
            status: ReadingStatus(rawValue: UInt32(truncatingIfNeeded: row.int(22))),
            userSlot: row.optionalInt(23).map { UInt8(truncatingIfNeeded: $0) },
            exclusion: try row.optionalInt(24).map(Exclusion.init(code:)), sensor: try sensor(row))
    }

    private static func sensor(_ row: PreparedStatement) throws -> SensorFacts? {
        guard let code = row.optionalInt(49) else { return nil }
        guard let source = SensorFacts.Source(rawValue: UInt8(truncatingIfNeeded: code)),
            let calibration = SensorFacts.Calibration(rawValue: UInt8(truncatingIfNeeded: row.int(57)))
        else { throw StoreError.corrupt(detail: "a sensor's record has the source \(code)") }
        return SensorFacts(
            source: source, minute: UInt16(truncatingIfNeeded: row.int(50)),
            glucose: UInt16(truncatingIfNeeded: row.int(51)), temperature: UInt16(truncatingIfNeeded: row.int(52)),
            adjustment: Int16(truncatingIfNeeded: row.int(53)), quality: UInt16(truncatingIfNeeded: row.int(54)),
            flags: UInt8(truncatingIfNeeded: row.int(55)), hasError: row.int(56) != 0, calibration: calibration)
    }

    private static func context(_ row: PreparedStatement) throws -> GlucoseContext {
        var context = GlucoseContext()
        context.carbohydrate = try intake(row, 33)
        context.meal = row.text(37)
        context.tester = row.text(38)
        context.health = row.text(39)
        if let intensity = row.optionalInt(40) {
            context.exercise = .init(
                seconds: row.optionalInt(41).map { UInt16(truncatingIfNeeded: $0) },
                intensityPercent: UInt8(truncatingIfNeeded: intensity))
        }
        context.medication = try intake(row, 42)
        context.hba1c = try quantity(row, 46)
        return context
    }

    private static func intake(_ row: PreparedStatement, _ column: Int32) throws -> GlucoseContext.Intake? {
        guard let id = row.text(column), let amount = try quantity(row, column + 1) else { return nil }
        return .init(id: id, amount: amount)
    }

    private static func quantity(_ row: PreparedStatement, _ column: Int32) throws -> Quantity? {
        guard let code = row.optionalInt(column + 2) else { return nil }
        guard let unit = MeasurementUnit(rawValue: UInt8(truncatingIfNeeded: code)) else {
            throw StoreError.corrupt(detail: "a quantity's unit is \(code)")
        }
        return Quantity(try MeasuredNumber(digits: row.optionalInt(column), exponent: row.int(column + 1)), unit)
    }
}

/// Binds parameters one after the other.
struct Parameters {
    let statement: PreparedStatement
    private var index: Int32 = 0

    init(of statement: PreparedStatement) { self.statement = statement }

    mutating func put(_ value: Int64?) {
        index += 1
        statement.bind(index, value)
    }

    mutating func put(_ id: ReadingID) {
        index += 1
        statement.bind(index, id)
    }

    mutating func put(text: String?) {
        index += 1
        statement.bind(index, text)
    }

    mutating func put(octets: [UInt8]) {
        index += 1
        statement.bind(index, octets: octets)
    }

    /// Three parameters: digits, exponent, unit.
    mutating func put(_ quantity: Quantity?) {
        guard let quantity else {
            for _ in 0..<3 { put(nil as Int64?) }
            return
        }
        let (digits, exponent) = quantity.number.columns
        put(digits)
        put(exponent)
        put(Int64(quantity.unit.rawValue))
    }

    /// Sixteen parameters: the four quantities, and what a glucose sample was.
    mutating func put(_ value: RecordValue) {
        switch value {
        case .glucose(let glucose):
            put(glucose.concentration)
            for _ in 0..<3 { put(nil as Quantity?) }
            put(glucose.sampleType.map { Int64($0.rawValue) })
            put(glucose.sampleLocation.map { Int64($0.rawValue) })
        case .bloodPressure(let pressure):
            put(pressure.systolic)
            put(pressure.diastolic)
            put(pressure.meanArterial)
            put(pressure.pulse)
            put(nil as Int64?)
            put(nil as Int64?)
        }
    }
}

/// Descriptions of devices, each fetched once for a statement that gives many readings.
final class DeviceCache {
    private let db: Database
    private var known: [Int64: DeviceDescription] = [:]
    private var last: (key: Int64, description: DeviceDescription)?

    init(_ db: Database) { self.db = db }

    func description(_ key: Int64) throws -> DeviceDescription {
        if let last, last.key == key { return last.description }
        let description = try known[key] ?? fetch(key)
        known[key] = description
        last = (key, description)
        return description
    }

    private func fetch(_ key: Int64) throws -> DeviceDescription {
        let select = try PreparedStatement(
            db,
            """
            SELECT coalesce(d.address, a.address), coalesce(d.address_kind, a.address_kind), d.model, d.serial, d.name,
                d.provider
            FROM device AS d LEFT JOIN device_address AS a ON a.device = d.key WHERE d.key = ?
            ORDER BY a.last_seen DESC LIMIT 1
            """)
        select.bind(1, key)
        guard try select.next() else { throw StoreError.corrupt(detail: "device \(key) is missing") }
        defer { select.reset() }
        return DeviceDescription(
            address: DeviceAddress(bits: select.optionalInt(0), kind: select.optionalInt(1)), model: select.text(2),
            serial: select.text(3), name: select.text(4), provider: select.text(5) ?? "manual")
    }
}

extension DeviceAddress {
    /// The address of its two columns; nil where there is none.
    init?(bits: Int64?, kind: Int64?) {
        guard let bits, let kind else { return nil }
        self.init(bits: UInt64(truncatingIfNeeded: bits), kind: kind == 1 ? .public : .random)
    }

    /// The column of ``kind``: 1 public, 2 random.
    var kindCode: Int64 { kind == .public ? 1 : 2 }
}

import Foundation
import GRDB
import HealthReadings

/// Gathers what a reading's row must be able to keep unreadable into one blob, and leaves in columns what rows are
/// found and put in order by.
enum ContentMigration {
    static func run(_ db: Database) throws {
        db.add(function: clear)
        db.add(function: content)
        try db.execute(sql: sql)
        db.remove(function: clear)
        db.remove(function: content)
    }

    /// What a blob looks like that is in the clear: a 0, then its octets.
    private static let clear = DatabaseFunction("clear_blob", argumentCount: 1, pure: true) { values in
        switch values[0].storage {
        case .blob(let data): Data([0]) + data
        case .string(let text): Data([0]) + Data(text.utf8)
        default: nil
        }
    }

    /// The content of what were columns of `reading`, `reading_context` and `sensor_record`, in their order.
    private static let content = DatabaseFunction("reading_content", pure: true) { values in
        var columns = FormerColumns(values)
        return Data([0] + (try columns.content()).octets)
    }

    private static let sql = """
        DROP INDEX frame_apart;
        ALTER TABLE frame ADD COLUMN mark BLOB;
        UPDATE frame SET mark = CASE WHEN state IN (0, 3, 4) THEN payload END, payload = clear_blob(payload);
        -- mark: what the octets of a frame that belongs to no reading are found by.
        CREATE INDEX frame_apart ON frame (device, format, mark) WHERE mark IS NOT NULL;

        -- payload, content, words: a number of the key (0: in the clear), then what it sealed.
        CREATE TABLE new_reading (
            key INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE CHECK (length(id) = 16), kind INTEGER NOT NULL,
            device INTEGER NOT NULL REFERENCES device, user INTEGER NOT NULL REFERENCES user,
            sequence_epoch INTEGER NOT NULL, clash INTEGER NOT NULL, sequence INTEGER, base_time INTEGER,
            time_offset_minutes INTEGER, time_offset_unknown INTEGER NOT NULL,
            record_exclusion INTEGER, time_exclusion INTEGER,
            time INTEGER, time_basis INTEGER NOT NULL, time_uncertainty_minutes INTEGER,
            clock_difference INTEGER, clock_read_at INTEGER, received_at INTEGER NOT NULL, content BLOB NOT NULL
        ) STRICT;
        INSERT INTO new_reading SELECT
            r.key, r.id, r.kind, r.device, r.user, r.sequence_epoch, r.clash, r.sequence, r.base_time,
            r.time_offset_minutes, r.time_offset_unknown, r.record_exclusion, r.time_exclusion, r.time, r.time_basis,
            r.time_uncertainty_minutes, r.clock_difference, r.clock_read_at, r.received_at,
            reading_content(
                r.kind, r.status, r.user_slot, r.a_digits, r.a_exponent, r.a_unit, r.b_digits, r.b_exponent, r.b_unit,
                r.c_digits, r.c_exponent, r.c_unit, r.p_digits, r.p_exponent, r.p_unit, r.sample_type, r.sample_location,
                s.source, s.minute, s.glucose, s.temperature, s.adjustment, s.quality, s.flags, s.has_error, s.calibration,
                c.reading, c.carbohydrate, c.carbohydrate_digits, c.carbohydrate_exponent, c.carbohydrate_unit,
                c.meal, c.tester, c.health, c.exercise_intensity, c.exercise_seconds,
                c.medication, c.medication_digits, c.medication_exponent, c.medication_unit,
                c.hba1c_digits, c.hba1c_exponent, c.hba1c_unit)
            FROM reading AS r LEFT JOIN reading_context AS c ON c.reading = r.key
            LEFT JOIN sensor_record AS s ON s.reading = r.key ORDER BY r.key;
        DROP TABLE reading_context;
        DROP TABLE reading;
        ALTER TABLE new_reading RENAME TO reading;
        CREATE INDEX reading_time ON reading (time, id);
        CREATE INDEX reading_kind_time ON reading (kind, time, id);
        CREATE INDEX reading_sequence ON reading (device, sequence_epoch, sequence) WHERE sequence IS NOT NULL;

        DROP INDEX sensor_record_minute;
        ALTER TABLE sensor_record RENAME TO old_sensor_record;
        CREATE TABLE sensor_record (
            reading INTEGER PRIMARY KEY REFERENCES reading, device INTEGER NOT NULL REFERENCES device,
            source INTEGER NOT NULL, minute INTEGER NOT NULL
        ) STRICT;
        INSERT INTO sensor_record SELECT reading, device, source, minute FROM old_sensor_record;
        DROP TABLE old_sensor_record;
        CREATE INDEX sensor_record_minute ON sensor_record (device, minute);

        ALTER TABLE outbox ADD COLUMN words BLOB;
        UPDATE outbox SET words = clear_blob(server_said) WHERE server_said IS NOT NULL;
        ALTER TABLE outbox DROP COLUMN server_said;
        """
}

/// Takes the columns of earlier tables one after the other.
private struct FormerColumns {
    private let values: [DatabaseValue]
    private var next = 0

    init(_ values: [DatabaseValue]) { self.values = values }

    private mutating func int() -> Int64? {
        defer { next += 1 }
        return Int64.fromDatabaseValue(values[next])
    }

    private mutating func text() -> String? {
        defer { next += 1 }
        return String.fromDatabaseValue(values[next])
    }

    private mutating func quantity() throws -> Quantity? {
        let (digits, exponent, code) = (int(), int(), int())
        guard let code else { return nil }
        guard let unit = UInt8(exactly: code).flatMap(MeasurementUnit.init(rawValue:)), let exponent else {
            throw StoreError.corrupt(detail: "a quantity's unit is \(code)")
        }
        return Quantity(try MeasuredNumber(digits: digits, exponent: exponent), unit)
    }

    private mutating func small<T: FixedWidthInteger>(_ type: T.Type) -> T? { int().map(T.init(truncatingIfNeeded:)) }

    mutating func content() throws -> ReadingContent {
        let kind = try ReadingKind(code: int() ?? 0)
        let (status, slot) = (small(UInt32.self), small(UInt8.self))
        let (a, b, c, p) = (try quantity(), try quantity(), try quantity(), try quantity())
        let (type, location) = (small(UInt8.self), small(UInt8.self))
        let value: RecordValue
        switch kind {
        case .glucose:
            value = .glucose(
                GlucoseValue(
                    concentration: a, sampleType: type.flatMap(GlucoseSampleType.init(rawValue:)),
                    sampleLocation: location.flatMap(GlucoseSampleLocation.init(rawValue:))))
        case .bloodPressure:
            guard let a, let b, let c else {
                throw StoreError.corrupt(detail: "a blood pressure lacks one of its pressures")
            }
            value = .bloodPressure(BloodPressureValue(systolic: a, diastolic: b, meanArterial: c, pulse: p))
        case .heartRate, .hrv, .spo2, .temperature, .weight, .bodyComposition, .activity, .sleep, .other:
            throw StoreError.corrupt(detail: "a reading's kind is \(kind.code), which came later")
        }
        let record = Record(
            value: value, status: ReadingStatus(rawValue: status ?? 0), userSlot: slot, sensor: try sensor())
        return ReadingContent(of: record, context: try context())
    }

    private mutating func sensor() throws -> SensorFacts? {
        let (code, minute, glucose) = (small(UInt8.self), small(UInt16.self), small(UInt16.self))
        let (temperature, adjustment) = (small(UInt16.self), small(Int16.self))
        let (quality, flags, hasError) = (small(UInt16.self), small(UInt8.self), int())
        let calibration = small(UInt8.self)
        guard let code else { return nil }
        guard let source = SensorFacts.Source(rawValue: code), let minute, let glucose, let temperature, let adjustment,
            let quality, let flags, let hasError, let calibration = calibration.flatMap(SensorFacts.Calibration.init)
        else { throw StoreError.corrupt(detail: "a sensor's record has the source \(code)") }
        return SensorFacts(
            source: source, minute: minute, glucose: glucose, temperature: temperature, adjustment: adjustment,
            quality: quality, flags: flags, hasError: hasError != 0, calibration: calibration)
    }

    private mutating func context() throws -> GlucoseContext? {
        let isThere = int() != nil
        func intake(_ id: String?, _ amount: Quantity?) -> GlucoseContext.Intake? {
            guard let id, let amount else { return nil }
            return .init(id: id, amount: amount)
        }
        var context = GlucoseContext()
        context.carbohydrate = intake(text(), try quantity())
        (context.meal, context.tester, context.health) = (text(), text(), text())
        let (intensity, seconds) = (small(UInt8.self), small(UInt16.self))
        context.exercise = intensity.map { .init(seconds: seconds, intensityPercent: $0) }
        context.medication = intake(text(), try quantity())
        context.hba1c = try quantity()
        return isThere ? context : nil
    }
}

import HealthReadings

/// A FreeStyle Libre 1 as a scan shows it.
public struct Libre1Sensor: Sendable, Hashable {
    /// The serial number, as printed on the sensor.
    public var serial: String
    /// What the sensor does; `nil` where the memory's header is damaged.
    public var state: SensorState?
    /// Its age in minutes; `nil` where the memory's body is damaged.
    public var ageMinutes: UInt16?
    /// How old it gets, in minutes; `nil` where the memory's footer is damaged.
    public var maximumLifeMinutes: UInt16?
    /// Why it failed; `nil` where it did not.
    public var failureCode: UInt8?

    /// The sensor of a scan.
    public init(_ scan: LibreScan) {
        serial = scan.serial
        state = scan.memory.state
        ageMinutes = scan.memory.ageMinutes
        maximumLifeMinutes = scan.memory.maximumLifeMinutes
        failureCode = scan.memory.failure?.code
    }
}

/// A sensor and its readings, without a store.
///
/// ```swift
/// let read = Libre1Read(scan, at: .systemClock)
/// for reading in read.usable { print(reading.document.text) }
/// ```
///
/// A reading has the same `Reading.id` at each scan that shows it, so that a program that has the ids of
/// earlier scans knows what is new. Its time stays the same too, and a sensor that was reset begins anew, if each scan is given the
/// ``life`` that the one before it found.
public struct Libre1Read: Sendable, Hashable {
    /// The scan itself, all that can be decoded again.
    public let scan: LibreScan
    /// When the sensor was scanned, by this machine's clock.
    public let scannedAt: Instant
    /// The sensor.
    public let sensor: Libre1Sensor
    /// What is known of the sensor's life after this scan. Keep it, and give it to the next scan of this sensor.
    public let life: Libre1Life
    /// The readings, oldest minute first. Values are estimates of the factory calibration. Of a minute that stands in both
    /// rings the history's counts, and the trend's is excluded as superseded.
    public let readings: [Reading]

    /// Those of the readings that are to be used.
    public var usable: [Reading] { readings.filter { $0.excluded == nil } }

    /// When the sensor was started, a whole minute; `nil` where nothing is known of that.
    public var start: Instant? { life.start }

    /// The sensor and the readings of a scan.
    ///
    /// - Parameters:
    ///   - scan: the scan.
    ///   - scannedAt: when it was made; the machine's clock has to be right at the first scan of a sensor.
    ///   - life: the life that an earlier scan of this sensor found; `nil` at the first one. That of another sensor is not heeded.
    ///   - person: whose readings these are (`Reading.person`).
    public init(_ scan: LibreScan, at scannedAt: Instant, life: Libre1Life? = nil, person: String? = nil) {
        self.scan = scan
        self.scannedAt = scannedAt
        sensor = Libre1Sensor(scan)
        let serial = scan.serial
        var next = life.flatMap { $0.serial == serial ? $0 : nil } ?? Libre1Life(serial: serial)
        // Nothing in the memory of a foreign sensor, or of one whose body is damaged, is a reading.
        if let shown = scan.sensorScan {
            next.note(shown, scannedAt: scannedAt)
            readings = shown.readings(
                of: LibreScan.device(serial: serial), in: next, scannedAt: scannedAt, person: person)
        } else {
            readings = []
        }
        self.life = next
    }
}

extension LibreScan {
    /// A sensor of this kind, as the catalogue describes it.
    package static func device(serial: String?) -> DeviceDescription {
        DeviceDescription(
            address: nil, model: "freestyle_libre", serial: serial, name: "Libre (the first)",
            provider: "freestyle_libre_ble")
    }
}

extension LibreMemory {
    /// What a scan of the sensor with this memory says; `nil` where the body is damaged.
    package func sensorScan(serial: String) -> SensorScan? {
        guard let age = ageMinutes else { return nil }
        return SensorScan(serial: serial, ageMinutes: age, isRunning: state?.isRunning ?? false, records: records)
    }
}

extension SensorScan {
    /// The readings of the scan, as a store would hold them that knows no more of the sensor than its life.
    ///
    /// - Parameters:
    ///   - device: the sensor.
    ///   - life: its life, with what this scan shows of it.
    ///   - scannedAt: when the memory was read; `nil` where that is not known: readings have no times then.
    ///   - person: whose readings these are.
    package func readings(
        of device: DeviceDescription, in life: Libre1Life, scannedAt: Instant?, person: String? = nil
    ) -> [Reading] {
        let won = Set(
            records.compactMap { $0.sensor?.source == .history && $0.exclusion == nil ? $0.sensor?.minute : nil })
        return records.compactMap { record in
            guard let facts = record.sensor else { return nil }
            let id = ReadingIdentity.sensor(
                serial: device.serial ?? "", epoch: life.sequenceEpoch, minute: facts.minute, source: facts.source,
                clash: 0
            ).id(device: nil, kind: .glucose)
            let resolved =
                scannedAt.map { life.resolve(facts, scannedAt: $0) } ?? ResolvedTime(instant: nil, basis: .unknown)
            let isWon = facts.source == .trend && won.contains(facts.minute)
            let isUndated = scannedAt != nil && resolved.instant == nil
            return Reading(
                id: id, record: record, device: device, time: resolved, person: person,
                excluded: record.exclusion ?? (isUndated ? .noTime : isWon ? .superseded : nil),
                receivedAt: scannedAt ?? Instant(seconds: 0))
        }
    }
}

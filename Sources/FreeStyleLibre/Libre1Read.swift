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
/// earlier scans knows what is new. Its time stays the same too, if each scan is given the start that the one before it
/// found.
public struct Libre1Read: Sendable, Hashable {
    /// The scan itself, all that can be decoded again.
    public let scan: LibreScan
    /// When the sensor was scanned, by this machine's clock.
    public let scannedAt: Instant
    /// The sensor.
    public let sensor: Libre1Sensor
    /// When the sensor was started, a whole minute; `nil` where nothing is known of that. Give it to the next scan.
    public let start: Instant?
    /// The readings, oldest minute first. Values are estimates of the factory calibration. Of a minute that stands in both
    /// rings the history's counts, and the trend's is excluded as superseded.
    public let readings: [Reading]

    /// Those of the readings that are to be used.
    public var usable: [Reading] { readings.filter { $0.excluded == nil } }

    /// The sensor and the readings of a scan.
    ///
    /// - Parameters:
    ///   - scan: the scan.
    ///   - scannedAt: when it was made; the machine's clock has to be right at the first scan of a sensor.
    ///   - start: the start that an earlier scan of this sensor found; `nil` at the first one. One that this scan proves more
    ///     than two minutes wrong is replaced.
    ///   - person: whose readings these are (`Reading.person`).
    public init(_ scan: LibreScan, at scannedAt: Instant, start: Instant? = nil, person: String? = nil) {
        self.scan = scan
        self.scannedAt = scannedAt
        sensor = Libre1Sensor(scan)
        let shown = SensorTime(scan.memory, scannedAt: scannedAt)
        let time = start.map(SensorTime.init(start:)).flatMap { known in
            shown.map { known.isDisproved(by: $0) ? $0 : known } ?? known
        }
        self.start = (time ?? shown)?.start
        // Nothing in the memory of a foreign sensor, or of one whose body is damaged, is a reading.
        readings =
            scan.sensorScan == nil
            ? []
            : scan.memory.readings(
                of: LibreScan.device(serial: scan.serial), time: time ?? shown, scannedAt: scannedAt, person: person)
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

extension SensorTime {
    /// The time of a sensor as a scan shows it; `nil` where it does not measure: its age stands still then.
    package init?(_ memory: LibreMemory, scannedAt: Instant) {
        guard memory.state?.isRunning == true, let age = memory.ageMinutes else { return nil }
        self.init(scannedAt: scannedAt, ageMinutes: age)
    }
}

extension LibreMemory {
    /// The readings of the memory, as a store would hold them that was empty before; none where the body is damaged.
    ///
    /// - Parameters:
    ///   - device: the sensor.
    ///   - time: the place in time of its minutes; `nil`: readings have no times.
    ///   - scannedAt: when the memory was read; `nil` where that is not known.
    ///   - person: whose readings these are.
    package func readings(
        of device: DeviceDescription, time: SensorTime?, scannedAt: Instant?, person: String? = nil
    ) -> [Reading] {
        guard ageMinutes != nil else { return [] }
        let records = records
        let won = Set(
            records.compactMap { $0.sensor?.source == .history && $0.exclusion == nil ? $0.sensor?.minute : nil })
        return records.compactMap { record in
            guard let facts = record.sensor else { return nil }
            let id = ReadingIdentity.sensor(
                serial: device.serial ?? "", epoch: 0, minute: facts.minute, source: facts.source, clash: 0
            ).id(device: nil, kind: .glucose)
            var resolved = ResolvedTime(instant: nil, basis: .unknown)
            if let time, let scannedAt { resolved = time.resolve(facts, scannedAt: scannedAt) }
            let isWon = facts.source == .trend && won.contains(facts.minute)
            let isUndated = scannedAt != nil && resolved.instant == nil
            return Reading(
                id: id, record: record, device: device, time: resolved, person: person,
                excluded: record.exclusion ?? (isUndated ? .noTime : isWon ? .superseded : nil),
                receivedAt: scannedAt ?? Instant(seconds: 0))
        }
    }
}

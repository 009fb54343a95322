/// What a sensor that counts its own minutes says of a record besides its value: raw numbers as they stand in its memory.
///
/// Layout of a record in a FreeStyle Libre 1: openfreestyle, LibreMonitor, DiaBLE.
public struct SensorFacts: Sendable, Hashable {
    /// Which of its two rings a record stood in.
    public enum Source: UInt8, Sendable, Hashable, CaseIterable {
        /// One record a minute, of the last 16 minutes.
        case trend = 1
        /// One record every 15 minutes, of the last 8 hours.
        case history

        /// The name in documents: `trend`, `history`.
        public var name: String { self == .trend ? "trend" : "history" }
    }

    /// How the concentration was got from the raw numbers.
    public enum Calibration: UInt8, Sendable, Hashable, CaseIterable {
        /// It was not: there is no concentration.
        case none = 0
        /// By the factory calibration in the sensor's memory and a public estimate of the vendor's rule.
        case factoryEstimate

        /// The name in documents: `none`, `factory_estimate`.
        public var name: String { self == .none ? "none" : "factory_estimate" }
    }

    /// The ring.
    public var source: Source
    /// Minutes from the sensor's start, 0 … 65535.
    public var minute: UInt16
    /// The glucose signal, 1 … 16383, without a unit.
    public var glucose: UInt16
    /// The temperature signal, 0 … 16380, without a unit.
    public var temperature: UInt16
    /// The temperature adjustment, -2044 … 2044, without a unit.
    public var adjustment: Int16
    /// Quality bits, 0 … 511; a value other than 0 is ordinary.
    public var quality: UInt16
    /// Two bits whose meaning is not public, 0 … 3.
    public var flags: UInt8
    /// Whether the sensor marks the record as an error.
    public var hasError: Bool
    /// How the concentration was found.
    public var calibration: Calibration

    /// Makes the facts of a record.
    public init(
        source: Source, minute: UInt16, glucose: UInt16, temperature: UInt16, adjustment: Int16, quality: UInt16,
        flags: UInt8, hasError: Bool, calibration: Calibration
    ) {
        self.source = source
        self.minute = minute
        self.glucose = glucose
        self.temperature = temperature
        self.adjustment = adjustment
        self.quality = quality
        self.flags = flags
        self.hasError = hasError
        self.calibration = calibration
    }
}

extension SensorFacts {
    /// The raw numbers in one, 48 bits as they stand in the memory: all of a record that the sensor itself has written.
    package var raw: UInt64 {
        var bits = UInt64(glucose & 0x3FFF)
        bits |= UInt64(quality & 0x1FF) << 14
        bits |= UInt64(flags & 0x3) << 23
        bits |= UInt64(temperature >> 2 & 0xFFF) << 26
        bits |= UInt64(adjustment.magnitude >> 2 & 0x1FF) << 38
        if hasError { bits |= 1 << 25 }
        if adjustment < 0 { bits |= 1 << 47 }
        return bits
    }
}

extension Record {
    /// Whether the value is a gateway's estimate of a sensor's raw value: this one's, or another's whose export it came with.
    public var isEstimate: Bool { sensor?.calibration == .factoryEstimate || imported?.isEstimate == true }
}

/// What one scan of a sensor says: its records, each at a minute of the sensor's own.
public struct SensorScan: Sendable, Hashable {
    /// The sensor's serial number, as printed on it.
    public var serial: String
    /// The sensor's age in minutes, 0 … 65535.
    public var ageMinutes: UInt16
    /// Whether the sensor measures, so that its age is the one at the scan. The age of a sensor that was not started, has
    /// stopped or failed stands still, and nothing follows from it about when the sensor was started.
    public var isRunning: Bool
    /// Its records, oldest minute first, a minute's trend record before its history record; each has ``Record/sensor``.
    public var records: [Record]

    /// Makes a scan.
    public init(serial: String, ageMinutes: UInt16, isRunning: Bool = true, records: [Record]) {
        self.serial = serial
        self.ageMinutes = ageMinutes
        self.isRunning = isRunning
        self.records = records
    }
}

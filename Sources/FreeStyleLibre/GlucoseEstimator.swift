#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// Why a record has no concentration.
public enum EstimateFault: String, Error, Sendable, Hashable, CaseIterable {
    /// The sensor marks the record as an error.
    case errorRecord = "error_record"
    /// The header's CRC is wrong: the calibration may be.
    case headerCRC = "header_crc"
    /// The footer's CRC is wrong: the calibration may be.
    case footerCRC = "footer_crc"
    /// i2 = 0: the sensor has no calibration.
    case noCalibration = "no_calibration"
    /// i4 = i3: the calibration has no slope.
    case noSlope = "no_slope"
    /// The temperature adjustment and i6 cancel out.
    case noTemperatureScale = "no_temperature_scale"
    /// The thermistor's resistance comes out as 0 or below.
    case noResistance = "no_resistance"
    /// The result is no number, or a number of no use.
    case outOfRange = "out_of_range"
}

/// What the public rule makes of a record. The vendor's own algorithm is not public and gives other numbers.
public struct GlucoseEstimate: Sendable, Hashable {
    /// mg/dL, rounded to a whole number, halves away from 0; -999 999 … 999 999.
    public let milligramsPerDecilitre: Int
    /// The temperature at the sensor in degrees Celsius.
    public let temperature: Double

    /// Makes an estimate.
    public init(milligramsPerDecilitre: Int, temperature: Double) {
        self.milligramsPerDecilitre = milligramsPerDecilitre
        self.temperature = temperature
    }

    /// Outside which temperatures at the sensor nothing is believed, in degrees Celsius: the vendor has it worn at 10 … 45.
    public static let plausibleTemperatures = 0.0...60.0
    /// Outside which concentrations nothing is believed, in mg/dL: as for a meter's values. The sensor itself measures
    /// 40 … 500.
    public static let plausibleConcentrations = 1...1500

    /// Whether temperature and concentration can be a person's. A value that is merely alarming is plausible.
    public var isPlausible: Bool {
        Self.plausibleConcentrations.contains(milligramsPerDecilitre)
            && Self.plausibleTemperatures.contains(temperature)
    }
}

/// Turns raw numbers into an estimated concentration by the factory calibration (rule: DiaBLE).
public struct GlucoseEstimator: Sendable, Hashable {
    private let offset: Double
    private let span: Double
    private let intercept: Double
    private let slope: Double
    private let temperatureOffset: Int

    /// Makes an estimator.
    /// - Throws: ``EstimateFault/noCalibration`` or ``EstimateFault/noSlope``.
    public init(_ calibration: FactoryCalibration) throws(EstimateFault) {
        guard let line = CalibrationLine(number: calibration.i2) else { throw .noCalibration }
        guard calibration.i4 != calibration.i3 else { throw .noSlope }
        offset = Double(calibration.i3)
        span = Double(calibration.i4 - calibration.i3)
        (intercept, slope) = (line.intercept, line.slope)
        temperatureOffset = calibration.i6
    }

    /// The estimate of a record.
    /// - Throws: why there is none; never traps.
    @inline(__always)
    public func estimate(_ record: RawRecord) throws(EstimateFault) -> GlucoseEstimate {
        guard !record.hasError else { throw .errorRecord }
        let temperature = try Self.temperature(of: record, i6: temperatureOffset)
        let signal = 65 * (Double(record.glucose) - offset) / span * pow(1.045, 32.5 - temperature)
        let value = ((signal - intercept) / slope).rounded()
        guard abs(value) < 1_000_000 else { throw .outOfRange }
        return GlucoseEstimate(milligramsPerDecilitre: Int(value), temperature: temperature)
    }

    /// The temperature at the sensor in degrees Celsius, by the thermistor's resistance (Steinhart and Hart's equation).
    /// - Throws: ``EstimateFault/noTemperatureScale``, ``EstimateFault/noResistance``, ``EstimateFault/outOfRange``.
    @inline(__always)
    public static func temperature(of record: RawRecord, i6: Int) throws(EstimateFault) -> Double {
        let scale = Int(record.adjustment) + i6
        guard scale != 0 else { throw .noTemperatureScale }
        let resistance = Double(record.temperature) * 72_500 / Double(scale) - 1000
        guard resistance > 0 else { throw .noResistance }
        let log = log(resistance)
        let inverse =
            0.0009180023 + 0.0001964561 * log + 0.0000007061775 * log * log + 0.00000005283566 * log * log * log
        let temperature = 1 / inverse - 273.15
        guard temperature.isFinite else { throw .outOfRange }
        return temperature
    }
}

/// The line i2 stands for: 1023 of them in 124 rows. In a row the slope stays and the intercept goes up by 0.25; from row
/// to row the slope goes up by a hundredth.
struct CalibrationLine: Sendable, Hashable {
    let intercept: Double
    let slope: Double

    /// The line of a number 1 … 1023; nil for another.
    init?(number: Int) {
        guard (1...1023).contains(number) else { return nil }
        // Rows of 8, 9, 8 and 9 lines: the number of a block's first line and row, and the intercept its rows begin with.
        let (first, row, width, start) =
            switch number {
            case ..<513: (1, 0, 8, 0.75)
            case ..<720: (513, 64, 9, 0.75)
            case ..<952: (720, 87, 8, 1.0)
            default: (952, 116, 9, 1.0)
            }
        let (rows, place) = (number - first).quotientAndRemainder(dividingBy: width)
        intercept = start + 0.25 * Double(place)
        slope = 0.0377442 * pow(1.01, Double(row + rows))
    }
}

import HealthReadings
import NIOHTTP1

/// Why data is posted.
public enum PostStage: String, Sendable, Hashable {
    /// New data: the server passes it on at once.
    case daily
    /// A backfill.
    case historical
}

/// The time that one post covers.
public enum PostPeriod {
    /// Ranges longer than this are cut.
    public static let longest: Int64 = 31 * 86_400
    private static let week: Int64 = 7 * 86_400

    /// The range itself, or where it is longer than 31 days its weeks, each from where the one before ended; ends are
    /// whole seconds and included, so that no second belongs to two.
    public static func cut(_ range: ClosedRange<Instant>) -> [ClosedRange<Instant>] {
        let (first, last) = (range.lowerBound.seconds, range.upperBound.seconds)
        guard last - first > longest else { return [range] }
        return stride(from: first, through: last, by: Int64.Stride(week)).map { begin in
            Instant(seconds: begin)...Instant(seconds: min(begin + week - 1, last))
        }
    }
}

/// What every post says of its data.
struct PostEnvelope {
    var provider: String
    var timeZone: String
    var stage: PostStage
    var period: ClosedRange<Instant>?
    var isFinalChunk: Bool

    func json(_ data: JSONValue) -> JSONValue {
        var members: [JSONValue.Member] = [
            .init("stage", .string(stage.rawValue)), .init("provider", .string(provider)),
        ]
        if stage == .historical, let period {
            members.append(.init("start_date", .string(period.lowerBound.flooredToSecond.description)))
            members.append(.init("end_date", .string(period.upperBound.flooredToSecond.description)))
        }
        members.append(.init("time_zone", .string(timeZone)))
        members.append(.init("is_final_chunk", .bool(isFinalChunk)))
        members.append(.init("data", data))
        return .object(members)
    }
}

/// How a sample was taken, in the server's names.
public enum SampleSource: String, Sendable, Hashable, CaseIterable {
    case unknown, phone, watch, app, ring
    case chestStrap = "chest_strap"
    case multipleSources = "multiple_sources"
    case automatic
    case manualScan = "manual_scan"
    case cuff, fingerprick, scale
    case insulinPump = "insulin_pump"
    case lab
    case exerciseMachine = "exercise_machine"
    case earphone
}

/// Units of samples, as the server writes them.
public enum SampleUnit: String, Sendable, Hashable {
    case millimolesPerLitre = "mmol/L"
    /// A concentration as many meters show it. The server stores mmol/L: posting a time series converts it
    /// (``QuantitySample/inMillimolesPerLitre``).
    case milligramsPerDecilitre = "mg/dL"
    case millimetresOfMercury = "mmHg"
    case beatsPerMinute = "bpm"
    case percent = "%"
    case degreesCelsius = "°C"
    case kilograms = "kg"
    /// A body mass index, in kg/m².
    case index
    case centimetres = "centimeter"
    /// A heart-rate variability in milliseconds, found as the root mean square of successive differences.
    case rootMeanSquareOfSuccessiveDifferences = "rmssd"
    case kilocalories = "kcal"
    case count
    case metres = "meter"
    /// Oxygen uptake per body mass, in mL/(kg·min).
    case millilitresPerKilogramAndMinute = "mL/kg/min"
    case minutes = "minute"
    /// A stage of sleep, by its number.
    case stage
}

/// One value of a time series.
public struct QuantitySample: Sendable, Hashable {
    /// The sender's id of the sample.
    public var id: String?
    /// The value; its digits are sent as they are.
    public var value: ExactDecimal
    /// The unit of the value.
    public var unit: SampleUnit
    /// When it begins; sent in whole seconds, rounded down. With resource, provider and source the server's key.
    public var startDate: Instant
    /// When it ends.
    public var endDate: Instant
    /// How it was taken.
    public var source: SampleSource?
    /// The application that wrote it.
    public var sourceBundle: String?
    /// The device's product type.
    public var productType: String?
    /// Anything else; keys are sent as they are, in the order of their text. Left out where empty.
    public var metadata: [String: String]

    /// Makes a sample of one instant.
    public init(
        id: String? = nil, value: ExactDecimal, unit: SampleUnit, at time: Instant, source: SampleSource? = nil,
        metadata: [String: String] = [:]
    ) {
        self.id = id
        self.value = value
        self.unit = unit
        startDate = time
        endDate = time
        self.source = source
        self.metadata = metadata
    }

    var json: JSONValue {
        var octets: [UInt8] = []
        write(into: &octets)
        return .written(octets)
    }

    /// Appends the sample's JSON.
    func write(into octets: inout [UInt8]) {
        octets.append(literal: "{")
        if let id {
            octets.append(literal: #""id":"#)
            octets.append(json: id)
            octets.append(literal: ",")
        }
        octets.append(literal: #""value":"#)
        octets.append(value)
        octets.append(literal: #","unit":"#)
        octets.append(json: unit.rawValue)
        octets.append(literal: #","start_date":""#)
        octets.append(startDate.flooredToSecond)
        octets.append(literal: #"","end_date":""#)
        octets.append(endDate.flooredToSecond)
        octets.append(literal: "\"")
        Self.write("type", source?.rawValue, into: &octets)
        Self.write("source_bundle", sourceBundle, into: &octets)
        Self.write("product_type", productType, into: &octets)
        if !metadata.isEmpty {
            octets.append(literal: #","metadata":{"#)
            for (place, pair) in metadata.sorted(by: { $0.key < $1.key }).enumerated() {
                if place > 0 { octets.append(literal: ",") }
                octets.append(json: pair.key)
                octets.append(literal: ":")
                octets.append(json: pair.value)
            }
            octets.append(literal: "}")
        }
        octets.append(literal: "}")
    }

    /// Appends a member with a text, behind others; nothing if there is none.
    private static func write(_ key: String, _ text: String?, into octets: inout [UInt8]) {
        guard let text else { return }
        octets.append(literal: ",")
        octets.append(json: key)
        octets.append(literal: ":")
        octets.append(json: text)
    }
}

/// One blood pressure of a time series.
public struct BloodPressureSample: Sendable, Hashable {
    /// Systolic pressure.
    public var systolic: QuantitySample
    /// Diastolic pressure.
    public var diastolic: QuantitySample
    /// Pulse rate.
    public var pulse: QuantitySample?

    /// Makes a sample.
    public init(systolic: QuantitySample, diastolic: QuantitySample, pulse: QuantitySample? = nil) {
        self.systolic = systolic
        self.diastolic = diastolic
        self.pulse = pulse
    }

    /// Appends the sample's JSON.
    func write(into octets: inout [UInt8]) {
        octets.append(literal: #"{"systolic":"#)
        systolic.write(into: &octets)
        octets.append(literal: #","diastolic":"#)
        diastolic.write(into: &octets)
        if let pulse {
            octets.append(literal: #","pulse":"#)
            pulse.write(into: &octets)
        }
        octets.append(literal: "}")
    }
}

/// The samples of one post, all of one resource. Of the resources that the server takes these are the ones that meters measure;
/// others, such as steps or nutrition, can't be posted as a time series here.
public enum TimeSeriesData: Sendable, Hashable {
    /// Glucose concentrations.
    case glucose([QuantitySample])
    /// Blood pressures.
    case bloodPressure([BloodPressureSample])
    /// Oxygen saturations in per cent.
    case bloodOxygen([QuantitySample])
    /// Body temperatures in °C.
    case temperature([QuantitySample])
    /// Heart rates in beats per minute.
    case heartRate([QuantitySample])
    /// Heart-rate variabilities in milliseconds, by RMSSD.
    case heartRateVariability([QuantitySample])

    /// The name of the resource in the path of a post.
    ///
    /// The server reads some series by other names: `body_temperature`, `hrv`. Source: vital-ios
    /// (`ResourceData.swift`) and vital-java (`IngestibleTimeseriesResource.java`).
    public var resource: String {
        switch self {
        case .glucose: "glucose"
        case .bloodPressure: "blood_pressure"
        case .bloodOxygen: "blood_oxygen"
        case .temperature: "temperature"
        case .heartRate: "heartrate"
        case .heartRateVariability: "heartrate_variability"
        }
    }

    var json: JSONValue {
        switch self {
        case .glucose(let samples), .bloodOxygen(let samples), .temperature(let samples), .heartRate(let samples),
            .heartRateVariability(let samples):
            Self.list(samples) { $0.write(into: &$1) }
        case .bloodPressure(let samples): Self.list(samples) { $0.write(into: &$1) }
        }
    }

    private static func list<Sample>(_ samples: [Sample], _ write: (Sample, inout [UInt8]) -> Void) -> JSONValue {
        var octets: [UInt8] = []
        octets.reserveCapacity(samples.count * 256)
        for sample in samples {
            octets.append(literal: octets.isEmpty ? "[" : ",")
            write(sample, &octets)
        }
        octets.append(literal: octets.isEmpty ? "[]" : "]")
        return .written(octets)
    }
}

/// One post to a time series.
public struct TimeSeriesPost: Sendable, Hashable {
    /// The slug of the connected source the data is from.
    public var provider: String
    /// The IANA id of the time zone that the user was in when the data was measured.
    public var timeZone: String
    /// Why it is posted.
    public var stage: PostStage
    /// What a backfill covers, both ends included; sent with ``PostStage/historical`` only.
    public var period: ClosedRange<Instant>?
    /// Whether nothing of the same stage follows.
    public var isFinalChunk: Bool
    /// The samples.
    public var data: TimeSeriesData

    /// Makes a post.
    public init(
        provider: String, timeZone: String, stage: PostStage = .daily, period: ClosedRange<Instant>? = nil,
        isFinalChunk: Bool = true, data: TimeSeriesData
    ) {
        self.provider = provider
        self.timeZone = timeZone
        self.stage = stage
        self.period = period
        self.isFinalChunk = isFinalChunk
        self.data = data
    }

    var json: JSONValue {
        PostEnvelope(
            provider: provider, timeZone: timeZone, stage: stage, period: period, isFinalChunk: isFinalChunk
        ).json(data.json)
    }
}

extension VitalAPI {
    /// Posts samples (`POST /v2/timeseries/{user_id}/{resource}`, gzip).
    ///
    /// Returns when the server has answered 2xx with JSON or with nothing: the samples are then its own. Posting the
    /// same samples again changes nothing there, since resource, provider, source and time are its key.
    ///
    /// Glucose may be in mmol/L or in mg/dL (``QuantitySample/inMillimolesPerLitre``).
    ///
    /// - Throws: ``VitalError/Kind/validationFailed`` before anything is sent where a concentration is in neither unit, or
    ///   does not fit.
    public func post(_ post: TimeSeriesPost, for userID: String) async throws {
        var post = post
        var request = VitalRequest(
            method: .POST,
            path: [
                .fixed("v2"), .fixed("timeseries"), .value(userID, name: "user_id"), .fixed(post.data.resource),
            ], isCompressed: true)
        guard let data = post.data.inServerUnits else {
            throw VitalError(
                .validationFailed, route: request.route,
                serverSaid: "a glucose concentration is neither in mmol/L nor in mg/dL, or does not fit")
        }
        post.data = data
        request.body = post.json
        try await call(request)
    }
}

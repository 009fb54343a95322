import Crypto
import HealthFigures
import HealthReadings

/// The data types of the Health Sync app that the gateway has.
enum HealthSyncType: String, Sendable, Hashable, CaseIterable {
    case heartRate, bloodPressureSystolic, bloodPressureDiastolic, bloodOxygen, bodyTemperature, weight,
        bodyFatPercentage,
        bloodGlucose

    /// The kinds of readings that it is a part of.
    var kinds: Set<ReadingKind> {
        switch self {
        case .heartRate: [.heartRate, .bloodPressure, .spo2]
        case .bloodPressureSystolic, .bloodPressureDiastolic: [.bloodPressure]
        case .bloodOxygen: [.spo2]
        case .bodyTemperature: [.temperature]
        case .weight: [.weight]
        case .bodyFatPercentage: [.bodyComposition]
        case .bloodGlucose: [.glucose]
        }
    }

    /// The unit, by HealthKit's name. A percentage is a fraction of 1.
    var unit: String {
        switch self {
        case .heartRate: "count/min"
        case .bloodPressureSystolic, .bloodPressureDiastolic: "mmHg"
        case .bloodOxygen, .bodyFatPercentage: "%"
        case .bodyTemperature: "degC"
        case .weight: "kg"
        case .bloodGlucose: "mg/dL"
        }
    }

    /// The types that every published version of the app's client knows: it refuses an answer that names another.
    static let known: Set<String> = [
        "steps", "distanceWalkingRunning", "distanceCycling", "activeEnergyBurned", "basalEnergyBurned",
        "exerciseTime", "standHours", "flightsClimbed", "workouts", "heartRate", "restingHeartRate",
        "walkingHeartRateAverage", "heartRateVariability", "bloodPressureSystolic", "bloodPressureDiastolic",
        "bloodOxygen", "respiratoryRate", "bodyTemperature", "vo2Max", "sleepAnalysis", "sleepInBed", "sleepAsleep",
        "sleepAwake", "sleepREM", "sleepCore", "sleepDeep", "weight", "height", "bodyMassIndex",
        "bodyFatPercentage", "leanBodyMass",
    ]
}

/// One sample as the Health Sync app gives it: a reading's value, in the unit that HealthKit has for it.
struct HealthSyncSample: Sendable {
    var type: HealthSyncType
    var value: ExactDecimal
    var reading: Reading
    var time: Instant

    /// The samples of a reading, of the types asked for; none where it has no time or is none of a patient's.
    static func samples(of reading: Reading, _ types: Set<HealthSyncType>) -> [HealthSyncSample] {
        guard reading.excluded == nil, let time = reading.time.instant else { return [] }
        func sample(_ type: HealthSyncType, _ value: ExactDecimal?) -> HealthSyncSample? {
            guard types.contains(type), let value else { return nil }
            return HealthSyncSample(type: type, value: value, reading: reading, time: time.flooredToSecond)
        }
        switch reading.record.value {
        case .glucose(let glucose):
            return [sample(.bloodGlucose, glucose.concentration.flatMap(Self.milligramsPerDecilitre))]
                .compactMap(\.self)
        case .bloodPressure(let pressure):
            return [
                sample(.bloodPressureSystolic, Self.millimetresOfMercury(pressure.systolic)),
                sample(.bloodPressureDiastolic, Self.millimetresOfMercury(pressure.diastolic)),
                sample(.heartRate, pressure.pulse?.number.number),
            ].compactMap(\.self)
        case .vital(let vital):
            let places = ConversionFactor.vitalPlaces
            return [
                sample(.heartRate, (vital.kind == .heartRate ? vital[.heartRate] : vital[.pulse])?.number.number),
                sample(.bloodOxygen, vital[.saturation].flatMap(Self.fraction)),
                sample(.bodyTemperature, vital[.temperature]?.number(in: .degreesCelsius, places: places)),
                // A weight beside a composition came as a weight of its own, too.
                sample(
                    .weight,
                    vital.kind == .weight
                        ? vital[.weight]?.number(in: .kilograms, places: ConversionFactor.weightPlaces) : nil),
                sample(.bodyFatPercentage, vital[.bodyFat].flatMap(Self.fraction)),
            ].compactMap(\.self)
        // These came from such an app, and it has them itself.
        case .kept: return []
        }
    }

    /// Per cent as HealthKit has it: 97 % is 0.97.
    private static func fraction(_ quantity: Quantity) -> ExactDecimal? {
        guard quantity.unit == .percent else { return nil }
        return quantity.number.number?.scaled(byPowerOfTen: -2)
    }

    private static func milligramsPerDecilitre(_ quantity: Quantity) -> ExactDecimal? {
        guard let number = quantity.number.number else { return nil }
        switch quantity.unit {
        case .milligramsPerDecilitre: return number
        case .millimolesPerLitre:
            return number.multiplied(by: ConversionFactor.milligramsPerDecilitreInOneMillimolePerLitre, places: 2)
        default: return nil
        }
    }

    private static func millimetresOfMercury(_ quantity: Quantity) -> ExactDecimal? {
        guard let number = quantity.number.number else { return nil }
        switch quantity.unit {
        case .millimetresOfMercury: return number
        case .kilopascal:
            return number.multiplied(
                by: ConversionFactor.millimetresOfMercuryInOneKilopascal, places: ConversionFactor.pressurePlaces)
        default: return nil
        }
    }

    /// `{id,type,value,unit,startDate,endDate,sourceName,metadata}`.
    var document: JSONValue {
        let at = JSONValue.string(time.description)
        let correlation = Self.uuid(reading.id.octets)
        return .object([
            "id": .string(
                type == .bloodGlucose
                    ? correlation
                    : Self.uuid(Array(SHA256.hash(data: reading.id.octets + Array(type.rawValue.utf8)).prefix(16)))),
            "type": .string(type.rawValue), "value": .number(value), "unit": .string(type.unit), "startDate": at,
            "endDate": at,
            "sourceName": .string(reading.device.name ?? reading.device.model ?? "HealthRelay"),
            "metadata": .object([
                "correlationId": .string(correlation), "readingId": .string(reading.id.description),
                "provider": .string(reading.device.provider),
            ]),
        ])
    }

    /// 16 octets as a UUID's text.
    private static func uuid(_ octets: [UInt8]) -> String {
        let digits = octets.map { $0.hexadecimal(uppercase: true) }
        return [0..<4, 4..<6, 6..<8, 8..<10, 10..<16].map { digits[$0].joined() }.joined(separator: "-")
    }
}

/// The samples of some readings that a page has room for.
struct HealthSyncPart: Sendable {
    private(set) var samples: [HealthSyncSample] = []
    /// How many of the readings the page is done with.
    private(set) var readings = 0
    /// How many samples are still to be passed over.
    private(set) var skip: Int
    /// Whether the readings give more samples than the page has room for.
    private(set) var isFull = false
    /// The last reading that the page is done with, if it had no room for all of its samples.
    private(set) var cut: HealthSyncPlaces.CutReading?

    init(_ all: [Reading], _ types: Set<HealthSyncType>, passingOver count: Int, room: Int) {
        skip = count
        for reading in all {
            let found = HealthSyncSample.samples(of: reading, types)
            let rest = found.dropFirst(skip)
            skip -= found.count - rest.count
            let free = room - samples.count
            isFull = rest.count > free
            if isFull, free > 0, let time = rest.first?.time {
                let sent = found.dropLast(rest.count - free).map(\.type)
                cut = HealthSyncPlaces.CutReading(id: reading.id, time: time, sent: Set(sent))
            }
            guard !isFull || free > 0 else { return }
            samples += rest.prefix(free)
            readings += 1
            if isFull { return }
        }
    }
}

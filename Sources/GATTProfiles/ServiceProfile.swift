import GATTClient
import HealthReadings

/// A standard service: its characteristics with what reads them, and how its records are transferred.
///
/// Every list of services and characteristics in the gateway is derived from ``all``: a service that is added here is
/// found, read, decoded, described and replayed.
public struct ServiceProfile: Sendable {
    /// How the records of a service come.
    public enum Transfer: Sendable, Hashable {
        /// They have numbers, and come when they are asked for at the record access control point.
        case numbered
        /// They are numbered by the minutes of a session, and come when they are asked for at the record access
        /// control point.
        case session
        /// They come as soon as they are enabled. `asksForStored` says that the device may store more, which come when
        /// they are asked for at the service's record access control point; `start` is what a device waits for before it
        /// sends anything.
        case unprompted(asksForStored: Bool = false, start: Start? = nil)

        /// Whether no record comes before it is asked for.
        public var isAskedFor: Bool {
            switch self {
            case .numbered, .session: true
            case .unprompted: false
            }
        }
    }

    /// What is written to a device once its records are enabled.
    public struct Start: Sendable, Hashable {
        /// The control point.
        public let controlPoint: BluetoothUUID
        /// The request.
        public let octets: [UInt8]
    }

    /// The service.
    public let service: BluetoothUUID
    /// How its records are transferred; `nil` if it has none.
    public let transfer: Transfer?
    /// Its characteristics.
    public let characteristics: [CharacteristicProfile]
    /// Its values that are records.
    public let records: [BluetoothUUID]
    /// Its values that come beside the records.
    public let companions: [BluetoothUUID]
    /// Its values that come while the device measures.
    public let live: [BluetoothUUID]

    init(_ service: BluetoothUUID, transfer: Transfer? = nil, _ characteristics: [CharacteristicProfile]) {
        self.service = service
        self.transfer = transfer
        self.characteristics = characteristics
        func uuids(_ role: CharacteristicProfile.Role) -> [BluetoothUUID] {
            characteristics.filter { $0.role == role }.map(\.uuid)
        }
        (records, companions, live) = (uuids(.record), uuids(.companion), uuids(.live))
    }

    /// Whether no record comes before it is asked for.
    public var isAskedFor: Bool { transfer?.isAskedFor ?? false }

    // MARK: The table

    /// The Glucose service.
    public static let glucose = ServiceProfile(
        0x1808, transfer: .numbered,
        [
            .record(GlucoseMeasurement.self), .glucoseContext, .described(GlucoseFeature.self, as: .feature),
            .clock(DateTime.self), .recordAccess,
        ])

    /// The Continuous Glucose Monitoring service.
    public static let continuousGlucose = ServiceProfile(
        0x181F, transfer: .session,
        [
            .continuousGlucose, .described(ContinuousGlucoseFeature.self, as: .feature),
            // Counts the minutes of a session: no time without the session's start.
            .described(ContinuousGlucoseStatus.self, as: .clock),
            .described(ContinuousGlucoseSessionStart.self, as: .readable),
            .described(ContinuousGlucoseRunTime.self, as: .readable),
            .described(ContinuousGlucoseAnswer.self, as: .controlPoint), .recordAccess,
        ])

    /// The Generic Health Sensor service. Its live observations come once the control point is told to send them (op
    /// code 1). What it has stored is not read.
    public static let healthSensor = ServiceProfile(
        0x1840, transfer: .unprompted(start: Start(controlPoint: 0x2BF4, octets: [1])),
        [.healthObservation, CharacteristicProfile(0x2BF3, .feature), CharacteristicProfile(0x2BF4, .controlPoint)])

    /// All of them, in the order in which a device's records are read: a scale sends its weight last, and a composition
    /// that belongs to it comes before, or at once.
    public static let all: [ServiceProfile] = [
        // Current time, elapsed time, device information, battery.
        ServiceProfile(0x1805, [.clock(CurrentTime.self), .described(LocalTimeInformation.self, as: .readable)]),
        ServiceProfile(0x183F, [.clock(CurrentElapsedTime.self)]),
        ServiceProfile(
            0x180A,
            [
                .text(.serialNumber), .text(.modelNumber), .text(.manufacturerName), .text(.firmwareRevision),
                .described(SystemID.self, as: .readable), .text(.hardwareRevision), .text(.softwareRevision),
            ]),
        ServiceProfile(0x180F, [.described(BatteryLevel.self, as: .readable)]),
        glucose,
        continuousGlucose,
        // Thermometer, pulse oximeter, body composition, weight, blood pressure, health sensor, heart rate.
        ServiceProfile(
            0x1809, transfer: .unprompted(),
            [.record(TemperatureMeasurement.self), CharacteristicProfile(0x2A1E, .companion)]),
        ServiceProfile(
            0x1822, transfer: .unprompted(asksForStored: true),
            [.record(PulseOximeterSpotCheck.self), .live(PulseOximeterContinuous.self), .recordAccess]),
        ServiceProfile(0x181B, transfer: .unprompted(), [.record(BodyCompositionMeasurement.self)]),
        ServiceProfile(0x181D, transfer: .unprompted(), [.record(WeightMeasurement.self)]),
        ServiceProfile(
            0x1810, transfer: .unprompted(),
            [
                .record(BloodPressureMeasurement.self), .cuffPressure,
                .described(BloodPressureFeature.self, as: .feature), .clock(DateTime.self),
            ]),
        healthSensor,
        ServiceProfile(0x180D, [.live(HeartRateMeasurement.self)]),
    ]

    // MARK: What is derived from it

    /// The services whose records come as soon as they are enabled.
    public static let unprompted = all.filter { $0.transfer != nil && !$0.isAskedFor }

    /// The values that come while a device measures.
    public static let live = all.flatMap(\.live)

    /// The characteristics that show a device's clock, the best first.
    public static let clocks = first(all.flatMap(\.characteristics).filter { $0.role == .clock })

    /// Values that a device lets be read, the best first for the proof of a bond: features, which the profiles protect,
    /// then what any device has.
    public static let proofs: [BluetoothUUID] =
        uuids(.feature, of: all) + uuids(.readable, of: all.filter { $0.transfer == nil }) + clocks.map(\.uuid)

    /// The service that each characteristic stands in; those that stand in several are left out.
    public static let homes: [BluetoothUUID: BluetoothUUID] = {
        let places = all.flatMap { profile in
            profile.characteristics.filter { $0.role != .controlPoint }.map { ($0.uuid, profile.service) }
        }
        return Dictionary(grouping: places, by: \.0).compactMapValues { $0.count == 1 ? $0.first?.1 : nil }
    }()

    /// The service of each characteristic by which records, or live values, come.
    public static let measurementHomes: [BluetoothUUID: BluetoothUUID] = Dictionary(
        all.flatMap { profile in (profile.records + profile.live).map { ($0, profile.service) } }
    ) { first, _ in first }

    /// The characteristics whose values this module reads, by assigned number.
    static let readers: [UInt16: CharacteristicProfile] = Dictionary(
        all.flatMap(\.characteristics).filter { $0.decode != nil || $0.describe != nil }
            .compactMap { one in one.uuid.assignedNumber.map { ($0, one) } }
    ) { first, _ in first }

    /// What decodes frames, by assigned number: looked for once a frame.
    static let decoders: [UInt16: CharacteristicProfile.Decoder] = readers.compactMapValues(\.decode)

    private static func uuids(_ role: CharacteristicProfile.Role, of profiles: [ServiceProfile]) -> [BluetoothUUID] {
        profiles.flatMap(\.characteristics).filter { $0.role == role }.map(\.uuid)
    }

    /// Each characteristic where it comes first.
    private static func first(_ characteristics: [CharacteristicProfile]) -> [CharacteristicProfile] {
        var seen: Set<BluetoothUUID> = []
        return characteristics.filter { seen.insert($0.uuid).inserted }
    }
}

extension CharacteristicProfile {
    /// Glucose Measurement Context (2A34).
    fileprivate static let glucoseContext = CharacteristicProfile(
        GlucoseMeasurementContext.uuid, .companion,
        decode: { (octets: RawSpan) throws(MalformedFrame) -> DecodedFrame in
            let value = try GlucoseMeasurementContext(decoding: octets)
            return .glucoseContext(sequence: value.sequenceNumber, value.context)
        },
        describe: { (octets: [UInt8]) throws(MalformedFrame) -> JSONValue in
            try GlucoseMeasurementContext(decoding: octets).document
        })

    /// CGM Measurement (2AA7): a record only together with its session (``ContinuousGlucoseRecord``).
    fileprivate static let continuousGlucose = CharacteristicProfile(
        ContinuousGlucoseMeasurement.uuid, .record,
        describe: { (octets: [UInt8]) throws(MalformedFrame) -> JSONValue in
            let values = try ContinuousGlucoseMeasurement.all(in: octets.span.bytes)
            return .object(["measurements": .array(values.map(\.document))])
        })

    /// Intermediate Cuff Pressure (2A36): nothing follows from it, as a pressure of the cuff can never become a
    /// person's.
    fileprivate static let cuffPressure = CharacteristicProfile(
        IntermediateCuffPressure.uuid, .companion,
        decode: { (octets: RawSpan) throws(MalformedFrame) -> DecodedFrame in
            _ = try IntermediateCuffPressure(decoding: octets)
            return .nothing
        })

    /// Record Access Control Point (2A52).
    fileprivate static let recordAccess = CharacteristicProfile(
        RecordAccessRequest.uuid, .controlPoint,
        describe: { (octets: [UInt8]) throws(MalformedFrame) -> JSONValue in
            // Op codes of answers are 5 and 6, those of requests are below.
            guard let opCode = octets.first, opCode < 5 else {
                return try RecordAccessResponse(decoding: octets).document
            }
            return try RecordAccessRequest(decoding: octets).document
        })
}

import GATTClient
import GATTProfiles
import HealthReadings

/// Follows one connected device that sends values while it measures, until it leaves or the task is cancelled.
struct LiveCourse {
    /// What a device may refuse: that of services that also have records.
    private static let optional = ServiceProfile.all.filter { !$0.records.isEmpty }.flatMap(\.live)
    /// How long a device may be silent before it is left: straps send about once a second, also without a value.
    static let patience: Duration = .seconds(30)
    /// The silence after which an oximeter that wants to be asked is asked again: about once a second.
    static let askEvery: Duration = .seconds(1)
    /// Questions without an answer after which it is left: as long as ``patience``.
    static let mostUnanswered = 30
    /// Answers in a row that say that it isn't worn after which it is left, so that its battery lasts: about five minutes.
    static let mostUnworn = 300
    /// How long it is left alone then.
    static let restUnworn: Duration = .seconds(130)
    /// How long a device is left alone after the first, second, … failure in a row; the last holds for all others. It is
    /// heard again as soon as it is left, and each connection costs its battery.
    private static let restsAfterFailures: [Duration] = [.seconds(5), .seconds(15), .seconds(30), .seconds(60)]

    static func rest(afterFailures count: Int) -> Duration {
        restsAfterFailures[min(max(count, 1), restsAfterFailures.count) - 1]
    }

    /// Why a course ended.
    enum End: Sendable, Hashable {
        /// The device has left, or answers no more.
        case gone
        /// Nothing has come for a while, as from an oximeter without a finger.
        case silent
        /// It answers, and nobody wears it.
        case unworn
        /// Somebody else waits for it.
        case wanted
    }

    let peripheral: any Peripheral
    let device: DeviceDescription
    let pace: LivePace
    /// Whether somebody else waits for the device: it has no end of its own. Asked after each burst of values.
    var isWanted: @Sendable () async -> Bool = { false }
    private let decoder = StandardFrameDecoder()
    private var intervals: LiveIntervals
    private var variability: HeartRateVariability
    private var toldAt: Instant?
    private let stream: OximeterStream?
    private var streamReader: OximeterStreamReader?
    private var streamToldAt: Instant?
    /// How often a stream's value is told: oximeters show theirs once a second, and some send them a hundred times as
    /// often.
    private static let streamEvery: Duration = .milliseconds(900)

    /// - Parameter stream: the stream of the device's values by its maker's own protocol, if it has one.
    init(
        _ peripheral: any Peripheral, _ device: DeviceDescription, _ pace: LivePace, stream: OximeterStream? = nil
    ) {
        self.stream = stream
        streamReader = stream.map { OximeterStreamReader($0) }
        self.peripheral = peripheral
        self.device = device
        self.pace = pace
        intervals = LiveIntervals(of: pace.valueEvery)
        variability = HeartRateVariability(windowSeconds: pace.variabilityWindowSeconds)
    }

    /// Whether a device with these characteristics sends live values.
    static func isLive(_ characteristics: [Characteristic]) -> Bool {
        characteristics.contains { ServiceProfile.live.contains($0.uuid) }
    }

    /// Takes a value in the form of a standard characteristic, by its assigned number, when it has been told.
    typealias Keep = (_ characteristic: UInt16, _ octets: [UInt8], _ receivedAt: Instant) async throws -> Void

    /// Tells of each value. The device's leaving, or falling silent, is an ordinary end.
    ///
    /// - Parameter keep: takes each value, also one that cannot be understood, before more is asked for.
    @discardableResult
    mutating func run(
        _ characteristics: [Characteristic], _ yield: (LiveReading) -> Void, keep: Keep = { _, _, _ in }
    ) async throws -> End {
        let wanted = characteristics.filter {
            ServiceProfile.live.contains($0.uuid) || ($0.uuid == stream?.values && $0.service == stream?.service)
        }
        guard !wanted.isEmpty else { throw TransferError.nothingToRead }
        let question = stream?.question
        let requests = characteristics.first { $0.uuid == question?.at && $0.service == stream?.service }
        guard question == nil || requests != nil else { throw TransferError.nothingToRead }
        return try await peripheral.whileNotifying(wanted, optional: Self.optional) {
            if let question, let requests { return try await ask(question.octets, at: requests, yield, keep) }
            while true {
                try Task.checkCancellation()
                switch try await peripheral.nextValues(within: Self.patience) {
                case .values(let values): for value in values { try await take(value, yield, keep) }
                case .silence: return .silent
                case .disconnected: return .gone
                }
                if await isWanted() { return .wanted }
            }
        }
    }

    /// Asks an oximeter again and again, each time after a second in which nothing came.
    private mutating func ask(
        _ question: O2RingQuestion, at requests: Characteristic, _ yield: (LiveReading) -> Void, _ keep: Keep
    ) async throws -> End {
        // Public programs differ in which of the two they write; BlueZ refuses what isn't declared.
        let expectsResponse =
            requests.properties.map { $0.contains(.write) && !$0.contains(.writeWithoutResponse) } ?? false
        var unanswered = 0
        while unanswered < Self.mostUnanswered {
            try Task.checkCancellation()
            let before = streamReader?.answers
            do {
                try await peripheral.write(question.octets, to: requests, expectingResponse: expectsResponse)
            } catch GATTError.disconnected {
                return .gone
            }
            var isSilent = false
            while !isSilent {
                try Task.checkCancellation()
                switch try await peripheral.nextValues(within: Self.askEvery) {
                case .values(let values): for value in values { try await take(value, yield, keep) }
                case .silence: isSilent = true
                case .disconnected: return .gone
                }
            }
            unanswered = streamReader?.answers == before ? unanswered + 1 : 0
            if let streamReader, streamReader.unworn >= Self.mostUnworn { return .unworn }
            if await isWanted() { return .wanted }
        }
        return .gone
    }

    /// Whether the variability is to be told: also where the gateway's clock was set back since it was told last.
    private func isDue(_ now: Instant) -> Bool {
        guard let toldAt else { return true }
        return now < toldAt || now >= toldAt.advanced(by: pace.variabilityEvery)
    }

    /// Whether a stream's value is to be told.
    private func isStreamDue(_ now: Instant) -> Bool {
        guard let streamToldAt else { return true }
        return now < streamToldAt || now >= streamToldAt.advanced(by: Self.streamEvery)
    }

    private mutating func take(
        _ value: CharacteristicValue, _ yield: (LiveReading) -> Void, _ keep: Keep
    ) async throws {
        func tell(_ record: Record) {
            yield(LiveReading(record: record, device: device, receivedAt: value.receivedAt))
        }
        if value.uuid == stream?.values {
            guard let pair = streamReader?.take(value.octets), isStreamDue(value.receivedAt) else { return }
            streamToldAt = value.receivedAt
            let standard = PulseOximeterContinuous(normal: pair)
            if intervals.admit(standard.record, at: value.receivedAt) { tell(standard.record) }
            return try await keep(PulseOximeterContinuous.assignedNumber, standard.encoded, value.receivedAt)
        }
        guard ServiceProfile.live.contains(value.uuid), let number = value.uuid.assignedNumber else { return }
        // A value that is none says nothing; the next comes in a second.
        if case .record(let record) = decoder.decode(characteristic: number, octets: value.octets.span.bytes) {
            if intervals.admit(record, at: value.receivedAt) { tell(record) }
            if value.uuid == HeartRateMeasurement.uuid, let rate = try? HeartRateMeasurement(decoding: value.octets),
                let variability = variability(after: rate, at: value.receivedAt)
            {
                tell(variability)
            }
        }
        try await keep(number, value.octets, value.receivedAt)
    }

    /// The variability that is due after a heart rate.
    private mutating func variability(after measurement: HeartRateMeasurement, at time: Instant) -> Record? {
        variability.add(measurement.intervals, at: time, hasContact: measurement.hasContact)
        guard !measurement.intervals.isEmpty, variability.isFull, isDue(time), let result = variability.result
        else { return nil }
        toldAt = time
        let vital = VitalValue(
            kind: .hrv,
            [
                .init(.rmssd, Quantity(result.rmssd, .milliseconds)),
                .init(.sdnn, Quantity(result.sdnn, .milliseconds)),
            ], windowSeconds: variability.windowSeconds)
        return Record(value: .vital(vital))
    }
}

/// How often live values are told and summed up.
public struct LivePace: Sendable, Hashable {
    /// How often a device's heart rates are told, and its saturations: of each interval of this length the first value that comes,
    /// as the device has sent it. Nothing, the default: each value, which mostly comes once a second.
    ///
    /// It is no mean: the values between are left out, and so are the intervals between beats that come with them. Variability is
    /// computed from all beats. Intervals begin at whole multiples of their length since 1970, and anew when a device comes
    /// back. A value that is none, as of a strap that nobody wears, is told where its interval has had nothing before it. A negative
    /// duration counts as nothing.
    public var valueEvery: Duration = .zero
    /// The seconds a heart-rate variability covers, 5 to 86,400: five minutes is the usual short-term recording, one
    /// minute shows changes sooner.
    public var variabilityWindowSeconds = 60
    /// How often it is told, once the window has been filled.
    public var variabilityEvery: Duration = .seconds(5)

    /// The usual pace.
    public init() {}
}

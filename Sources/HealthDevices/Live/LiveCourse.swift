import GATTClient
import GATTProfiles
import HealthReadings

/// Follows one connected device that sends values while it measures, until it leaves or the task is cancelled.
struct LiveCourse {
    static let heartRate: BluetoothUUID = 0x2A37
    static let oximeter: BluetoothUUID = 0x2A5F
    /// How long a device may be silent before it is left: straps send about once a second, also without a value.
    static let patience: Duration = .seconds(30)

    let peripheral: any Peripheral
    let device: DeviceDescription
    let pace: LivePace
    private var variability: HeartRateVariability
    private var toldAt: Instant?

    init(_ peripheral: any Peripheral, _ device: DeviceDescription, _ pace: LivePace) {
        self.peripheral = peripheral
        self.device = device
        self.pace = pace
        variability = HeartRateVariability(windowSeconds: pace.variabilityWindowSeconds)
    }

    /// Whether a device with these characteristics sends live values.
    static func isLive(_ characteristics: [Characteristic]) -> Bool {
        characteristics.contains { $0.uuid == heartRate || $0.uuid == oximeter }
    }

    /// Tells of each value. The device's leaving, or falling silent, is an ordinary end.
    mutating func run(_ characteristics: [Characteristic], _ yield: (LiveReading) -> Void) async throws {
        let wanted = characteristics.filter { $0.uuid == Self.heartRate || $0.uuid == Self.oximeter }
        guard !wanted.isEmpty else { throw TransferError.nothingToRead }
        try await peripheral.whileNotifying(wanted, optional: [Self.oximeter]) {
            while true {
                try Task.checkCancellation()
                guard case .values(let values) = try await peripheral.nextValues(within: Self.patience) else { return }
                for value in values { take(value, yield) }
            }
        }
    }

    /// Whether the variability is to be told: also where the gateway's clock was set back since it was told last.
    private func isDue(_ now: Instant) -> Bool {
        guard let toldAt else { return true }
        return now < toldAt || now >= toldAt.advanced(by: pace.variabilityEvery)
    }

    private mutating func take(_ value: CharacteristicValue, _ yield: (LiveReading) -> Void) {
        func tell(_ record: Record) {
            yield(LiveReading(record: record, device: device, receivedAt: value.receivedAt))
        }
        switch value.uuid {
        case Self.heartRate:
            // A value that is none says nothing; the next comes in a second.
            guard let measurement = try? HeartRateMeasurement(decoding: value.octets) else { return }
            tell(measurement.record)
            variability.add(measurement.intervals, at: value.receivedAt, hasContact: measurement.hasContact)
            guard !measurement.intervals.isEmpty, variability.isFull,
                isDue(value.receivedAt), let result = variability.result
            else { return }
            toldAt = value.receivedAt
            let vital = VitalValue(
                kind: .hrv,
                [
                    .init(.rmssd, Quantity(result.rmssd, .milliseconds)),
                    .init(.sdnn, Quantity(result.sdnn, .milliseconds)),
                ], windowSeconds: variability.windowSeconds)
            tell(Record(value: .vital(vital)))
        case Self.oximeter:
            guard let measurement = try? PulseOximeterContinuous(decoding: value.octets) else { return }
            tell(measurement.record)
        default: return
        }
    }
}

/// How often live values are summed up.
public struct LivePace: Sendable, Hashable {
    /// The seconds a heart-rate variability covers, 5 to 86,400: five minutes is the usual short-term recording, one
    /// minute shows changes sooner.
    public var variabilityWindowSeconds = 60
    /// How often it is told, once the window has been filled.
    public var variabilityEvery: Duration = .seconds(5)

    /// The usual pace.
    public init() {}
}

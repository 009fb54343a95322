import HealthReadings
import Testing

/// What somebody sees of a body composition who may see no weights.
@Suite struct WithheldWeightTests {
    private static func measured(
        _ part: VitalValue.Part, _ value: Int64, _ unit: MeasurementUnit
    ) -> VitalValue.Measured {
        VitalValue.Measured(part, Quantity(ExactDecimal(significand: value), unit))
    }

    @Test("nothing is left that the weight can be computed from")
    func masses() {
        let value = VitalValue(
            kind: .bodyComposition,
            [
                Self.measured(.bodyFat, 20, .percent), Self.measured(.basalMetabolism, 7000, .kilojoules),
                Self.measured(.musclePercentage, 40, .percent), Self.measured(.muscleMass, 28, .kilograms),
                Self.measured(.fatFreeMass, 56, .kilograms), Self.measured(.softLeanMass, 53, .kilograms),
                Self.measured(.bodyWaterMass, 40, .kilograms), Self.measured(.impedance, 500, .ohms),
                Self.measured(.weight, 70, .kilograms), Self.measured(.height, 2, .metres),
            ])
        let reading = Reading(
            id: ReadingID(high: 1, low: 2), record: Record(value: .vital(value)),
            device: DeviceDescription(address: nil, provider: "manual"),
            time: ResolvedTime(instant: nil, basis: .unknown), receivedAt: Instant(seconds: 5))
        guard case .vital(let shown) = reading.withholdingWeight.record.value else {
            Issue.record("it is another kind of reading")
            return
        }
        #expect(shown.quantities.map(\.part) == [.bodyFat, .musclePercentage, .impedance, .height])
    }
}

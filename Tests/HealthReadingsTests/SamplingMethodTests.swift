import HealthReadings
import Testing

@Suite struct SamplingMethodTests {
    private func method(_ type: GlucoseSampleType?, _ continuous: ContinuousGlucoseFacts? = nil) -> SamplingMethod? {
        Record(value: .glucose(GlucoseValue(concentration: nil, sampleType: type, continuous: continuous)))
            .samplingMethod
    }

    @Test("glucose is pricked for, scanned, or comes by itself, whatever brings it")
    func glucose() {
        #expect(method(.capillaryWholeBlood) == .fingerprick && method(nil) == .fingerprick)
        #expect(method(.interstitialFluid) == .manualScan)
        #expect(method(.interstitialFluid, ContinuousGlucoseFacts()) == .automatic)
    }

    @Test("every kind that is delivered has a method, and no other has", arguments: ReadingKind.allCases)
    func kinds(kind: ReadingKind) {
        let millimetres = Quantity(ExactDecimal(significand: 80), .millimetresOfMercury)
        let value: RecordValue =
            switch kind {
            case .glucose: .glucose(GlucoseValue(concentration: nil))
            case .bloodPressure:
                .bloodPressure(
                    BloodPressureValue(systolic: millimetres, diastolic: millimetres, meanArterial: millimetres))
            default: .vital(VitalValue(kind: kind, []))
            }
        #expect((Record(value: value).samplingMethod != nil) == kind.isDelivered)
    }
}

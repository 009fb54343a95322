import EncodedSensor
import FreeStyleLibre
import HealthReadings
import Testing

@Suite("The estimate of a concentration")
struct CalibrationTests {
    private static let calibration = FactoryCalibration(i1: 3, i2: 500, i3: 10, i4: 6000, i5: 4800, i6: 8000)

    private func record(_ glucose: UInt16, temperature: UInt16 = 6800, adjustment: Int16 = 0) -> RawRecord {
        RawRecord(glucose: glucose, temperature: temperature, adjustment: adjustment)
    }

    private func fault(_ calibration: FactoryCalibration, _ record: RawRecord) -> EstimateFault? {
        do {
            _ = try GlucoseEstimator(calibration).estimate(record)
            return nil
        } catch {
            return error
        }
    }

    @Test("the worked example gives 112 and 127 mg/dL at 35.71 degrees")
    func workedExample() throws {
        let estimator = try GlucoseEstimator(Self.calibration)
        let low = try estimator.estimate(record(1004))
        #expect(abs(low.temperature - 35.71384973893072) < 1e-10)
        #expect(low.milligramsPerDecilitre == 112)
        #expect(try estimator.estimate(record(1112)).milligramsPerDecilitre == 127)
        #expect(try GlucoseEstimator.temperature(of: record(0), i6: 8000) == low.temperature)
    }

    @Test("a value is a whole number of mg/dL of interstitial fluid, with its calibration named")
    func asARecord() throws {
        let raw = record(1004)
        let sensor = EncodedSensor(age: 900) { source, minute in source == .trend && minute == 900 ? raw : nil }
        let found = try #require(try sensor.decoded.records.first)
        guard case .glucose(let value) = found.value else {
            Issue.record("\(found.value)")
            return
        }
        #expect(value.concentration == Quantity(ExactDecimal(significand: 112), .milligramsPerDecilitre))
        #expect(value.sampleType == .interstitialFluid && value.sampleLocation == .notAvailable)
        #expect(found.sensor?.calibration == .factoryEstimate)
        #expect(found.exclusion == nil)
        #expect(found.baseTime == nil && found.sequence == nil)
    }

    @Test("promise 6: calibration that gives no number gives no value, and says why")
    func guards() {
        var calibration = Self.calibration
        calibration.i2 = 0
        #expect(fault(calibration, record(1004)) == .noCalibration)
        calibration = Self.calibration
        calibration.i4 = calibration.i3
        #expect(fault(calibration, record(1004)) == .noSlope)
        calibration = Self.calibration
        calibration.i6 = 400
        #expect(fault(calibration, record(1004, adjustment: -400)) == .noTemperatureScale)
        #expect(fault(calibration, record(1004, adjustment: -404)) == .noResistance)
        #expect(fault(Self.calibration, record(1004, temperature: 0)) == .noResistance)
        #expect(
            fault(Self.calibration, RawRecord(glucose: 1, hasError: true, temperature: 6800, adjustment: 0))
                == .errorRecord)
        let zeros = FactoryCalibration(i1: 0, i2: 0, i3: 0, i4: 0, i5: 0, i6: 0)
        #expect(fault(zeros, record(1004)) == .noCalibration)
    }

    @Test("promise 6: no numbers trap, and each value is a number")
    func hostile() throws {
        forAll(20_000) { generator in
            let (calibration, record) = (generator.calibration(), generator.record())
            guard let estimator = try? GlucoseEstimator(calibration), let estimate = try? estimator.estimate(record)
            else {
                return true
            }
            return abs(estimate.milligramsPerDecilitre) < 1_000_000 && estimate.temperature.isFinite
        }
        // Every resistance near 0 and every scale near 0.
        for temperature in stride(from: UInt16(0), through: 16380, by: 4) {
            for i6 in [0, 4, 8, 2044, 2048, 16380] {
                _ = try? GlucoseEstimator.temperature(
                    of: record(1, temperature: temperature, adjustment: -2044), i6: i6)
                _ = try? GlucoseEstimator.temperature(of: record(1, temperature: temperature, adjustment: 2044), i6: i6)
            }
        }
    }

    @Test("the lines follow each other in 124 rows: the first, the last and those where the width of the rows changes")
    func lines() throws {
        // A line's number and its intercept and row, from which the slope follows.
        let known: [(Int, Double, Int)] = [
            (1, 0.75, 0), (8, 2.5, 0), (9, 0.75, 1), (512, 2.5, 63), (513, 0.75, 64), (521, 2.75, 64), (522, 0.75, 65),
            (719, 2.75, 86), (720, 1.0, 87), (727, 2.75, 87), (951, 2.75, 115), (952, 1.0, 116), (960, 3.0, 116),
            (1023, 3.0, 123),
        ]
        for (number, intercept, row) in known {
            var calibration = Self.calibration
            calibration.i2 = number
            let slope = (0..<row).reduce(0.0377442) { slope, _ in slope * 1.01 }
            // Two records tell the line: value = (signal - intercept) / slope, and signal is 0 where raw = i3.
            let lowest = try GlucoseEstimator(calibration).estimate(record(10)).milligramsPerDecilitre
            #expect(lowest == Int((-intercept / slope).rounded()), "line \(number)")
            let degrees = try GlucoseEstimator.temperature(of: record(10), i6: 8000)
            let signal = 65.0 * 16373 / 5990 * power(1.045, 32.5 - degrees)
            let highest = try GlucoseEstimator(calibration).estimate(record(16383)).milligramsPerDecilitre
            #expect(abs(Double(highest) - (signal - intercept) / slope) <= 0.5001, "line \(number)")
        }
    }

    @Test("what is no person's temperature or concentration is implausible, what is merely alarming is not")
    func plausibility() {
        func isPlausible(_ value: Int, _ temperature: Double) -> Bool {
            GlucoseEstimate(milligramsPerDecilitre: value, temperature: temperature).isPlausible
        }
        #expect(isPlausible(1, 36) && isPlausible(28, 36) && isPlausible(1500, 36))
        #expect(!isPlausible(0, 36) && !isPlausible(-20, 36) && !isPlausible(1501, 36))
        #expect(isPlausible(100, 0) && isPlausible(100, 60) && !isPlausible(100, -0.1) && !isPlausible(100, 60.1))
    }
}

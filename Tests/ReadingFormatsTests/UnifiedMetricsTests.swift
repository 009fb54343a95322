import HealthReadings
import ReadingFormats
import Testing

@Suite("What devices have measured last, in one document") struct UnifiedMetricsTests {
    private static let now = Instant(seconds: 1_795_331_700)
    private static let cuff = DeviceDescription(
        address: DeviceAddress("C0:00:00:00:00:01"), model: "omron_x", serial: "1", provider: "omron_ble")
    private static let meter = DeviceDescription(
        address: DeviceAddress("C0:00:00:00:00:02"), model: "meter", serial: "2", provider: "manual")

    private static func reading(
        _ value: RecordValue, of device: DeviceDescription = cuff, ago seconds: Int64, excluded: Exclusion? = nil,
        hasTime: Bool = true, deliveries: [DestinationDelivery] = []
    ) -> Reading {
        Reading(
            id: ReadingID(high: 1, low: UInt64(bitPattern: seconds)), record: Record(value: value), device: device,
            time: ResolvedTime(
                instant: hasTime ? Instant(seconds: now.seconds - seconds) : nil, basis: .corrected),
            excluded: excluded,
            deliveries: deliveries, receivedAt: now)
    }

    private static func pressure(_ systolic: Int64, pulse: Int64? = 64, unit: MeasurementUnit = .millimetresOfMercury)
        -> RecordValue
    {
        .bloodPressure(
            BloodPressureValue(
                systolic: Quantity(ExactDecimal(significand: systolic), unit),
                diastolic: Quantity(ExactDecimal(significand: systolic * 2 / 3), unit),
                meanArterial: Quantity(.notANumber, unit),
                pulse: pulse.map { Quantity(ExactDecimal(significand: $0), .beatsPerMinute) }))
    }

    private static func glucose(_ tenths: Int64) -> RecordValue {
        .glucose(
            GlucoseValue(concentration: Quantity(ExactDecimal(significand: tenths, exponent: -1), .millimolesPerLitre)))
    }

    private static func saturation(_ percent: Int64, pulse: Int64) -> RecordValue {
        .vital(
            VitalValue(
                kind: .spo2,
                [
                    VitalValue.Measured(.saturation, Quantity(ExactDecimal(significand: percent), .percent)),
                    VitalValue.Measured(.pulse, Quantity(ExactDecimal(significand: pulse), .beatsPerMinute)),
                ]))
    }

    private static func document(_ metrics: UnifiedMetrics) -> JSONValue? {
        metrics.document { device in
            UnifiedMetrics.DeviceFigures(
                id: device.address == Self.cuff.address ? "c0ff" : "0e7e",
                batteryPercent: device.address == Self.cuff.address ? 87 : nil)
        }
    }

    @Test("devices are merged: each metric is the newest, and the newest reading gives time, device and source")
    func merged() throws {
        var metrics = UnifiedMetrics(at: Self.now)
        func added(_ reading: Reading) -> Bool { metrics.add(reading) }
        #expect(added(Self.reading(Self.glucose(59), of: Self.meter, ago: 7200)))
        #expect(added(Self.reading(Self.pressure(120), ago: 600)))
        #expect(added(Self.reading(Self.saturation(97, pulse: 71), of: Self.meter, ago: 3600)))
        let document = try #require(Self.document(metrics))
        #expect(document["timestamp"] == "2026-11-22T07:05:00Z" && document["device_id"] == "c0ff")
        #expect(document["source"] == "omron_ble")
        #expect(
            document["metrics"]?.text
                == #"{"glucose_mg_dl":106.29,"systolic_mmhg":120,"diastolic_mmhg":80,"hr":64,"spo2_percent":97}"#)
        let meta = document["meta"]
        #expect(meta?["battery"]?.text == "0.87" && meta?["synced"] == .bool(true))
        #expect(meta?["measured"]?["hr"]?["device_id"] == "c0ff")
        #expect(
            meta?["measured"]?["glucose_mg_dl"]?.text
                == #"{"timestamp":"2026-11-22T05:15:00Z","device_id":"0e7e","source":"manual"}"#)
    }

    @Test("the order in which readings are added makes no difference")
    func order() throws {
        let readings = [
            Self.reading(Self.pressure(120, pulse: 60), ago: 600), Self.reading(Self.pressure(130), ago: 300),
            Self.reading(Self.saturation(97, pulse: 71), of: Self.meter, ago: 60),
        ]
        let numbers = [[0, 1, 2], [2, 1, 0], [1, 0, 2], [2, 0, 1]].map { order in
            var metrics = UnifiedMetrics(at: Self.now)
            for place in order { metrics.add(readings[place]) }
            return ["systolic_mmhg", "hr", "spo2_percent"].map { Self.document(metrics)?["metrics"]?[$0]?.text }
        }
        #expect(Set(numbers) == [["130", "71", "97"]])
    }

    @Test("what is old, excluded, from the future, without a time or no number is left out")
    func leftOut() {
        var metrics = UnifiedMetrics(at: Self.now, age: 3600)
        func added(_ reading: Reading) -> Bool { metrics.add(reading) }
        #expect(!added(Self.reading(Self.pressure(120), ago: 3601)))
        #expect(!added(Self.reading(Self.pressure(120), ago: -1)))
        #expect(!added(Self.reading(Self.pressure(120), ago: 60, excluded: .implausible)))
        #expect(!added(Self.reading(Self.pressure(120), ago: 60, hasTime: false)))
        #expect(metrics.isEmpty && Self.document(metrics) == nil)
        #expect(added(Self.reading(Self.pressure(120, pulse: nil), ago: 3600)))
        #expect(Self.document(metrics)?["metrics"]?.text == #"{"systolic_mmhg":120,"diastolic_mmhg":80}"#)
    }

    /// A day as Garmin has summed it up, which began so many hours ago and goes so far.
    private static func day(
        _ steps: Int64, stress: String? = nil, began hours: Int64, covers: Int64?, type: String = "dailies",
        provider: String = "garmin"
    ) -> Reading {
        let sample = KeptSample(
            kind: .activity, type: type, value: ExactDecimal(significand: steps), unit: "count",
            metadata: stress.map { ["averageStressLevel": $0] } ?? [:])
        var day = reading(
            .kept(sample), of: DeviceDescription(address: nil, provider: provider), ago: hours * 3600)
        day.record.imported = ImportFacts(
            source: "Garmin", end: covers.map { Instant(seconds: now.seconds + ($0 - hours) * 3600) })
        return day
    }

    @Test("steps and stress are of the newest day that a watch's vendor has summed up, and count as of its end")
    func days() throws {
        var metrics = UnifiedMetrics(at: Self.now)
        // Today so far, and yesterday, which is over.
        let (today, yesterday) = (
            Self.day(2100, stress: "34", began: 7, covers: 5), Self.day(9000, stress: "51", began: 31, covers: 24)
        )
        let order = [yesterday, today, yesterday].map { metrics.add($0) }
        #expect(order == [true, true, true])
        let document = try #require(Self.document(metrics))
        #expect(document["metrics"]?.text == #"{"steps":2100,"stress":0.34}"#)
        #expect(
            document["meta"]?["measured"]?["steps"]?.text
                == #"{"timestamp":"2026-11-22T05:15:00Z","device_id":"0e7e","source":"garmin"}"#)
        // Before the watch has told of today, yesterday is what is known; where it ends tells whether it is fresh.
        var early = UnifiedMetrics(at: Self.now)
        let isFresh = early.add(yesterday)
        #expect(isFresh && Self.document(early)?["metrics"]?["steps"]?.text == "9000")
        var late = UnifiedMetrics(at: Self.now, age: 6 * 3600)
        let isOld = late.add(yesterday)
        #expect(!isOld && late.isEmpty)
        // A day that says it goes on beyond now is known to have begun.
        var ahead = UnifiedMetrics(at: Self.now)
        ahead.add(Self.day(10, began: 7, covers: 24))
        #expect(Self.document(ahead)?["timestamp"] == "2026-11-22T00:15:00Z")
    }

    @Test("no part of a day, no phone's steps and no level that is none is shown")
    func noDays() throws {
        var metrics = UnifiedMetrics(at: Self.now)
        let added = [
            Self.day(120, began: 1, covers: 1, type: "epochs"),
            Self.day(37, began: 1, covers: 1, type: "steps", provider: "apple_health_kit"),
            Self.day(-1, began: 7, covers: 5),
        ].map { metrics.add($0) }
        #expect(added == [false, false, false] && metrics.isEmpty)
        for level in ["-1", "-2", "101", "calm", ""] {
            var none = UnifiedMetrics(at: Self.now)
            none.add(Self.day(5, stress: level, began: 7, covers: nil))
            #expect(Self.document(none)?["metrics"]?.text == #"{"steps":5}"#, "\(level)")
        }
    }

    @Test("kilopascals are converted, and what waits for a destination is not synced")
    func unitsAndDelivery() throws {
        var metrics = UnifiedMetrics(at: Self.now)
        metrics.add(
            Self.reading(
                Self.pressure(16, unit: .kilopascal), of: Self.meter, ago: 60,
                deliveries: [DestinationDelivery(destination: "clinic", state: .waiting)]))
        let document = try #require(Self.document(metrics))
        #expect(document["metrics"]?["systolic_mmhg"]?.text == "120.01")
        #expect(document["meta"]?["synced"] == .bool(false) && document["meta"]?["battery"] == nil)
    }
}

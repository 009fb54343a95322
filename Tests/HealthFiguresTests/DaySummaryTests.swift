import HealthReadings
import Testing

@testable import HealthFigures

@Suite struct DaySummaryTests {
    private func zone(_ name: String) throws -> ZoneRules { try #require(ZoneRules.named(name)) }

    private func instant(_ text: String) throws -> Instant { try #require(Instant(rfc3339: text)) }

    private func decimal(_ text: String) throws -> ExactDecimal { try #require(ExactDecimal(text)) }

    private func reading(
        _ id: UInt64, _ value: RecordValue, _ time: Instant?, excluded: Exclusion? = nil, model: String = "meter"
    ) -> Reading {
        Reading(
            id: ReadingID(high: 0, low: id), record: Record(value: value),
            device: DeviceDescription(address: nil, model: model), time: ResolvedTime(instant: time, basis: .reception),
            excluded: excluded, receivedAt: time ?? Instant(seconds: 0))
    }

    private func glucose(
        _ text: String, _ unit: MeasurementUnit = .milligramsPerDecilitre, type: GlucoseSampleType? = nil
    ) throws -> RecordValue {
        .glucose(GlucoseValue(concentration: Quantity(try decimal(text), unit), sampleType: type))
    }

    private func vital(_ kind: ReadingKind, _ quantities: [(VitalValue.Part, Quantity)]) -> RecordValue {
        .vital(VitalValue(kind: kind, quantities.map { .init($0.0, $0.1) }))
    }

    private func day(_ text: String = "2026-11-20T12:00:00Z", in name: String = "Europe/Berlin") throws -> PersonDay {
        ZoneHistory(try zone(name)).day(of: try instant(text))
    }

    @Test("a recording that goes on over midnight counts on each of its days, with the samples of that day")
    func night() throws {
        let start = try instant("2026-11-23T22:30:00Z")
        let samples = (0..<360).map { minute in
            SampleSeries.Sample(
                milliseconds: minute * 60_000, value: ExactDecimal(significand: minute == 180 ? 71 : 96))
        }
        let value = VitalValue(
            kind: .spo2, [.init(.saturation, Quantity(try decimal("95.9"), .percent))], series: SampleSeries(samples))
        let night = reading(1, .vital(value), start)
        var days = try ["2026-11-23T12:00:00Z", "2026-11-24T12:00:00Z", "2026-11-25T12:00:00Z"].map {
            DaySummary(try day($0))
        }
        #expect(days.indices.map { days[$0].add(night) } == [true, true, false])
        #expect(days.map { $0.figures(of: .saturation)?.count } == [30, 330, nil])
        #expect(days.map { $0.figures(of: .saturation)?.minimum.description } == ["96", "71", nil])
        #expect(days.map(\.readings) == [1, 1, 0])
        #expect(night.laterDays(in: ZoneHistory(try zone("Europe/Berlin"))) == [days[1].day])
        let excluded = reading(2, .vital(value), start, excluded: .otherUser)
        #expect(days.indices.map { days[$0].add(excluded) } == [true, false, false])
        #expect(days.map(\.excluded) == [1, 0, 0])
    }

    @Test func figuresAreExactAndDoNotDependOnTheOrder() throws {
        let noon = try instant("2026-11-20T12:00:00Z")
        var readings: [Reading] = []
        for index in 0..<40 as Range<UInt64> {
            let time = Instant(seconds: noon.seconds + Int64(index * 7919 % 20_000))
            readings.append(reading(index, try glucose("\(90 + index % 7).\(index % 3)"), time))
            readings.append(
                reading(
                    100 + index,
                    .bloodPressure(
                        BloodPressureValue(
                            systolic: Quantity(try decimal("\(120 + index)"), .millimetresOfMercury),
                            diastolic: Quantity(try decimal("80"), .millimetresOfMercury),
                            meanArterial: Quantity(.notANumber, .millimetresOfMercury),
                            pulse: Quantity(try decimal("\(60 + index % 2)"), .beatsPerMinute))), time))
        }
        var (forward, backward) = (DaySummary(try day()), DaySummary(try day()))
        for reading in readings { forward.add(reading) }
        for reading in readings.reversed() { backward.add(reading) }
        #expect(forward.readings == readings.count)
        for part in DaySummary.Part.allCases {
            #expect(forward.figures(of: part) == backward.figures(of: part))
            #expect(forward.samples(of: part) == backward.samples(of: part))
        }
        // 120 … 159.
        #expect(forward.figures(of: .systolic)?.mean.description == "139.5")
        #expect(forward.figures(of: .systolic)?.minimum.description == "120")
        #expect(forward.figures(of: .systolic)?.maximum.description == "159")
        #expect(forward.figures(of: .heartRate)?.mean.description == "60.5")
        #expect(forward.figures(of: .meanArterial) == nil && forward.figures(of: .temperature) == nil)
        let times = forward.samples(of: .glucose).map(\.time)
        #expect(times == times.sorted() && times.count == 40)
        let document = forward.document(person: "white_bear", now: noon, showsSamples: true)
        #expect(document == backward.document(person: "white_bear", now: noon, showsSamples: true))
    }

    @Test func unitsAreOneAndSensorsAreApartFromMeters() throws {
        var summary = DaySummary(try day())
        let time = try instant("2026-11-20T12:00:00Z")
        summary.add(reading(1, try glucose("5.5", .millimolesPerLitre), time))
        summary.add(reading(2, try glucose("101"), time))
        summary.add(reading(3, try glucose("250", type: .interstitialFluid), time))
        // 5.5 mmol/L × 18.0156 = 99.0858 mg/dL, at two places; the mean at one.
        #expect(summary.figures(of: .glucose)?.mean.description == "100.0")
        #expect(summary.figures(of: .glucose)?.minimum.description == "99.09")
        #expect(summary.figures(of: .sensorGlucose)?.mean.description == "250.0")
        summary.add(
            reading(4, vital(.temperature, [(.temperature, Quantity(try decimal("98.6"), .degreesFahrenheit))]), time))
        #expect(summary.figures(of: .temperature)?.mean.description == "37.00")
    }

    @Test("a scan's trend weighs no more in a day's figures than the history it repeats, and is listed")
    func trendAndHistory() throws {
        func value(
            _ id: UInt64, _ text: String, _ minute: Int64, _ source: ImportFacts.SensorSource
        ) throws -> Reading {
            let time = try instant("2026-11-20T12:00:00Z").advanced(bySeconds: minute * 60)
            var reading = reading(id, try glucose(text, type: .interstitialFluid), time)
            reading.record.imported = ImportFacts(source: "Libre", device: "3MH0", sensorSource: source)
            return reading
        }
        // Three hours of history at 100, and a scan at its end that shows a quarter of an hour at 300.
        var readings = try (0...12).map { try value(UInt64($0), "100", Int64($0) * 15, .history) }
        readings += try (0...15).map { try value(100 + UInt64($0), "300", 165 + Int64($0), .trend) }
        for order in [readings, readings.reversed()] {
            var summary = DaySummary(try day())
            for reading in order { summary.add(reading) }
            let figures = try #require(summary.figures(of: .sensorGlucose))
            #expect(figures.count == 13 && figures.mean.description == "100.0")
            #expect(figures.minimum.description == "100" && figures.maximum.description == "100")
            #expect(summary.samples(of: .sensorGlucose).count == 29 && summary.readings == 29)
            #expect(summary.counted(of: .sensorGlucose).count == 13)
        }
        // A quarter of an hour behind the history: (13 × 15 × 100 + 15 × 300) / (13 × 15 + 15) = 114.29.
        readings = try (0...12).map { try value(UInt64($0), "100", Int64($0) * 15, .history) }
        readings += try (0...14).map { try value(100 + UInt64($0), "300", 195 + Int64($0), .trend) }
        var summary = DaySummary(try day())
        for reading in readings { summary.add(reading) }
        let figures = try #require(summary.figures(of: .sensorGlucose))
        #expect(figures.count == 28 && figures.mean.description == "114.3" && figures.maximum.description == "300")
    }

    @Test("a sensor that another program passes on as plain glucose is apart from meters, by its pace")
    func sensorByPace() throws {
        let noon = try instant("2026-11-20T12:00:00Z")
        for count in [11, 12] as [UInt64] {
            var summary = DaySummary(try day())
            for number in 0..<count {
                var reading = reading(number, try glucose("120"), noon.advanced(bySeconds: Int64(number) * 300))
                reading.record.imported = ImportFacts(source: "Dexcom G7")
                reading.device.provider = "apple_health_kit"
                summary.add(reading)
            }
            summary.add(reading(100, try glucose("90"), noon))
            let isSensor = count == 12
            #expect(summary.figures(of: .glucose)?.count == (isSensor ? 1 : 12))
            #expect(summary.figures(of: .sensorGlucose)?.count == (isSensor ? 12 : nil))
            #expect(summary.samples(of: .sensorGlucose).count == (isSensor ? 12 : 0))
        }
    }

    @Test func whatIsExcludedImplausibleOrOfAnotherDayIsInNoFigure() throws {
        var summary = DaySummary(try day())
        let time = try instant("2026-11-20T12:00:00Z")
        let taken = try [
            summary.add(reading(1, glucose("400"), time, excluded: .controlSolution)),
            summary.add(reading(2, glucose("401"), instant("2026-11-20T23:00:00Z"))),
            summary.add(reading(3, glucose("402"), nil)),
        ]
        #expect(taken == [true, false, false])
        let odd = Quantity(.implausible(try decimal("9000")), .milligramsPerDecilitre)
        summary.add(reading(4, .glucose(GlucoseValue(concentration: odd)), time))
        #expect(summary.figures(of: .glucose) == nil && summary.excluded == 1)
    }

    @Test(arguments: [
        ("2026-03-29T12:00:00Z", 23 as Int64), ("2026-10-25T12:00:00Z", 25), ("2026-11-20T12:00:00Z", 24),
    ])
    func aDayHasEveryHourOfTheLocalDay(noon: String, hours: Int64) throws {
        let day = try day(noon)
        #expect(day.seconds == hours * 3600)
        var summary = DaySummary(day)
        var count = 0
        var time = Instant(seconds: day.start.seconds - 7200)
        while time.seconds < day.end.seconds + 7200 {
            if summary.add(reading(UInt64(count), try glucose("100"), time)) { count += 1 }
            time = Instant(seconds: time.seconds + 60)
        }
        #expect(Int64(count) == hours * 60 && summary.figures(of: .glucose)?.count == count)
    }

    @Test func theNewestWeightCounts() throws {
        var summary = DaySummary(try day())
        func weight(_ text: String, _ unit: MeasurementUnit = .kilograms) throws -> RecordValue {
            vital(.weight, [(.weight, Quantity(try decimal(text), unit))])
        }
        summary.add(reading(2, try weight("71.2"), try instant("2026-11-20T18:00:00Z")))
        summary.add(reading(1, try weight("72.0"), try instant("2026-11-20T06:00:00Z")))
        summary.add(reading(3, try weight("156", .pounds), try instant("2026-11-20T12:00:00Z")))
        #expect(summary.latest(.weight)?.quantity.number.number?.description == "71.2")
        #expect(summary.latest(.height) == nil)
    }

    @Test func aDateIsFoundOrSaidNotToBe() throws {
        let berlin = ZoneHistory(try zone("Europe/Berlin"))
        #expect(berlin.day(year: 2026, month: 10, day: 25) == (try day("2026-10-25T12:00:00Z")))
        #expect(berlin.day(year: 2026, month: 2, day: 29) == nil)
        // Samoa had no 30 December 2011.
        let samoa = ZoneHistory(try zone("Pacific/Apia"))
        #expect(samoa.day(year: 2011, month: 12, day: 30) == nil)
        let first = try #require(samoa.day(year: 2011, month: 12, day: 29))
        let last = try #require(samoa.day(year: 2012, month: 1, day: 1))
        #expect(
            samoa.days(from: first, through: last, atMost: 4)?.map(\.date) == [
                "2011-12-29", "2011-12-31", "2012-01-01",
            ])
        #expect(samoa.days(from: first, through: last, atMost: 3) == nil)
        #expect(samoa.days(from: last, through: first, atMost: 3)?.isEmpty == true)
    }
}

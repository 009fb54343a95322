import HealthReadings
import Testing

@testable import HealthFigures

/// Mistakes that other programs' reports have made, each with the figure that is right.
@Suite struct KnownMistakesTests {
    private static let mass = MeasurementUnit.milligramsPerDecilitre
    private static let molar = MeasurementUnit.millimolesPerLitre

    private static func period(
        _ first: String, _ last: String, zone: String = "Europe/Berlin", now: String = "2027-06-01T00:00:00Z"
    ) throws -> FigurePeriod {
        let zones = ZoneHistory(try #require(ZoneRules.named(zone)))
        func day(_ text: String) throws -> PersonDay {
            let date = try #require(WallTime(text + "T00:00:00")).date
            return try #require(zones.day(year: date.year, month: date.month, day: date.day))
        }
        let (begin, end, instant) = (try day(first), try day(last), try #require(Instant(rfc3339: now)))
        return try #require(FigurePeriod(from: begin, through: end, in: zones, now: instant))
    }

    private static func number(_ text: String) -> ExactDecimal { ExactDecimal(text) ?? ExactDecimal(significand: -1) }

    private static func value(
        _ text: String, _ unit: MeasurementUnit = mass, at time: Instant, _ source: GlucosePoint.Source = .blood,
        device: String = "meter"
    ) -> GlucosePoint {
        GlucosePoint(
            time: time, reading: ReadingID(high: UInt64(bitPattern: time.microseconds), low: 0),
            level: text == "HI" ? .above(limit: nil) : text == "LO" ? .below(limit: nil) : .number(number(text)),
            unit: unit, source: source, device: DeviceDescription(address: nil, model: device))
    }

    private static func values(
        _ texts: [String], _ unit: MeasurementUnit = mass, every seconds: Int64 = 900, from start: Instant,
        _ source: GlucosePoint.Source = .history(seconds: 900), device: String = "sensor"
    ) -> [GlucosePoint] {
        texts.enumerated().map {
            value($1, unit, at: start.advanced(bySeconds: Int64($0) * seconds), source, device: device)
        }
    }

    // MARK: Classes and units

    @Test(
        "bounds belong to the class nearer to the target: 180 is in target, 54 is low, 250 is high",
        arguments: [
            ("53", GlucoseClass.veryLow), ("54", .low), ("69", .low), ("70", .target), ("180", .target), ("181", .high),
            ("250", .high), ("251", .veryHigh), ("180.5", .high),
        ])
    func bounds(_ text: String, _ expected: GlucoseClass) {
        #expect(GlucoseRanges(.standard).classify(Self.number(text), Self.mass) == expected)
    }

    @Test(
        "a value is classed in the unit measured: 181, 251 and in pregnancy 141 mg/dL don't become 10.0, 13.9 and 7.8")
    func classesBeforeConversion() {
        for (text, preset, kind, shown) in [
            ("181", GlucoseRanges.Preset.standard, GlucoseClass.high, "10.0"),
            ("251", .standard, .veryHigh, "13.9"), ("141", .pregnancy, .high, "7.8"),
        ] {
            let ranges = GlucoseRanges(preset)
            #expect(ranges.classify(Self.number(text), Self.mass) == kind)
            #expect(Self.number(text).shown(Self.mass, in: Self.molar)?.description == shown)
            // Rounded first, each would be classed lower.
            #expect(ranges.classify(Self.number(shown), Self.molar) < kind)
        }
        // 10.0 mmol/L is 180.16 mg/dL: in target by the bounds of its own unit.
        #expect(GlucoseRanges(.standard).classify(Self.number("10.0"), Self.molar) == .target)
    }

    @Test("mmol/L is mg/dL by 18.0156, rounded once and half to even; by 18, 85 of 581 values print another digit")
    func factor() {
        var different = 0
        for milligrams in 20...600 as ClosedRange<Int64> {
            let own = ExactDecimal(significand: milligrams).shown(Self.mass, in: Self.molar)
            let byEighteen = ExactDecimal(significand: milligrams).divided(by: ExactDecimal(significand: 18), places: 1)
            if own != byEighteen { different += 1 }
        }
        #expect(different == 85)
        for tenths in 11...333 as ClosedRange<Int64> {
            let molar = ExactDecimal(significand: tenths, exponent: -1)
            let back = molar.shown(Self.molar, in: Self.mass)?.shown(Self.mass, in: Self.molar)
            #expect(back == molar)
        }
        #expect(Self.number("90").shown(Self.mass, in: Self.molar)?.description == "5.0")
        #expect(Self.number("2.5").rounded(toPlaces: 0)?.description == "2")
    }

    @Test("bounds in mmol/L keep their tenths, and a person's own order is checked")
    func ownBounds() throws {
        let own = GlucoseRanges.Bounds(lowest: Self.number("4.4"), highest: Self.number("8.3"))
        let ranges = try #require(GlucoseRanges(own, in: Self.molar))
        #expect(ranges.millimoles.lowest.description == "4.4" && ranges.milligrams.lowest.description == "79")
        #expect(ranges.milligrams.highest.description == "150" && ranges.goals.isEmpty)
        #expect(ranges.classify(Self.number("4.3"), Self.molar) == .low && ranges.classes.count == 3)
        let turned = GlucoseRanges.Bounds(lowest: Self.number("8.3"), highest: Self.number("4.4"))
        #expect(GlucoseRanges(turned, in: Self.molar) == nil && GlucoseRanges(own, in: .kilograms) == nil)
        #expect(GlucoseRanges(.gestational).goals.isEmpty, "none is agreed")
    }

    @Test(
        "what a program has converted is classed in the unit it was measured in; what is no conversion, as it is",
        arguments: [
            // 10.0, 13.9 and 3.0 mmol/L as HealthKit gives them in mg/dL, and by 18.018.
            ("180.1558800000541", MeasurementUnit.milligramsPerDecilitre, GlucoseClass.target),
            ("250.41667", .milligramsPerDecilitre, .high), ("54.0468", .milligramsPerDecilitre, .low),
            ("180.18", .milligramsPerDecilitre, .target),
            // 70, 54 and 251 mg/dL in mmol/L.
            ("3.8855", .millimolesPerLitre, .target), ("3.89", .millimolesPerLitre, .target),
            ("2.9974", .millimolesPerLitre, .low), ("13.93237", .millimolesPerLitre, .veryHigh),
            ("180.0", .milligramsPerDecilitre, .target), ("10.00", .millimolesPerLitre, .target),
            // Means.
            ("180.3", .milligramsPerDecilitre, .high), ("69.9", .milligramsPerDecilitre, .low),
            ("3.87", .millimolesPerLitre, .low), ("10.01", .millimolesPerLitre, .high),
        ])
    func converted(_ text: String, _ unit: MeasurementUnit, _ expected: GlucoseClass) {
        #expect(GlucoseRanges(.standard).classify(Self.number(text), unit) == expected)
    }

    @Test("each number that a device shows keeps its class when a program converts it, by whatever factor")
    func everyConversion() throws {
        let ranges = GlucoseRanges(.standard)
        for factor in ["18.0156", "18.01558800000541", "18.018", "18.0182"].map(Self.number) {
            for tenths in 11...333 as ClosedRange<Int64> {
                let molar = ExactDecimal(significand: tenths, exponent: -1)
                for places in 2...9 as ClosedRange<Int16> {
                    let mass = try #require(molar.multiplied(by: factor, places: places))
                    #expect(
                        ranges.classify(mass, Self.mass) == ranges.classify(molar, Self.molar), "\(molar) as \(mass)")
                }
            }
            for milligrams in 20...600 as ClosedRange<Int64> {
                let mass = ExactDecimal(significand: milligrams)
                for places in 3...9 as ClosedRange<Int16> {
                    let molar = try #require(mass.divided(by: factor, places: places))
                    #expect(
                        ranges.classify(molar, Self.molar) == ranges.classify(mass, Self.mass), "\(mass) as \(molar)")
                }
            }
        }
    }

    // MARK: Percentages

    @Test("printed percentages add up to 100: the difference goes to high, and 0 < x < 0.5 is <1 %")
    func percentages() throws {
        let thirds = try #require(PercentShares([.low: 1, .target: 1, .high: 1]))
        #expect(thirds[.low].percent == 33 && thirds[.target].percent == 33 && thirds[.high].percent == 34)
        let small = try #require(PercentShares([.veryLow: 3, .low: 4, .target: 993]))
        #expect(small[.veryLow].text == "<1 %" && small[.low].text == "<1 %" && small[.target].text == "100 %")
        #expect(small.sum([.veryLow, .low]).text == "<1 %" && small[.high].text == "0 %")
        let shares = try #require(PercentShares([.veryLow: 6, .low: 16, .target: 778, .high: 200]))
        #expect(shares.sum([.veryLow, .low]).percent == shares[.veryLow].percent + shares[.low].percent)
        // 1.2 % isn't printed as "<1 %" because three others were rounded up.
        let rounded = try #require(PercentShares([.veryLow: 6, .low: 26, .target: 956, .high: 12]))
        #expect(rounded[.high].text == "1 %" && rounded[.target].text == "95 %" && rounded[.low].text == "3 %")
        #expect(PercentShares([:]) == nil && PercentShares([.low: 0]) == nil)
        // Goals are met by exact sizes, not by what is printed: 3.96 % prints as 4.
        let goal = GlucoseRanges.Goal(classes: [.veryLow, .low], isLeast: false, percent: 4)
        let (met, missed) = (PercentShares([.low: 396, .target: 9604]), PercentShares([.low: 400, .target: 9600]))
        #expect(met?.meets(goal) == true && missed?.meets(goal) == false)
    }

    // MARK: Days

    @Test("days are 23 and 25 hours long when clocks change, and a period goes from midnight to midnight")
    func changingClocks() throws {
        let spring = try Self.period("2026-03-29", "2026-03-29")
        let autumn = try Self.period("2026-10-25", "2026-10-25")
        #expect(spring.possibleSeconds == 23 * 3600 && autumn.possibleSeconds == 25 * 3600)
        for (period, count) in [(spring, 92), (autumn, 100)] {
            let points = Self.values([String](repeating: "120", count: count), from: period.start)
            let figures = SensorFigures(
                SensorSeries(points), ranges: GlucoseRanges(.standard), unit: Self.mass, period: period)
            #expect(figures.activeOfPeriod?.description == "100.0" && figures.activeOfSpan?.description == "100.0")
            #expect(figures.daySeconds == [period.possibleSeconds])
        }
        let two = try Self.period("2026-10-24", "2026-10-25")
        #expect(two.index(of: autumn.start) == 1 && two.index(of: Instant(seconds: autumn.start.seconds - 1)) == 0)
        #expect(two.index(of: two.end) == nil && two.before?.days.map(\.date) == ["2026-10-22", "2026-10-23"])
    }

    @Test("days without readings don't lower an average: both numbers of days are there")
    func daysWithoutReadings() throws {
        let period = try Self.period("2026-06-01", "2026-06-10")
        let points = (0..<6).map {
            Self.value("100", at: period.start.advanced(bySeconds: 3600 + $0 % 2 * 86_400 + $0 * 60))
        }
        let figures = GlucoseFigures(points, ranges: GlucoseRanges(.standard), unit: Self.mass, period: period)
        #expect(figures.daysWithReadings == 2 && figures.readingsPerDay(period)?.description == "0.6")
        #expect(figures.readingsPerDayWithReadings?.description == "3.0")
    }

    @Test("the day that isn't over counts with what of it has passed")
    func today() throws {
        let period = try Self.period("2026-06-01", "2026-06-01", now: "2026-06-01T04:00:00Z")
        #expect(period.possibleSeconds == 6 * 3600)
        let points = Self.values([String](repeating: "120", count: 24), from: period.start)
        let figures = SensorFigures(
            SensorSeries(points), ranges: GlucoseRanges(.standard), unit: Self.mass, period: period)
        #expect(figures.activeOfPeriod?.description == "100.0")
        #expect(figures.sufficiency == .notEnough && figures.managementIndicator == nil)
    }

    // MARK: Sensors

    @Test("% active is of the pace of the sensor: 288 a day is only that of one value in five minutes")
    func active() throws {
        let period = try Self.period("2026-06-01", "2026-06-01")
        for (seconds, count) in [(60, 720), (300, 144), (900, 48)] as [(Int64, Int)] {
            let points = Self.values(
                [String](repeating: "120", count: count), every: seconds, from: period.start, .sensor)
            let figures = SensorFigures(
                SensorSeries(points), ranges: GlucoseRanges(.standard), unit: Self.mass, period: period)
            #expect(figures.activeOfPeriod?.description == "50.0" && figures.activeOfSpan?.description == "100.0")
        }
    }

    @Test("a sensor of unknown pace that misses two values in five has 60 % of the data, and no GMI")
    func missingValues() throws {
        let period = try Self.period("2026-06-01", "2026-06-14")
        let all = Self.values([String](repeating: "150", count: 14 * 96), from: period.start, .sensor)
        let sparse = all.enumerated().filter { $0.offset % 5 < 3 }.map(\.element)
        let gapped = SensorFigures(
            SensorSeries(sparse), ranges: GlucoseRanges(.standard), unit: Self.mass, period: period)
        #expect(gapped.activeOfPeriod?.description == "60.0" || gapped.activeOfPeriod?.description == "60.1")
        #expect(gapped.sufficiency == .limited && gapped.managementIndicator == nil)
    }

    @Test("a Libre's trend counts only behind its newest history, and what is sent twice counts once")
    func trendAndHistory() throws {
        let period = try Self.period("2026-06-01", "2026-06-01")
        let history = Self.values(["100", "110", "120"], from: period.start)
        let end = period.start.advanced(bySeconds: 1800)
        let trend = (-10...10).map { minute in
            Self.value(
                "200", at: end.advanced(bySeconds: Int64(minute) * 60), .trend(seconds: 60), device: "sensor")
        }
        let series = SensorSeries(history + trend + history)
        // The newest history stands for its quarter of an hour, and no trend within it counts.
        #expect(series.replaced == 11 && series.repeated == 3 + 10)
        #expect(series.values.count == 3 && series.seconds == 2700)
    }

    @Test("a sensor of a value a minute counts no more in any figure than one of a value every quarter of an hour")
    func twoPaces() throws {
        let period = try Self.period("2026-06-01", "2026-06-14")
        var collection = GlucoseCollection(period)
        // A week of each.
        let old = Self.values([String](repeating: "200", count: 7 * 96), from: period.start, device: "old")
        let new = Self.values(
            [String](repeating: "100", count: 7 * 1440), every: 60, from: period.days[7].start, .sensor, device: "new")
        for point in old + new { collection.add(point) }
        collection.finish()
        let figures = SensorFigures(collection, ranges: GlucoseRanges(.standard), unit: Self.mass)
        #expect(figures.figures.count == 7 * (96 + 1440) && figures.overlapping == 0)
        #expect(figures.figures.mean?.description == "150" && figures.figures.deviation?.description == "50")
        #expect(figures.figures.variation?.description == "33.3")
        // 3.31 + 0.02392 × 150, and 12.71 + 4.70587 × 150 / 18.0156.
        #expect(figures.managementIndicator?.percent.description == "6.9")
        #expect(figures.managementIndicator?.millimolesPerMole.description == "52")
        #expect(figures.timeInRanges?[.target].percent == 50 && figures.timeInRanges?[.high].percent == 50)
        for hour in try #require(figures.pattern).hours {
            #expect(hour.count == 7 * (4 + 60))
            #expect(hour.percentiles[25] == .number(Self.number("100"), place: 100))
            #expect(hour.percentiles[50] == .number(Self.number("150"), place: 150))
            #expect(hour.percentiles[75] == .number(Self.number("200"), place: 200))
        }
        let days = figures.byDay.map { $0.mean?.description ?? "" }
        #expect(days == [String](repeating: "200", count: 7) + [String](repeating: "100", count: 7))
    }

    @Test("HI and LO have a sensor's weight in percentiles, too")
    func weightsBeyond() throws {
        let period = try Self.period("2026-06-01", "2026-06-01")
        let points = ["LO", "100", "HI", "110"].map { Self.value($0, at: period.start) }
        let weighted = Percentiles(points, weights: [1, 15, 1, 15])
        // In order: LO once, 100 and 110 fifteen times each, HI once.
        #expect(weighted.value(0) == .below && weighted.value(100) == .above)
        #expect(weighted.value(25) == .number(Ratio(100)) && weighted.value(75) == .number(Ratio(110)))
        #expect(weighted.value(50) == .number(Ratio(105)))
        let beyond = Percentiles(["LO", "HI"].map { Self.value($0, at: period.start) }, weights: [1, 3])
        #expect(beyond.value(50) == .above && beyond.value(0) == .below)
    }

    @Test("a line is broken at a gap of its sensor's own pace, and no point is invented")
    func gaps() throws {
        let period = try Self.period("2026-06-01", "2026-06-01")
        for (pace, most) in [(60, 210), (300, 810), (900, 2310)] as [(Int64, Int64)] {
            func gap(_ seconds: Int64) -> Bool {
                let point = Self.value("100", at: period.start, .history(seconds: pace))
                let next = Self.value("100", at: period.start.advanced(bySeconds: seconds), .history(seconds: pace))
                return SensorSeries.isGap(
                    from: .init(point: point, seconds: pace, pace: pace),
                    to: .init(point: next, seconds: pace, pace: pace))
            }
            #expect(!gap(most) && gap(most + 1))
        }
    }

    @Test("two sensors at once aren't mixed: one counts, the other outside of its span alone")
    func twoSensors() throws {
        let period = try Self.period("2026-06-01", "2026-06-02")
        var collection = GlucoseCollection(period)
        for point in Self.values([String](repeating: "100", count: 50), from: period.start, device: "old") {
            collection.add(point)
        }
        let later = period.start.advanced(bySeconds: 45 * 900 + 60)
        for point in Self.values([String](repeating: "200", count: 20), from: later, device: "new") {
            collection.add(point)
        }
        collection.finish()
        let figures = SensorFigures(collection, ranges: GlucoseRanges(.standard), unit: Self.mass)
        #expect(figures.overlapping == 4 && figures.figures.count == 66 && collection.series.count == 2)
    }

    @Test("meters and sensors are two series, and a sensor's value stored as a meter's is an echo if it happens often")
    func echoes() throws {
        let period = try Self.period("2026-06-01", "2026-06-01")
        for (copies, expected) in [(10, 0), (11, 11)] {
            var collection = GlucoseCollection(period)
            let sensor = Self.values((0..<20).map { String(100 + $0) }, from: period.start)
            for point in sensor { collection.add(point) }
            for point in sensor.prefix(copies) {
                collection.add(
                    Self.value(
                        point.number?.description ?? "",
                        at: Instant(microseconds: point.time.microseconds + 400_000)))
            }
            collection.add(Self.value("100", at: period.start.advanced(bySeconds: 7000)))
            collection.finish()
            #expect(collection.echoes == expected && collection.blood.count == 1 + copies - expected)
        }
    }

    /// The same as another program passes it on, without a word of what measured it.
    private static func passedOn(_ points: [GlucosePoint]) -> [GlucosePoint] {
        points.map { point in
            var point = point
            (point.source, point.isUnspecified) = (.blood, true)
            return point
        }
    }

    @Test("a sensor that another program passes on as plain glucose is told by its pace, and finger sticks are not")
    func pace() throws {
        let period = try Self.period("2026-06-01", "2026-06-02")
        func collection(_ points: [GlucosePoint]) -> GlucoseCollection {
            var collection = GlucoseCollection(period)
            for point in points { collection.add(point) }
            collection.finish()
            return collection
        }
        func values(_ count: Int, every seconds: Int64, from minute: Int64 = 0) -> [GlucosePoint] {
            Self.values(
                [String](repeating: "120", count: count), every: seconds,
                from: period.start.advanced(bySeconds: minute * 60), device: "app")
        }
        let sticks = (0..<8).map { Self.value("150", at: period.start.advanced(bySeconds: $0 * 7200 + 40)) }
        let day = collection((Self.passedOn(values(288, every: 300)) + Self.passedOn(sticks)).shuffled())
        #expect(day.blood == Self.passedOn(sticks) && day.judgedByPace == [Self.mass: 288])
        let figures = SensorFigures(day, ranges: GlucoseRanges(.standard), unit: Self.mass)
        #expect(figures.figures.count == 288 && figures.activeOfPeriod?.description == "50.0")
        let rows: [(count: Int, seconds: Int64, isSensor: Bool)] = [
            (12, 960, true), (11, 300, false), (12, 961, false),
        ]
        for (count, seconds, isSensor) in rows {
            let row = collection(Self.passedOn(values(count, every: seconds)))
            #expect(row.hasSensors == isSensor, "\(count) every \(seconds) s")
            #expect(row.blood.count == (isSensor ? 0 : count))
        }
        // Rows that a gap parts, a row that came twice, and values of which it is known that a meter measured them.
        let parted = values(8, every: 300) + values(8, every: 300, from: 8 * 5 + 12)
        #expect(!collection(Self.passedOn(parted)).hasSensors)
        // Where a row shows that it is a sensor, its shorter rows are the sensor's, too; a lone value may be anything.
        let after = collection(
            Self.passedOn(
                values(12, every: 300) + values(2, every: 300, from: 12 * 5 + 20) + values(1, every: 1, from: 200)))
        #expect(after.hasSensors && after.blood.count == 1 && after.judgedByPace == [Self.mass: 14])
        #expect(!collection(Self.passedOn(values(6, every: 900) + values(6, every: 900))).hasSensors)
        var known = Self.passedOn(values(20, every: 300))
        for place in known.indices { known[place].isUnspecified = false }
        #expect(!collection(known).hasSensors && collection(known).blood.count == 20)
    }

    @Test("only what another program passes on without saying what measured it is told by its pace")
    func unspecified() throws {
        let period = try Self.period("2026-06-01", "2026-06-01")
        func readings(
            _ facts: ImportFacts?, meal: String? = nil, type: GlucoseSampleType? = nil,
            provider: String = "apple_health_kit"
        ) -> [Reading] {
            (0..<12).map { place in
                let time = period.start.advanced(bySeconds: Int64(place) * 300)
                let quantity = Quantity(ExactDecimal(significand: 120), Self.mass)
                var record = Record(value: .glucose(GlucoseValue(concentration: quantity, sampleType: type)))
                record.imported = facts
                var context: GlucoseContext?
                if let meal {
                    context = GlucoseContext()
                    context?.meal = meal
                }
                return Reading(
                    id: ReadingID(high: 1, low: UInt64(place)), record: record, context: context,
                    device: DeviceDescription(address: nil, model: "imported", provider: provider),
                    time: ResolvedTime(instant: time, basis: .corrected), receivedAt: time)
            }
        }
        let facts = ImportFacts(source: "Dexcom G7")
        let passedOn = readings(facts)
        #expect(passedOn.idsOfSensors == Set(passedOn.map(\.id)) && passedOn.prefix(11).idsOfSensors.isEmpty)
        for others in [
            readings(nil), readings(ImportFacts()), readings(ImportFacts(source: "Diary", isEntered: true)),
            readings(facts, meal: "fasting"), readings(facts, type: .capillaryWholeBlood),
            readings(facts, provider: "freestyle_libre_ble"),
        ] {
            #expect(others.idsOfSensors.isEmpty)
            var collection = GlucoseCollection(period)
            for reading in others { collection.add(reading) }
            collection.finish()
            #expect(collection.blood.count == 12 && collection.judgedByPace.isEmpty)
        }
        // One value is enough where it is said.
        #expect(readings(facts, type: .interstitialFluid).prefix(1).idsOfSensors.count == 1)
    }

    @Test(
        "180, 260, 190 is one episode, of its worst level; in target for less than a quarter of an hour doesn't end it")
    func episodes() throws {
        let period = try Self.period("2026-06-01", "2026-06-01")
        func found(_ texts: [String], every seconds: Int64 = 300) -> [GlucoseEpisode] {
            let series = SensorSeries(
                Self.values(texts, every: seconds, from: period.start, .history(seconds: seconds)))
            return GlucoseEpisode.find(in: series, ranges: GlucoseRanges(.standard))
        }
        let one = found(["120", "120", "190", "260", "190", "190", "120", "120", "120"])
        #expect(one.count == 1 && one[0].worst == .veryHigh && one[0].seconds == 1200)
        #expect(found(["120", "190", "260", "120", "120", "120"]).isEmpty, "ten minutes")
        #expect(found(["190", "190", "190", "175", "175", "190", "120", "120", "120"]).count == 1)
        #expect(found(["190", "190", "190", "175", "175", "175", "190", "190", "190"]).count == 2)
        let low = found([String](repeating: "60", count: 25) + ["100", "100", "100"])
        #expect(low.count == 1 && low[0].isExtendedLow && low[0].worst == .low)
        #expect(found([String](repeating: "60", count: 24) + ["100", "100", "100"]).first?.isExtendedLow == false)
    }

    @Test("no management indicator below 14 days, below 70 % or of finger sticks; 154 mg/dL is 7.0")
    func managementIndicator() throws {
        func figures(_ days: Int, _ share: Int) throws -> SensorFigures {
            let period = try Self.period("2026-06-01", days < 10 ? "2026-06-0\(days)" : "2026-06-\(days)")
            var points: [GlucosePoint] = []
            for day in period.days {
                points += Self.values([String](repeating: "154", count: share), from: day.start)
            }
            return SensorFigures(
                SensorSeries(points), ranges: GlucoseRanges(.standard), unit: Self.molar, period: period)
        }
        let full = try figures(14, 68)
        #expect(full.managementIndicator?.percent.description == "7.0")
        #expect(full.managementIndicator?.millimolesPerMole.description == "53" && full.pattern != nil)
        #expect(full.figures.mean?.description == "8.5", "by 18.0156 whatever the unit")
        #expect(try figures(13, 96).managementIndicator == nil && figures(14, 67).managementIndicator == nil)
        #expect(try figures(13, 96).sufficiency == .limited && figures(1, 95).sufficiency == .notEnough)
        #expect(try figures(6, 96).pattern == nil && figures(7, 68).pattern != nil)
    }

    @Test("the pattern is smoothed over midnight, an empty hour stays empty, and few values give no percentile")
    func pattern() throws {
        #expect(
            DailyPattern.smoothed([10, 20, 60].map { .number(Ratio($0)) }).map { value -> String? in
                if case .number(let ratio) = value { ratio.rounded(1)?.description } else { nil }
            } == ["20.0", "25.0", "45.0"])
        let gap = DailyPattern.smoothed([.number(Ratio(10)), nil, .number(Ratio(20)), .number(Ratio(30))])
        #expect(gap[1] == nil && gap[0] == .number(Ratio(70, 5)) && gap[2] == .number(Ratio(110, 5)))
        let period = try Self.period("2026-06-01", "2026-06-14")
        let points = (0..<4).map { Self.value("100", at: period.start.advanced(bySeconds: Int64($0) * 60)) }
        let hour = DailyPattern(points, period: period, unit: Self.mass).hours[0]
        #expect(hour.count == 4 && hour.percentiles.keys.sorted() == [50])
        #expect(hour.percentiles[50] == .number(Self.number("100"), place: 100))
    }

    // MARK: HI and LO

    @Test("HI and LO are in their class and in percentiles, and in no mean; a control solution is in nothing")
    func beyondTheMeter() throws {
        let period = try Self.period("2026-06-01", "2026-06-01")
        let points = ["LO", "100", "110", "120", "HI"].enumerated().map {
            Self.value($1, at: period.start.advanced(bySeconds: Int64($0) * 60))
        }
        let figures = GlucoseFigures(points, ranges: GlucoseRanges(.standard), unit: Self.mass, period: period)
        #expect(figures.count == 5 && figures.above == 1 && figures.below == 1 && figures.mean?.description == "110")
        #expect(figures.shares?[.veryHigh].percent == 20 && figures.shares?[.veryLow].percent == 20)
        #expect(figures.lowest?.text(in: Self.mass) == "LO" && figures.highest?.text(in: Self.mass) == "HI")
        #expect(Percentiles(points).value(100) == .above && Percentiles(points).value(90) == .above)
        #expect(Percentiles(points).value(50) == .number(Ratio(110)) && Percentiles(points).value(0) == .below)

        func reading(
            _ concentration: MeasuredNumber?, _ status: ReadingStatus, _ excluded: Exclusion?
        ) -> Reading {
            let quantity = concentration.map { Quantity($0, Self.mass) }
            return Reading(
                id: ReadingID(high: 1, low: 1),
                record: Record(value: .glucose(GlucoseValue(concentration: quantity)), status: status),
                device: DeviceDescription(address: nil),
                time: ResolvedTime(instant: period.start, basis: .corrected), excluded: excluded,
                receivedAt: period.start)
        }
        func level(_ reading: Reading) -> GlucosePoint.Level? {
            GlucosePoint(reading) { _, _ in (Self.number("20"), Self.number("600")) }?.level
        }
        #expect(level(reading(.positiveInfinity, [], .notANumber)) == .above(limit: Self.number("600")))
        #expect(level(reading(nil, .resultTooLow, .noValue)) == .below(limit: Self.number("20")))
        // 401 of a sensor that ends at 400.
        #expect(level(reading(.value(Self.number("601")), .resultTooHigh, nil)) == .above(limit: Self.number("600")))
        #expect(level(reading(.notANumber, [], .notANumber)) == nil)
        #expect(level(reading(.value(Self.number("100")), [], .controlSolution)) == nil)
        #expect(level(reading(nil, [.resultTooHigh, .sensorMalfunction], .errorRecord)) == nil)
        var collection = GlucoseCollection(period)
        collection.add(reading(.value(Self.number("100")), [], .controlSolution))
        collection.finish()
        #expect(collection.blood.isEmpty && collection.leftOut == [.excluded(.controlSolution): 1])
        let beyond = GlucosePoint(reading(.positiveInfinity, [], .notANumber)) { _, _ in (nil, Self.number("600")) }
        #expect(beyond?.text(in: Self.mass) == "HI (>600)" && beyond?.text(in: Self.molar) == "HI (>33.3)")
        #expect(beyond?.classified(by: GlucoseRanges(.standard)) == .veryHigh)
    }

    // MARK: Blood pressure

    private static func pressure(_ systolic: Int64, _ diastolic: Int64, at text: String, _ cuff: String = "a") throws
        -> PressurePoint
    {
        let time = try #require(Instant(rfc3339: text + "+02:00"))
        return PressurePoint(
            time: time, reading: ReadingID(high: UInt64(time.seconds), low: UInt64(systolic)),
            systolic: ExactDecimal(significand: systolic), diastolic: ExactDecimal(significand: diastolic),
            unit: .millimetresOfMercury, device: DeviceDescription(address: nil, model: cuff))
    }

    @Test("the mean is of readings, not of the means of days")
    func meanOfReadings() throws {
        var collection = PressureCollection(try Self.period("2026-06-01", "2026-06-02"))
        for minute in 10...15 {
            collection.add(try Self.pressure(120, 80, at: "2026-06-01T08:\(minute):00"))
        }
        collection.add(try Self.pressure(160, 90, at: "2026-06-02T08:00:00"))
        let figures = PressureFigures(collection, unit: .millimetresOfMercury)
        #expect(figures.all.text == "126/81" && figures.all.pulsePressure?.description == "44")
        #expect(figures.days.map(\.sessions.count) == [1, 1])
        #expect(!figures.mean(.aha).isSufficient && figures.mean(.esh).means.text == "160/90")
        #expect(figures.mean(.esh).left == .init(ofFirstDay: 6, beforeDays: 0))
        let line = (systolic: Self.number("160"), diastolic: Self.number("95"))
        #expect(figures.count(atOrAbove: line) == 1)
    }

    @Test("a session after midnight is of the evening before; sessions are of one cuff, and end after ten minutes")
    func sessions() throws {
        var collection = PressureCollection(try Self.period("2026-06-01", "2026-06-03"))
        for (text, cuff) in [
            ("2026-06-01T23:55:00", "a"), ("2026-06-02T00:05:00", "a"), ("2026-06-02T00:06:00", "b"),
            ("2026-06-02T00:15:01", "a"), ("2026-06-02T13:00:00", "a"), ("2026-06-02T11:59:00", "a"),
        ] {
            collection.add(try Self.pressure(130, 80, at: text, cuff))
        }
        let figures = PressureFigures(collection, unit: .millimetresOfMercury)
        #expect(figures.days.map(\.date) == ["2026-06-01", "2026-06-02"])
        #expect(figures.days[0].sessions.map(\.points.count) == [2, 1, 1])
        #expect(figures.means(.evening).count == 4 && figures.means(.morning).count == 1)
        #expect(figures.means(.other).count == 1 && figures.all.count == 6)
    }

    @Test(
        "an evening after the last midnight counts for the period, one after the first midnight doesn't, nor an excluded one"
    )
    func edges() throws {
        var collection = PressureCollection(try Self.period("2026-06-02", "2026-06-03"))
        for text in [
            "2026-06-01T23:58:00", "2026-06-02T00:03:00", "2026-06-02T01:30:00", "2026-06-02T08:00:00",
            "2026-06-04T01:57:00", "2026-06-04T02:05:00", "2026-06-04T03:30:00",
        ] {
            let point = try Self.pressure(130, 80, at: text)
            #expect(collection.start <= point.time && (point.time < collection.end || text.contains("03:30")))
            collection.add(point)
        }
        let figures = PressureFigures(collection, unit: .millimetresOfMercury)
        #expect(figures.days.map(\.date) == ["2026-06-02", "2026-06-03"])
        #expect(figures.days.map(\.points.count) == [1, 2] && figures.all.count == 3)
        #expect(!collection.counts(try #require(Instant(rfc3339: "2026-06-02T01:30:00+02:00"))))
        #expect(collection.counts(try #require(Instant(rfc3339: "2026-06-04T01:30:00+02:00"))))
    }

    @Test("a cuff that measures every nine minutes all day makes a session of each hour")
    func longestSession() throws {
        var collection = PressureCollection(try Self.period("2026-06-02", "2026-06-02"))
        let begin = try #require(Instant(rfc3339: "2026-06-02T10:00:00+02:00"))
        for number in 0..<20 {
            var point = try Self.pressure(130, 80, at: "2026-06-02T10:00:00")
            point.time = Instant(seconds: begin.seconds + Int64(number) * 540)
            collection.add(point)
        }
        let figures = PressureFigures(collection, unit: .millimetresOfMercury)
        #expect(figures.days.flatMap(\.sessions).map(\.points.count) == [7, 7, 6])
        #expect(figures.means(.morning).count == 14 && figures.means(.other).count == 6)
    }

    @Test("protocols leave out the first day or not, and what lies before their seven days is counted")
    func protocols() throws {
        var collection = PressureCollection(try Self.period("2026-06-01", "2026-06-10"))
        for day in 1...9 {
            for clock in ["07:00:00", "07:01:00", "20:00:00", "20:01:00"] {
                collection.add(try Self.pressure(day == 3 ? 150 : 130, 80, at: "2026-06-0\(day)T\(clock)"))
            }
        }
        let figures = PressureFigures(collection, unit: .millimetresOfMercury)
        let (esh, aha) = (figures.mean(.esh), figures.mean(.aha))
        #expect(esh.means.count == 24 && esh.kind.expected == 24 && esh.isSufficient && esh.means.text == "130/80")
        #expect(esh.left == .init(ofFirstDay: 4, beforeDays: 8) && esh.dates?.first == "2026-06-03")
        #expect(aha.means.count == 28 && aha.kind.expected == 28 && aha.means.text == "133/80")
        #expect(figures.mean(.nice).means.text == "130/80")
    }

    @Test("flagged readings count unless a person leaves them out, and then they are counted apart")
    func flags() throws {
        var collection = PressureCollection(try Self.period("2026-06-01", "2026-06-01"))
        var flagged = try Self.pressure(160, 100, at: "2026-06-01T08:00:00")
        flagged.status = .irregularPulse
        collection.add(flagged)
        collection.add(try Self.pressure(120, 80, at: "2026-06-01T08:01:00"))
        let (with, without) = (
            PressureFigures(collection, unit: .millimetresOfMercury),
            PressureFigures(collection, unit: .millimetresOfMercury, withoutFlagged: true)
        )
        #expect(with.all.text == "140/90" && with.flagged(.irregularPulse) == 1 && with.flaggedLeftOut == 0)
        #expect(without.all.text == "120/80" && without.flaggedLeftOut == 1)
    }

    // MARK: Others

    @Test("scans among an imported history change no figure, however many they are", arguments: [0, 1, 3, 10])
    func scans(_ often: Int) throws {
        let period = try Self.period("2026-06-01", "2026-06-15")
        let count = Int(period.possibleSeconds / 900)
        let history = Self.values(
            (0..<count).map { String(100 + $0 % 60) }, from: period.start, GlucosePoint.Source.sensor)
        var scans: [GlucosePoint] = []
        for turn in 0..<often {
            for slot in stride(from: turn, to: count, by: 3) {
                let second = Int64(slot) * 900 + 300 + Int64(turn) * 31
                scans.append(
                    Self.value("390", at: period.start.advanced(bySeconds: second), .scan, device: "sensor"))
            }
        }
        func figures(_ points: [GlucosePoint]) -> SensorFigures {
            SensorFigures(
                SensorSeries(points), ranges: GlucoseRanges(.standard), unit: Self.mass, period: period)
        }
        let (alone, mixed) = (figures(history), figures((history + scans).shuffled()))
        // What was scanned behind the newest value of the history may count: there is none here, but in its own quarter of an hour.
        #expect(mixed.figures.count == alone.figures.count && mixed.figures.mean == alone.figures.mean)
        #expect(mixed.sufficiency == .full && mixed.managementIndicator?.percent == alone.managementIndicator?.percent)
        #expect(mixed.activeOfPeriod?.description == "100.0" && mixed.episodes == alone.episodes)
    }

    @Test("a day has the same trend in every period, and the change a week is of four weeks in each")
    func trendOfPeriods() throws {
        let all = try Self.period("2026-04-01", "2026-06-30")
        var points: [WeightFigures.Point] = []
        for day in 0..<91 where day % 5 != 2 {
            let grams = 74_000 - Int64(day * 13 % 700) - Int64(day * 9)
            points.append(
                WeightFigures.Point(
                    time: all.days[day].start.advanced(bySeconds: 25_000),
                    reading: ReadingID(high: UInt64(day), low: 0),
                    weight: ExactDecimal(significand: grams, exponent: -3), unit: .kilograms,
                    device: DeviceDescription(address: nil)))
        }
        let whole = WeightFigures(points, period: all, unit: .kilograms)
        let trends = Dictionary(uniqueKeysWithValues: whole.days.map { ($0.date, $0.trend) })
        let change = try #require(whole.change)
        #expect(change.last == "2026-06-30" && change.first == "2026-06-03")
        for days in [1, 7, 14, 30, 60] {
            let short = WeightFigures(points, period: all.last(days), unit: .kilograms)
            #expect(short.days.count <= days && !short.days.isEmpty)
            for day in short.days { #expect(abs(day.trend - (trends[day.date] ?? 0)) < 1e-9) }
            #expect(short.change == change, "\(days) days")
        }
    }

    @Test("the first weighing of a day counts, and a gap of days makes the trend follow faster")
    func weight() throws {
        let period = try Self.period("2026-06-01", "2026-06-30")
        func point(_ day: Int, _ grams: Int64, hour: Int64 = 8) -> WeightFigures.Point {
            WeightFigures.Point(
                time: period.days[day].start.advanced(bySeconds: hour * 3600),
                reading: ReadingID(high: UInt64(day), low: UInt64(hour)),
                weight: ExactDecimal(significand: grams, exponent: -3), unit: .kilograms,
                device: DeviceDescription(address: nil))
        }
        let figures = WeightFigures(
            [point(0, 80_000), point(0, 90_000, hour: 9), point(1, 81_000), point(3, 82_000)], period: period,
            unit: .kilograms)
        #expect(figures.days.map(\.count) == [2, 1, 1] && figures.points.count == 4)
        #expect(abs(figures.days[1].trend - 80.1) < 1e-9 && abs(figures.days[2].trend - 80.461) < 1e-9)
        #expect(figures.changePerWeek == nil)
        let steady = WeightFigures(
            (0..<29).map { point($0, 80_000) }, period: period, unit: .kilograms)
        #expect(steady.changePerWeek?.description == "0.00" && steady.mean?.description == "80.0")
    }

    @Test("drops of oxygen are counted once each, and time below 90 % is of recorded time alone")
    func saturation() throws {
        let start = Instant(seconds: 1_780_000_000)
        var samples: [(time: Instant, value: ExactDecimal)] = []
        for second in 0..<3600 {
            let inDrop = second % 600 >= 300 && second % 600 < 330
            samples.append(
                (start.advanced(bySeconds: Int64(second)), ExactDecimal(significand: inDrop ? 88 : 97)))
        }
        // A pause of an hour is no recorded time.
        samples.append((start.advanced(bySeconds: 7200), ExactDecimal(significand: 97)))
        let figures = SaturationFigures(samples)
        #expect(
            figures.seconds == 3599 && figures.lowest?.description == "88" && figures.belowNinety?.description == "5.0")
        #expect(figures.dropsOfFour?.description == "6.0" && figures.dropsOfThree?.description == "6.0")
        #expect(SaturationFigures([]).mean == nil)
        let day = try #require(HeartRateDay([60, 62, 61, 90].map { ExactDecimal(significand: $0) }))
        #expect(day.lowest.description == "60" && day.highest.description == "90" && day.median.description == "62")
        #expect(HeartRateDay([]) == nil)
    }

    @Test("a drop is over after two minutes, or when it has risen three points: those from a lower level count, too")
    func lastingDrops() {
        func figures(_ value: (Int) -> Int64) -> SaturationFigures {
            let samples = (0..<3600).map { second in
                (
                    time: Instant(seconds: 1_780_000_000 + Int64(second)),
                    value: ExactDecimal(significand: value(second))
                )
            }
            return SaturationFigures(samples)
        }
        // From 97 to 93 for good, and from there to 88 every two minutes; the first of them is of the drop to 93.
        let asleep = figures { second in second < 600 ? 97 : second % 120 / 20 == 3 ? 88 : 93 }
        #expect(asleep.dropsOfThree?.description == "25.0" && asleep.dropsOfFour?.description == "25.0")
        let once = figures { second in second < 600 ? 97 : (1800..<1820).contains(second) ? 89 : 93 }
        #expect(once.dropsOfThree?.description == "2.0" && once.dropsOfFour?.description == "2.0")
    }
}

import HealthFigures
import HealthReadings
import Testing

@testable import ReadingFormats

/// Heart rates that were recorded, in other people's formats: each sample where there is a place for it, else the mean.
@Suite struct RecordingFormatTests {
    private func context() throws -> FormatContext { try Samples.context(zone: "Etc/UTC") }

    private static let minute: [SampleSeries.Sample] = [
        .init(milliseconds: 0, value: ExactDecimal(significand: 61), intervals: [1000]),
        .init(milliseconds: 1000, value: nil),
        .init(milliseconds: 2010, value: ExactDecimal(significand: 62)),
    ]

    /// An oximeter's night of a sample every four seconds, with one that has no value and a finger that was out for a minute.
    static let nightSamples: [SampleSeries.Sample] = [0, 4, 8, 12, 72, 28_800].map { second in
        .init(milliseconds: second * 1000, value: second == 8 ? nil : ExactDecimal(significand: 61))
    }

    static func recording(
        _ kind: ReadingKind = .heartRate, of samples: [SampleSeries.Sample] = RecordingFormatTests.minute,
        id: UInt64 = 2
    ) -> Reading {
        let begin = Instant(microseconds: 1_795_219_100_250_000)
        let part: VitalValue.Part = kind == .heartRate ? .heartRate : .saturation
        let unit: MeasurementUnit = kind == .heartRate ? .beatsPerMinute : .percent
        let value = VitalValue(
            kind: kind, [.init(part, Quantity(ExactDecimal(significand: 615, exponent: -1), unit))],
            series: SampleSeries(samples))
        return Reading(
            id: ReadingID(high: 1, low: id), record: Record(value: .vital(value)),
            device: DeviceDescription(
                address: DeviceAddress(bits: 0xC0_0000_000001, kind: .random), model: "generic_heart_rate",
                provider: "manual"), time: ResolvedTime(instant: begin.flooredToSecond, basis: .reception),
            receivedAt: begin)
    }

    @Test("line protocol has a point for each sample, at its own millisecond")
    func lines() throws {
        let line = try LineProtocol.line(Self.recording(), person: "white_bear")
        let points = line.document.split(separator: "\n")
        #expect(points.count == 2 && line.omissions.isEmpty)
        #expect(points[0].hasPrefix("heart_rate,device=generic_heart_rate-"))
        #expect(points[0].contains(" bpm=61,reading_id="))
        #expect(points[0].hasSuffix(" 1795219100250") && points[1].hasSuffix(" 1795219102260"))
        let moved = try LineProtocol.line(
            Self.recording(.spo2), person: "white_bear", at: Instant(seconds: 1_795_219_105))
        #expect(moved.document.contains(" percent=61,") && moved.document.hasSuffix(" 1795219107260"))
    }

    @Test("each point of a recording that the oximeter doubts says so")
    func doubtedLines() throws {
        var recording = Self.recording(.spo2)
        recording.record.status = .questionable
        let line = try LineProtocol.line(recording, person: "white_bear")
        let points = line.document.split(separator: "\n")
        #expect(points.count == 2 && points.allSatisfy { $0.contains(#",status="questionable" "#) })
    }

    @Test("Terra has each sample, and their average")
    func terra() throws {
        let day = LocalDay(of: Instant(seconds: 1_795_219_100), in: try Samples.zone("Etc/UTC"))
        var body = TerraBody(day, in: try context())
        #expect(try body.add(Self.recording()).isEmpty)
        let text = body.document.text
        #expect(text.contains(#""hr_samples":[{"timestamp":"2026-11-20T23:58:20.250000+00:00","bpm":61},{"#), "\(text)")
        #expect(text.contains(#""avg_hr_bpm":61.5,"max_hr_bpm":62,"min_hr_bpm":61"#))
    }

    @Test("ROOK has each sample with its length, the mean and the extremes")
    func rook() throws {
        let events = try RookEvents.documents(of: Self.recording(), in: context(), clientUUID: "c")
        let text = try #require(events.document.first).text
        #expect(text.contains(#""hr_maximum_bpm_int":62,"hr_minimum_bpm_int":61,"hr_avg_bpm_int":62"#), "\(text)")
        #expect(text.contains(#""interval_duration_seconds_float":2.000"#))
        #expect(text.contains("2026-11-20T23:58:22.260000Z"))
        let saturation = try RookEvents.documents(of: Self.recording(.spo2), in: context(), clientUUID: "c")
        #expect(saturation.document.map(\.text).filter { $0.contains("saturation_granular_data_array") }.count == 1)
    }

    @Test("ROOK's samples of a night last until the next, and a dropout lasts no longer than two of its steps")
    func rookNight() throws {
        let events = try RookEvents.documents(
            of: Self.recording(.spo2, of: Self.nightSamples), in: context(), clientUUID: "c")
        let text = try #require(events.document.first).text
        let lengths = text.matches(of: /"interval_duration_seconds_float":([0-9.]+)/).map { String($0.1) }
        #expect(lengths == ["4.000", "8.000", "8.000", "8.000", "0.000"])
        // A strap's notifications may come in twos.
        let strap = [0, 990, 1000, 2010, 5000].map {
            SampleSeries.Sample(milliseconds: $0, value: ExactDecimal(significand: 61))
        }
        let twos = try RookEvents.documents(of: Self.recording(of: strap), in: context(), clientUUID: "c")
        let others = try #require(twos.document.first).text
            .matches(of: /"interval_duration_seconds_float":([0-9.]+)/).map { String($0.1) }
        #expect(others == ["0.990", "0.010", "1.010", "2.000", "0.000"])
    }

    @Test("Open mHealth has the mean of the interval, FHIR the mean with a note; both name what is left out")
    func means() throws {
        let points = try OpenMHealth.dataPoints(of: Self.recording(), in: context())
        let text = try #require(points.document.first).text
        #expect(text.contains(#""descriptive_statistic":"average""#), "\(text)")
        let interval = #""start_date_time":"2026-11-20T23:58:20+00:00","end_date_time":"2026-11-20T23:58:22+00:00""#
        #expect(text.contains(#""time_interval":{"# + interval), "\(text)")
        #expect(points.omissions.contains(FormatOmission(.noPlace, of: "series")))
        var bundle = FHIRBundle(.collection)
        #expect(try bundle.add(Self.recording(), in: context()).contains(FormatOmission(.noPlace, of: "series")))
        #expect(bundle.document.text.contains("The mean of 3 samples"))
    }

    @Test("Open mHealth calls a night's saturation an average; FHIR has the period of the samples, if they have one")
    func night() throws {
        let night = Self.recording(.spo2, of: Self.nightSamples)
        let point = try #require(try OpenMHealth.dataPoints(of: night, in: context()).document.first)
        #expect(point.at("body.descriptive_statistic") == "average")
        let spot = try Samples.reading(Samples.vital(.spo2, [(.saturation, "97", .percent)]))
        let plain = try #require(try OpenMHealth.dataPoints(of: spot, in: context()).document.first)
        #expect(!plain.has("body.descriptive_statistic"))
        func observation(_ reading: Reading, as change: FHIRChange = .new) throws -> JSONValue {
            var bundle = FHIRBundle(.transaction)
            try bundle.add(reading, in: context(), as: change)
            let resources = (bundle.document["entry"]?.elements ?? []).compactMap { $0["resource"] }
            return try #require(resources.first { $0["resourceType"] == "Observation" })
        }
        for change in [FHIRChange.new, .retracted] {
            let found = try observation(night, as: change)
            #expect(
                found["effectivePeriod"]?.text
                    == #"{"start":"2026-11-20T23:58:20+00:00","end":"2026-11-21T07:58:20+00:00"}"#)
            #expect(!found.has("effectiveDateTime"))
        }
        let short = try observation(Self.recording(of: Array(Self.nightSamples.prefix(1))))
        #expect(short["effectiveDateTime"] == "2026-11-20T23:58:20+00:00" && !short.has("effectivePeriod"))
    }
}

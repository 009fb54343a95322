import Foundation
import HealthReadings
import Testing

@testable import HealthFigures

/// Heart rates and their variability from kept recordings.
@Suite struct HeartRateTests {
    // MARK: Variability

    private struct Expected: Decodable {
        var rmssd: Double?
        var sdnn: Double?
        var counted: Int
        var left_out: Int
        var coverage: Int
    }

    private static func reference(_ windows: [(seconds: Int, runs: [[UInt16]])]) throws -> [Expected] {
        let file = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .appending(path: "HeartReference/beats.py")
        let process = Process()
        let (input, output) = (Pipe(), Pipe())
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = ["python3", file.path]
        (process.standardInput, process.standardOutput) = (input, output)
        try process.run()
        let lines = windows.map { #"{"seconds": \#($0.seconds), "runs": \#($0.runs)}"# }.joined(separator: "\n")
        // More than a pipe holds.
        let writing = Thread {
            try? input.fileHandleForWriting.write(contentsOf: Data(lines.utf8))
            try? input.fileHandleForWriting.close()
        }
        writing.start()
        let data = try output.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        return try data.split(separator: UInt8(ascii: "\n")).map { try JSONDecoder().decode(Expected.self, from: $0) }
    }

    @Test("RMSSD and SDNN are those of a reference in Python, over random beats with extra ones, pauses and gaps")
    func againstReference() throws {
        var generator = SystemRandomNumberGenerator()
        let windows = (0..<400).map { _ -> (seconds: Int, runs: [[UInt16]]) in
            let runs = (0..<Int.random(in: 0...5, using: &generator)).map { _ -> [UInt16] in
                let base = Int.random(in: 300...1500, using: &generator)
                let spread = Int.random(in: 1...300, using: &generator)
                return (0..<Int.random(in: 0...120, using: &generator)).map { _ in
                    let one = base + Int.random(in: -spread...spread, using: &generator)
                    switch Int.random(in: 0...30, using: &generator) {
                    case 0: return UInt16.random(in: 0...UInt16.max, using: &generator)
                    case 1: return UInt16(clamping: one / 2)
                    case 2: return UInt16(clamping: one * 2)
                    default: return UInt16(clamping: one)
                    }
                }
            }
            return ([30, 60, 300, 3600].randomElement(using: &generator) ?? 60, runs)
        }
        let expected = try Self.reference(windows)
        try #require(expected.count == windows.count)
        for (window, reference) in zip(windows, expected) {
            let figures = BeatVariability(window.runs, windowSeconds: window.seconds)
            #expect(figures.counted == reference.counted && figures.leftOut == reference.left_out)
            #expect(figures.coverage == reference.coverage)
            for (own, theirs) in [(figures.rmssd, reference.rmssd), (figures.sdnn, reference.sdnn)] {
                #expect((own == nil) == (theirs == nil))
                if let own, let theirs { #expect(abs(own.approximation - theirs) <= 0.051, "\(own) \(theirs)") }
            }
        }
    }

    @Test("an extra beat and the pause behind it are left out with their differences, and counted")
    func extraBeat() {
        let steady = [UInt16](repeating: 1024, count: 20)
        let plain = BeatVariability([steady], windowSeconds: 20)
        #expect(plain.rmssd?.description == "0.0" && plain.sdnn?.description == "0.0" && plain.leftOut == 0)
        #expect(plain.coverage == 100 && plain.isSufficient)
        let extra = BeatVariability([steady + [600, 1448] + steady], windowSeconds: 42)
        #expect(extra.rmssd?.description == "0.0" && extra.counted == 40 && extra.leftOut == 2)
        let missed = BeatVariability([steady + [2048, 100, 4000] + steady], windowSeconds: 46)
        #expect(missed.rmssd?.description == "0.0" && missed.leftOut == 3)
        #expect(!BeatVariability([steady], windowSeconds: 60).isSufficient)
        #expect(BeatVariability([[1024], [1024]], windowSeconds: 2).rmssd == nil)
        #expect(BeatVariability([], windowSeconds: 60).sdnn == nil)
    }

    // MARK: Adjacency

    private func runs(_ measurements: [(second: Double, intervals: [UInt16], contact: Bool?)]) -> [[UInt16]] {
        var beats = HeartBeats()
        for one in measurements {
            beats.add(
                one.intervals, at: Instant(microseconds: Int64(1_795_000_000_000_000 + one.second * 1e6)),
                hasContact: one.contact)
        }
        return HeartBeats.runs(beats.beats)
    }

    @Test(
        "beats follow each other while they account for the time; silence, lost measurements and no contact part them")
    func adjacency() {
        #expect(runs([(0, [1024], nil), (1, [1000, 924], nil), (2, [900], nil)]) == [[1024, 1000, 924, 900]])
        // A slow heart: measurements without an interval in between.
        #expect(runs([(0, [1536], nil), (1, [], nil), (2, [1800], nil), (3, [], nil), (4, [1900], nil)]).count == 1)
        #expect(runs([(0, [1024], nil), (10, [1024], nil)]) == [[1024], [1024]], "a silence of ten seconds")
        // Measurements go on, and the intervals of four of them are missing.
        let lost = (0..<10).map { second -> (second: Double, intervals: [UInt16], contact: Bool?) in
            (Double(second), (3...6).contains(second) ? [] : [1024], nil)
        }
        #expect(runs(lost).count == 2)
        #expect(runs([(0, [1024], true), (1, [500], false), (2, [1024], true)]) == [[1024], [1024]])
        // Held back, and sent at once.
        #expect(runs([(0, [1024], nil), (4, [1000, 1000, 1000, 1000], nil)]).count == 1)
    }

    @Test("beats are placed at their own times: more than one of a measurement lie before it")
    func placement() {
        var beats = HeartBeats()
        beats.add([512, 1024], at: Instant(seconds: 100))
        #expect(beats.beats.map(\.end) == [99_000_000, 100_000_000])
        // The strap's clock runs fast: it is never more than a second ahead.
        for second in 101..<4000 { beats.add([1040], at: Instant(seconds: Int64(second))) }
        #expect((beats.beats.last?.end ?? 0) <= 3999 * 1_000_000 + 1_000_000)
        // The clock is set back by an hour.
        beats.add([1024], at: Instant(seconds: 400))
        #expect(beats.beats.last?.end == 400_000_000)
    }

    // MARK: Figures

    private static let device = DeviceDescription(
        address: DeviceAddress(bits: 0xC0_0000_000001, kind: .random), model: "generic_heart_rate", provider: "manual")

    private static func block(_ begin: Double, _ samples: [SampleSeries.Sample]) -> Reading {
        let instant = Instant(microseconds: Int64(begin * 1e6))
        let value = VitalValue(
            kind: .heartRate, [.init(.heartRate, Quantity(ExactDecimal(significand: 60), .beatsPerMinute))],
            series: SampleSeries(samples))
        return Reading(
            id: ReadingID(high: UInt64(begin), low: 0), record: Record(value: .vital(value)), device: device,
            time: ResolvedTime(instant: instant.flooredToSecond, basis: .reception), receivedAt: instant)
    }

    private static func sample(_ milliseconds: Int, _ bpm: Int64?, _ intervals: [UInt16] = []) -> SampleSeries.Sample {
        SampleSeries.Sample(
            milliseconds: milliseconds, value: bpm.map { ExactDecimal(significand: $0) }, intervals: intervals)
    }

    @Test("intervals have the mean and the extremes of their samples; what has none is missing, never interpolated")
    func rates() {
        var figures = HeartRateFigures(intervalSeconds: 10, windowSeconds: 60)
        figures.add(Self.block(1_795_000_000.5, [Self.sample(0, 60), Self.sample(1000, 63), Self.sample(2000, nil)]))
        figures.add(Self.block(1_795_000_060, [Self.sample(0, 90)]))
        let rates = figures.rates()
        #expect(rates.map(\.begin.seconds) == [1_795_000_000, 1_795_000_060])
        #expect(rates.map(\.mean.description) == ["61.5", "90.0"] && rates.map(\.samples) == [2, 1])
        #expect(rates[0].lowest.description == "60" && rates[0].highest.description == "63")
        #expect(figures.rates(in: Instant(seconds: 1_795_000_060)...Instant(seconds: 1_795_000_061)).count == 1)
    }

    @Test("windows begin at whole multiples of their length, through midnight and both changes of clocks")
    func windows() throws {
        // 25 October 2026, 01:00 UTC: Berlin goes back to 02:00. And 29 March, 01:00 UTC: forward to 03:00.
        for middle in [1_792_890_000.0, 1_774_746_000, 1_795_046_400] {
            var figures = HeartRateFigures(intervalSeconds: 60, windowSeconds: 300)
            for minute in -10..<10 {
                figures.add(
                    Self.block(
                        middle + Double(minute) * 60, (0..<60).map { Self.sample($0 * 1000, 60, [1024]) }))
            }
            let windows = figures.variability()
            #expect(windows.allSatisfy { $0.begin.seconds % 300 == 0 } && windows.count >= 4)
            let whole = windows.filter(\.figures.isSufficient)
            #expect(whole.count >= 3 && whole.allSatisfy { $0.figures.rmssd?.description == "0.0" })
            // Blocks that follow each other are one time line.
            #expect(windows.map(\.figures.counted).reduce(0, +) == 1200)
            #expect(figures.rates().map(\.samples) == [Int](repeating: 60, count: 20))
        }
    }

    @Test("a dropout between blocks parts the beats, and a clock set back begins a new time line")
    func dropout() {
        var figures = HeartRateFigures(intervalSeconds: 60, windowSeconds: 300)
        figures.add(Self.block(1_795_000_200, (0..<30).map { Self.sample($0 * 1000, 60, [1024]) }))
        figures.add(Self.block(1_795_000_290, (0..<30).map { Self.sample($0 * 1000, 60, [1124]) }))
        #expect(figures.variability().first?.figures.rmssd?.description == "0.0")
        figures.add(Self.block(1_795_000_205, (0..<3).map { Self.sample($0 * 1000, 60, [1024]) }))
        #expect(figures.variability().map(\.figures.counted).reduce(0, +) == 63)
    }

    @Test("a day at 1 Hz has a rate for each minute and variability for each window", .timeLimit(.minutes(5)))
    func day() {
        var figures = HeartRateFigures(intervalSeconds: 60, windowSeconds: 300)
        for minute in 0..<1440 {
            figures.add(
                Self.block(
                    1_795_046_400 + Double(minute) * 60,
                    (0..<60).map { Self.sample($0 * 1000, 60 + Int64($0 % 7), [UInt16(1000 + $0)]) }))
        }
        #expect(figures.rates().count == 1440 && figures.variability().count >= 288)
    }

    @Test("samples have a second of their own each, or none, and none lies behind the last")
    func seconds() {
        let reading = Self.block(
            1_795_000_000.2,
            [0, 1010, 1790, 2850, 2950, 3000, 3100].enumerated().map { Self.sample($1, 60 + Int64($0)) })
        let seconds = reading.secondSamples()
        #expect(seconds.map { $0.time.seconds - 1_795_000_000 } == [0, 1, 2, 3])
        #expect(seconds.map(\.value.description) == ["60", "61", "62", "63"])
        #expect(reading.secondSamples(at: Instant(seconds: 1_795_000_007)).first?.time.seconds == 1_795_000_007)
        #expect(reading.samples().map { $0.time.microseconds % 1_000_000 }.first == 200_000)
    }
}

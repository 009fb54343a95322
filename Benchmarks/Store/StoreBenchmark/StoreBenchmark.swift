import Foundation
import HealthFigures
import HealthReadings
import ReadingStore
import StoreFloor

/// Measures durable ingest, the newest page and daily summaries beside a bare C loop over SQLite, in one run.
@main
struct StoreBenchmark {
    static func main() async throws {
        let arguments = CommandLine.arguments
        let base = arguments.count > 1 ? arguments[1] : NSTemporaryDirectory() + "store-benchmark"
        let many = arguments.count > 2 ? Int(arguments[2]) ?? 1_000_000 : 1_000_000
        try? FileManager.default.removeItem(atPath: base)
        try FileManager.default.createDirectory(atPath: base, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: base) }
        for (name, readings, perTransaction, cost) in [("single", 5000, 1, 25), ("hundreds", 50_000, 100, 60)] {
            var (ratios, costs): ([Double], [Double]) = ([], [])
            for round in 1...5 {
                let (ratio, cost) = try await ingest(
                    "\(base)/\(name)-\(round)", readings: readings, perTransaction: perTransaction)
                ratios.append(ratio)
                costs.append(cost)
            }
            report(
                "ingest by \(perTransaction)", "median ratio \(two(ratios.sorted()[2])) (bar 0.70)",
                "encryption takes \(Int(costs.sorted()[2] * 100)) % of it (bar \(cost) %)")
        }
        try await day(base + "/day")
        for count in Set([10_000, 100_000, many]).sorted() {
            try await newest(base + "/newest-\(count)", count, .off())
            try await newest(base + "/newest-sealed-\(count)", count, .on())
        }
        try await year(base + "/year")
    }

    /// Frame `number` of a meter that measures every so many seconds and has no end.
    static func frame(_ number: Int, every seconds: Int64) -> Frame {
        let time = WallTime(secondsSinceEpoch: 1_500_000_000 + Int64(number) * seconds)
        let (date, clock) = (time.date, time.timeOfDay)
        let value = UInt16(80 + number % 120) | 0xB000
        return Frame(
            format: FrameFormat(characteristic: 0x2A18),
            payload: [
                2, UInt8(number & 255), UInt8(number >> 8 & 255), UInt8(date.year & 255), UInt8(date.year >> 8),
                UInt8(date.month), UInt8(date.day), UInt8(clock.hour), UInt8(clock.minute), UInt8(clock.second),
                UInt8(value & 255), UInt8(value >> 8), 0x11,
            ], receivedAt: Instant(seconds: 1_900_000_000), ordinal: number)
    }

    static func open(_ directory: String, _ encryption: StoreEncryption = .off()) async throws -> ReadingStore {
        try await ReadingStore.open(
            directory: directory, decoder: PlainDecoder(), clientUserID: "bench", timeZone: "Europe/Berlin",
            encryption: encryption)
    }

    static func fill(
        _ store: ReadingStore, readings: Int, perTransaction: Int, every seconds: Int64 = 300
    ) async throws -> Double {
        let device = DeviceDescription(
            address: DeviceAddress(bits: 0xC000_0000_1808, kind: .random), model: "bench", provider: "accuchek_ble")
        let contact = try await store.beginContact(
            with: device, at: Instant(seconds: 1_900_000_000), clock: nil, batteryPercent: nil)
        let frames = (0..<readings).map { frame($0, every: seconds) }
        let clock = ContinuousClock()
        let start = clock.now
        for first in stride(from: 0, to: readings, by: perTransaction) {
            let outcomes = try await store.append(
                Array(frames[first..<min(first + perTransaction, readings)]), of: contact)
            for outcome in outcomes {
                guard case .new = outcome else { throw BenchmarkError.notNew }
            }
        }
        return (clock.now - start).seconds
    }

    /// - Returns: the bare loop's time over the store's in the clear; what share of the clear rate encryption takes.
    static func ingest(
        _ path: String, readings: Int, perTransaction: Int
    ) async throws -> (ratio: Double, cost: Double) {
        let (ours, theirs) = (path + "-ours", path + "-floor")
        let store = try await open(ours)
        let seconds = try await fill(store, readings: readings, perTransaction: perTransaction)
        try store.close()
        let sealed = try await open(path + "-sealed", .on())
        let sealedSeconds = try await fill(sealed, readings: readings, perTransaction: perTransaction)
        try sealed.close()
        try await prepareFloor(ours: ours, theirs: theirs)
        let bare = floor_ingest(ours + "/readings.sqlite", theirs + "/readings.sqlite", Int32(perTransaction))
        guard bare > 0 else { throw BenchmarkError.floor }
        report(
            "ingest by \(perTransaction)", "\(rate(readings, seconds))/s", "bare C \(rate(readings, bare))/s",
            "ratio \(two(bare / seconds))", "sealed \(rate(readings, sealedSeconds))/s")
        return (bare / seconds, 1 - seconds / sealedSeconds)
    }

    /// The same schema, devices, users and contact, without frames and readings.
    static func prepareFloor(ours: String, theirs: String) async throws {
        let store = try await open(theirs)
        _ = try await store.beginContact(
            with: DeviceDescription(
                address: DeviceAddress(bits: 0xC000_0000_1808, kind: .random), model: "bench", provider: "accuchek_ble"),
            at: Instant(seconds: 1_900_000_000), clock: nil, batteryPercent: nil)
        try store.close()
    }

    /// A day of a strap at 1 Hz: each minute is written four times as it grows, the last time with its reading.
    static func day(_ path: String) async throws {
        let store = try await open(path + "-strap", .on())
        let device = DeviceDescription(
            address: DeviceAddress(bits: 0xC000_0000_180D, kind: .random), model: "bench", provider: "manual")
        let contact = try await store.beginContact(
            with: device, at: Instant(seconds: 1_900_000_000), clock: nil, batteryPercent: nil)
        let clock = ContinuousClock()
        let begin = clock.now
        for minute in 0..<1440 {
            func frame(_ seconds: Int) -> Frame {
                let series = SampleSeries(
                    (0..<seconds).map { second in
                        SampleSeries.Sample(
                            milliseconds: second * 1000, value: ExactDecimal(significand: Int64(60 + second % 20)),
                            hasContact: true, intervals: [UInt16(900 + second)])
                    })
                return Frame(
                    format: FrameFormat(rawValue: 0x1_0040), payload: series.octets,
                    receivedAt: Instant(seconds: 1_900_000_000 + Int64(minute) * 60), ordinal: minute)
            }
            for seconds in [15, 30, 45] { try await store.keep(frame(seconds), of: contact) }
            guard case .new? = try await store.append([frame(60)], of: contact).first else {
                throw BenchmarkError.notNew
            }
        }
        let strap = (clock.now - begin).seconds
        let meter = try await open(path + "-meter", .on())
        let plain = try await fill(meter, readings: 4 * 1440, perTransaction: 1)
        let (single, many) = try await drain(meter)
        try meter.close()
        report(
            "a day at 1 Hz", "\(two(strap)) s for 5760 commits",
            "as many single readings \(two(plain)) s", "ratio \(two(strap / plain)) (bar 1.30)")
        let rounds = 5
        let start = clock.now
        var samples = 0
        for _ in 0..<rounds {
            for reading in try await store.query(ReadingQuery(limit: 1440)).readings {
                guard case .vital(let value) = reading.record.value else { continue }
                for _ in value.series ?? SampleSeries([]) { samples += 1 }
            }
        }
        let query = (clock.now - start).seconds / Double(rounds)
        guard samples == rounds * 86_400 else { throw BenchmarkError.notNew }
        let (series, few) = try await drain(store)
        guard many == 4 * 1440, few == 1440 else { throw BenchmarkError.notNew }
        report(
            "its delivery", "\(few) readings in \(Int(series * 1000)) ms",
            "as many single readings \(Int(single * 1000)) ms", "ratio \(two(series / single)) (bar 1.30)")
        try store.close()
        let size = try FileManager.default.attributesOfItem(atPath: path + "-strap/readings.sqlite")[.size] as? Int ?? 0
        report("its 86400 samples", "read in \(Int(query * 1000)) ms (bar 500)", "\(size / 1000) kB in the store")
    }

    /// Takes everything out of the queue in batches, as a destination that accepts it does.
    static func drain(_ store: ReadingStore) async throws -> (seconds: Double, readings: Int) {
        let clock = ContinuousClock()
        let start = clock.now
        var readings = 0
        while let group = try await store.groupsWaiting().first {
            let batch = try await store.outboxBatch(
                user: group.user, resource: group.resource, provider: group.provider, limit: 100)
            guard !batch.isEmpty else { break }
            for item in batch {
                guard case .vital(let value) = item.reading.record.value else { continue }
                for _ in value.series ?? SampleSeries([]) {}
            }
            try await store.acknowledge(batch.map(\.id), at: Instant(seconds: 1_900_100_000))
            readings += batch.count
        }
        return ((clock.now - start).seconds, readings)
    }

    static func newest(_ directory: String, _ count: Int, _ encryption: StoreEncryption) async throws {
        let store = try await open(directory, encryption)
        let seconds = try await fill(store, readings: count, perTransaction: 1000)
        let clock = ContinuousClock()
        let rounds = 200
        for _ in 0..<10 { _ = try await store.query(ReadingQuery(limit: 100)) }
        let start = clock.now
        for _ in 0..<rounds {
            guard try await store.query(ReadingQuery(limit: 100)).readings.count == 100 else {
                throw BenchmarkError.notNew
            }
        }
        let ours = (clock.now - start).seconds / Double(rounds)
        var rows: Int64 = 0
        let bare = floor_query(
            directory + "/readings.sqlite", "SELECT * FROM reading ORDER BY time DESC, id DESC LIMIT 100",
            Int32(rounds), &rows)
        guard bare > 0, rows == 100 else { throw BenchmarkError.floor }
        report(
            "newest 100 of \(count)\(encryption.isOn ? " sealed" : "")", "\(Int(ours * 1e6)) us",
            "bare query \(Int(bare * 1e6)) us",
            "ratio \(two(ours / bare)) (bar 10.00); filled at \(rate(count, seconds))/s")
        try store.close()
    }

    /// The summary of each day of a year of one-minute data, beside reading the same rows from a store in the clear.
    static func year(_ directory: String) async throws {
        let count = 365 * 1440
        let (sealed, clear) = (try await open(directory + "-sealed", .on()), try await open(directory + "-clear"))
        for store in [sealed, clear] { _ = try await fill(store, readings: count, perTransaction: 1000, every: 60) }
        try clear.close()
        guard let zones = ZoneRules.named("Europe/Berlin").map(ZoneHistory.init) else { throw BenchmarkError.floor }
        let clock = ContinuousClock()
        let start = clock.now
        var (summed, time) = (0, Instant(seconds: 1_500_000_000))
        while time.seconds < 1_500_000_000 + Int64(count) * 60 {
            let day = zones.day(of: time)
            var summary = DaySummary(day)
            let query = ReadingQuery(
                from: day.start, to: Instant(microseconds: day.end.microseconds - 1), limit: 10_000)
            for reading in try await sealed.query(query).readings { summary.add(reading) }
            summed += summary.figures(of: .glucose)?.count ?? 0
            time = day.end
        }
        let ours = (clock.now - start).seconds
        guard summed == count else { throw BenchmarkError.notNew }
        try sealed.close()
        var rows: Int64 = 0
        let bare = floor_query(
            directory + "-clear/readings.sqlite", "SELECT * FROM reading ORDER BY time DESC, id DESC", 1, &rows)
        guard bare > 0, rows == count else { throw BenchmarkError.floor }
        report(
            "a year of daily summaries", "\(two(ours)) s", "bare query of the rows \(two(bare)) s",
            "ratio \(two(ours / bare)) (bar 20.00)")
    }

    static func report(_ parts: String...) {
        // Written at once: a run that is cut short has told what it found.
        FileHandle.standardOutput.write(Data((parts.joined(separator: "  ") + "\n").utf8))
    }
    static func rate(_ count: Int, _ seconds: Double) -> Int { Int(Double(count) / seconds) }
    static func two(_ value: Double) -> String { "\((value * 100).rounded() / 100)" }
}

enum BenchmarkError: Error {
    case notNew
    case floor
}

extension Duration {
    var seconds: Double { Double(components.seconds) + Double(components.attoseconds) * 1e-18 }
}

/// Decodes the frames above and nothing else.
struct PlainDecoder: FrameDecoding {
    func decode(_ frame: Frame, model: String?) -> DecodedFrame {
        let o = frame.payload
        if frame.format.rawValue == 0x1_0040, let series = try? SampleSeries(octets: o) {
            let mean = Quantity(ExactDecimal(significand: 70), .beatsPerMinute)
            return .record(
                Record(value: .vital(VitalValue(kind: .heartRate, [.init(.heartRate, mean)], series: series))))
        }
        guard o.count == 13 else { return .nothing }
        let value = UInt16(o[10]) | UInt16(o[11]) << 8
        return .record(
            Record(
                value: .glucose(
                    GlucoseValue(
                        concentration: Quantity(
                            ExactDecimal(significand: Int64(value & 0xFFF)), .milligramsPerDecilitre),
                        sampleType: .capillaryWholeBlood, sampleLocation: .finger)),
                sequence: UInt16(o[1]) | UInt16(o[2]) << 8,
                baseTime: WallTime(
                    year: Int(o[3]) | Int(o[4]) << 8, month: Int(o[5]), day: Int(o[6]), hour: Int(o[7]),
                    minute: Int(o[8]), second: Int(o[9]))))
    }
}

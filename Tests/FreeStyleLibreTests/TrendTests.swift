import EncodedSensor
import FreeStyleLibre
import HealthReadings
import TestSupport
import Testing

@Suite("Minutes of the trend ring")
struct TrendTests {
    /// A record as a sensor makes it, now and then an error or an empty slot.
    private static func record(_ generator: inout SeededGenerator) -> RawRecord {
        guard generator.number(0...30) > 0 else { return RawRecord(glucose: 0, temperature: 0, adjustment: 0) }
        return RawRecord(
            glucose: UInt16(generator.number(500...3000)), quality: generator.number(0...9) == 0 ? 0 : 0x120,
            flags: UInt8(generator.number(0...3)), hasError: generator.number(0...40) == 0,
            temperature: UInt16(generator.number(1600...1800) * 4), adjustment: Int16(generator.number(-9...9) * 4))
    }

    @Test(
        "scans of a sensor whose age runs ahead of the ring agree in every minute, raw value, temperature and estimate")
    func overlappingScans() throws {
        try forAll(40) { generator in
            var sensor = LivingSensor()
            var seen: [LivingSensor.Place: LibreRecord] = [:]
            var (lags, scansWithEarlyHistory) = (Set<Int>(), 0)
            // Every other sensor is scanned most of the time between its two steps, as most real scans were.
            let rarity = generator.number(1...6)
            func scan() throws -> Bool {
                let memory = try sensor.memory
                guard memory.trendFault == nil, memory.historyFault == nil else { return false }
                lags.insert(sensor.age - (sensor.newestTrend ?? sensor.age))
                let records = memory.libreRecords
                guard Set(records.map { LivingSensor.Place($0) }) == sensor.places else { return false }
                return records.allSatisfy { record in
                    let place = LivingSensor.Place(record)
                    if seen[place] == nil { seen[place] = record }
                    return seen[place] == record && sensor.written[place] == record.raw && place.minute <= sensor.age
                }
            }
            // Long enough for both rings and the index of the history to come round.
            for _ in 0..<1100 {
                sensor.countAge()
                // The history record of minute 15 n comes at 15 n + 3, or already at 15 n + 2.
                let early = sensor.age % 15 == 2 && sensor.age > 15 && Bool.random(using: &generator)
                if early { sensor.writeHistory(Self.record(&generator), minute: sensor.age - 2) }
                if sensor.age % 15 == 3, sensor.age > 15, sensor.newestHistory != sensor.age - 3 {
                    sensor.writeHistory(Self.record(&generator), minute: sensor.age - 3)
                }
                let isYoung = sensor.age < 20
                if isYoung || early || generator.number(0...rarity) == 0 {
                    guard try scan() else { return false }
                    scansWithEarlyHistory += early ? 1 : 0
                }
                sensor.writeTrend(Self.record(&generator))
                if isYoung || generator.number(0...6) == 0 { guard try scan() else { return false } }
            }
            return lags == [0, 1] && scansWithEarlyHistory > 0
        }
    }

    @Test("the newest trend record is at the age, or a minute before it; any other lag is a contradiction")
    func lags() throws {
        for age in UInt16(0)...1700 {
            for lag in 0...1 {
                var sensor = EncodedSensor(age: age)
                sensor.trendLag = lag
                let memory = try sensor.decoded
                let trend = memory.libreRecords.filter { $0.source == .trend }
                let newest = Int(age) - lag
                guard memory.trendFault == nil, trend.last.map({ Int($0.minute) }) == (newest > 0 ? newest : nil),
                    trend.map({ Int($0.minute) }) == sensor.minutes(of: .trend),
                    trend.allSatisfy({ $0.raw == sensor.rule(.trend, Int($0.minute)) })
                else {
                    Issue.record("age \(age), lag \(lag): the trend is at other minutes")
                    return
                }
            }
            for lag in 2..<16 {
                var sensor = EncodedSensor(age: age)
                sensor.trendIndex = UInt8((Int(age) + 16 - lag) % 16)
                let memory = try sensor.decoded
                guard memory.trendFault == .indexDisagreesWithAge, memory.historyFault == nil,
                    memory.libreRecords.map({ Int($0.minute) }) == sensor.minutes(of: .history),
                    memory.libreRecords.allSatisfy({ $0.source == .history })
                else {
                    Issue.record("age \(age), lag \(lag): records at made-up minutes")
                    return
                }
            }
        }
    }

    @Test("no record before the first minute, and none of slots that are full where the sensor is too young for them")
    func youngSensors() throws {
        for age in UInt16(0)...20 {
            for lag in 0...1 {
                var sensor = EncodedSensor(age: age)
                sensor.trendLag = lag
                sensor.trendIndex = UInt8((Int(age) - lag + 16) % 16)
                var octets = sensor.memory
                for place in 28..<124 { octets[place] |= 0x11 }
                EncodedSensor.seal(&octets)
                let minutes = try LibreMemory(octets).libreRecords.map { Int($0.minute) }
                let newest = Int(age) - lag
                #expect(minutes == (newest < 0 ? [] : Array(max(0, newest - 15)...newest)) || age >= 17)
                #expect(minutes.allSatisfy { $0 <= Int(age) })
            }
        }
    }

    @Test("a record's time is the same in every scan that brings it, near its minute, and never after its scan")
    func times() throws {
        try forAll(2000) { generator in
            // When the sensor really started, to the microsecond.
            let started = Instant(microseconds: Int64(generator.number(1_700_000_000_000_000...1_800_000_000_000_000)))
            func scan(age: Int) throws -> (Instant, LibreMemory) {
                var sensor = EncodedSensor(age: UInt16(age))
                sensor.trendLag = generator.number(0...1)
                let into = Int64(generator.number(0...59_999_999))
                return (
                    Instant(microseconds: started.microseconds + Int64(age) * 60_000_000 + into), try sensor.decoded
                )
            }
            let age = generator.number(20...20_000)
            let (firstAt, first) = try scan(age: age)
            let time = SensorTime(scannedAt: firstAt, ageMinutes: UInt16(age))
            let (secondAt, second) = try scan(age: age + generator.number(0...12))
            guard !time.isDisproved(by: SensorTime(scannedAt: secondAt, ageMinutes: second.ageMinutes ?? 0)) else {
                return false
            }
            for (at, memory) in [(firstAt, first), (secondAt, second)] {
                for record in memory.libreRecords {
                    let resolved = time.instant(minute: record.minute, scannedAt: at)
                    let real = started.microseconds + Int64(record.minute) * 60_000_000
                    guard resolved <= at, abs(resolved.microseconds - real) <= 60_000_000 else { return false }
                    // Only a record of the scan's own minute may be cut to the scan.
                    let uncut = time.start.advanced(bySeconds: Int64(record.minute) * 60)
                    guard resolved == uncut || Int(record.minute) == Int(memory.ageMinutes ?? 0) else { return false }
                }
            }
            return true
        }
    }
}

extension LivingSensor.Place {
    fileprivate init(_ record: LibreRecord) { self.init(source: record.source, minute: Int(record.minute)) }
}

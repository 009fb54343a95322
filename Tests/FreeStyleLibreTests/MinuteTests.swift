import EncodedSensor
import FreeStyleLibre
import HealthReadings
import Testing

@Suite("A record's minute")
struct MinuteTests {
    /// Whether a memory says what its sensor was encoded from: each minute's own record, in order.
    private func isFaithful(_ sensor: EncodedSensor) throws -> Bool {
        let found = try LibreMemory(sensor.memory).libreRecords
        let trend = sensor.minutes(of: .trend), history = sensor.minutes(of: .history)
        guard found.count == trend.count + history.count else { return false }
        var previous = -1
        for record in found {
            let place = 2 * Int(record.minute) + (record.source == .trend ? 0 : 1)
            guard place > previous, record.minute <= sensor.age else { return false }
            guard record.raw == sensor.rule(record.source, Int(record.minute)) else { return false }
            previous = place
        }
        return found.count { $0.source == .trend } == trend.count
    }

    @Test("promise 7: at every age of a life each record is at its own minute, whether or not the age runs ahead")
    func everyAge() throws {
        for age in UInt16(0)...21_700 {
            var sensor = EncodedSensor(age: age) { source, minute in
                // The minute itself, so that no two records of a ring are alike.
                RawRecord(
                    glucose: UInt16(minute % 16383 + 1), flags: source == .trend ? 1 : 2,
                    temperature: UInt16(minute / 16383) << 2, adjustment: 0)
            }
            sensor.trendLag = age.nonzeroBitCount % 2
            guard try isFaithful(sensor) else {
                Issue.record("the records of a sensor of \(age) minutes are at other minutes")
                return
            }
        }
    }

    @Test("promise 7: the history ring may go on a minute early: its newest record is then 15 minutes later")
    func earlyHistory() throws {
        for count in 1...1450 {
            let age = UInt16(15 * count + 2)
            var sensor = EncodedSensor(age: age)
            #expect(try sensor.decoded.historyCount == count - 1)
            let late = try sensor.decoded.libreRecords.last { $0.source == .history }?.minute
            sensor.hasAdvancedEarly = true
            #expect(try sensor.decoded.historyCount == count)
            let early = try #require(try sensor.decoded.libreRecords.last { $0.source == .history }).minute
            #expect(early == 15 * UInt16(count) && early <= age)
            #expect(late == nil || late == early - 15)
            #expect(try isFaithful(sensor))
        }
    }

    @Test("at every other age the ring being one ahead is a contradiction: no minute is made up")
    func contradiction() throws {
        for age in UInt16(0)...600 where age % 15 != 2 || age < 17 {
            var sensor = EncodedSensor(age: age)
            for wrong in 1..<32 {
                sensor.historyIndex = UInt8((sensor.historyCount + wrong) % 32)
                let memory = try sensor.decoded
                let records = memory.libreRecords
                guard memory.historyFault == .indexDisagreesWithAge, records.allSatisfy({ $0.source == .trend }),
                    records.count == sensor.minutes(of: .trend).count
                else {
                    Issue.record("age \(age), index \(sensor.historyIndex ?? 0): records at made-up minutes")
                    return
                }
            }
        }
    }

    @Test("an index beyond its ring leaves that ring without records, and no other", arguments: [UInt8](16...255))
    func indexBeyond(_ index: UInt8) throws {
        var sensor = EncodedSensor(age: 5000)
        sensor.trendIndex = index
        var octets = sensor.memory
        octets[26] = index
        EncodedSensor.seal(&octets)
        var memory = try LibreMemory(octets)
        #expect(memory.trendFault == .indexOutOfRange && memory.historyFault == nil)
        #expect(memory.libreRecords.map(\.source) == [SensorFacts.Source](repeating: .history, count: 32))

        guard index >= 32 else { return }
        sensor.trendIndex = nil
        sensor.historyIndex = index
        memory = try sensor.decoded
        #expect(memory.historyFault == .indexOutOfRange && memory.trendFault == nil)
        #expect(memory.libreRecords.map(\.source) == [SensorFacts.Source](repeating: .trend, count: 16))
    }

    @Test("promise 6: an empty slot is no record, wherever it is")
    func emptySlots() throws {
        try forAll(300) { generator in
            let (age, step, phase) = (
                UInt16(generator.number(0...21_000)), generator.number(1...9), generator.number(0...8)
            )
            let sensor = EncodedSensor(age: age) { source, minute in
                (minute / (source == .trend ? 1 : 15)) % step == phase ? nil : EncodedSensor.wave(source, minute)
            }
            let expected = [SensorFacts.Source.trend, .history].flatMap { source in
                sensor.minutes(of: source).filter { sensor.rule(source, $0) != nil }
            }
            return try sensor.decoded.libreRecords.map { Int($0.minute) } == expected.sorted()
        }
        #expect(try EncodedSensor(age: 5000) { _, _ in nil }.decoded.records.isEmpty)
    }

    @Test("records that would lie before the sensor's start are none, even where slots are full")
    func beforeTheStart() throws {
        for age in UInt16(0)...500 {
            var octets = EncodedSensor(age: age).memory
            // The age stands behind the rings.
            for place in 28..<316 { octets[place] |= 0x11 }
            EncodedSensor.seal(&octets)
            for record in try LibreMemory(octets).libreRecords {
                #expect(record.minute <= age)
                #expect(record.source == .trend ? record.minute + 16 > age : record.minute % 15 == 0)
            }
        }
    }

    @Test("promise 11: five scans of one sensor give each minute once, byte for byte the same")
    func fiveScans() throws {
        var seen: [String: Record] = [:]
        var minutes = Set<Int>()
        for age in [UInt16(1000), 1007, 1202, 1499, 1681] {
            for early in [false, true] {
                var sensor = EncodedSensor(age: age)
                sensor.hasAdvancedEarly = early
                let scan = try #require(try LibreScan(payload: sensor.payload).sensorScan)
                #expect(scan.ageMinutes == age)
                for record in scan.records {
                    let facts = try #require(record.sensor)
                    let key = "\(facts.source) \(facts.minute)"
                    #expect(seen[key] == nil || seen[key] == record, "\(key)")
                    seen[key] = record
                    if facts.source == .history { minutes.insert(Int(facts.minute)) }
                }
            }
        }
        #expect(minutes.sorted() == Array(stride(from: 525, through: 1665, by: 15)))
        #expect(seen.count == minutes.count + 16 * 5 - 9)
    }
}

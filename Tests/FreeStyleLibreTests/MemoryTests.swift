import EncodedSensor
import FreeStyleLibre
import HealthReadings
import Testing

@Suite("A sensor's memory")
struct MemoryTests {
    @Test("the CRC of 123456789 is 89F6")
    func check() {
        #expect(MemoryChecksum.of(Array("x123456789y".utf8), 1..<10) == 0x89F6)
        #expect(MemoryChecksum.of([], 0..<0) == 0xFFFF)
    }

    @Test("another count of octets than 344 is refused", arguments: [0, 1, 24, 343, 345, 360, 1952])
    func length(_ count: Int) {
        do {
            _ = try LibreMemory([UInt8](repeating: 0, count: count))
            Issue.record("\(count) octets were taken for a memory")
        } catch {
            #expect(error.expected == "344 octets")
            #expect(error.octet == min(count, 344))
        }
    }

    @Test("what was encoded is decoded")
    func roundTrip() throws {
        try forAll(500) { generator in
            var sensor = EncodedSensor(age: UInt16(generator.number(0...65535)))
            sensor.state = SensorState(rawValue: UInt8(generator.number(0...255)))
            sensor.failure = SensorFailure(
                code: UInt8(generator.number(0...255)), ageMinutes: UInt16(generator.number(1...65535)))
            sensor.initialisations = UInt8(generator.number(0...255))
            sensor.region = SensorRegion(rawValue: UInt8(generator.number(0...255)))
            sensor.maximumLife = UInt16(generator.number(0...65535))
            sensor.calibration = generator.calibration()
            sensor.trendIndex = UInt8(generator.number(0...15))
            let memory = try sensor.decoded
            let life = Int(sensor.maximumLife) - Int(sensor.age)
            return memory.state == sensor.state && memory.ageMinutes == sensor.age
                && memory.failure == (sensor.state == .failure ? sensor.failure : nil)
                && memory.initialisations == sensor.initialisations && memory.region == sensor.region
                && memory.maximumLifeMinutes == sensor.maximumLife && memory.calibration == sensor.calibration
                && memory.lifeLeftMinutes == UInt16(max(0, life)) && memory.trendIndex == sensor.trendIndex
                && memory.isHeaderRight && memory.isBodyRight && memory.isFooterRight
        }
    }

    @Test("every number of a record is where it belongs")
    func recordBits() throws {
        let parts: [UInt64] = [0x8000_0000_0000, 0x1FF << 38, 0xABC << 26, 1 << 25, 2 << 23, 0x155 << 14, 0x2345]
        let record = RawRecord(bits: parts.reduce(0, |))
        #expect(
            record
                == RawRecord(
                    glucose: 0x2345, quality: 0x155, flags: 2, hasError: true, temperature: 0xABC << 2,
                    adjustment: -2044))
        try forAll(2000) { generator in
            let (record, minute) = (generator.record(), generator.number(1...16))
            let sensor = EncodedSensor(age: 16) { source, at in source == .trend && at == minute ? record : nil }
            let found = try sensor.decoded.libreRecords
            return record.isEmpty ? found.isEmpty : found.map(\.raw) == [record] && Int(found[0].minute) == minute
        }
    }

    @Test("a flipped bit anywhere spoils the verdict of its own part and of no other")
    func flippedBits() throws {
        let octets = EncodedSensor(age: 4000).memory
        for place in octets.indices {
            for bit in 0..<8 {
                var spoilt = octets
                spoilt[place] ^= 1 << UInt8(bit)
                let memory = try LibreMemory(spoilt)
                guard LibreMemory.Part.allCases.allSatisfy({ memory.isRight($0) != $0.octets.contains(place) }) else {
                    Issue.record("bit \(bit) of octet \(place) spoils the wrong part")
                    return
                }
            }
        }
    }

    @Test("promise 6: nothing is told of a part whose CRC is wrong, and no value comes from it")
    func damagedParts() throws {
        var sensor = EncodedSensor(age: 4000)
        sensor.damaged = [.body]
        var memory = try sensor.decoded
        #expect(memory.records.isEmpty)
        #expect(memory.ageMinutes == nil && memory.initialisations == nil && memory.lifeLeftMinutes == nil)
        #expect(memory.state == .active && memory.maximumLifeMinutes == 20_880)
        #expect(memory.trendFault == .bodyCRC && memory.historyFault == .bodyCRC)

        sensor.damaged = [.header]
        memory = try sensor.decoded
        #expect(memory.state == nil && memory.calibration == nil && memory.calibrationFault == .headerCRC)
        #expect(memory.ageMinutes == 4000)
        #expect(memory.records.count == 48)
        #expect(memory.records.allSatisfy { $0.exclusion == .noValue && !$0.hasConcentration })

        sensor.damaged = [.footer]
        memory = try sensor.decoded
        #expect(memory.region == nil && memory.maximumLifeMinutes == nil && memory.lifeLeftMinutes == nil)
        #expect(memory.state == .active && memory.calibrationFault == .footerCRC)
        #expect(memory.records.count == 48)
        #expect(memory.records.allSatisfy { $0.exclusion == .noValue && !$0.hasConcentration })

        sensor.damaged = [.header, .body, .footer]
        let document = try sensor.decoded.document(uid: nil, patchInformation: nil).text
        #expect(
            document.hasPrefix(
                #"{"serial":null,"uid":null,"type":null,"state":null,"age_minutes":null,"max_life_minutes":null,"region":null"#
            ))
    }

    @Test("a sensor is shown with its state, its life and its failure")
    func document() throws {
        var sensor = EncodedSensor(age: 9876)
        sensor.state = .failure
        sensor.failure = SensorFailure(code: 11, ageMinutes: 9870)
        let scan = try LibreScan(payload: sensor.payload)
        #expect(
            scan.document.text
                == #"{"serial":"0M0001H7ZXR","uid":"E007A00000C0FFEE","type":"libre1","state":"failure","#
                + #""age_minutes":9876,"max_life_minutes":20880,"region":"europe","#
                + #""crc":{"header":true,"body":true,"footer":true},"life_left_minutes":11004,"initialisations":1,"#
                + #""error_code":11,"failed_at_minutes":9870,"calibration_fault":null,"trend_fault":null,"#
                + #""history_fault":null}"#)
        let names = (0...7).map { SensorState(rawValue: $0).name }
        #expect(
            names == ["unknown", "not_activated", "warming_up", "active", "expired", "shut_down", "failure", "unknown"])
    }

    @Test("the exclusion of a record is the first that holds")
    func exclusions() throws {
        let error = RawRecord(glucose: 1000, hasError: true, temperature: 6800, adjustment: 0)
        let cold = RawRecord(glucose: 1000, temperature: 0, adjustment: 0)
        let high = RawRecord(glucose: 16383, temperature: 6800, adjustment: 0)
        let good = RawRecord(glucose: 1000, temperature: 6800, adjustment: 0)
        var sensor = EncodedSensor(age: 1000) { source, minute in
            guard source == .trend else { return nil }
            return [1000: error, 999: cold, 998: high, 997: good][minute]
        }
        #expect(try sensor.decoded.records.map(\.exclusion) == [nil, .implausible, .noValue, .errorRecord])
        // None of them has reached the end of its life.
        for state in [SensorState.notActivated, .warmingUp, .expired, .shutDown, .failure, .unknown(9)] {
            sensor.state = state
            let records = try sensor.decoded.records
            #expect(records.map(\.exclusion) == [.sensorNotActive, .implausible, .noValue, .errorRecord])
            #expect(records.map(\.hasConcentration) == [true, true, false, false])
        }
        sensor.maximumLife = 1000
        for state in [SensorState.expired, .shutDown] {
            sensor.state = state
            #expect(try sensor.decoded.records.map(\.exclusion) == [nil, .implausible, .noValue, .errorRecord])
        }
    }

    @Test("after its end a sensor still tells what it measured before, and that counts", arguments: [4, 5] as [UInt8])
    func expired(_ state: UInt8) throws {
        var sensor = EncodedSensor(age: 20_885)
        sensor.state = SensorState(rawValue: state)
        let records = try sensor.decoded.records
        #expect(records.count == 48)
        for record in records {
            let minute = try #require(record.sensor).minute
            #expect(record.exclusion == (minute < 20_880 ? nil : .sensorNotActive), "\(minute)")
        }
        // One that has failed, and shut down then, is none that has come to its end.
        sensor.failure = SensorFailure(code: 11, ageMinutes: nil)
        #expect(try sensor.decoded.records.allSatisfy { $0.exclusion != nil } == (state == 5))
        sensor.failure = nil
        sensor.age = 20_879
        #expect(try sensor.decoded.records.allSatisfy { $0.exclusion == .sensorNotActive })
        sensor.age = 20_885
        // Where the memory does not say how long it lives, nothing is known to be before the end.
        sensor.damaged = [.footer]
        #expect(try sensor.decoded.records.allSatisfy { $0.exclusion != nil })
    }

    @Test(
        "the rings of a sensor that has come to its end stand still while its age goes on: each record is at its own minute",
        arguments: [4, 5] as [UInt8])
    func ended(_ state: UInt8) throws {
        // Noted where a failure would be: the state that has ended, and when.
        func ending(life: UInt16, age: UInt16, lag: Int) -> EncodedSensor {
            var sensor = EncodedSensor(age: age)
            (sensor.maximumLife, sensor.stoppedAt, sensor.trendLag) = (life, life, lag)
            sensor.state = SensorState(rawValue: state)
            sensor.failure = SensorFailure(code: 3, ageMinutes: life)
            return sensor
        }
        for life in [20_697, 20_880] as [UInt16] {
            for age in life...(life + 720) {
                let sensor = ending(life: life, age: age, lag: 1)
                let memory = try sensor.decoded
                let minutes = memory.records.compactMap { $0.sensor?.minute }
                guard memory.trendFault == nil, memory.historyFault == nil, memory.ageMinutes == age,
                    memory.libreRecords.allSatisfy({ $0.raw == sensor.rule($0.source, Int($0.minute)) }),
                    minutes.count == 48, minutes.max() == life - 1, memory.records.allSatisfy({ $0.exclusion == nil })
                else {
                    Issue.record("life \(life), age \(age): records are lost, or at other minutes")
                    return
                }
            }
        }
        // The record of the end itself is none of the life before it.
        let last = try ending(life: 20_880, age: 21_600, lag: 0).decoded.records.last
        #expect(last?.sensor?.minute == 20_880 && last?.exclusion == .sensorNotActive)
        // A ring that agrees with neither is at no known minute.
        var stopped = ending(life: 20_880, age: 21_600, lag: 1)
        stopped.stoppedAt = 20_000
        #expect(try stopped.decoded.historyFault == .indexDisagreesWithAge)
        // Only the end of its life is no failure.
        for failure in [SensorFailure(code: 3, ageMinutes: 20_000), SensorFailure(code: 11, ageMinutes: 20_880)] {
            var failed = ending(life: 20_880, age: 21_600, lag: 1)
            failed.failure = failure
            #expect(try failed.decoded.records.allSatisfy { $0.exclusion != nil } == (state == 5))
        }
    }

    @Test("records of the first hour are those of a sensor that warms up, whenever they are read")
    func warmUp() throws {
        for record in try EncodedSensor(age: 400).decoded.records {
            let minute = try #require(record.sensor).minute
            #expect(record.exclusion == (minute < 60 ? .sensorNotActive : nil))
        }
    }
}

extension Record {
    var hasConcentration: Bool {
        if case .glucose(let value) = value { value.concentration != nil } else { false }
    }
}

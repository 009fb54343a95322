import EncodedSensor
import FreeStyleLibre
import HealthReadings
import ISO15693Reader
import LibreReader
import Testing

/// A sensor and its readings, without a store.
@Suite struct Libre1ReadTests {
    private static let sensor = EncodedSensor(age: 5021)

    @Test("the reader returns the sensor and its readings, those of the past before those of now")
    func whole() async throws {
        let read = try await Libre1Reader(EmulatedTag(Self.sensor)).readSensor(person: "white_bear")
        #expect(read.sensor.serial == read.scan.serial && read.sensor.ageMinutes == 5021)
        #expect(read.sensor.state == read.scan.memory.state && read.sensor.failureCode == nil)
        #expect(!read.readings.isEmpty && read.usable.count < read.readings.count + 1)
        #expect(Set(read.readings.map(\.id)).count == read.readings.count)
        #expect(read.readings.allSatisfy { $0.person == "white_bear" && $0.device.serial == read.sensor.serial })
        let minutes = read.readings.compactMap(\.record.sensor?.minute)
        #expect(minutes == minutes.sorted() && minutes.count == read.readings.count)
        // No minute counts twice.
        let usable = read.usable.compactMap(\.record.sensor?.minute)
        #expect(Set(usable).count == usable.count)
    }

    @Test("a reading has the same id and time at each scan, if the sensor's life is given on")
    func twice() async throws {
        let scan = try await Libre1Reader(EmulatedTag(Self.sensor)).read()
        let now = Instant(seconds: 1_795_000_030)
        let first = Libre1Read(scan, at: now)
        let start = try #require(first.start)
        #expect(start.seconds % 60 == 0 && now.seconds - start.seconds >= 5021 * 60)
        // The sensor has not counted on, and the scan came half a minute later: the start it shows is another minute.
        let again = Libre1Read(scan, at: Instant(seconds: now.seconds + 35), life: first.life)
        #expect(again.start == start && again.readings.map(\.id) == first.readings.map(\.id))
        #expect(again.readings.dropLast().map(\.time) == first.readings.dropLast().map(\.time))
        // A clock that was wrong by hours at the first scan: what was shown keeps its time.
        let corrected = Libre1Read(scan, at: Instant(seconds: now.seconds + 7200), life: first.life)
        #expect(corrected.start == Instant(seconds: start.seconds + 7200))
        #expect(corrected.readings.dropLast().map(\.time) == first.readings.dropLast().map(\.time))
        #expect(corrected.life.sequenceEpoch == 0)
    }

    @Test(
        "a sensor that does not measure has readings without times, unless its start is known",
        arguments: [4, 5] as [UInt8])
    func stopped(_ state: UInt8) async throws {
        var sensor = EncodedSensor(age: 20_885)
        sensor.state = SensorState(rawValue: state)
        let scan = try await Libre1Reader(EmulatedTag(sensor)).read()
        let now = Instant(seconds: 1_795_000_030)
        #expect(Libre1Read(scan, at: now).readings.allSatisfy { $0.time.instant == nil })
        #expect(Libre1Read(scan, at: now).start == nil && Libre1Read(scan, at: now).usable.isEmpty)
        let life = try await Self.life()
        let known = Libre1Read(scan, at: now, life: life)
        #expect(known.start == life.start && known.readings.allSatisfy { $0.time.instant != nil })
        #expect(!known.usable.isEmpty)
        // One that has ended before its time had a reason.
        sensor.age = 5021
        let early = try await Libre1Reader(EmulatedTag(sensor)).read()
        #expect(Libre1Read(early, at: now, life: life).usable.isEmpty)
    }

    /// What a scan in the sensor's first days has found of its life.
    private static func life() async throws -> Libre1Life {
        let scan = try await Libre1Reader(EmulatedTag(EncodedSensor(age: 2000))).read()
        return Libre1Read(scan, at: Instant(seconds: 1_793_820_030)).life
    }

    @Test("the life of one sensor dates no other")
    func anotherSensor() async throws {
        var sensor = EncodedSensor(age: 20_885)
        sensor.state = .expired
        let tag = EmulatedTag(sensor)
        let life = try await Self.life()
        sensor.uid += 1
        let second = try await Libre1Reader(EmulatedTag(sensor)).readSensor(lives: [life.serial: life])
        #expect(second.sensor.serial != life.serial)
        #expect(second.start == nil && second.usable.isEmpty && !second.readings.isEmpty)
        // Filed under the wrong serial number, it is not heeded either.
        let wrong = try await Libre1Reader(EmulatedTag(sensor)).readSensor(lives: [second.sensor.serial: life])
        #expect(wrong.start == nil && wrong.life.serial == second.sensor.serial)
        let own = try await Libre1Reader(tag).readSensor(lives: [second.sensor.serial: second.life, life.serial: life])
        #expect(own.start == life.start && !own.usable.isEmpty)
    }

    @Test("a damaged memory has a sensor and no readings")
    func damaged() async throws {
        var sensor = Self.sensor
        sensor.damaged = [.body]
        let tag = EmulatedTag(sensor)
        let read = try await Libre1Reader(tag).readSensor()
        #expect(read.readings.isEmpty && read.sensor.ageMinutes == nil && !read.sensor.serial.isEmpty)
    }
}

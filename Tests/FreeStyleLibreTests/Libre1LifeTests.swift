import EncodedSensor
import Foundation
import FreeStyleLibre
import HealthReadings
import Testing

/// What is known of a sensor from scan to scan, without a store.
@Suite struct Libre1LifeTests {
    private static let now = Instant(seconds: 1_795_000_030)

    private static func scan(_ age: UInt16, _ adjust: (inout EncodedSensor) -> Void = { _ in }) throws -> LibreScan {
        var sensor = EncodedSensor(age: age)
        adjust(&sensor)
        return try LibreScan(payload: sensor.payload)
    }

    private static func at(_ minutes: Int64) -> Instant { now.advanced(bySeconds: 60 * minutes) }

    @Test("a sensor that was reset begins another life: its start and its ids are none of the former one's")
    func reset() throws {
        let former = Libre1Read(try Self.scan(5021), at: Self.now)
        #expect(former.life.sequenceEpoch == 0 && former.life.serial == former.sensor.serial)
        // Reset two hours later, and scanned ten hours after that.
        let fresh = Libre1Read(try Self.scan(600), at: Self.at(720), life: former.life)
        #expect(fresh.life.sequenceEpoch == 1)
        #expect(fresh.start == Instant(seconds: 1_795_000_020 + 120 * 60))
        for reading in fresh.readings {
            let minute = Int64(try #require(reading.record.sensor).minute)
            #expect(reading.time.instant == fresh.start?.advanced(bySeconds: 60 * minute), "\(minute)")
        }
        // Five minutes later it is the same life: a trend record of each minute is new, and one of the history.
        let next = Libre1Read(try Self.scan(605), at: Self.at(725), life: fresh.life)
        #expect(next.life.sequenceEpoch == 1 && next.start == fresh.start)
        #expect(Set(next.readings.map(\.id)).subtracting(fresh.readings.map(\.id)).count == 6)
        // Reset once more, a minute of the first life comes a third time.
        let third = Libre1Read(try Self.scan(590), at: Self.at(2000), life: next.life)
        let again = Libre1Read(try Self.scan(590), at: Self.at(-4431))
        #expect(third.life.sequenceEpoch == 2 && again.life.sequenceEpoch == 0)
        let minutes = again.readings.map(\.record.sensor?.minute)
        #expect(third.readings.map(\.record.sensor?.minute) == minutes)
        #expect(Set(third.readings.map(\.id)).isDisjoint(with: again.readings.map(\.id)))
        #expect(Set(fresh.readings.map(\.id)).isDisjoint(with: third.readings.map(\.id)))
    }

    @Test("a clock that is put right begins no life: it dates the minutes to come, and what was shown keeps its time")
    func clockPutRight() throws {
        // Two hours behind at the first scan.
        let first = Libre1Read(try Self.scan(5021), at: Self.at(-120))
        let second = Libre1Read(try Self.scan(5026), at: Self.at(5), life: first.life)
        #expect(second.life.sequenceEpoch == 0)
        let start = Instant(seconds: 1_795_000_020 - 5021 * 60)
        #expect(first.start == start.advanced(bySeconds: -7200) && second.start == start)
        for reading in second.readings {
            let minute = Int64(try #require(reading.record.sensor).minute)
            let counting = minute > 5021 ? start : start.advanced(bySeconds: -7200)
            #expect(reading.time.instant == counting.advanced(bySeconds: 60 * minute), "\(minute)")
        }
        // Nor does a clock that was set back, however far, or the same scan again.
        let back = Libre1Read(try Self.scan(5030), at: Self.at(-3000), life: second.life)
        let repeated = Libre1Read(try Self.scan(5026), at: Self.at(5), life: second.life)
        #expect(back.life.sequenceEpoch == 0 && back.start == start)
        #expect(repeated.life == second.life && repeated.readings == second.readings)
    }

    /// A record as the sensor has it in its second life.
    private static let secondLife: EncodedSensor.Rule = { source, minute in
        var record = EncodedSensor.wave(source, minute)
        record?.glucose += 1
        return record
    }

    @Test("other records of known minutes are another life's, also if it has come further than the one before")
    func shortLife() throws {
        let former = Libre1Read(try Self.scan(300), at: Self.now)
        let start = Instant(seconds: 1_795_000_020 + 600 * 60)
        let fresh = Libre1Read(try Self.scan(400) { $0.rule = Self.secondLife }, at: Self.at(1000), life: former.life)
        #expect(fresh.life.sequenceEpoch == 1 && fresh.start == start)
        for reading in fresh.readings {
            let minute = Int64(try #require(reading.record.sensor).minute)
            #expect(reading.time.instant == start.advanced(bySeconds: 60 * minute), "\(minute)")
        }
        #expect(Set(fresh.readings.map(\.id)).isDisjoint(with: former.readings.map(\.id)))
        // The same records at another time are those that are known, and the clock was put right.
        let corrected = Libre1Read(try Self.scan(400), at: Self.at(1000), life: former.life)
        #expect(corrected.life.sequenceEpoch == 0 && corrected.start == start)
        let known = Set(former.readings.map(\.id))
        #expect(corrected.readings.count { known.contains($0.id) } == 19)
        // Without their values the records are the same.
        let damaged = Libre1Read(try Self.scan(400) { $0.damaged = [.footer] }, at: Self.at(1000), life: former.life)
        #expect(damaged.life.sequenceEpoch == 0)
    }

    @Test("a memory with nothing known in it, and records of known minutes, is of a life that began after those")
    func nothingKnown() throws {
        // Minute 600 is known of the trend alone: in the history it comes at 603.
        let former = Libre1Read(try Self.scan(601), at: Self.now)
        let fresh = try Self.scan(1070)
        #expect(fresh.memory.libreRecords.first?.minute == 600)
        let later = Libre1Read(fresh, at: Self.at(2000), life: former.life)
        #expect(later.life.sequenceEpoch == 1)
        // The sensor's own clock is three minutes slow: it has not been reset.
        let slow = Libre1Read(fresh, at: Self.at(469 + 3), life: former.life)
        #expect(slow.life.sequenceEpoch == 0 && slow.start != former.start)
        // Farther on nothing can be mixed up.
        let far = Libre1Read(try Self.scan(1084), at: Self.at(2000), life: former.life)
        #expect(far.life.sequenceEpoch == 0 && far.start == Instant(seconds: 1_795_000_020 + (2000 - 1084) * 60))
        #expect(Set(far.readings.map(\.id)).isDisjoint(with: former.readings.map(\.id)))
    }

    @Test("one record that is another makes no new life beside one that is known, however far the clock was behind")
    func oneOther() throws {
        let first = try Self.scan(605) { sensor in
            sensor.rule = { source, minute in
                var record = EncodedSensor.wave(source, minute)
                if minute == 600 { record?.glucose += 1 }
                return record
            }
        }
        let former = Libre1Read(first, at: Self.at(-2000))
        // Of the known minutes it shows two more: 585 and 600.
        let next = try Self.scan(1055)
        #expect(next.memory.libreRecords.first?.minute == 585)
        let read = Libre1Read(next, at: Self.at(450), life: former.life)
        #expect(read.life.sequenceEpoch == 0 && read.start == Instant(seconds: 1_795_000_020 - 605 * 60))
    }

    @Test("a record that was written anew, and a memory that was torn without its CRC noticing, are no reset")
    func notReset() throws {
        try forAll(200) { generator in
            let age = generator.number(100...2000)
            let gap = Bool.random(using: &generator) ? generator.number(1...8) : generator.number(20...435)
            let clock = Int64(generator.number(3...9000)) * (Bool.random(using: &generator) ? 1 : -1)
            // As if the sensor had the newest record of each ring not yet right.
            let first = try Self.scan(UInt16(age)) { sensor in
                let minutes = SensorFacts.Source.allCases.map { sensor.minutes(of: $0).last }
                sensor.rule = { source, minute in
                    var record = EncodedSensor.wave(source, minute)
                    if minutes.contains(minute) { record?.glucose += 1 }
                    return record
                }
            }
            let life = Libre1Read(first, at: Self.at(0), life: nil).life
            // The first blocks are of the minutes before, and the CRC has come out right.
            let (old, new) = (EncodedSensor(age: UInt16(age + gap)), EncodedSensor(age: UInt16(age + gap + 1)))
            let torn = 8 * generator.number(0...43)
            var octets = Array(old.memory[..<torn] + new.memory[torn...])
            EncodedSensor.seal(&octets)
            let scan = LibreScan(
                uid: first.uid, patchInformation: first.patchInformation, memory: try LibreMemory(octets))
            let next = Libre1Read(scan, at: Self.at(Int64(gap) + clock), life: life)
            return next.life.sequenceEpoch == 0
        }
    }

    @Test("whenever a sensor is reset, each record of each of its lives has one id, and its own time at every scan")
    func anyResets() throws {
        try forAll(400) { generator in
            let lives = SensorLives(using: &generator)
            var (life, places): (Libre1Life?, [ReadingID: SensorLives.Place]) = (nil, [:])
            for scan in lives.scans {
                let read = Libre1Read(try LibreScan(payload: scan.sensor.payload), at: scan.at, life: life)
                // Kept in a file, as a program that ends does.
                life = try JSONDecoder().decode(Libre1Life.self, from: JSONEncoder().encode(read.life))
                guard life == read.life else { return false }
                for reading in read.readings {
                    guard let facts = reading.record.sensor, let time = reading.time.instant else { return false }
                    let place = lives.place(of: facts)
                    let distance = time.microseconds - lives.instant(of: place).microseconds
                    guard places[reading.id] ?? place == place, abs(distance) <= 60_000_000 else { return false }
                    places[reading.id] = place
                }
            }
            return places.count == lives.shown.count && Set(places.values) == lives.shown
        }
    }

    @Test("a scan that says nothing of the sensor's life leaves it as it was")
    func unchanged() throws {
        let life = Libre1Read(try Self.scan(5021), at: Self.now).life
        let damaged = Libre1Read(try Self.scan(600) { $0.damaged = [.body] }, at: Self.at(720), life: life)
        #expect(damaged.life == life && damaged.readings.isEmpty)
        // Its age stands still, so that nobody knows when it was started.
        let stopped = Libre1Read(try Self.scan(600) { $0.state = .shutDown }, at: Self.at(720), life: life)
        #expect(stopped.life.sequenceEpoch == 0 && stopped.start == life.start)
        let other = Libre1Read(try Self.scan(600) { $0.uid += 1 }, at: Self.at(720), life: life)
        #expect(other.life.sequenceEpoch == 0 && other.life.serial != life.serial)
        #expect(other.start == Instant(seconds: 1_795_000_020 + 120 * 60))
    }

    @Test("written and read, it knows what it knew before")
    func kept() throws {
        let first = Libre1Read(try Self.scan(5021), at: Self.at(-120))
        let second = Libre1Read(try Self.scan(5026), at: Self.at(5), life: first.life)
        let lives = [second.sensor.serial: second.life, "0M000000000": Libre1Life(serial: "0M000000000")]
        let written = try JSONEncoder().encode(lives)
        let read = try JSONDecoder().decode([String: Libre1Life].self, from: written)
        #expect(read == lives)
        let scan = try Self.scan(590)
        let fresh = Libre1Read(scan, at: Self.at(2000), life: read[second.sensor.serial])
        #expect(fresh.life.sequenceEpoch == 1 && fresh == Libre1Read(scan, at: Self.at(2000), life: second.life))
        let text = String(decoding: try JSONEncoder().encode(second.life), as: UTF8.self)
        for member in [#""sequence_epoch":0"#, #""5026":"#, #""from_minute":5022"#] {
            #expect(text.contains(member), "\(text)")
        }
    }

    @Test(
        "what can be no life is refused",
        arguments: [
            #"{"serial":"0M0","sequence_epoch":-1,"starts":[],"trend":{},"history":{}}"#,
            #"{"serial":"0M0","sequence_epoch":0,"starts":[],"trend":{},"history":{"65536":1}}"#,
            #"{"serial":"0M0","sequence_epoch":0,"starts":[],"trend":{"-1":1},"history":{}}"#,
            #"{"serial":"0M0","sequence_epoch":0,"starts":[{"from_minute":5,"started_at":0,"scanned_at":0}],"#
                + #""trend":{},"history":{}}"#,
            #"{"serial":"0M0","sequence_epoch":0,"starts":[{"from_minute":0,"started_at":0,"scanned_at":0},"#
                + #"{"from_minute":0,"started_at":0,"scanned_at":0}],"trend":{},"history":{}}"#,
            #"{"serial":"0M0","sequence_epoch":0,"starts":[]}"#,
            #"{"serial":"0M0","starts":[],"trend":{},"history":{}}"#, "[]",
        ])
    func impossible(_ text: String) {
        #expect(throws: DecodingError.self) { try JSONDecoder().decode(Libre1Life.self, from: Data(text.utf8)) }
    }
}

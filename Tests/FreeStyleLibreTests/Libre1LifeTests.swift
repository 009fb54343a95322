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

    @Test("a life that was shorter than the age after the reset is taken for a clock that was put right")
    func shortLife() throws {
        let former = Libre1Read(try Self.scan(300), at: Self.now)
        let fresh = Libre1Read(try Self.scan(400), at: Self.at(1000), life: former.life)
        #expect(fresh.life.sequenceEpoch == 0)
        #expect(fresh.start == Instant(seconds: 1_795_000_020 + 600 * 60))
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
        for member in [#""sequence_epoch":0"#, #""newest_minute":5026"#, #""from_minute":5022"#] {
            #expect(text.contains(member), "\(text)")
        }
    }

    @Test(
        "what can be no life is refused",
        arguments: [
            #"{"serial":"0M0","sequence_epoch":-1,"starts":[]}"#,
            #"{"serial":"0M0","sequence_epoch":0,"newest_minute":65536,"starts":[]}"#,
            #"{"serial":"0M0","sequence_epoch":0,"starts":[{"from_minute":5,"started_at":0,"scanned_at":0}]}"#,
            #"{"serial":"0M0","sequence_epoch":0,"starts":[{"from_minute":0,"started_at":0,"scanned_at":0},"#
                + #"{"from_minute":0,"started_at":0,"scanned_at":0}]}"#,
            #"{"serial":"0M0","starts":[]}"#, "[]",
        ])
    func impossible(_ text: String) {
        #expect(throws: DecodingError.self) { try JSONDecoder().decode(Libre1Life.self, from: Data(text.utf8)) }
    }
}

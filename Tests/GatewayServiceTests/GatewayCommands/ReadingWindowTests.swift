import GATTProfiles
import HealthReadings
import Synchronization
import Testing

@testable import GatewayCommands

@Suite("Windows")
struct WindowTests {
    /// The same in the plainest way.
    private struct Model {
        var waiting: [(key: Int?, element: Int)] = []
        let size: Int

        mutating func append(_ element: Int, key: Int?) -> Int? {
            waiting.append((key, element))
            return waiting.count > size ? waiting.removeFirst().element : nil
        }

        mutating func change(_ key: Int) -> Bool {
            guard let place = waiting.lastIndex(where: { $0.key == key }) else { return false }
            waiting[place].element += 1000
            return true
        }
    }

    @Test("a ring behaves as a list does, whatever comes", arguments: [1, 2, 3, 7, 64])
    func ring(size: Int) {
        var generator = SystemRandomNumberGenerator()
        for _ in 0..<40 {
            var window = SlidingWindow<Int, Int>(size: size)
            var model = Model(size: size)
            for step in 0..<Int.random(in: 0...400, using: &generator) {
                let key = Int.random(in: 0...size + 2, using: &generator)
                switch Int.random(in: 0...9, using: &generator) {
                case 0...5:
                    let key = Bool.random(using: &generator) ? key : nil
                    #expect(window.append(step, key: key) == model.append(step, key: key))
                case 6...8: #expect(window.change(key) { $0 += 1000 } == model.change(key))
                default:
                    #expect(window.removeAll() == model.waiting.map(\.element))
                    model.waiting = []
                }
                #expect(window.count == model.waiting.count)
            }
            #expect(window.removeAll() == model.waiting.map(\.element))
        }
    }

    private func reading(_ number: Int, meal: String? = nil) -> Reading {
        let value = GlucoseValue(
            concentration: Quantity(ExactDecimal(significand: 95), .milligramsPerDecilitre),
            sampleType: .capillaryWholeBlood, sampleLocation: .finger)
        var context = GlucoseContext()
        context.meal = meal
        return Reading(
            id: ReadingID(high: 0, low: UInt64(number)),
            record: Record(value: .glucose(value), sequence: UInt16(number), baseTime: nil),
            context: meal.map { _ in context }, device: DeviceDescription(address: nil, provider: "manual"),
            time: ResolvedTime(instant: nil, basis: .unknown), receivedAt: Instant(seconds: 0))
    }

    @Test("readings leave once each and in order, with what a later context told of them")
    func readings() {
        var window = ReadingWindow(size: 3)
        #expect(window.take([reading(1), reading(2), reading(3)]).isEmpty)
        #expect(window.take([reading(2, meal: "fasting")]).isEmpty)
        #expect(window.take([reading(4), reading(5)]).map(\.id.low) == [1, 2])
        // Revised after it had left, it is told again: nothing is lost.
        #expect(window.take([reading(2, meal: "snack")]).map(\.id.low) == [3])
        let rest = window.flush()
        #expect(rest.map(\.id.low) == [4, 5, 2] && rest.last?.context?.meal == "snack")
        #expect(window.flush().isEmpty)
    }

    @Test("a reading's context is the last that came while it waited")
    func lastContext() {
        var window = ReadingWindow()
        _ = window.take([reading(1), reading(2)])
        for meal in ["fasting", "snack"] { _ = window.take([reading(1, meal: meal)]) }
        #expect(window.flush().map(\.context?.meal) == ["snack", nil])
    }
}

@Suite("A journal that hands readings on")
struct PassingJournalTests {
    /// 2A18 with a time, and 2A34 with a meal.
    private func record(_ sequence: UInt16, minute: UInt8 = 0) -> [UInt8] {
        [0x02, UInt8(sequence & 255), UInt8(sequence >> 8), 0xEA, 0x07, 11, 20, 12, minute, 0, 0x5F, 0xB0, 0x11]
    }

    private func context(_ sequence: UInt16, meal: UInt8 = 3) -> [UInt8] {
        [0x02, UInt8(sequence & 255), UInt8(sequence >> 8), meal]
    }

    private func run(
        _ values: [(characteristic: UInt16, octets: [UInt8])], by size: Int
    ) async throws -> (readings: [Reading], malformed: Int) {
        let found = Mutex<(readings: [Reading], malformed: Int)>(([], 0))
        let zone = try #require(ZoneRules.named("Europe/Berlin"))
        let journal = PassingJournal(decoder: StandardFrameDecoder(), zone: zone) { outputs in
            found.withLock { found in
                for output in outputs {
                    switch output {
                    case .reading(let reading): found.readings.append(reading)
                    case .malformed: found.malformed += 1
                    }
                }
            }
        }
        let device = DeviceDescription(address: DeviceAddress("C0:00:00:00:18:08"), provider: "accuchek_ble")
        let start = try #require(Instant(rfc3339: "2026-11-21T10:00:00Z"))
        let contact = try await journal.beginContact(with: device, at: start, clock: nil, batteryPercent: nil)
        var frames = values.enumerated().map { number, value in
            Frame(
                format: FrameFormat(characteristic: value.characteristic), payload: value.octets, receivedAt: start,
                ordinal: number)
        }[...]
        while !frames.isEmpty {
            _ = try await journal.append(Array(frames.prefix(size)), of: contact)
            frames = frames.dropFirst(size)
        }
        try await journal.endContact(contact, ContactSummary(isComplete: true, received: values.count))
        return found.withLock { $0 }
    }

    @Test("contexts join whichever comes first; a bad frame stops nothing; bursts of any size give the same")
    func contexts() async throws {
        let values: [(UInt16, [UInt8])] = [
            (0x2A34, context(1)), (0x2A18, record(1)), (0x2A18, record(2, minute: 5)), (0x2A18, [0x02, 3]),
            (0x2A18, record(4, minute: 9)), (0x2A34, context(2, meal: 2)),
        ]
        for size in [1, 2, 6] {
            let (readings, malformed) = try await run(values, by: size)
            #expect(readings.map(\.record.sequence) == [1, 2, 4] && malformed == 1)
            #expect(readings.map { $0.context?.meal != nil } == [true, true, false])
            #expect(readings.map(\.time.instant?.description).first == "2026-11-20T11:00:00Z")
        }
    }

    @Test("a number used twice: its context belongs to the one that came last")
    func numberTwice() async throws {
        let (readings, _) = try await run(
            [(0x2A18, record(1)), (0x2A18, record(1, minute: 30)), (0x2A34, context(1))], by: 1)
        #expect(readings.map { $0.context != nil } == [false, true])
    }

    @Test("a context joins its record across as many others as the window holds, and no more")
    func reach() async throws {
        for (others, isJoined) in [(PassingJournal.window - 1, true), (PassingJournal.window, false)] {
            var values: [(characteristic: UInt16, octets: [UInt8])] = [(0x2A18, record(60_000))]
            for number in 0..<others { values.append((0x2A18, record(UInt16(number)))) }
            values.append((0x2A34, context(60_000)))
            let (readings, _) = try await run(values, by: 37)
            #expect(readings.count == others + 1)
            #expect((readings.first?.context != nil) == isJoined)
        }
    }
}

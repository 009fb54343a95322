import Foundation
import GATTClient
import HealthReadings
import Testing

@testable import HealthDevices

/// Meters are read as they show up.
@Suite struct ScheduleTests {
    let bench = RadioBench()
    let told = Told<ScheduleEvent>()
    static let ready = AdapterState.ready(Adapter(name: "hci0", address: nil))

    /// Runs the schedule while `body` goes on, and ends it.
    func running(_ body: () async throws -> Void) async throws {
        var pace = SchedulePace()
        pace.jitter = { $0 }
        let schedule = MeterSchedule(bench.manager, pace: pace)
        let run = Task { [told] in await schedule.run { told.note($0) } }
        try await eventually("it watches") { bench.radio.watchesBegun > 0 || bench.radio.watched.isEmpty }
        do { try await body() } catch {
            run.cancel()
            await run.value
            throw error
        }
        run.cancel()
        await run.value
        #expect(bench.clock.sleeps.isEmpty, "no timer is left")
    }

    func summaries(_ number: UInt64 = 1) -> [ContactSummary] {
        told.events.compactMap { event in
            if case .transfer(.device(number), .ended(let summary)) = event { summary } else { nil }
        }
    }

    func wasRead(_ number: UInt64 = 1, times: Int, sourceLocation: SourceLocation = #_sourceLocation)
        async throws
    {
        try await eventually("device \(number) is read \(times) times", sourceLocation: sourceLocation) {
            summaries(number).count >= times
        }
        try await settle()
        #expect(summaries(number).count == times, sourceLocation: sourceLocation)
    }

    func failures() -> [(code: String, delay: Duration?)] {
        told.events.compactMap { event in
            if case .failed(_, let failure, let delay) = event { (failure.code, delay) } else { nil }
        }
    }

    func appearances() -> Int { told.events.count { if case .appeared = $0 { true } else { false } } }

    @Test("a paired meter is read when it shows up, others never")
    func shownUp() async throws {
        let meter = try await bench.meter(1, paired: .paired) { $0.isInReach = false }
        let stranger = try await bench.meter(2)
        try await running {
            try await eventually("it is watched for") { bench.radio.watched == [.device(1)] }
            bench.radio.appear(meter)
            try await wasRead(times: 1)
        }
        #expect(summaries() == [ContactSummary(isComplete: true, announced: 5, received: 5)])
        #expect(stranger.log.events.isEmpty)
        #expect(bench.store.pairing(.device(1)) == .proven)
        guard case .adapter(Self.ready)? = told.events.first, appearances() == 1 else {
            Issue.record("\(told.events)")
            return
        }
    }

    @Test("a meter that stays in reach is left alone for its quiet time, then read again", arguments: [false, true])
    func quietTime(isCuff: Bool) async throws {
        if isCuff {
            try await bench.cuff(paired: .proven)
        } else {
            try await bench.meter(paired: .proven)
        }
        try await running {
            for times in 1...3 {
                try await wasRead(times: times)
                // It advertises on, and is heard as soon as it is left.
                try await eventually("its time is kept") { bench.clock.sleeps == [.seconds(300)] }
                bench.clock.advance(by: .seconds(299))
                try await settle()
                #expect(summaries().count == times)
                bench.clock.advance(by: .seconds(1))
            }
            try await wasRead(times: 4)
        }
        #expect(appearances() == 1, "it had never gone")
        #expect(failures().isEmpty)
    }

    @Test("a meter that has gone and come again is read at once")
    func comeAgain() async throws {
        let meter = try await bench.meter(paired: .proven)
        try await running {
            try await wasRead(times: 1)
            try await eventually("its time is kept") { bench.clock.sleeps == [.seconds(300)] }
            bench.radio.vanish(meter)
            bench.clock.advance(by: .seconds(60))
            bench.radio.appear(meter)
            try await wasRead(times: 2)
        }
        #expect(appearances() == 2)
    }

    @Test("a meter that has gone by the time it is due costs nothing from then on")
    func goneWhenDue() async throws {
        let meter = try await bench.meter(paired: .proven)
        try await running {
            try await wasRead(times: 1)
            try await eventually("its time is kept") { bench.clock.sleeps == [.seconds(300)] }
            bench.radio.vanish(meter)
            bench.clock.advance(by: .seconds(300))
            try await eventually("it is listened for") { bench.clock.sleeps == [.seconds(10)] }
            bench.clock.advance(by: .seconds(10))
            try await eventually("it is given up") { bench.clock.sleeps.isEmpty }
            bench.clock.advance(by: .seconds(86_400))
            try await settle()
            #expect(bench.radio.listens == 1)
            bench.radio.appear(meter)
            try await wasRead(times: 2)
        }
    }

    @Test("a monitor is connected only if it says that it has measured, or is believed no longer")
    func advertisedNews() async throws {
        let cuff = try await bench.cuff(paired: .proven) {
            $0.manufacturerData = [0x020E: [0x01, 0x00, 0xD0, 0x02, 0x64]]
        }
        /// It was read, and has gone by the time it is due.
        func goneWhenDue() async throws {
            try await eventually("its time is kept") { bench.clock.sleeps == [.seconds(300)] }
            bench.radio.vanish(cuff)
            bench.clock.advance(by: .seconds(300))
            try await eventually("it is listened for") { bench.clock.sleeps == [.seconds(10)] }
            bench.clock.advance(by: .seconds(10))
            try await eventually("it is given up") { bench.clock.sleeps.isEmpty }
            try await settle()
        }
        /// It comes, and says what it said before.
        func comeWithNothingNew() async throws {
            bench.radio.vanish(cuff)
            bench.clock.advance(by: .seconds(60))
            bench.radio.appear(cuff)
            try await eventually("it is looked at once more") { bench.clock.sleeps == [.seconds(3)] }
        }
        try await running {
            try await wasRead(times: 1)
            try await goneWhenDue()
            try await comeWithNothingNew()
            bench.clock.advance(by: .seconds(3))
            try await eventually("it is looked at later") { bench.clock.sleeps == [.seconds(6)] }
            bench.radio.vanish(cuff)
            bench.clock.advance(by: .seconds(6))
            try await eventually("it is listened for") { bench.clock.sleeps == [.seconds(10)] }
            bench.clock.advance(by: .seconds(10))
            try await eventually("it is left alone") { bench.clock.sleeps.isEmpty }
            try await wasRead(times: 1)
            // What is heard first may be what it said before it measured; and it may measure while it stays in reach.
            try await comeWithNothingNew()
            bench.clock.advance(by: .seconds(3))
            try await eventually("it is looked at later") { bench.clock.sleeps == [.seconds(6)] }
            cuff.change { $0.manufacturerData = [0x020E: [0x01, 0x00, 0xD1, 0x02, 0x64]] }
            bench.clock.advance(by: .seconds(6))
            try await wasRead(times: 2)
            try await goneWhenDue()
            bench.clock.advance(by: .seconds(86_400))
            bench.radio.appear(cuff)
            try await wasRead(times: 3)
        }
    }

    @Test("a meter that is away costs nothing: no timer, no question")
    func away() async throws {
        for number in 1...5 { try await bench.meter(UInt64(number), paired: .proven) { $0.isInReach = false } }
        try await running {
            try await eventually("they are watched for") { bench.radio.watched.count == 5 }
            bench.clock.advance(by: .seconds(1_000_000))
            try await settle()
            #expect(bench.clock.sleeps.isEmpty && bench.radio.listens == 0 && bench.radio.watchesBegun == 1)
        }
        #expect(told.events.count == 1)
    }

    @Test("a meter that is heard before its last contact is wholly over is read all the same")
    func heardEarly() async throws {
        let meter = try await bench.meter(records: glucoseRecords(1...9), paired: .proven) { $0.cutAfter = 6 }
        try await running {
            // Told after the schedule, and before the device is free.
            let unsubscribe = bench.manager.changes.subscribe { _ in
                meter.change { $0.cutAfter = nil }
                usleep(100_000)
            }
            try await wasRead(times: 2)
            unsubscribe()
        }
        #expect(summaries().map(\.isComplete) == [false, true] && bench.store.readingCount == 9)
    }

    @Test("a meter that something else was done with, when it was heard, is read afterwards")
    func occupied() async throws {
        let meter = try await bench.meter(paired: .proven) { $0.isInReach = false }
        try await running {
            try await eventually("it is watched for") { bench.radio.watched == [.device(1)] }
            try await bench.manager.turns.inTurn(.device(1)) {
                bench.radio.appear(meter)
                try await settle()
                #expect(summaries().isEmpty)
            }
            try await wasRead(times: 1)
        }
    }

    @Test("two meters are read at the same time, others wait; one that fails or hangs disturbs no other")
    func twoAtOnce() async throws {
        let held = try await bench.meter(1, paired: .proven) { $0.isHeld = true }
        try await bench.meter(2, paired: .proven) { $0.glucose?.refuses = [.all: 8] }
        for number in 3...6 { try await bench.meter(UInt64(number), paired: .proven) }
        try await bench.cuff(7, paired: .proven)
        try await running {
            for number in 2...7 { try await wasRead(UInt64(number), times: 1) }
            #expect(summaries(1).isEmpty)
            held.change { $0.isHeld = false }
            try await wasRead(1, times: 1)
        }
        #expect(bench.radio.mostConnected == 2)
        for number in [1, 3, 4, 5, 6, 7] as [UInt64] { #expect(summaries(number).first?.isComplete == true) }
        #expect(bench.store.readingCount == 5 * 5 + 2)
    }

    @Test("an oximeter that has sent nothing while it measures is connected again soon, and left alone once it has")
    func measuring() async throws {
        let oximeter = try await bench.meter(paired: .proven) {
            $0.glucose = nil
            $0.name = "Oximeter"
            $0.more = [(0x2A5E, 0x1822)]
        }
        try await running {
            try await wasRead(times: 1)
            try await eventually("it is looked for soon") { bench.clock.sleeps == [.seconds(3)] }
            oximeter.change { $0.streams[0x2A5E] = [[0x00, 98, 0x00, 72, 0x00]] }
            bench.clock.advance(by: .seconds(3))
            try await wasRead(times: 2)
            try await eventually("its time is kept") { bench.clock.sleeps == [.seconds(300)] }
        }
        #expect(summaries().map(\.received) == [0, 1] && bench.store.readingCount == 1)
    }

    @Test("two devices that send for as long as they are worn keep no other from being read")
    func worn() async throws {
        let worn = [
            try await bench.meter(1, paired: .proven) { $0.isHeld = true },
            try await bench.meter(2, paired: .proven) { $0.isHeld = true },
        ]
        let meter = try await bench.meter(3, paired: .proven) { $0.isInReach = false }
        try await running {
            try await eventually("they are being read") {
                worn.allSatisfy { $0.log.events.contains(.start(0x2A52)) }
            }
            bench.radio.appear(meter)
            try await settle()
            #expect(summaries(3).isEmpty, "it waits for its turn")
            try await eventually("their turns end") { bench.clock.sleeps == [.seconds(30), .seconds(30)] }
            bench.clock.advance(by: .seconds(30))
            try await wasRead(3, times: 1)
            #expect(worn.allSatisfy { $0.isConnected })
            for device in worn { device.change { $0.isHeld = false } }
            for number in [1, 2] as [UInt64] { try await wasRead(number, times: 1) }
        }
    }

    @Test("a thermometer that is worn is let go by those who read it on request, and by all for one who unpairs it")
    func requestOfWorn() async throws {
        let thermometer = try await bench.wornThermometer()
        try await running {
            try await eventually("it is being read") { thermometer.log.events.contains(.start(0x2A1C)) }
            let joined = try await bench.manager.read(.device(1)) { _ in }
            #expect(joined.isComplete && joined.received >= 290)
            let later = Told<TransferEvent>()
            let summary = try await bench.manager.read(.device(1)) { later.note($0) }
            #expect(summary.received >= joined.received && later.events.last == .ended(summary))
            #expect(summaries().isEmpty, "the gateway reads on")
            #expect(try await bench.manager.unpair(.device(1)))
            try await eventually("it was left") { summaries().count == 1 }
        }
        #expect(summaries().allSatisfy(\.isComplete) && failures().isEmpty)
        #expect(thermometer.log.events.count { $0 == .connect } == 1)
    }

    @Test("meters that are paired or unpaired meanwhile take effect at once")
    func pairedMeanwhile() async throws {
        try await bench.meter(1)
        try await running {
            try await settle()
            #expect(bench.radio.watched.isEmpty)
            let device = try await bench.manager.pair(.device(1), agent: TestAgent())
            #expect(device.isProven)
            #expect(summaries().isEmpty, "nothing is read in the contact that paired")
            try await wasRead(times: 1)
            #expect(try await bench.manager.unpair(.device(1)))
            try await eventually("it is watched for no longer") { bench.radio.watched.isEmpty }
            bench.clock.advance(by: .seconds(1000))
            try await settle()
            #expect(summaries().count == 1)
        }
    }

    @Test("a bond made by other means is read after a refresh")
    func refreshed() async throws {
        let meter = try await bench.meter(1)
        try await running {
            try await settle()
            meter.change { $0.isPaired = true }
            bench.manager.refresh()
            try await wasRead(times: 1)
        }
        #expect(bench.store.pairing(.device(1)) == .proven)
    }

    @Test("a meter whose bond was removed by other means is not read over a link in clear")
    func bondRemoved() async throws {
        let cuff = try await bench.cuff(paired: .proven) { $0.isInReach = false }
        try await running {
            try await eventually("it is watched for") { bench.radio.watched == [.device(1)] }
            cuff.change {
                $0.isPaired = false
                $0.wantsEncryption = false
            }
            bench.radio.appear(cuff)
            try await eventually("it is watched for no longer") { bench.radio.watched.isEmpty }
            try await settle()
        }
        #expect(cuff.log.events.isEmpty && cuff.cuffRecords.count == 2)
        #expect(bench.store.pairing(.device(1)) == .unpaired)
    }

    @Test("a device is not read while it is paired, and is afterwards")
    func pairingGoesFirst() async throws {
        let meter = try await bench.meter(paired: .proven) { $0.isInReach = false }
        let agent = WaitingAgent()
        try await running {
            try await eventually("it is watched for") { bench.radio.watched == [.device(1)] }
            let pairing = Task { try await bench.manager.pair(.device(1), repair: true, agent: agent) }
            try await eventually("it is waited for") { bench.radio.listens > 0 }
            bench.radio.appear(meter)
            try await eventually("the person is asked") { agent.isAsked }
            bench.radio.appear(meter)
            try await settle()
            #expect(meter.log.events.isEmpty, "nobody connects meanwhile")
            agent.answer()
            #expect(try await pairing.value.isProven)
            try await eventually("it is read") { !summaries().isEmpty }
        }
        #expect(summaries().first?.isComplete == true)
    }

    @Test("a request joins what is being read, and what was read on request is left alone like any other")
    func requests() async throws {
        let meter = try await bench.meter(paired: .proven) { $0.isHeld = true }
        let followed = Told<TransferEvent>()
        try await running {
            try await eventually("it is being read") { meter.log.events.contains(.start(0x2A52)) }
            let request = Task { try await bench.manager.read(.device(1)) { followed.note($0) } }
            try await eventually("it is followed") { !followed.events.isEmpty }
            meter.change { $0.isHeld = false }
            #expect(try await request.value.isComplete)
            try await wasRead(times: 1)
            #expect(meter.log.events.count { $0 == .connect } == 1)
            #expect(try await bench.manager.read(.device(1)) { _ in }.isComplete)
            try await settle()
            #expect(summaries().count == 1)
            #expect(meter.log.events.count { $0 == .connect } == 2)
        }
    }

    @Test("promise 1: a schedule that is ended ends its transfers in order")
    func ended() async throws {
        let meter = try await bench.meter(records: glucoseRecords(1...50), paired: .proven)
        let cuff = try await bench.cuff(2, paired: .proven) { $0.cuffDisconnects = false }
        meter.change {
            $0.silence = .lastsUntilCancelled
            $0.glucose?.withholdsAnswer = true
        }
        cuff.change { $0.silence = .lastsUntilCancelled }
        try await running {
            try await eventually("all have come") { bench.store.readingCount == 52 }
        }
        #expect(meter.log.events.last == .disconnect && cuff.log.events.last == .disconnect)
        #expect(meter.log.events.contains(.stop(0x2A52)) && cuff.log.events.contains(.stop(0x2A35)))
        #expect(meter.log.requests.last == [3, 0])
    }
}

/// An agent whose person takes time.
final class WaitingAgent: PairingAgent {
    private let asked = Told<Bool>()
    private let answered = Told<Bool>()

    var isAsked: Bool { !asked.events.isEmpty }
    func answer() { answered.note(true) }

    func passkey(shownBy device: Advertisement) async throws -> UInt32 { 0 }
    func show(passkey: UInt32, typed: Int, at device: Advertisement) async {}
    func confirm(_ digits: UInt32, shownBy device: Advertisement) async throws -> Bool { true }
    func allowUnauthenticated(_ device: Advertisement) async throws -> Bool {
        asked.note(true)
        while answered.events.isEmpty { try await Task.sleep(for: .milliseconds(1)) }
        return true
    }
}

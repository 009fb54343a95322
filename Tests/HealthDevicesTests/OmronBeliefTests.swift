import Foundation
import GATTClient
import HealthReadings
import Testing

@testable import HealthDevices

@Suite(.timeLimit(.minutes(2))) struct OmronBeliefTests {
    private let bench = RadioBench()
    private let told = Told<ScheduleEvent>()

    private var contacts: Int {
        told.events.count { if case .transfer(_, .ended) = $0 { true } else { false } }
    }

    @Test("a monitor that has measured and sent nothing is not believed to have nothing new")
    func sentNothing() async throws {
        // It says that it has measured. By the standard service nothing came, as where it is busy with its own display.
        let cuff = try await bench.cuff(records: [], paired: .proven) {
            $0.manufacturerData = [0x020E: [0x01, 0x00, 0xD0, 0x02, 0x64]]
        }
        var pace = SchedulePace()
        pace.jitter = { $0 }
        let schedule = MeterSchedule(bench.manager, pace: pace)
        let run = Task { [told] in await schedule.run { told.note($0) } }
        try await eventually("it is read") { contacts == 1 }
        // Of one that is heard before the schedule has taken the end, it is not known that it has gone.
        try await eventually("its time is kept") { bench.clock.sleeps == [.seconds(300)] }
        #expect(bench.store.readingCount == 0)
        bench.radio.vanish(cuff)
        bench.clock.advance(by: .seconds(60))
        cuff.change { $0.cuffRecords = [pressureRecord(1)] }
        // The person presses the button; the monitor says what it said before.
        bench.radio.appear(cuff)
        try await eventually("it is read again") { contacts == 2 }
        #expect(bench.store.readingCount == 1)
        run.cancel()
        await run.value
    }
}

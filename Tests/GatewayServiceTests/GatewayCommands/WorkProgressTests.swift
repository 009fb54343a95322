import HealthReadings
import LogLines
import ReadingStore
import Testing

@testable import GatewayCommands
@testable import GatewayService

@Suite("Progress of work on the whole store")
struct WorkProgressTests {
    private let start = ContinuousClock.now

    @Test("the time that is left follows from what was done since the step began")
    func timeLeft() {
        var meter = ProgressMeter()
        // What an earlier run had done was not done in no time.
        let first = meter.note(StoreProgress(.sealing, done: 400_000, of: 1_000_000), at: start)
        #expect(first?.line == "sealing: 400000 of 1000000")
        #expect(
            meter.note(StoreProgress(.sealing, done: 401_000, of: 1_000_000), at: start + .milliseconds(100)) == nil)
        let early = meter.note(StoreProgress(.sealing, done: 410_000, of: 1_000_000), at: start + .seconds(1))
        #expect(early?.secondsLeft == nil)
        let later = meter.note(StoreProgress(.sealing, done: 500_000, of: 1_000_000), at: start + .seconds(10))
        #expect(later?.line == "sealing: 500000 of 1000000, 50 s left")
        // The end is told however soon it comes; another step begins anew.
        let end = meter.note(StoreProgress(.sealing, done: 1_000_000, of: 1_000_000), at: start + .seconds(10))
        #expect(end?.secondsLeft == 0)
        let next = meter.note(StoreProgress(.rewriting), at: start + .seconds(10))
        #expect(next?.line == "rewriting" && next?.total == nil)
    }

    @Test("bytes are told in MiB, and long times in minutes and hours")
    func words() {
        let half = StoreProgress(.copying, done: 5 << 20, of: (10 << 20) - 1)
        #expect(WorkProgress(half, secondsLeft: 99).line == "copying: 5 of 10 MiB, 99 s left")
        #expect(WorkProgress(half, secondsLeft: 100).line == "copying: 5 of 10 MiB, 2 min left")
        #expect(WorkProgress(half, secondsLeft: 7500).line == "copying: 5 of 10 MiB, 2 h 5 min left")
        #expect(
            WorkProgress(half, secondsLeft: nil).document.text
                == #"{"step":"copying","done":5242880,"total":10485759,"unit":"bytes","seconds_left":null}"#)
    }

    /// Somebody who goes away after the first progress.
    private struct Leaving: OperationOutput {
        struct Gone: Error {}
        func data(_ line: String) {}
        func note(_ line: String) {}
        func progress(_ progress: WorkProgress) throws { throw Gone() }
    }

    @Test("work that nobody follows any more is cancelled", .timeLimit(.minutes(5)))
    func gone() async {
        await #expect(throws: Leaving.Gone.self) {
            try await Leaving().following { progress in
                progress(StoreProgress(.copying, done: 1, of: 2))
                try await Task.sleep(for: .seconds(3600))
            }
        }
    }

    @Test("what work gives, and how it fails, is what following it gives")
    func outcome() async throws {
        #expect(try await Collected().following { _ in 5 } == 5)
        await #expect(throws: StoreError.diskFull) {
            try await Collected().following { (_: @escaping StoreProgress.Handler) -> Int in
                throw StoreError.diskFull
            }
        }
    }

    @Test("the log says once that a disk is nearly full, full, and has room again")
    func disk() {
        let (log, gigabyte) = (LogLines(), Int64(1) << 30)
        var teller = DiskTeller()
        for used in [50, 89, 90, 91, 89, 90, 100, 99, 90, 88, 87, 50] as [Int64] {
            teller.tell(DiskSpace(used: used * gigabyte, free: (100 - used) * gigabyte), log.logger())
        }
        let lines = log.lines()
        #expect(lines.count == 4, "\(lines)")
        #expect(zip(lines, ["warning", "error", "warning", "notice"]).allSatisfy { $0.hasPrefix($1) }, "\(lines)")
        #expect(lines.first?.contains("90") == true)
    }

    @Test("promise 10: the log says once that the store cannot be written, and that it can be again")
    func writing() {
        let log = LogLines()
        var teller = WritingTeller()
        let fault = StoreError.inputOutput(detail: "disk I/O error")
        for fault in [nil, fault, fault, nil, nil] as [StoreError?] { teller.tell(fault, log.logger()) }
        let lines = log.lines()
        #expect(lines.count == 2, "\(lines)")
        #expect(zip(lines, ["error", "notice"]).allSatisfy { $0.hasPrefix($1) }, "\(lines)")
        #expect(lines.first?.contains("disk I/O error") == true, "\(lines)")
    }
}

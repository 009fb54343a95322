#if compiler(>=6.3) && compiler(<6.4)
    import Glibc
    import Synchronization
    import Testing

    @testable import TaskThreads

    /// How many tasks run, and ran.
    private final class Counts: Sendable {
        let state = Mutex((running: 0, most: 0, done: 0))

        func begin() {
            state.withLock {
                $0.running += 1
                $0.most = max($0.most, $0.running)
            }
        }

        func end() {
            state.withLock {
                $0.running -= 1
                $0.done += 1
            }
        }
    }

    @Suite struct TaskThreadPoolTests {
        private let pool = TaskThreadPool(width: 4)

        @Test("ten thousand tasks each run once, at most as many at a time as there are threads")
        func many() async {
            let counts = Counts()
            await withTaskGroup(of: Void.self) { group in
                for _ in 0..<10_000 {
                    group.addTask(executorPreference: pool) {
                        counts.begin()
                        counts.end()
                    }
                }
            }
            let found = counts.state.withLock { $0 }
            #expect(found.done == 10_000 && found.running == 0 && (1...4).contains(found.most))
        }

        @Test("tasks run while others block their threads, as long as one thread is left")
        func blocked() async {
            nonisolated(unsafe) let gate = UnsafeMutablePointer<sem_t>.allocate(capacity: 1)
            sem_init(gate, 0, 0)
            defer { gate.deallocate() }
            let blocking = (0..<3).map { _ in Task(executorPreference: pool) { _ = sem_wait(gate) } }
            #expect(await Task(executorPreference: pool) { 7 }.value == 7)
            for _ in blocking { sem_post(gate) }
            for each in blocking { await each.value }
        }

        @Test("a task that sleeps goes on no earlier, whether its clock counts the machine's sleep or not")
        func later() async throws {
            try await withTaskExecutorPreference(pool) {
                for _ in 0..<3 {
                    let start = SuspendingClock.now
                    try await Task.sleep(for: .milliseconds(20), clock: .continuous)
                    try await Task.sleep(for: .milliseconds(20), clock: .suspending)
                    #expect(start.duration(to: .now) >= .milliseconds(39))
                }
                let sleeping = Task { try await Task.sleep(for: .seconds(3600)) }
                sleeping.cancel()
                await #expect(throws: CancellationError.self) { try await sleeping.value }
            }
        }

        @Test("durations become nanoseconds, none less than 0 and none too many")
        func nanoseconds() {
            #expect(Duration.milliseconds(1500).nanoseconds == 1_500_000_000)
            #expect(Duration.seconds(-1).nanoseconds == 0)
            #expect(Duration.seconds(Int64.max).nanoseconds == .max)
            #expect(Duration.seconds(Int64.min).nanoseconds == 0)
            #expect(
                Duration(secondsComponent: 9_223_372_036, attosecondsComponent: 999_000_000_000_000_000).nanoseconds
                    == .max)
        }
    }
#endif

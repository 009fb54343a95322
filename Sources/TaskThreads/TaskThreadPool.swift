#if compiler(>=6.3) && compiler(<6.4)
    @_spi(ExperimentalCustomExecutors) @_spi(ExperimentalScheduling) import _Concurrency
    import CDispatchTimer
    import DequeModule
    import Dispatch
    import Synchronization

    /// Runs the process's tasks without waking where nothing happens.
    ///
    /// The runtime's own executor gives tasks to a concurrent queue of libdispatch, which looks after the threads of
    /// such queues once a second for as long as the process lives (libdispatch, `src/event/workqueue.c`). Serial queues
    /// it leaves alone: here each thread is one, and takes jobs for as long as there are any.
    ///
    /// How an executor is put in the place of the runtime's own is not public yet, so this is of one compiler; with
    /// others ``installTaskThreads()`` leaves the runtime's own in its place.
    final class TaskThreadPool: TaskExecutor, SchedulingExecutor {
        private struct State {
            var jobs: Deque<UnownedJob> = []
            var idle: [Int]
        }

        private let queues: [DispatchQueue]
        private let state: Mutex<State>

        /// - Parameter width: how many jobs run at a time at most, at least 1.
        init(width: Int) {
            queues = (0..<width).map { DispatchQueue(label: "tasks \($0)") }
            state = Mutex(State(idle: Array((0..<width).reversed())))
        }

        func enqueue(_ job: consuming ExecutorJob) { add(UnownedJob(job)) }

        private func add(_ job: UnownedJob) {
            let woken = state.withLock { state in
                state.jobs.append(job)
                return state.idle.popLast()
            }
            if let woken { queues[woken].async { self.work(as: woken) } }
        }

        private func work(as number: Int) {
            while let job = next(for: number) { job.runSynchronously(on: asUnownedTaskExecutor()) }
        }

        private func next(for number: Int) -> UnownedJob? {
            state.withLock { state in
                let job = state.jobs.popFirst()
                if job == nil { state.idle.append(number) }
                return job
            }
        }

        // MARK: Later

        func enqueue<Timer: Clock>(
            _ job: consuming ExecutorJob, after delay: Timer.Duration, tolerance: Timer.Duration?, clock: Timer
        ) {
            let job = UnownedJob(job)
            guard let delay = delay as? Duration else {
                // A clock that does not count in seconds knows itself how to wait.
                let end = clock.now.advanced(by: delay)
                Task {
                    try? await clock.sleep(until: end, tolerance: tolerance)
                    add(job)
                }
                return
            }
            let due = Unmanaged.passRetained(Due(job: job, pool: self))
            dispatch_timer(clock is ContinuousClock ? 1 : 0, delay.nanoseconds, due.toOpaque()) { context in
                guard let context else { return }
                let due = Unmanaged<Due>.fromOpaque(context).takeRetainedValue()
                due.pool.add(due.job)
            }
        }

        /// What a timer brings.
        private final class Due: Sendable {
            let job: UnownedJob
            let pool: TaskThreadPool

            init(job: UnownedJob, pool: TaskThreadPool) { (self.job, self.pool) = (job, pool) }
        }
    }

    extension Duration {
        /// Nanoseconds, from 0 to about 292 years.
        var nanoseconds: Int64 {
            let (seconds, attoseconds) = components
            let (product, isTooLong) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
            let (sum, isStillTooLong) = product.addingReportingOverflow(attoseconds / 1_000_000_000)
            if isTooLong || isStillTooLong { return self < .zero ? 0 : .max }
            return max(0, sum)
        }
    }
#endif

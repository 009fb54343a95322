import Dispatch
import Synchronization

/// A thread that runs what is isolated to an actor.
///
/// Calls of a reader, of a database or of a broker wait in the system, which the threads that all tasks share must not.
package final class ThreadExecutor: SerialExecutor {
    private struct State {
        var jobs: [UnownedJob] = []
        var isStopped = false
    }

    private let state = Mutex(State())
    private let bell = DispatchSemaphore(value: 0)
    /// Where the system gives no thread.
    private let queue: DispatchQueue?

    /// Starts the thread.
    ///
    /// - Parameter label: names the queue that takes the thread's place where the system gives no thread.
    package init(label: String) {
        let box = Box()
        let status = startThread { box.run() }
        queue = status == 0 ? nil : DispatchQueue(label: label)
        if status == 0 { box.give(self) }
    }

    /// Runs a job of the actor on the thread.
    package func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        if let queue { return queue.async { job.runSynchronously(on: self.asUnownedSerialExecutor()) } }
        state.withLock { $0.jobs.append(job) }
        bell.signal()
    }

    /// Ends the thread, after the jobs it has. Nothing is asked of an executor whose actor is gone.
    package func stop() {
        state.withLock { $0.isStopped = true }
        bell.signal()
    }

    private func run() {
        while true {
            bell.wait()
            let (job, isStopped) = state.withLock { state in
                (state.jobs.isEmpty ? nil : state.jobs.removeFirst(), state.isStopped)
            }
            if let job { job.runSynchronously(on: asUnownedSerialExecutor()) } else if isStopped { return }
        }
    }

    /// Brings the executor to its thread, which begins before the executor is whole.
    private final class Box: Sendable {
        private let executor = Mutex<ThreadExecutor?>(nil)
        private let isGiven = DispatchSemaphore(value: 0)

        func give(_ value: ThreadExecutor) {
            executor.withLock { $0 = value }
            isGiven.signal()
        }

        func run() {
            isGiven.wait()
            let value = executor.withLock { value in
                defer { value = nil }
                return value
            }
            value?.run()
        }
    }
}

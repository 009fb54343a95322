import CDBus
import Dispatch
import Glibc
import Synchronization

/// A thread that waits for the bus and for jobs, and the executor of everything isolated to a connection.
///
/// It sleeps in one poll() over libdbus' socket and an eventfd, without a time-out where no call is waiting for an
/// answer: an idle connection wakes nobody. While signals stream in, it lets them gather (``SignalPace``).
final class EventLoop: SerialExecutor {
    private enum Phase {
        /// Runs jobs.
        case running
        /// Runs the jobs that are left, then ends.
        case stopping
        /// Runs no more jobs; the thread is about to end, or has ended.
        case stopped
        /// The thread will touch nothing any more.
        case gone
    }

    /// What is to be run, and for whom: an actor of this executor, or a task that prefers the loop.
    private struct Job {
        var job: UnownedJob
        var taskExecutor: UnownedTaskExecutor?
    }

    private struct State {
        var jobs: [Job] = []
        var isAsleep = false
        var phase = Phase.running
        var thread: pthread_t?
        weak var connection: DBusConnection?
        var leaveWaiters: [CheckedContinuation<Void, Never>] = []
    }

    /// Runs what is still asked of a connection whose thread has ended, one job at a time.
    private static let afterwards = DispatchQueue(label: "dbus")
    /// Jobs are run in so many batches before the socket is looked at again, however many more come.
    private static let mostBatches = 16

    private let state = Lock(State())
    private let identity = Atomic<UInt>(0)
    private let bell: Int32

    /// - Throws: ``DBusError/cannotConnect(_:)`` where the system gives no eventfd.
    init() throws(DBusError) {
        bell = eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))
        guard bell >= 0 else { throw .cannotConnect("no eventfd: \(systemError(errno))") }
    }

    deinit { Glibc.close(bell) }

    // MARK: Jobs

    func enqueue(_ job: consuming ExecutorJob) { enqueue(Job(job: UnownedJob(job), taskExecutor: nil)) }

    func enqueue(_ job: consuming ExecutorJob, for taskExecutor: UnownedTaskExecutor) {
        enqueue(Job(job: UnownedJob(job), taskExecutor: taskExecutor))
    }

    private func enqueue(_ job: Job) {
        enum Way { case queued, ring, afterwards }
        let way = state.withLock { state -> Way in
            guard state.phase == .running || state.phase == .stopping else { return .afterwards }
            state.jobs.append(job)
            defer { state.isAsleep = false }
            return state.isAsleep ? .ring : .queued
        }
        switch way {
        case .queued: break
        case .ring: ring()
        case .afterwards: Self.afterwards.async { self.perform(job) }
        }
    }

    private func perform(_ job: Job) {
        if let taskExecutor = job.taskExecutor {
            job.job.runSynchronously(isolatedTo: asUnownedSerialExecutor(), taskExecutor: taskExecutor)
        } else {
            job.job.runSynchronously(on: asUnownedSerialExecutor())
        }
    }

    func isIsolatingCurrentContext() -> Bool? { Self.currentThread == identity.load(ordering: .relaxed) }

    func checkIsolated() {
        precondition(isIsolatingCurrentContext() == true, "not on the connection's event loop")
    }

    private static var currentThread: UInt { UInt(pthread_self()) }

    private func ring() { eventfd_write(bell, 1) }

    // MARK: The thread

    /// Starts the thread, which connects first and gives the outcome to `opening`.
    func start(_ address: DBusAddress, _ opening: Opening) {
        let start = Unmanaged.passRetained(ThreadStart(loop: self, address: address, opening: opening))
        // The process' signals are for its other threads.
        var all = sigset_t()
        var before = sigset_t()
        sigfillset(&all)
        pthread_sigmask(SIG_SETMASK, &all, &before)
        let status = state.withLock { state -> Int32 in
            var thread = pthread_t()
            let status = pthread_create(
                &thread, nil,
                { context in
                    if let context { Unmanaged<ThreadStart>.fromOpaque(context).takeRetainedValue().run() }
                    return nil
                }, start.toOpaque())
            if status == 0 { state.thread = thread }
            return status
        }
        pthread_sigmask(SIG_SETMASK, &before, nil)
        if status != 0 {
            start.release()
            _ = opening.settle(.failure(.cannotConnect("no thread: \(systemError(status))")))
        }
    }

    /// What the thread is given.
    private final class ThreadStart: Sendable {
        let loop: EventLoop
        let address: DBusAddress
        let opening: Opening

        init(loop: EventLoop, address: DBusAddress, opening: Opening) {
            (self.loop, self.address, self.opening) = (loop, address, opening)
        }

        func run() { loop.run(address, opening) }
    }

    private func run(_ address: DBusAddress, _ opening: Opening) {
        pthread_setname_np(pthread_self(), "dbus")
        identity.store(Self.currentThread, ordering: .relaxed)
        do throws(DBusError) {
            let transport = try BusTransport(address)
            do throws(DBusError) {
                try transport.greet(bell: bell) { opening.isSettled }
            } catch {
                transport.close()
                throw error
            }
            if opening.settle(.success(transport)) { turn(transport) } else { transport.close() }
        } catch {
            _ = opening.settle(.failure(error))
        }
        // Once the thread has ended, another may bear its number.
        identity.store(0, ordering: .relaxed)
        let waiters = state.withLock { state in
            state.phase = .gone
            defer { state.leaveWaiters = [] }
            return state.leaveWaiters
        }
        for waiter in waiters { waiter.resume() }
    }

    private func turn(_ transport: BusTransport) {
        enum Next { case run, sleep, close, leave }
        var pace = SignalPace()
        var batches = 0
        var isClosed = false
        while true {
            var jobs: [Job] = []
            let next = state.withLock { state -> Next in
                if !state.jobs.isEmpty {
                    swap(&jobs, &state.jobs)
                    return .run
                }
                if state.phase == .stopping {
                    // From .stopped on, jobs run elsewhere: nothing they touch may be touched here.
                    if isClosed { state.phase = .stopped }
                    return isClosed ? .leave : .close
                }
                state.isAsleep = true
                return .sleep
            }
            switch next {
            case .leave: return
            case .close:
                transport.close()
                isClosed = true
                continue
            case .run:
                for job in jobs { perform(job) }
                batches += 1
                if batches < Self.mostBatches { continue }
                wait(for: transport, atMost: 0, &pace)
            case .sleep:
                wait(for: transport, atMost: transport.timeout, &pace)
            }
            batches = 0
        }
    }

    /// Sleeps until there is something to do, and lets the connection do what the bus brought.
    private func wait(for transport: BusTransport, atMost timeout: Int32, _ pace: inout SignalPace) {
        // What comes meanwhile waits for what comes behind it. Jobs do not wait, nor a call for its answer (it has a
        // time-out), nor what is still to be written.
        let rest = timeout < 0 && transport.wanted.events == Int16(POLLIN) ? pace.rest() : nil
        var (rung, brought) = sleep(rest == nil ? transport.wanted : Self.nothing, atMost: rest ?? timeout)
        if rest != nil, !rung { brought = Int16(POLLIN) }
        if rung {
            var count: eventfd_t = 0
            eventfd_read(bell, &count)
        }
        let connection = state.withLock { state in
            state.isAsleep = false
            return state.connection
        }
        guard brought != 0 || transport.isDue, let connection else { return }
        let came = connection.assumeIsolated { $0.wake(brought, takesAll: pace.isStreaming) }
        pace.woke(forSignals: came)
    }

    private static let nothing = pollfd(fd: -1, events: 0, revents: 0)

    /// - Returns: whether the bell rang, and what the socket has.
    private func sleep(_ socket: pollfd, atMost timeout: Int32) -> (rung: Bool, brought: Int16) {
        var polled = (pollfd(fd: bell, events: Int16(POLLIN), revents: 0), socket)
        withUnsafeMutableBytes(of: &polled) { bytes in
            _ = poll(bytes.assumingMemoryBound(to: pollfd.self).baseAddress, 2, timeout)
        }
        return (polled.0.revents != 0, polled.1.revents)
    }

    // MARK: Beginning and end

    /// From now on this connection does what the bus brings.
    func attach(_ connection: DBusConnection) { state.withLock { $0.connection = connection } }

    /// Ends the thread after the jobs it has, and returns when it has ended.
    func stop() async {
        requestStop()
        await withCheckedContinuation { continuation in
            let isGone = state.withLock { state in
                if state.phase == .gone { return true }
                state.leaveWaiters.append(continuation)
                return false
            }
            if isGone { continuation.resume() }
        }
        joinThread()
    }

    /// Ends the thread after the jobs it has, and does not wait for it: whoever lets go of a connection last may be one of
    /// the few threads that all tasks share.
    func leave() {
        requestStop()
        detachThread()
    }

    /// Lets the thread end by itself: at once where it waits for the bus's answer, else when the system lets it.
    func abandon() {
        ring()
        detachThread()
    }

    private func requestStop() {
        let isAsleep = state.withLock { state in
            if state.phase == .running { state.phase = .stopping }
            defer { state.isAsleep = false }
            return state.isAsleep
        }
        if isAsleep { ring() }
    }

    private func joinThread() {
        guard let thread = takeThread() else { return }
        if pthread_equal(thread, pthread_self()) != 0 { pthread_detach(thread) } else { pthread_join(thread, nil) }
    }

    private func detachThread() {
        if let thread = takeThread() { pthread_detach(thread) }
    }

    private func takeThread() -> pthread_t? {
        state.withLock { state in
            defer { state.thread = nil }
            return state.thread
        }
    }
}

/// The event loop as what tasks may prefer.
final class EventLoopTasks: TaskExecutor {
    private let loop: EventLoop

    init(_ loop: EventLoop) { self.loop = loop }

    func enqueue(_ job: consuming ExecutorJob) { loop.enqueue(job, for: asUnownedTaskExecutor()) }
}

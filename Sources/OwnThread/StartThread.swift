import Glibc

/// Starts a thread that runs `body` and then ends. Nobody waits for it, and it gets none of the process's signals: they are
/// for the other threads.
///
/// - Returns: 0, or the system's error if it gives no thread; `body` isn't run then.
package func startThread(_ body: @escaping @Sendable () -> Void) -> Int32 {
    let start = Unmanaged.passRetained(ThreadBody(body))
    var (all, before) = (sigset_t(), sigset_t())
    sigfillset(&all)
    pthread_sigmask(SIG_SETMASK, &all, &before)
    var thread = pthread_t()
    let status = pthread_create(
        &thread, nil,
        { context in
            if let context { Unmanaged<ThreadBody>.fromOpaque(context).takeRetainedValue().run() }
            return nil
        }, start.toOpaque())
    pthread_sigmask(SIG_SETMASK, &before, nil)
    if status == 0 { pthread_detach(thread) } else { start.release() }
    return status
}

/// What a thread is given.
private final class ThreadBody: Sendable {
    let run: @Sendable () -> Void

    init(_ run: @escaping @Sendable () -> Void) { self.run = run }
}

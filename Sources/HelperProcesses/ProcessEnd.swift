import Glibc

/// How the gateway and the collector end.
public enum ProcessEnd {
    /// Ends this process at once, without what libraries registered for `exit`.
    ///
    /// Threads of Dispatch, of NIO and of the runtime outlive the work that a program was asked to do. `exit` has libraries
    /// free what they share while such a thread may still use it, or may end and tell them so: libcrypto's cleanup has then
    /// crashed programs that had done all they were asked. The kernel gives everything back in any case.
    ///
    /// What was written with C's streams and not flushed is lost: programs that end so write to descriptors.
    public static func now(_ status: Int32) -> Never { _exit(status) }
}

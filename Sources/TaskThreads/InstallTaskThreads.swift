#if compiler(>=6.3) && compiler(<6.4)
    @_spi(ExperimentalCustomExecutors) import _Concurrency
    import Glibc

    /// Has the process's tasks run by threads that wake for tasks alone. To be called before the first task is made.
    public func installTaskThreads() { _createExecutors(factory: TaskThreadFactory.self) }

    private enum TaskThreadFactory: ExecutorFactory {
        // As many as there are processors; four at least, for a task may have to wait for the disk.
        private static let pool = TaskThreadPool(width: max(4, sysconf(Int32(_SC_NPROCESSORS_ONLN))))

        static var defaultExecutor: any TaskExecutor { pool }
        static var mainExecutor: any MainExecutor { PlatformExecutorFactory.mainExecutor }
    }
#else
    /// Leaves the runtime's own executor in its place: this compiler has no known way to put another there.
    public func installTaskThreads() {}
#endif

import CPCSC
import OwnThread

/// Waits for changes at the readers, for one task.
///
/// A wait holds its thread, and pcscd ends the waits of a whole connection. So each watch has a thread and a connection of its
/// own: no request and no other wait stands behind it, and it can be ended without ending another.
actor PCSCWatch {
    /// The reader's name, or its beginning; `nil` for all.
    private let name: String?
    private let executor = ThreadExecutor(label: "nfc")
    private let interruption = PCSCInterruption()
    private var service: PCSCService?
    /// The readers' states when they were last looked at.
    private var states: [PCSCService.ReaderState] = []

    init(reader name: String?) { self.name = name }

    deinit { executor.stop() }

    /// The thread that waits.
    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    /// The readers' states, at once.
    func now() async throws(ISO15693Error) -> [PCSCService.ReaderState] {
        let service = try started()
        states = try service.states(of: try service.readers(named: name))
        return states
    }

    /// The readers' states after one of them has become another, or after the time.
    ///
    /// - Throws: ``ISO15693Error/cancelled`` as soon as the task is cancelled.
    func next(within milliseconds: DWORD) async throws(ISO15693Error) -> [PCSCService.ReaderState] {
        let result = await withTaskCancellationHandler(
            operation: { () async -> Result<[PCSCService.ReaderState], ISO15693Error> in
                do throws(ISO15693Error) { return .success(try wait(milliseconds)) } catch { return .failure(error) }
            },
            onCancel: { [interruption] in interruption.interrupt() })
        return try result.get()
    }

    private func wait(_ milliseconds: DWORD) throws(ISO15693Error) -> [PCSCService.ReaderState] {
        let service = try started()
        interruption.begin(service.context)
        defer { interruption.end() }
        if Task.isCancelled { throw .cancelled }
        // In the arrivals' upper half stands how many readers are known.
        let known = states.map(\.event) + [DWORD(try service.readers().count) << 16]
        let watched = states.map(\.name)
        states = try service.states(of: watched + [PCSCService.arrivals], known: known, milliseconds: milliseconds)
            .dropLast()
        // One that was unplugged is not waited for; another may have come.
        let names = try service.readers(named: name)
        if names != watched { states = try service.states(of: names) }
        return states
    }

    private func started() throws(ISO15693Error) -> PCSCService {
        if let service { return service }
        let service = try PCSCService()
        self.service = service
        return service
    }
}

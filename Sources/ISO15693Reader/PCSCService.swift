import CPCSC
import Dispatch
import Glibc
import Synchronization

/// The connection to pcscd. Its calls wait in the system.
final class PCSCService {
    /// A reader's state.
    struct ReaderState {
        var name: String
        /// SCARD_STATE_ bits, and above them pcscd's count of changes.
        var event: DWORD
        var answerToReset: [UInt8]

        var hasCard: Bool { event & DWORD(SCARD_STATE_PRESENT) != 0 && event & DWORD(SCARD_STATE_MUTE) == 0 }
        var kind: PCSCCardKind { PCSCCardKind(answerToReset: answerToReset) }
        /// pcscd's count of what has come to it and gone.
        var changes: DWORD { event >> 16 }
        /// Whether an ISO 15693 tag is at it.
        var hasTag: Bool { hasCard && kind == .iso15693 }
    }

    let context: SCARDCONTEXT
    /// What stands for the coming and going of readers, among readers that are waited for.
    static let arrivals = "\\\\?PnP?\\Notification"

    /// - Throws: ``ISO15693Error/noPCSCService`` where pcscd does not run.
    init() throws(ISO15693Error) {
        var context = SCARDCONTEXT()
        try Self.check(SCardEstablishContext(DWORD(SCARD_SCOPE_SYSTEM), nil, nil, &context), reader: nil)
        self.context = context
    }

    deinit { SCardReleaseContext(context) }

    /// The readers' names.
    func readers() throws(ISO15693Error) -> [String] {
        while true {
            var length = DWORD(0)
            let result = SCardListReaders(context, nil, nil, &length)
            if UInt32(truncatingIfNeeded: result) == CPCSC_NO_READERS_AVAILABLE.rawValue { return [] }
            try Self.check(result, reader: nil)
            var names = [CChar](repeating: 0, count: Int(length) + 1)
            let second = SCardListReaders(context, nil, &names, &length)
            // One may have come between the two.
            if UInt32(truncatingIfNeeded: second) == 0x8010_0008 { continue }
            if UInt32(truncatingIfNeeded: second) == CPCSC_NO_READERS_AVAILABLE.rawValue { return [] }
            try Self.check(second, reader: nil)
            return names.prefix(Int(length)).split(separator: 0).map { name in
                String(decoding: name.map { UInt8(truncatingIfNeeded: $0) }, as: UTF8.self)
            }
        }
    }

    /// The names of the readers that are meant.
    ///
    /// - Parameter name: a reader's name, or the beginning of one; `nil` for all.
    func readers(named name: String?) throws(ISO15693Error) -> [String] {
        let all = try readers()
        guard let name else {
            if all.isEmpty { throw .noReader(nil) }
            return all
        }
        if all.contains(name) { return [name] }
        let similar = all.filter { $0.hasPrefix(name) }
        if similar.isEmpty { throw .noReader(name) }
        return similar
    }

    /// The states of readers, at once; with `known` given, after one of them has become another, or after the time.
    /// - Parameter milliseconds: at most so long; 0 for at once.
    func states(
        of names: [String], known: [DWORD]? = nil, milliseconds: DWORD = 0
    ) throws(ISO15693Error) -> [ReaderState] {
        guard !names.isEmpty else { return [] }
        let states = UnsafeMutablePointer<SCARD_READERSTATE>.allocate(capacity: names.count)
        for (index, name) in names.enumerated() {
            var state = SCARD_READERSTATE()
            state.szReader = UnsafePointer(strdup(name))
            state.dwCurrentState = known?[index] ?? DWORD(SCARD_STATE_UNAWARE)
            (states + index).initialize(to: state)
        }
        defer {
            for index in names.indices { free(UnsafeMutableRawPointer(mutating: states[index].szReader)) }
            states.deallocate()
        }
        let result = SCardGetStatusChange(context, milliseconds, states, DWORD(names.count))
        if UInt32(truncatingIfNeeded: result) != CPCSC_TIMEOUT.rawValue {
            try Self.check(result, reader: names.count == 1 ? names[0] : nil)
        }
        return names.enumerated().map { index, name in
            let length = min(Int(states[index].cbAtr), 33)
            let octets = withUnsafeBytes(of: states[index].rgbAtr) { Array($0.prefix(length)) }
            return ReaderState(name: name, event: states[index].dwEventState, answerToReset: octets)
        }
    }

    /// Turns a result into what it means.
    static func check(_ result: LONG, reader: String?) throws(ISO15693Error) {
        let code = UInt32(truncatingIfNeeded: result)
        guard code != 0 else { return }
        switch cpcsc_result(code) {
        case CPCSC_NO_SERVICE, CPCSC_SERVICE_STOPPED, CPCSC_INVALID_HANDLE: throw .noPCSCService
        case CPCSC_CANCELLED: throw .cancelled
        case CPCSC_UNKNOWN_READER: throw .noReader(reader)
        case CPCSC_NO_READERS_AVAILABLE: throw .noReader(nil)
        case CPCSC_READER_UNAVAILABLE: throw .portGone
        case CPCSC_SHARING_VIOLATION: throw .portInUse(reader ?? "pcsc:", pid: nil)
        case CPCSC_NO_SMARTCARD: throw .noTag
        case CPCSC_REMOVED_CARD: throw .tagLeft
        // What pcscd says of a tag that is taken away before it has noticed.
        case CPCSC_UNRESPONSIVE_CARD, CPCSC_UNPOWERED_CARD, CPCSC_NOT_TRANSACTED, CPCSC_COMM_ERROR: throw .tagSilent
        case CPCSC_TIMEOUT: throw .readerSilent
        case CPCSC_NO_ACCESS, CPCSC_SECURITY_VIOLATION:
            throw .notPermitted(
                reader ?? "pcsc:", mend: "let this user use PC/SC with a polkit rule: see Documentation/nfc.md")
        default:
            let name = pcsc_stringify_error(result).map { String(cString: $0) } ?? "an error without a name"
            throw .reader(code: Int32(bitPattern: code), name: name)
        }
    }
}

/// Ends a wait for a change of a reader's state, from any thread. Each ``PCSCWatch`` has its own: what is repeated too long
/// would end somebody else's wait.
final class PCSCInterruption: Sendable {
    private let waiting = Mutex<SCARDCONTEXT?>(nil)

    /// From now on until ``end()``, ``interrupt()`` ends the wait in this context.
    func begin(_ context: SCARDCONTEXT) { waiting.withLock { $0 = context } }

    func end() { waiting.withLock { $0 = nil } }

    /// Ends the wait. pcscd forgets a cancellation that comes a moment too early: it is repeated until the wait is
    /// over.
    func interrupt() {
        let isWaiting = waiting.withLock { context in
            if let context { SCardCancel(context) }
            return context != nil
        }
        guard isWaiting else { return }
        DispatchQueue.global().asyncAfter(deadline: .now() + .milliseconds(20)) { self.interrupt() }
    }
}

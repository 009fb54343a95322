import Glibc
import HelperProcesses
import NFCPipe
import OwnThread
import Synchronization

/// A reader behind libnfc, which lives in the program `healthrelay-nfc`. ``NFCReaders/reader(_:)`` makes one.
///
/// The program is started for the first request, and anew for the next one after it was lost. Its calls wait on a
/// thread of this actor's own.
public actor LibNFCTransport: TagReader {
    private let reader: LibNFCReader
    private let program: String?
    private let answerTime: Duration
    private let executor = ThreadExecutor(label: "nfc")
    private var helper: HelperProcess? {
        didSet { number.store(helper?.identifier ?? 0, ordering: .relaxed) }
    }
    private let number = Atomic<Int32>(0)
    private var lines = NFCLineBuffer()
    private var isOpen = false
    /// Whether a tag has answered since one was last missed.
    private var hasSeenTag = false
    /// The UID of the tag that answered an inventory last.
    private var lastTag: [UInt8]?
    /// Errors of the reader in a row.
    private var failures = 0

    /// How long the program may take over its start, and over opening a reader.
    private static let opening = Duration.seconds(20)
    /// How much longer than the reader the program may take.
    private static let grace = Duration.seconds(3)
    /// How long the program may take to give its reader back.
    private static let closing = Duration.seconds(4)

    /// - Parameters:
    ///   - reader: the reader's name.
    ///   - program: where `healthrelay-nfc` is; looked for beside this program where nil.
    ///   - answerTime: how long the reader may take over one answer: a millisecond to a minute.
    package init(_ reader: LibNFCReader, program: String? = nil, answerTime: Duration = .seconds(1)) {
        (self.reader, self.program) = (reader, program)
        self.answerTime = min(max(answerTime, .milliseconds(1)), .seconds(60))
    }

    deinit { executor.stop() }

    /// The thread that waits.
    public nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    /// The program's number, while it runs; told also while a request waits.
    nonisolated var helperIdentifier: Int32? {
        let number = number.load(ordering: .relaxed)
        return number == 0 ? nil : number
    }

    // MARK: Asking

    /// Asks the tag in the field; see ``ISO15693Transport``.
    public func exchange(_ request: ISO15693Request) async throws(ISO15693Error) -> [UInt8] {
        if Task.isCancelled { throw .cancelled }
        do throws(ISO15693Error) {
            try open()
            let data = try ask(request)
            (hasSeenTag, failures) = (true, 0)
            if request == .inventory { lastTag = try? ISO15693Answer.uid(inInventory: data) }
            return data
        } catch {
            judge(error)
            throw error
        }
    }

    /// Waits until a tag is at the reader; see ``TagReader``.
    public func waitForTag() async throws(ISO15693Error) -> [UInt8] { try await FieldWatch(reader: self).untilTag() }

    /// Waits until the tag that answered last is at the reader no more; see ``TagReader``.
    public func waitForTagToLeave() async throws(ISO15693Error) {
        try await FieldWatch(reader: self).untilGone(lastTag)
    }

    /// Gives the reader back.
    public func close() async { end() }

    /// Opens the reader, and tells whether it speaks ISO 15693: nil where it cannot be asked.
    func identify() async throws(ISO15693Error) -> (name: String, speaksISO15693: Bool?) {
        do throws(ISO15693Error) {
            return try opened()
        } catch {
            judge(error)
            throw error
        }
    }

    /// The readers libnfc finds by itself, by its names; serial ports are not tried.
    func list() async throws(ISO15693Error) -> [String] {
        guard case .readers(let readers) = try call(.list, within: Self.opening) else { throw unexpected() }
        return readers
    }

    /// Asks the tag; where none answers, whether one is there at all.
    private func ask(_ request: ISO15693Request) throws(ISO15693Error) -> [UInt8] {
        if let answer = try forward(request) { return try ISO15693Answer.data(ofFrame: answer) }
        if request != .inventory, try forward(.inventory) != nil { throw .tagSilent }
        throw hasSeenTag ? .tagLeft : .noTag
    }

    /// A request's answer as it came; nil where there is none.
    private func forward(_ request: ISO15693Request) throws(ISO15693Error) -> [UInt8]? {
        let time = answerTime.components
        let milliseconds = time.seconds * 1000 + time.attoseconds / 1_000_000_000_000_000
        // The reader's acknowledgement has a time of its own before its answer's.
        let patience = answerTime * 2 + Self.grace
        switch try reply(
            .exchange(frame: request.frame, milliseconds: UInt16(clamping: milliseconds)), within: patience)
        {
        case .answer(let octets): return octets
        case .failed(.unanswered): return nil
        case .failed(let failure): throw error(failure)
        default: throw unexpected()
        }
    }

    /// What an error means for what comes next.
    private func judge(_ error: ISO15693Error) {
        switch error {
        case .tag, .badCRC, .malformedAnswer, .tagSilent: (hasSeenTag, failures) = (true, 0)
        case .noTag, .tagLeft: (hasSeenTag, failures) = (false, 0)
        case .readerSilent, .reader:
            // Once may be a disturbance: often the next request is answered.
            failures += 1
            if failures > 1 || !isOpen { end() }
        default: end()
        }
    }

    // MARK: The program

    private func open() throws(ISO15693Error) {
        if isOpen { return }
        if try opened().speaksISO15693 == false { throw .cannotSpeakISO15693 }
    }

    private func opened() throws(ISO15693Error) -> (name: String, speaksISO15693: Bool?) {
        guard case .opened(let speaks, let name) = try call(.open(reader: reader.description), within: Self.opening)
        else { throw unexpected() }
        (isOpen, hasSeenTag, failures) = (true, false, 0)
        return (name, speaks)
    }

    private func call(_ request: NFCRequest, within time: Duration) throws(ISO15693Error) -> NFCReply {
        let answer = try reply(request, within: time)
        if case .failed(let failure) = answer { throw error(failure) }
        return answer
    }

    private func reply(_ request: NFCRequest, within time: Duration) throws(ISO15693Error) -> NFCReply {
        let helper = try start()
        do throws(HelperError) {
            try helper.send(Array((request.line + "\n").utf8))
        } catch {
            throw lost(error)
        }
        return try nextReply(helper, within: time)
    }

    private func nextReply(_ helper: HelperProcess, within time: Duration) throws(ISO15693Error) -> NFCReply {
        let deadline = ContinuousClock.now + time
        while true {
            do throws(NFCLineError) {
                if let line = try lines.next() { return try NFCReply(line: line) }
            } catch {
                end()
                throw .helperFailed(error.description)
            }
            let octets: [UInt8]?
            do throws(HelperError) { octets = try helper.receive(within: deadline - .now) } catch { throw lost(error) }
            guard let octets else {
                // A driver that does not keep its times would wait for ever.
                helper.kill()
                end()
                throw .readerSilent
            }
            lines.append(octets)
        }
    }

    private func start() throws(ISO15693Error) -> HelperProcess {
        if let helper { return helper }
        let helper: HelperProcess
        let path = try path()
        do throws(HelperError) {
            helper = try HelperProcess(path: path, environment: ["SWIFT_BACKTRACE": "enable=no"])
        } catch {
            throw lost(error)
        }
        (self.helper, lines) = (helper, NFCLineBuffer())
        guard case .hello(NFCReply.version, _) = try nextReply(helper, within: Self.opening) else {
            end()
            throw .helperFailed("it belongs to another version of healthrelay")
        }
        return helper
    }

    private func path() throws(ISO15693Error) -> String {
        if let program { return program }
        switch HelperProgram.find("healthrelay-nfc") {
        case .found(let path): return path
        case .notPermitted(let path, _): throw .helperMissing("this user may not run \(path)")
        case .missing(let expected):
            throw .helperMissing("it is not beside healthrelay" + (expected.map { ", nor in \($0)" } ?? ""))
        }
    }

    private func end() {
        helper?.finish(within: Self.closing)
        (helper, isOpen, hasSeenTag, failures) = (nil, false, false, 0)
    }

    // MARK: Errors

    private func lost(_ error: HelperError) -> ISO15693Error {
        end()
        switch error {
        case .cannotRun(let path, let code):
            return .helperMissing("\(path): \(strerror(code).map { String(cString: $0) } ?? "error \(code)")")
        case .ended(.signal(let number), _): return .helperDied(signal: number)
        case .ended(.exited(127), let words?): return .helperMissing(words)
        case .ended(.exited(let status), let words): return .helperFailed(words ?? "it ended with status \(status)")
        }
    }

    private func unexpected() -> ISO15693Error {
        end()
        return .helperFailed("it gave an unexpected answer")
    }

    private func error(_ failure: NFCFailure) -> ISO15693Error {
        switch failure {
        case .malformed(let why): .helperFailed("it did not understand: \(why)")
        case .refused: .helperFailed("it refused the request")
        case .notOpen: .helperFailed("it lost its reader")
        case .noPort(let name): .noReader(name)
        case .portInUse(let name, let pid): .portInUse(name, pid: pid)
        case .notPermitted(let name, let group?):
            .notPermitted(name, mend: "add the user to the group `\(group)` and log in again")
        case .notPermitted(let name, nil):
            .notPermitted(name, mend: "only root may open it: the system's udev rules give it no group")
        case .portGone: .portGone
        case .silent: .readerSilent
        case .unanswered: .noTag
        case .library(let code, let name): .reader(code: code, name: name)
        }
    }
}

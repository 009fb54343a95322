import CPCSC
import OwnThread

/// An ISO 15693 reader behind the PC/SC service.
///
/// Where the reader has transparent sessions, frames go to the tag as they are. Where it has not, its own commands read
/// the UID and the memory; ``ISO15693Request/systemInformation`` and ``ISO15693Request/patchInformation`` are then
/// ``ISO15693Error/readerCannotAsk(_:)``, and a sensor's model can only be told from its memory.
public actor PCSCTransport: TagReader {
    /// The reader's name, or its beginning; nil for whichever has a tag.
    private let name: String?
    private let executor = ThreadExecutor(label: "nfc")
    private let interruption = PCSCInterruption()
    private var service: PCSCService?
    private var card: PCSCCard?
    private var hasSeenTag = false

    /// How long one wait for a change lasts, in milliseconds: a service that forgets to tell is asked again.
    private static let longest: DWORD = 60_000

    /// - Parameter name: the reader's name as pcscd has it, or the beginning of one; nil for whichever has a tag.
    public init(reader name: String? = nil) { self.name = name }

    deinit { executor.stop() }

    /// The thread that waits.
    public nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    // MARK: Asking

    /// Asks the tag in the field; see ``ISO15693Transport``.
    public func exchange(_ request: ISO15693Request) async throws(ISO15693Error) -> [UInt8] {
        if Task.isCancelled { throw .cancelled }
        do throws(ISO15693Error) {
            let data = try ask(request)
            hasSeenTag = true
            return data
        } catch .noTag where hasSeenTag {
            drop()
            throw .tagLeft
        } catch {
            judge(error)
            throw error
        }
    }

    /// Gives the reader back.
    public func close() async {
        drop()
        service = nil
    }

    private func ask(_ request: ISO15693Request) throws(ISO15693Error) -> [UInt8] {
        let card = try connected()
        if let answer = try Self.exchange(request, card) { return try ISO15693Answer.data(of: answer) }
        if request != .inventory, try Self.exchange(.inventory, card) != nil { throw .tagSilent }
        throw .noTag
    }

    /// The tag's answer; nil where it gave none.
    private static func exchange(
        _ request: ISO15693Request, _ card: PCSCCard
    ) throws(ISO15693Error) -> [UInt8]? {
        do throws(ISO15693Error) { return try card.exchange(request) } catch .tagSilent { return nil }
    }

    private func judge(_ error: ISO15693Error) {
        switch error {
        case .tag, .badCRC, .malformedAnswer, .tagSilent: hasSeenTag = true
        case .readerCannotAsk, .cancelled: break
        case .noPCSCService:
            drop()
            service = nil
        default: drop()
        }
    }

    private func drop() { (card, hasSeenTag) = (nil, false) }

    private func connected() throws(ISO15693Error) -> PCSCCard {
        if let card { return card }
        let service = try started()
        let readers = try service.states(of: try wanted(service))
        guard let found = readers.first(where: { $0.hasCard && $0.kind == .iso15693 }) else {
            throw readers.contains(where: \.hasCard) ? .otherTag : .noTag
        }
        let card = try PCSCCard(service, reader: found.name)
        self.card = card
        return card
    }

    private func started() throws(ISO15693Error) -> PCSCService {
        if let service { return service }
        let service = try PCSCService()
        self.service = service
        return service
    }

    /// The readers that are meant.
    private func wanted(_ service: PCSCService) throws(ISO15693Error) -> [String] {
        let all = try service.readers()
        guard let name else {
            if all.isEmpty { throw .noReader(nil) }
            return all
        }
        if all.contains(name) { return [name] }
        let similar = all.filter { $0.hasPrefix(name) }
        if similar.isEmpty { throw .noReader(name) }
        return similar
    }

    // MARK: Waiting

    /// Waits until a tag is at the reader; see ``TagReader``.
    public func waitForTag() async throws(ISO15693Error) -> [UInt8] {
        while true {
            try await wait { $0.contains { $0.hasCard && $0.kind == .iso15693 } }
            do throws(ISO15693Error) {
                return try await uid()
            } catch .noTag, .tagLeft, .tagSilent, .otherTag {
                do { try await Task.sleep(for: .milliseconds(200)) } catch { throw .cancelled }
            }
        }
    }

    /// Waits until no tag is at the reader; see ``TagReader``.
    public func waitForTagToLeave() async throws(ISO15693Error) {
        // In a transparent session a reader does not look for itself.
        drop()
        try await wait { !$0.contains { $0.hasCard && $0.kind == .iso15693 } }
    }

    /// Waits until the readers' states are such.
    private func wait(until isReached: @Sendable ([PCSCService.ReaderState]) -> Bool) async throws(ISO15693Error) {
        let result = await withTaskCancellationHandler(
            operation: { () async -> Result<Void, ISO15693Error> in
                do throws(ISO15693Error) { return .success(try watch(until: isReached)) } catch {
                    judge(error)
                    return .failure(error)
                }
            },
            onCancel: { [interruption] in interruption.interrupt() })
        try result.get()
    }

    private func watch(until isReached: ([PCSCService.ReaderState]) -> Bool) throws(ISO15693Error) {
        let service = try started()
        interruption.begin(service.context)
        defer { interruption.end() }
        var names = try wanted(service)
        var states = try service.states(of: names)
        while !isReached(states) {
            if Task.isCancelled { throw .cancelled }
            // In the arrivals' upper half stands how many readers are known.
            let known = states.map(\.event) + [DWORD(try service.readers().count) << 16]
            states = try service.states(of: names + [PCSCService.arrivals], known: known, milliseconds: Self.longest)
                .dropLast()
            // One that was unplugged is not waited for; another may have come.
            let now = try wanted(service)
            if now != names {
                names = now
                states = try service.states(of: names)
            }
        }
    }

    // MARK: Listing

    /// The readers there are, and what is at them.
    func list() async throws(ISO15693Error) -> [PCSCService.ReaderState] {
        let service = try started()
        return try service.states(of: try service.readers())
    }
}

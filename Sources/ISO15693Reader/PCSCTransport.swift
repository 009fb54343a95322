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
    private var service: PCSCService?
    private var card: PCSCCard?
    private var hasSeenTag = false
    /// The UID of the tag that answered an inventory last.
    private var lastTag: [UInt8]?
    /// How many requests there were.
    private var requests = 0

    /// How long one wait for a change lasts, in milliseconds: a service that forgets to tell is asked again.
    private static let longest: DWORD = 60_000
    /// How long a session that nobody uses stays open while a tag is waited for to leave, in milliseconds.
    private static let idleSession: DWORD = 2000

    /// - Parameter name: the reader's name as pcscd has it, or the beginning of one; nil for whichever has a tag.
    public init(reader name: String? = nil) { self.name = name }

    deinit { executor.stop() }

    /// The thread that waits.
    public nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    // MARK: Asking

    /// Asks the tag in the field; see ``ISO15693Transport``.
    public func exchange(_ request: ISO15693Request) async throws(ISO15693Error) -> [UInt8] {
        if Task.isCancelled { throw .cancelled }
        requests += 1
        do throws(ISO15693Error) {
            let data = try ask(request)
            hasSeenTag = true
            if request == .inventory { lastTag = try? ISO15693Answer.uid(inInventory: data) }
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
        let readers = try service.states(of: try service.readers(named: name))
        guard let found = readers.first(where: \.hasTag) else {
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

    // MARK: Waiting

    /// Waits until a tag is at the reader; see ``TagReader``.
    public func waitForTag() async throws(ISO15693Error) -> [UInt8] {
        let watch = PCSCWatch(reader: name)
        do throws(ISO15693Error) {
            while true {
                var states = try await watch.now()
                while !states.contains(where: \.hasTag) { states = try await watch.next(within: Self.longest) }
                do throws(ISO15693Error) {
                    return try await uid()
                } catch .noTag, .tagLeft, .tagSilent, .otherTag {
                    do { try await Task.sleep(for: .milliseconds(200)) } catch { throw ISO15693Error.cancelled }
                }
            }
        } catch {
            judge(error)
            throw error
        }
    }

    /// Waits until the tag that answered last is at the reader no more; see ``TagReader``.
    public func waitForTagToLeave() async throws(ISO15693Error) {
        let (watch, tag) = (PCSCWatch(reader: name), lastTag)
        do throws(ISO15693Error) {
            // In a transparent session a reader does not look for itself: another tag may have come unnoticed.
            if await isAnother(than: tag) { return }
            var states = try await watch.now()
            while states.contains(where: \.hasTag) {
                let before = requests
                let next = try await watch.next(within: Self.idleSession)
                // Somebody else may have left a session open.
                if requests == before { drop() }
                if Self.arrivals(next) != Self.arrivals(states), await isAnother(than: tag) { return }
                states = next
            }
        } catch {
            judge(error)
            throw error
        }
    }

    /// Whether a tag answers, and it is another than this. No session stays open.
    private func isAnother(than tag: [UInt8]?) async -> Bool {
        defer { drop() }
        guard let tag, let found = try? await uid() else { return false }
        return found != tag
    }

    /// Which readers have a tag, and how often one has come there or gone.
    private static func arrivals(_ states: [PCSCService.ReaderState]) -> [String: DWORD] {
        Dictionary(states.filter(\.hasTag).map { ($0.name, $0.changes) }) { first, _ in first }
    }

    // MARK: Listing

    /// The readers there are, and what is at them.
    func list() async throws(ISO15693Error) -> [PCSCService.ReaderState] {
        let service = try started()
        return try service.states(of: try service.readers())
    }
}

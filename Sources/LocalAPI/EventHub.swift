import Crypto
import Foundation
import GatewayCommands
import HealthReadings
import NIOCore
import ReadingStore
import Synchronization

/// What has happened lately, numbered, for every stream of events: one copy for all who listen.
///
/// A listener takes what it has not had yet whenever it is ready, so a slow one holds nothing up; one that was away
/// goes on behind the event it saw last, as long as that is not too long ago.
package final class APIEventHub: Sendable {
    /// Something that happened.
    struct Event: Sendable {
        var number: UInt64
        /// The kind of reading it shows; nil: it shows none.
        var kind: ReadingKind?
        /// Who gets it.
        var recipient: Recipient
        /// The event as it is sent, without its id; empty where the reading it showed was erased.
        var octets: ByteBuffer
        /// The same for those who may not see weights; `nil` where it shows none.
        var withoutWeight: ByteBuffer?
    }

    /// Who gets an event, besides clients for the whole household.
    enum Recipient: Sendable, Hashable {
        /// Nobody besides.
        case household
        /// The clients of one person.
        case person(UserKey)
        /// The clients of those who use a device.
        case device(DeviceAddress)
    }

    /// What a listener gets next.
    struct News: Sendable {
        var events: [Event]
        /// Where the listener is then.
        var position: UInt64
        /// Whether events between what it had and these are gone.
        var hasGap: Bool
    }

    /// How many events are kept.
    static let capacity = 2048

    private struct State {
        var ring: [Event] = []
        /// The place of the oldest event in the ring, once it is full.
        var oldest = 0
        var next: UInt64 = 1
        var erasures = 0
    }

    /// Tells the events of this process from those of another.
    let epoch: String
    private let state = Mutex(State())
    private let listeners = Broadcaster<Void>()
    /// Seals the ids of events for clients of one person: their gaps would tell how much others measure.
    private let key = SymmetricKey(size: .bits256)

    /// Makes a hub without events.
    package init() {
        var generator = SystemRandomNumberGenerator()
        epoch = String(UInt32.random(in: .min ... .max, using: &generator), radix: 36)
    }

    /// Tells everybody.
    ///
    /// - Parameters:
    ///   - kind: the kind of reading it shows; `nil`: it shows none.
    ///   - recipient: who gets it.
    ///   - withoutWeight: what those get who may not see weights; `nil`: the same.
    func post(
        _ name: String, kind: ReadingKind? = nil, to recipient: Recipient = .household, _ document: JSONValue,
        withoutWeight: JSONValue? = nil
    ) {
        func octets(_ document: JSONValue) -> ByteBuffer {
            ByteBuffer(string: "event: \(name)\ndata: \(document.text)\n\n")
        }
        state.withLock { state in
            let number = state.next
            state.next += 1
            let event = Event(
                number: number, kind: kind, recipient: recipient, octets: octets(document),
                withoutWeight: withoutWeight.map(octets))
            if state.ring.count < Self.capacity {
                state.ring.append(event)
            } else {
                state.ring[state.oldest] = event
                state.oldest = (state.oldest + 1) % Self.capacity
            }
        }
        listeners.ring()
    }

    /// Drops every reading from the ring: some of them were erased.
    ///
    /// - Parameter erasures: how many erasures the store has committed, this one included.
    func forget(erasures: Int) {
        state.withLock { state in
            state.erasures = max(state.erasures, erasures)
            for index in state.ring.indices where state.ring[index].kind != nil {
                state.ring[index].octets = ByteBuffer()
                state.ring[index].withoutWeight = nil
            }
        }
    }

    /// How many erasures the ring has heeded.
    var erasures: Int { state.withLock(\.erasures) }

    /// The number of the newest event.
    var newest: UInt64 { state.withLock { $0.next - 1 } }

    /// An event as a listener gets it, with its id.
    ///
    /// - Parameters:
    ///   - person: whose client listens; `nil` for one of the household.
    ///   - showsWeight: whether it may see weights.
    func octets(of event: Event, for person: UserKey?, showsWeight: Bool = true) -> ByteBuffer {
        var octets = ByteBuffer(string: "id: \(identifier(of: event.number, for: person))\n")
        octets.writeImmutableBuffer(showsWeight ? event.octets : event.withoutWeight ?? event.octets)
        return octets
    }

    /// The id of an event, by which a listener says what it saw last.
    func identifier(of number: UInt64, for person: UserKey?) -> String {
        guard let person else { return "\(epoch)-\(number)" }
        let octets = withUnsafeBytes(of: number.bigEndian) { Data($0) }
        let sealed = try? AES.GCM.seal(octets, using: key, authenticating: Self.label(person))
        // Sealing eight octets under a key of the right size never fails; an empty id is one that is not known.
        return sealed?.combined?.hexadecimal() ?? ""
    }

    private static func label(_ person: UserKey) -> Data { Data("person \(person.rawValue)".utf8) }

    /// Where to go on for a listener that has seen an event last; nil where that is no event of this process.
    ///
    /// - Parameter person: whose client listens; `nil` for one of the household.
    func position(after identifier: String, for person: UserKey? = nil) -> UInt64? {
        if let person { return position(afterSealed: identifier, for: person) }
        let parts = identifier.split(separator: "-", maxSplits: 1)
        guard parts.count == 2, parts[0] == epoch, let number = UInt64(parts[1]), number <= newest else { return nil }
        return number
    }

    private func position(afterSealed identifier: String, for person: UserKey) -> UInt64? {
        guard identifier.utf8.count <= 80, let octets = try? Hexadecimal.octets(identifier),
            let box = try? AES.GCM.SealedBox(combined: octets),
            let opened = try? AES.GCM.open(box, using: key, authenticating: Self.label(person)), opened.count == 8
        else { return nil }
        let number = opened.reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        return number <= newest ? number : nil
    }

    /// The events behind a position; none while an erasure has not come through to the ring.
    ///
    /// - Parameters:
    ///   - erasures: how many erasures the store has committed.
    ///   - limit: how many events at most.
    func news(after position: UInt64, erasures: Int = 0, limit: Int = capacity) -> News {
        state.withLock { state in
            guard state.erasures >= erasures else { return News(events: [], position: position, hasGap: false) }
            let newest = state.next - 1
            let first = state.next - UInt64(state.ring.count)
            guard position < newest else { return News(events: [], position: newest, hasGap: false) }
            let start = max(position + 1, first)
            let end = min(newest, start - 1 + UInt64(max(limit, 1)))
            let events = (start...end).map { number in
                state.ring[(state.oldest + Int(number - first)) % max(state.ring.count, 1)]
            }
            return News(
                events: events.filter { $0.octets.readableBytes > 0 }, position: end, hasGap: position + 1 < first)
        }
    }

    /// Yields whenever there is something new; at most one is kept for a listener that is busy. Ends with the hub.
    func bells() -> AsyncStream<Void> { listeners.listen(buffering: 1) }

    /// Ends all streams.
    func finish() { listeners.close() }
}

import Foundation
import GatewayCommands
import HealthDevices
import HealthReadings
import NIOCore
import ReadingStore
import Synchronization

/// What has happened lately, for every stream of events: one copy for all who listen.
///
/// The store has every change of a reading in order; the ring holds the newest of them as they are sent, and what is in no
/// store: meters that connect, and what delivery does. A listener that is behind the ring reads the store until the ring
/// has what follows. It takes what it has not had yet whenever it is ready, so a slow one holds nothing up.
package final class APIEventHub: Sendable {
    /// Something that happened.
    struct Event: Sendable {
        /// Its place in the ring.
        var number: UInt64
        /// Its place in the store's order; `nil` if it is in no store.
        var change: Int64?
        var content: Content
    }

    /// What is sent, and to whom.
    struct Content: Sendable {
        /// The event's name.
        let name: String
        /// The kind of reading it shows; nil: it shows none.
        var kind: ReadingKind?
        /// Who gets it.
        var recipient: Recipient
        /// The event as it is sent, without its id; empty where the reading it showed was erased.
        var octets: ByteBuffer
        /// The same for those who may not see weights; `nil` where it shows none.
        var withoutWeight: ByteBuffer?

        /// - Parameters:
        ///   - name: the event's name.
        ///   - document: its data.
        ///   - withoutWeight: what those get who may not see weights; `nil`: the same.
        init(
            _ name: String, kind: ReadingKind? = nil, to recipient: Recipient, _ document: JSONValue,
            withoutWeight: JSONValue? = nil
        ) {
            func octets(_ document: JSONValue) -> ByteBuffer {
                ByteBuffer(string: "event: \(name)\ndata: \(document.text)\n\n")
            }
            self.name = name
            self.kind = kind
            self.recipient = recipient
            self.octets = octets(document)
            self.withoutWeight = withoutWeight.map(octets)
        }
    }

    /// Who gets an event, besides clients for the whole household.
    enum Recipient: Sendable, Hashable {
        /// Nobody besides.
        case household
        /// The clients of one person.
        case person(UserKey)
        /// The clients of the person whose reading it was; nobody else, the household included.
        case former(UserKey)
        /// The clients of those who use a device.
        case device(DeviceAddress)
    }

    /// What a listener gets next from the ring.
    struct News: Sendable {
        var events: [Event]
        /// Where the listener is in the ring then.
        var position: UInt64
    }

    /// How many events are kept.
    static let capacity = 2048

    private struct State {
        var ring: [Event] = []
        /// The place of the oldest event in the ring, once it is full.
        var oldest = 0
        var next: UInt64 = 1
        var erasures = 0
        /// The ring has every change of the store behind the first of these, up to the second.
        var changes: (after: Int64, upTo: ChangePosition)?
        /// The faults that stand, each as it was told when it began.
        var faults: [DeviceFault.Subject: Event] = [:]

        mutating func append(_ content: Content, change: Int64?) {
            let event = Event(number: next, change: change, content: content)
            next += 1
            guard ring.count == capacity else { return ring.append(event) }
            // What goes is no longer here, and so is nothing before it.
            if let gone = ring[oldest].change, let changes, gone > changes.after { self.changes?.after = gone }
            ring[oldest] = event
            oldest = (oldest + 1) % capacity
        }

        func covers(_ change: ChangePosition, erasures: Int) -> Bool {
            guard self.erasures >= erasures else { return false }
            guard let changes else { return true }
            return change.number >= changes.after
        }

        func news(after position: UInt64, limit: Int) -> News {
            let newest = next - 1
            let first = next - UInt64(ring.count)
            guard position < newest else { return News(events: [], position: newest) }
            let start = max(position + 1, first)
            let end = min(newest, start - 1 + UInt64(max(limit, 1)))
            let events = (start...end).map { ring[(oldest + Int($0 - first)) % max(ring.count, 1)] }
            return News(events: events.filter { $0.content.octets.readableBytes > 0 }, position: end)
        }
    }

    /// Tells the ring of this process from that of another.
    let epoch: UInt32
    private let state = Mutex(State())
    private let listeners = Broadcaster<Void>()

    /// Makes a hub without events.
    package init() {
        var generator = SystemRandomNumberGenerator()
        epoch = UInt32.random(in: 1 ... .max, using: &generator)
    }

    /// Tells of something that is in no store.
    func post(_ name: String, to recipient: Recipient = .household, _ document: JSONValue) {
        let content = Content(name, to: recipient, document)
        state.withLock { $0.append(content, change: nil) }
        listeners.ring()
    }

    /// Tells that a fault has begun or ended. One that stands is told to each stream that begins later.
    func post(_ fault: DeviceFault) {
        let recipient: Recipient =
            switch fault.subject {
            case .radio: .household
            case .device(let address): .device(address)
            }
        let content = Content("fault", to: recipient, fault.document)
        state.withLock { state in
            let number = state.next
            state.append(content, change: nil)
            state.faults[fault.subject] =
                fault.isStanding ? Event(number: number, change: nil, content: content) : nil
        }
        listeners.ring()
    }

    /// The faults that began at or before a place in the ring and stand, oldest first.
    func faults(upTo position: UInt64) -> [Content] {
        state.withLock { state in
            state.faults.values.filter { $0.number <= position }.sorted { $0.number < $1.number }.map(\.content)
        }
    }

    // MARK: The store's changes

    /// Where the ring's changes end; `nil` before the first of them.
    var changesEnd: ChangePosition? { state.withLock { $0.changes?.upTo } }

    /// Adds changes that follow the ring's last one.
    func post(_ changes: [(number: Int64, content: Content)], upTo end: ChangePosition) {
        state.withLock { state in
            for change in changes { state.append(change.content, change: change.number) }
            state.changes = (state.changes?.after ?? end.number, end)
        }
        listeners.ring()
    }

    /// Has the ring go on behind a position of the store: listeners that have less read the store first.
    func resume(at position: ChangePosition) {
        state.withLock { $0.changes = (position.number, position) }
        listeners.ring()
    }

    /// Drops every reading from the ring: some of them were erased.
    ///
    /// - Parameter erasures: how many erasures the store has committed, this one included.
    func forget(erasures: Int) {
        state.withLock { state in
            state.erasures = max(state.erasures, erasures)
            for index in state.ring.indices where state.ring[index].change != nil {
                state.ring[index].content.octets = ByteBuffer()
                state.ring[index].content.withoutWeight = nil
            }
            if let end = state.changes?.upTo { state.changes = (end.number, end) }
        }
    }

    /// How many erasures the ring has heeded.
    var erasures: Int { state.withLock(\.erasures) }

    /// Whether the ring has all that follows a change which is in it.
    ///
    /// - Parameter erasures: how many erasures the store has committed; none may be missing here.
    func covers(_ change: ChangePosition, erasures: Int) -> Bool {
        state.withLock { $0.covers(change, erasures: erasures) }
    }

    // MARK: Listening

    /// The number of the newest event in the ring.
    var newest: UInt64 { state.withLock { $0.next - 1 } }

    /// The place in the ring behind which all follows that follows a change; `nil` where the ring has no change behind it.
    func place(of change: Int64) -> UInt64? {
        state.withLock { state in
            let known = state.ring.filter { $0.change != nil }.sorted { $0.number < $1.number }
            if let same = known.last(where: { $0.change == change }) { return same.number }
            return known.first { ($0.change ?? 0) > change }.map { $0.number - 1 }
        }
    }

    /// Whether a change is in the ring: whoever had it was told of all that came before it in this process.
    func has(_ change: Int64) -> Bool { state.withLock { $0.ring.contains { $0.change == change } } }

    /// The events behind a place; `nil` where the ring lacks a change behind it, so that the store has to be read.
    ///
    /// The ring is asked and read under one lock. Between two, thousands of events could come and push changes out of it.
    ///
    /// - Parameters:
    ///   - erasures: how many erasures the store has committed; none may be missing here.
    ///   - limit: how many events at most.
    func news(after place: EventPlace, erasures: Int, limit: Int = capacity) -> News? {
        state.withLock { state in
            guard state.covers(place.change, erasures: erasures) else { return nil }
            return state.news(after: place.ring, limit: limit)
        }
    }

    /// Whether anybody listens.
    var hasListeners: Bool { listeners.hasListeners }

    /// Calls whenever there is something new, and in the end.
    ///
    /// - Returns: what ends the calls.
    func follow(
        _ ring: @escaping @Sendable () -> Void, atEnd end: @escaping @Sendable () -> Void
    ) -> @Sendable () -> Void { listeners.follow({ _ in ring() }, atEnd: end) }

    /// Ends all streams.
    func finish() { listeners.close() }
}

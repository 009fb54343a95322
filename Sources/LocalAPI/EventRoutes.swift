import Foundation
import HTTPTypes
import HealthReadings
import Hummingbird
import LocalAccess
import NIOCore
import ReadingStore
import ServiceLifecycle

/// `/api/v1/events`: server-sent events (HTML, "Server-sent events").
struct EventRoutes {
    /// How often an idle stream says that it is there, so that each side learns of a connection that broke.
    static let heartbeat: Duration = .seconds(15)
    /// How many events are sent before the stream looks again what may be sent.
    static let atOnce = 32

    let hub: APIEventHub
    let counters: RequestCounters
    let clients: AccessStore
    /// The time by which tokens end to be good.
    let time: @Sendable () async -> Date
    let store: ReadingStore
    let consents: ConsentRules
    let cursors: EventCursors

    /// Why a stream looks around.
    private enum Wake: Sendable {
        /// There may be news, or the client may have been revoked.
        case bell
        case heartbeat
    }

    func add(to routes: GuardedRoutes) {
        routes.get("/api/v1/events", .view) { request, context, audience in
            let last = request.headers[.lastEventID] ?? request.uri.queryParameters["last_event_id"].map(String.init)
            return try await stream(after: last, to: context.caller.client, audience)
        }
    }

    /// - Parameters:
    ///   - client: whose token opened the stream; `nil` for a caller that needs none.
    ///   - audience: whose events it brings.
    private func stream(
        after last: String?, to client: AccessClient?, _ audience: Audience
    ) async throws -> Response {
        let known = try await place(after: last, audience)
        let start = if let known { known.place } else { try await newest() }
        // Those that began later are behind the place in the ring.
        let faults = known?.hasHadFaults == true ? [] : hub.faults(upTo: start.ring)
        let greeting = last != nil && known == nil ? Self.resync : ByteBuffer(string: "retry: 3000\n: connected\n\n")
        // Whoever loses the stream before its first event goes on from here.
        let beginning: String? =
            if known == nil {
                try await cursors.text(start.change, ring: (hub.epoch, start.ring), for: audience.key)
            } else {
                nil
            }
        return Response(
            status: .ok, headers: [.contentType: "text/event-stream", .cacheControl: "no-store"],
            body: ResponseBody { writer in
                counters.streams(1)
                defer { counters.streams(-1) }
                // Rung without a task between: each event rings for each stream.
                let (wakes, wake) = AsyncStream<Wake>.makeStream(bufferingPolicy: .bufferingNewest(1))
                let leaveHub = hub.follow({ wake.yield(.bell) }, atEnd: { wake.finish() })
                let leaveClients = clients.followDepartures { wake.yield(.bell) }
                defer {
                    leaveHub()
                    leaveClients()
                }
                try await writer.write(greeting)
                if !faults.isEmpty {
                    let filter = try await filter(audience, client)
                    for fault in faults {
                        if try await filter.passes(fault) { try await writer.write(fault.octets) }
                    }
                }
                // Behind the faults: whoever comes back with it was told of them.
                if let beginning { try await writer.write(ByteBuffer(string: "id: \(beginning)\n\n")) }
                try await withThrowingTaskGroup(of: Void.self) { group in
                    group.addTask {
                        while !Task.isCancelled {
                            try await Task.sleep(for: Self.heartbeat)
                            wake.yield(.heartbeat)
                        }
                    }
                    if let client {
                        group.addTask {
                            let rest = max(0, client.expiresAt.timeIntervalSince(await time()))
                            try await Task.sleep(for: .seconds(min(rest, AccessStore.tokenLifetime) + 0.01))
                            wake.yield(.bell)
                        }
                    }
                    wake.yield(.bell)
                    // A stream that is open does not keep the gateway from stopping.
                    try await withGracefulShutdownHandler {
                        var position = Position(place: start, isBehind: known != nil)
                        for await reason in wakes {
                            if reason == .heartbeat { try await writer.write(ByteBuffer(string: ": still here\n\n")) }
                            // A heartbeat may have replaced a bell.
                            guard try await send(after: &position, to: client, audience, &writer) else { break }
                        }
                    } onGracefulShutdown: {
                        wake.finish()
                    }
                    group.cancelAll()
                }
                try await writer.finish(nil)
            })
    }

    /// Where one stream is.
    private struct Position {
        var place: EventPlace
        /// Whether the store may have changes that the ring has no more.
        var isBehind: Bool
    }

    /// Behind all there is.
    private func newest() async throws -> EventPlace {
        // In this order: a change between the two is passed over in the ring, as one from before.
        let ring = hub.newest
        return EventPlace(change: try await store.newestChange(), ring: ring)
    }

    /// Where to go on for a client that has seen an event last, and whether it was told of the faults that began before;
    /// `nil` where that is no event of this store.
    private func place(
        after last: String?, _ audience: Audience
    ) async throws -> (place: EventPlace, hasHadFaults: Bool)? {
        let newest = try await newest()
        guard let last, let found = try await cursors.found(in: last, for: audience.key),
            found.change.feed == newest.change.feed || found.change == .beginning,
            found.change.number <= newest.change.number
        else { return nil }
        let change = ChangePosition(feed: newest.change.feed, number: found.change.number)
        if let ring = found.ring, ring.epoch == hub.epoch, ring.number <= newest.ring {
            return (EventPlace(change: change, ring: ring.number), true)
        }
        let hasHadFaults = found.ring == nil && hub.has(found.change.number)
        return (EventPlace(change: change, ring: hub.place(of: found.change.number) ?? newest.ring), hasHadFaults)
    }

    /// Sends what is new, some events at a time: a client that reads slowly gets only what it may still see.
    ///
    /// - Returns: whether the client may still see anything.
    private func send(
        after position: inout Position, to client: AccessClient?, _ audience: Audience,
        _ writer: inout any ResponseBodyWriter
    ) async throws -> Bool {
        while true {
            if let client, try await !clients.isWelcome(client.number, now: await time()) { return false }
            let isCovered = hub.covers(position.place.change, erasures: store.erasures)
            guard position.isBehind || !isCovered || hub.newest > position.place.ring else { return true }
            let filter = try await filter(audience, client)
            if position.isBehind || !isCovered {
                switch try await sendStored(&position, audience, filter, &writer) {
                case .moved: continue
                // An erasure that has not come through to the ring yet rings when it has.
                case .atEnd where hub.covers(position.place.change, erasures: store.erasures): continue
                case .atEnd, .locked: return true
                case .personGone: return false
                }
            }
            // Some may have left the ring since it was asked: the store has them.
            guard let news = hub.news(after: position.place, erasures: store.erasures, limit: Self.atOnce) else {
                continue
            }
            for event in news.events {
                if let change = event.change {
                    guard change > position.place.change.number else { continue }
                    position.place.change = ChangePosition(feed: position.place.change.feed, number: change)
                }
                position.place.ring = event.number
                guard try await filter.passes(event.content) else { continue }
                let ring = event.change == nil ? (hub.epoch, event.number) : nil
                let id = try await cursors.text(position.place.change, ring: ring, for: audience.key)
                try await write(event.content, id, filter, &writer)
            }
            position.place.ring = news.position
        }
    }

    /// What became of a look into the store.
    private enum Look {
        case moved
        case atEnd
        /// The key is missing; a ring tells that it is there again.
        case locked
        case personGone
    }

    /// Sends what the store has behind a position.
    private func sendStored(
        _ position: inout Position, _ audience: Audience, _ filter: EventFilter, _ writer: inout any ResponseBodyWriter
    ) async throws -> Look {
        // In a household each person has kinds of their own, so the filter looks at each reading.
        let kinds: Set<ReadingKind>? =
            if let key = audience.key { try await consents.kinds(of: key) } else { nil }
        let scope = ChangeScope(kinds: kinds, person: audience.key)
        let page: ChangePage
        do {
            guard let next = try await store.changePage(after: position.place.change, of: scope, limit: Self.atOnce)
            else { return .personGone }
            page = next
        } catch let error as StoreError where error == store.lockedBecause {
            position.isBehind = true
            return .locked
        }
        for change in page.changes {
            let content = change.content
            guard try await filter.passes(content) else { continue }
            try await write(content, try await cursors.text(change.position, for: audience.key), filter, &writer)
        }
        defer { position.place.change = page.position }
        position.isBehind = !page.isLast
        return page.position == position.place.change ? .atEnd : .moved
    }

    private func write(
        _ content: APIEventHub.Content, _ id: String, _ filter: EventFilter, _ writer: inout any ResponseBodyWriter
    ) async throws {
        var octets = ByteBuffer(string: "id: \(id)\n")
        if filter.isOfLink {
            octets.writeString("event: \(content.name)\ndata: {}\n\n")
            return try await writer.write(octets)
        }
        var shown = content.octets
        if let withoutWeight = content.withoutWeight, try await !filter.kinds(of: content).contains(.weight) {
            shown = withoutWeight
        }
        octets.writeImmutableBuffer(shown)
        try await writer.write(octets)
    }

    private func filter(_ audience: Audience, _ client: AccessClient?) async throws -> EventFilter {
        var filter = EventFilter(consents: consents)
        filter.isOfLink = client?.kind == .link
        guard let key = audience.key else { return filter }
        let devices = try await store.devices(of: key)
        filter.person = .init(key: key, addresses: Set(devices.flatMap(\.device.addresses)))
        return filter
    }

    /// Says that events may be missing, and what to do about it.
    private static let resync = ByteBuffer(
        string: "event: resync\ndata: {\"reason\":\"events are missing; read /api/v1/readings\"}\n\n")
}

/// Which events a stream may bring now.
private struct EventFilter {
    struct Person {
        var key: UserKey
        var addresses: Set<DeviceAddress>
    }

    let consents: ConsentRules
    /// Whose events they have to be; `nil` for everybody's.
    var person: Person?
    /// Whether the stream is a read-only link's: it learns that readings have changed, and nothing of them.
    var isOfLink = false

    /// The kinds that an event may show: by the consent of the person whose reading it is, whatever others deny of theirs. What is
    /// nobody's is shown by everybody's.
    func kinds(of event: APIEventHub.Content) async throws -> Set<ReadingKind> {
        if let person { return try await consents.kinds(of: person.key) }
        guard case .person(let owner) = event.recipient else { return try await consents.kinds(of: nil) }
        return try await consents.kinds(of: owner)
    }

    func passes(_ event: APIEventHub.Content) async throws -> Bool {
        if let kind = event.kind, try await !kinds(of: event).contains(kind) { return false }
        if isOfLink, !["reading", "left", "pruned"].contains(event.name) { return false }
        guard let person else {
            if case .former = event.recipient { return false }
            return true
        }
        return switch event.recipient {
        case .household: false
        case .person(let key), .former(let key): key == person.key
        case .device(let address): person.addresses.contains(address)
        }
    }
}

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

    /// Why a stream looks around.
    private enum Wake: Sendable {
        /// There may be news, or the client may have been revoked.
        case bell
        case heartbeat
    }

    func add(to routes: GuardedRoutes) {
        routes.get("/api/v1/events", .read) { request, context, audience in
            let last = request.headers[.lastEventID] ?? request.uri.queryParameters["last_event_id"].map(String.init)
            return stream(after: last, to: context.caller.client, audience)
        }
    }

    /// - Parameters:
    ///   - client: whose token opened the stream; `nil` for a caller that needs none.
    ///   - audience: whose events it brings.
    private func stream(after last: String?, to client: AccessClient?, _ audience: Audience) -> Response {
        let known = last.flatMap { hub.position(after: $0, for: audience.key) }
        let start = known ?? hub.newest
        let greeting = last != nil && known == nil ? Self.resync : ByteBuffer(string: "retry: 3000\n: connected\n\n")
        return Response(
            status: .ok, headers: [.contentType: "text/event-stream", .cacheControl: "no-store"],
            body: ResponseBody { writer in
                counters.streams(1)
                defer { counters.streams(-1) }
                let (bells, departures) = (hub.bells(), clients.departures())
                try await writer.write(greeting)
                try await withThrowingTaskGroup(of: Void.self) { group in
                    let (wakes, wake) = AsyncStream<Wake>.makeStream(bufferingPolicy: .bufferingNewest(1))
                    group.addTask {
                        for await _ in bells { wake.yield(.bell) }
                        wake.finish()
                    }
                    group.addTask { for await _ in departures { wake.yield(.bell) } }
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
                        var position = start
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

    /// Sends what is new, some events at a time: a client that reads slowly gets only what it may still see.
    ///
    /// - Returns: whether the client may still see anything.
    private func send(
        after position: inout UInt64, to client: AccessClient?, _ audience: Audience,
        _ writer: inout any ResponseBodyWriter
    ) async throws -> Bool {
        while true {
            if let client, try await !clients.isWelcome(client.number, now: await time()) { return false }
            guard hub.newest > position else { return true }
            let filter = try await filter(audience)
            let news = hub.news(after: position, erasures: store.erasures, limit: Self.atOnce)
            if news.hasGap { try await writer.write(Self.resync) }
            for event in news.events where filter.passes(event) {
                let showsWeight = filter.kinds.contains(.weight)
                try await writer.write(hub.octets(of: event, for: audience.key, showsWeight: showsWeight))
            }
            // An erasure that has not come through yet rings when it has.
            guard news.position > position else { return true }
            position = news.position
        }
    }

    private func filter(_ audience: Audience) async throws -> EventFilter {
        var filter = EventFilter(kinds: try await consents.kinds(of: audience.key))
        guard let key = audience.key else { return filter }
        let devices = try await store.devices(of: key)
        filter.person = .init(key: key, addresses: Set(devices.flatMap(\.device.addresses)))
        return filter
    }

    /// Says that events are missing, and what to do about it.
    private static let resync = ByteBuffer(
        string: "event: resync\ndata: {\"reason\":\"events are missing; read /api/v1/readings\"}\n\n")
}

/// Which events a stream may bring now.
private struct EventFilter {
    struct Person {
        var key: UserKey
        var addresses: Set<DeviceAddress>
    }

    /// The kinds that were consented to.
    var kinds: Set<ReadingKind>
    /// Whose events they have to be; `nil` for everybody's.
    var person: Person?

    func passes(_ event: APIEventHub.Event) -> Bool {
        guard event.kind.map(kinds.contains) ?? true else { return false }
        guard let person else { return true }
        return switch event.recipient {
        case .household: false
        case .person(let key): key == person.key
        case .device(let address): person.addresses.contains(address)
        }
    }
}

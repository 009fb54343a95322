import HTTPTypes
import HealthReadings
import Hummingbird
import NIOCore
import ServiceLifecycle

/// `/api/v1/events`: server-sent events (HTML, "Server-sent events").
struct EventRoutes {
    /// How often an idle stream says that it is there, so that each side learns of a connection that broke.
    static let heartbeat: Duration = .seconds(15)

    let hub: APIEventHub
    let counters: RequestCounters
    /// The kinds that may be shown now.
    let consented: @Sendable () async throws -> Set<ReadingKind>

    func add(to group: RouterGroup<APIContext>) {
        group.get("/api/v1/events") { request, _ in
            let last = request.headers[.lastEventID] ?? request.uri.queryParameters["last_event_id"].map(String.init)
            return stream(after: last)
        }
    }

    private func stream(after last: String?) -> Response {
        let known = last.flatMap(hub.position(after:))
        let start = known ?? hub.newest
        let greeting = last != nil && known == nil ? Self.resync : ByteBuffer(string: "retry: 3000\n: connected\n\n")
        return Response(
            status: .ok, headers: [.contentType: "text/event-stream", .cacheControl: "no-store"],
            body: ResponseBody { writer in
                counters.streams(1)
                defer { counters.streams(-1) }
                try await writer.write(greeting)
                let bells = hub.bells()
                try await withThrowingTaskGroup(of: Void.self) { group in
                    let (wakes, wake) = AsyncStream<Bool>.makeStream(bufferingPolicy: .bufferingNewest(1))
                    group.addTask {
                        for await _ in bells { wake.yield(true) }
                        wake.finish()
                    }
                    group.addTask {
                        while !Task.isCancelled {
                            try await Task.sleep(for: Self.heartbeat)
                            wake.yield(false)
                        }
                    }
                    wake.yield(true)
                    // A stream that is open does not keep the gateway from stopping.
                    try await withGracefulShutdownHandler {
                        var position = start
                        for await hasNews in wakes {
                            guard hasNews else {
                                try await writer.write(ByteBuffer(string: ": still here\n\n"))
                                // A ring may have been taken for the beat.
                                position = try await send(after: position, &writer)
                                continue
                            }
                            position = try await send(after: position, &writer)
                        }
                    } onGracefulShutdown: {
                        wake.finish()
                    }
                    group.cancelAll()
                }
                try await writer.finish(nil)
            })
    }

    private func send(after position: UInt64, _ writer: inout any ResponseBodyWriter) async throws -> UInt64 {
        let news = hub.news(after: position)
        if news.hasGap { try await writer.write(Self.resync) }
        guard !news.events.isEmpty else { return news.position }
        let kinds = try await consented()
        for event in news.events where event.kind.map(kinds.contains) ?? true { try await writer.write(event.octets) }
        return news.position
    }

    /// Says that events are missing, and what to do about it.
    private static let resync = ByteBuffer(
        string: "event: resync\ndata: {\"reason\":\"events are missing; read /api/v1/readings\"}\n\n")
}

import HTTPTypes
import HealthReadings
import Hummingbird
import Logging
import NIOCore
import ReadingStore
import ServiceLifecycle

/// The gateway's page on loopback: readings as they come. It only reads, and looks at the store alone.
enum PageServer {
    /// The application.
    ///
    /// - Parameter started: told the page's address once the server listens.
    static func application(
        listen: ListenAddress, store: ReadingStore, logger: Logger, started: @escaping @Sendable (String) async -> Void
    ) -> some Service {
        let router = Router()
        router.add(middleware: HostCheck(listeningOn: listen.description))
        router.add(middleware: PageHeaders())
        router.get("/") { _, _ in
            content(PackageResources.page_html, "text/html; charset=utf-8")
        }
        router.get("/page.js") { _, _ in
            content(PackageResources.page_js, "text/javascript; charset=utf-8")
        }
        router.get("/api/v1/readings") { request, _ in
            try await readings(request, store)
        }
        router.get("/api/v1/devices") { _, _ in
            content(Array(try await devices(store).text.utf8), "application/json")
        }
        router.get("/api/v1/events") { _, _ in
            events(store)
        }
        let shown = listen
        return RestingServer(router: router, address: .hostname(listen.host, port: listen.port), logger: logger) {
            channel in
            var address = shown
            address.port = channel.localAddress?.port ?? shown.port
            await started("http://\(address)/")
        }
    }

    private static func content(_ octets: [UInt8], _ type: String) -> Response {
        Response(status: .ok, headers: [.contentType: type], body: .init(byteBuffer: ByteBuffer(bytes: octets)))
    }

    private static func readings(_ request: Request, _ store: ReadingStore) async throws -> Response {
        var query = ReadingQuery()
        if let limit = request.uri.queryParameters["limit"] {
            guard let number = Int(limit), ReadingQuery.limits.contains(number) else {
                throw HTTPError(
                    .badRequest, message: "limit: expected a whole number from 1 to 10000, found '\(limit)'")
            }
            query.limit = number
        }
        query.cursor = request.uri.queryParameters["cursor"].map(String.init)
        do {
            let page = try await store.query(query)
            return content(Array(page.document.text.utf8), "application/json")
        } catch let error as StoreError {
            throw HTTPError(.badRequest, message: error.description)
        }
    }

    /// The devices as `devices --json` shows them, each with its latest contact.
    private static func devices(_ store: ReadingStore) async throws -> JSONValue {
        let user = try await store.currentUser().clientUserID
        let contacts = try await store.latestContacts()
        let devices = try await store.devices().map { device in
            let known = KnownDevice(device, currentUser: user.isEmpty ? nil : user)
            return JSONValue.object(
                known.members + [.init("last_contact", contacts[device.description]?.document ?? .null)])
        }
        return .object(["devices": .array(devices)])
    }

    /// Server-sent events: `readings` with the number of new ones whenever some were committed, and a comment every
    /// fifteen seconds, so that a page learns of a connection that broke.
    private static func events(_ store: ReadingStore) -> Response {
        Response(
            status: .ok, headers: [.contentType: "text/event-stream", .cacheControl: "no-store"],
            body: ResponseBody { writer in
                try await writer.write(ByteBuffer(string: ": connected\n\n"))
                let (lines, continuation) = AsyncStream<String>.makeStream(bufferingPolicy: .bufferingNewest(16))
                try await withThrowingTaskGroup(of: Void.self) { group in
                    group.addTask {
                        for await batch in store.committedReadings() {
                            continuation.yield("event: readings\ndata: \(batch.count)\n\n")
                        }
                        continuation.finish()
                    }
                    group.addTask {
                        while !Task.isCancelled {
                            try await Task.sleep(for: .seconds(15))
                            continuation.yield(": still here\n\n")
                        }
                    }
                    // A page that is open does not keep the gateway from stopping.
                    try await withGracefulShutdownHandler {
                        for await line in lines { try await writer.write(ByteBuffer(string: line)) }
                    } onGracefulShutdown: {
                        continuation.finish()
                    }
                    group.cancelAll()
                }
                try await writer.finish(nil)
            })
    }
}

/// Headers that keep the page to itself: no outside resource, no frame, no guessing of types.
private struct PageHeaders<Context: RequestContext>: RouterMiddleware {
    func handle(
        _ request: Request, context: Context, next: (Request, Context) async throws -> Response
    ) async throws -> Response {
        var response = try await next(request, context)
        response.headers[.contentSecurityPolicy] =
            "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'"
        response.headers[.xContentTypeOptions] = "nosniff"
        response.headers[HTTPField.Name("Referrer-Policy") ?? .xContentTypeOptions] = "no-referrer"
        if response.headers[.cacheControl] == nil { response.headers[.cacheControl] = "no-store" }
        return response
    }
}

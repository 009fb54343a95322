import GatewaySettings
import GuardedServer
import HTTPTypes
import HealthReadings
import Hummingbird
import Logging
import NIOCore
import ServiceLifecycle

/// Receives a browser's redirect on loopback (RFC 8252, section 7.3), on a port of its own unless one is wanted.
struct BrowserListener<Redirect: Sendable>: Sendable {
    /// A redirect that is the end, and what the page says of it.
    struct Received: Sendable {
        var redirect: Redirect
        var words: String
    }

    /// Why a redirect is not the end.
    struct Refused: Error {
        var words: String
    }

    /// Reads a redirect's query.
    typealias Reading = @Sendable (_ query: String) -> Result<Received, Refused>

    /// The port on 127.0.0.1.
    let port: Int
    /// Where the server is to send the browser.
    let redirectURL: String
    private let redirects: AsyncStream<Redirect>

    /// How long a browser may take to fetch the last page once the link has ended.
    private static var grace: Duration { .seconds(2) }

    /// Listens for as long as `body` runs.
    ///
    /// - Parameters:
    ///   - path: where the redirect goes, with a slash first.
    ///   - wanted: the port; 0: any.
    ///   - logger: what happens.
    ///   - reading: reads a redirect; what it refuses is answered and waited on.
    ///   - body: is given the listener.
    /// - Throws: what `body` throws, `Problem` where no port can be had, and `CancellationError`.
    static func listening<Value: Sendable>(
        at path: String, port wanted: Int = 0, logger: Logger, reading: @escaping Reading,
        _ body: @escaping @Sendable (Self) async throws -> Value
    ) async throws -> Value {
        let (ports, port) = AsyncStream<Int>.makeStream()
        let (redirects, redirect) = AsyncStream<Redirect>.makeStream(bufferingPolicy: .bufferingOldest(1))
        let server = application(
            path: path, port: wanted, logger: logger, reading: reading, started: port, ended: redirect)
        var configuration = ServiceGroupConfiguration(services: [.init(service: server)], logger: .quiet(logger))
        configuration.maximumGracefulShutdownDuration = grace
        let group = ServiceGroup(configuration: configuration)
        return try await withThrowingTaskGroup(of: Value?.self) { tasks in
            tasks.addTask {
                defer { port.finish() }
                try await group.run()
                return nil
            }
            tasks.addTask {
                for await number in ports {
                    let url = "http://127.0.0.1:\(number)\(path)"
                    let listener = Self(port: number, redirectURL: url, redirects: redirects)
                    let result = await Result { try await body(listener) }
                    await group.triggerGracefulShutdown()
                    return try result.get()
                }
                // The server did not come about, and says why itself; or it was stopped.
                return nil
            }
            var value: Value?
            do {
                while let result = try await tasks.next() { value = value ?? result }
            } catch let error as IOError {
                throw Problem(
                    "cannot_listen", .unavailable, "cannot listen on 127.0.0.1 for the end of the link: \(error)",
                    hint: wanted == 0 ? nil : "another program may use port \(wanted)")
            }
            guard let value else { throw CancellationError() }
            return value
        }
    }

    /// The end of the link; nil where it does not come within the time.
    func redirect(within wait: Duration) async throws -> Redirect? {
        try await withThrowingTaskGroup(of: Redirect?.self) { tasks in
            tasks.addTask {
                for await redirect in redirects { return redirect }
                throw CancellationError()
            }
            tasks.addTask {
                try await Task.sleep(for: wait)
                return nil
            }
            defer { tasks.cancelAll() }
            return try await tasks.next() ?? nil
        }
    }

    private static func application(
        path: String, port: Int, logger: Logger, reading: @escaping Reading, started: AsyncStream<Int>.Continuation,
        ended: AsyncStream<Redirect>.Continuation
    ) -> some Service {
        let router = Router()
        router.add(middleware: HostCheck(names: ["localhost"]))
        for method in [HTTPRequest.Method.get, .post] {
            router.on(RouterPath(path), method: method) { request, _ -> Response in
                switch reading(request.uri.query ?? "") {
                case .success(let received): page(received.words, .ok) { ended.yield(received.redirect) }
                case .failure(let refused):
                    page("This is not the end of a link: \(refused.words).", .badRequest) {}
                }
            }
        }
        return RestingServer(router: router, address: .hostname("127.0.0.1", port: port), logger: .quiet(logger)) {
            channel in
            if let number = channel.localAddress?.port { started.yield(number) }
        }
    }

    /// A plain page. What is waiting for it goes on when it is written, or could not be.
    private static func page(
        _ words: String, _ status: HTTPResponse.Status, _ written: @escaping @Sendable () -> Void
    ) -> Response {
        let text = words.escaping(["&": "&amp;", "<": "&lt;"])
        let html = ByteBuffer(
            string: """
                <!doctype html>
                <html lang="en"><head><meta charset="utf-8">
                <meta name="viewport" content="width=device-width, initial-scale=1"><title>HealthRelay</title></head>
                <body style="font:1.1rem/1.5 system-ui,sans-serif;max-width:32rem;margin:4rem auto;padding:0 1rem">
                <h1>HealthRelay</h1><p>\(text)</p></body></html>

                """)
        var headers: HTTPFields = [
            .contentType: "text/html; charset=utf-8", .cacheControl: "no-store", .connection: "close",
            .contentSecurityPolicy: "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
        ]
        if let name = HTTPField.Name("Referrer-Policy") { headers[name] = "no-referrer" }
        return Response(
            status: status, headers: headers,
            body: ResponseBody(contentLength: html.readableBytes) { writer in
                defer { written() }
                try await writer.write(html)
                try await writer.finish(nil)
            })
    }
}

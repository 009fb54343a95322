import Foundation
import Hummingbird
import Logging
import NIOCore
import ServiceLifecycle

/// The control socket of a running gateway: commands reach the store that `run` owns through it.
///
/// HTTP over a Unix socket in the state directory; who may open the socket may do what the owner may.
enum ControlServer {
    static func application(
        path: String, mode: mode_t, gateway: Gateway, logger: Logger
    ) -> some ApplicationProtocol {
        // Only the lock's owner gets here, so a socket file that exists belongs to a process that has died.
        unlink(path)
        let router = Router(context: ControlContext.self)
        router.post("/v1/operations") { request, context -> Response in
            let body = try await request.body.collect(upTo: 64 * 1024)
            let operation = try JSONDecoder().decode(OperationRequest.self, from: Data(buffer: body))
            return Response(
                status: .ok, headers: [.contentType: "application/x-ndjson"],
                body: ResponseBody { writer in
                    try await answer(operation, over: context.channel, with: gateway, to: &writer)
                })
        }
        return Application(
            router: router,
            configuration: .init(address: .unixDomainSocket(path: path), serverName: "healthrelay"),
            onServerRunning: { _ in chmod(path, mode) },
            logger: logger)
    }

    /// Writes what an operation prints, until it has ended.
    ///
    /// A command that was interrupted waits for nothing any more, and a gateway that stops neither: both end the
    /// operation, and what it says then is still written.
    private static func answer(
        _ operation: OperationRequest, over channel: any Channel, with gateway: Gateway,
        to writer: inout any ResponseBodyWriter
    ) async throws {
        let output = SocketOutput()
        let work = Task {
            let result = await Result {
                try await cancelWhenGracefulShutdown { try await gateway.run(operation, output: output) }
            }
            output.finish(with: result)
        }
        channel.closeFuture.whenComplete { _ in work.cancel() }
        defer { work.cancel() }
        for await line in output.lines { try await writer.write(ByteBuffer(bytes: line)) }
        try await writer.finish(nil)
    }
}

/// A request's context that knows its connection, whose end is the end of whoever asked.
private struct ControlContext: RequestContext {
    var coreContext: CoreRequestContextStorage
    let channel: any Channel

    init(source: ApplicationRequestContextSource) {
        coreContext = .init(source: source)
        channel = source.channel
    }
}

extension Result where Failure == any Error {
    /// The outcome of asynchronous work.
    init(_ work: () async throws -> Success) async {
        do { self = .success(try await work()) } catch { self = .failure(error) }
    }
}

/// Lines on their way to the client of the control socket.
private struct SocketOutput: OperationOutput {
    let lines: AsyncStream<[UInt8]>
    private let continuation: AsyncStream<[UInt8]>.Continuation

    init() { (lines, continuation) = AsyncStream.makeStream() }

    func data(_ line: String) { send(.data(line)) }
    func note(_ line: String) { send(.note(line)) }

    func finish(with result: Result<Void, any Error>) {
        switch result {
        case .success: send(.done)
        case .failure(let error):
            let problem = Problem(describing: error) ?? .unexpected(error)
            send(
                .problem(
                    code: problem.code, message: problem.message, hint: problem.hint, status: problem.status.rawValue))
        }
        continuation.finish()
    }

    private func send(_ message: ControlMessage) {
        guard var line = try? JSONEncoder().encode(message) else { return }
        line.append(UInt8(ascii: "\n"))
        continuation.yield(Array(line))
    }
}

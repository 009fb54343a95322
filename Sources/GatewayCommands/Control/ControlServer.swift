import Foundation
import GatewaySettings
import GuardedServer
import Hummingbird
import Logging
import NIOCore
import NIOFoundationEssentialsCompat
import ServiceLifecycle

/// The control socket of a running gateway: commands reach the store and the radio that `run` owns through it.
///
/// HTTP over a Unix socket in the state directory; who may open the socket may do what the owner may. An operation is
/// posted to `/v1/operations` and answered by a line for each ``ControlMessage``. It is cancelled when its client goes
/// away. What it asks is answered at `/v1/answers/ID`.
package enum ControlServer {
    /// Does what a request asks and prints through an output.
    typealias Runner = @Sendable (OperationRequest, any OperationOutput) async throws -> Void

    package static func application(
        path: String, mode: mode_t, gateway: Gateway, logger: Logger
    ) -> some Service {
        application(path: path, mode: mode, limits: .control, logger: logger) { request, output in
            try await gateway.run(request, output: output)
        }
    }

    static func application(
        path: String, mode: mode_t, limits: ServerLimits, logger: Logger, runner: @escaping Runner
    ) -> some Service {
        // Only the lock's owner gets here, so a socket file that exists belongs to a process that has died.
        unlink(path)
        let questions = PendingQuestions()
        let router = Router()
        router.post("/v1/operations") { request, _ in
            Response(
                status: .ok, headers: [.contentType: "application/x-ndjson"],
                body: ResponseBody { writer in
                    try await run(request, upTo: limits.bodyOctets, runner, questions, &writer)
                    try await writer.finish(nil)
                })
        }
        router.post("/v1/answers/{id}") { request, context -> Response in
            guard let body = try? await request.body.collect(upTo: 64 * 1024),
                let answer = try? JSONDecoder().decode(ControlAnswer.self, from: Data(buffer: body))
            else { return Response(status: .badRequest) }
            let isWanted = questions.answer(answer, to: try context.parameters.require("id"))
            return Response(status: isWanted ? .noContent : .gone)
        }
        return RestingServer(
            router: router, address: .unixDomainSocket(path: path), logger: logger,
            guarding: ServerGuard(limits: limits)
        ) { _ in
            chmod(path, mode)
        }
    }

    /// Runs an operation and writes what it says; ends when it has ended, which is soon where its client has gone.
    private static func run(
        _ request: Request, upTo limit: Int, _ runner: @escaping Runner, _ questions: PendingQuestions,
        _ writer: inout any ResponseBodyWriter
    ) async throws {
        let output = SocketOutput(questions)
        try await request.body.consumeWithInboundCloseHandler { body in
            await withTaskGroup(of: Void.self) { group in
                group.addTask {
                    let result = await Result {
                        let octets: ByteBuffer
                        do { octets = try await body.collect(upTo: limit) } catch is NIOTooManyBytesError {
                            throw Problem(
                                "operation_too_large", .usage, "an operation may have \(limit >> 20) MiB at most",
                                hint: "give the command fewer arguments at a time")
                        }
                        let operation = try OperationRequest(reading: Data(buffer: octets))
                        // A gateway that stops ends what it does for others as well.
                        try await cancelWhenGracefulShutdown {
                            try await runner(operation, output)
                        }
                    }
                    output.finish(with: result.mapError(Problem.init(telling:)))
                }
                for await line in output.lines {
                    do { try await writer.write(ByteBuffer(bytes: line)) } catch { break }
                    output.written(line.count)
                }
                group.cancelAll()
            }
        } onInboundClosed: {
            output.abandon()
        }
    }
}

/// Lines on their way to the client of the control socket, and its answers on their way back.
private struct SocketOutput: OperationOutput {
    let lines: AsyncStream<[UInt8]>
    private let continuation: AsyncStream<[UInt8]>.Continuation
    private let questions: PendingQuestions
    private let backlog = Backlog()

    init(_ questions: PendingQuestions) {
        (lines, continuation) = AsyncStream.makeStream()
        self.questions = questions
    }

    /// A line of this length is on its way.
    func written(_ count: Int) { backlog.remove(count) }

    // Each waits until the client has read enough: what it does not read must not pile up here.
    func octets(_ octets: [UInt8]) async throws { try await send(.octets(Data(octets))) }
    func data(_ line: String) async throws { try await send(.data(line)) }
    func note(_ line: String) async throws { try await send(.note(line)) }
    func progress(_ progress: TransferProgress) async throws { try await send(.progress(progress)) }
    func progress(_ progress: WorkProgress) async throws { try await send(.work(progress)) }
    func pressure(_ pressure: CuffPressure) async throws { try await send(.pressure(pressure)) }
    func warn(_ problem: Problem) async throws { try await send(.warning(problem)) }

    func ask(_ question: Question) async throws -> Answer {
        try await questions.ask { id in
            try? enqueue(.question(id: id, question))
        } withdraw: { id in
            try? enqueue(.withdrawn(id: id))
        }
    }

    func settle() async throws {
        _ = try await questions.ask { id in
            try? enqueue(.settle(id: id))
        } withdraw: { _ in
        }
    }

    func finish(with result: Result<Void, Problem>) {
        switch result {
        case .success: try? enqueue(.done)
        case .failure(let problem): try? enqueue(.problem(problem))
        }
        continuation.finish()
    }

    /// Nobody listens any more.
    func abandon() {
        continuation.finish()
        backlog.clear()
    }

    private func send(_ message: ControlMessage) async throws {
        try enqueue(message)
        try await backlog.room()
    }

    private func enqueue(_ message: ControlMessage) throws {
        var line = try JSONEncoder().encode(message)
        line.append(UInt8(ascii: "\n"))
        backlog.add(line.count)
        if case .terminated = continuation.yield(Array(line)) { throw CancellationError() }
    }
}

extension ServerLimits {
    /// The control socket's: a command may wait for a person who reads its output page by page.
    static let control: ServerLimits = {
        var limits = ServerLimits()
        limits.stall = .minutes(5)
        // A command line has 2 MiB at most on Linux, and JSON adds some octets to each of its words.
        (limits.bodyOctets, limits.requestOctets) = (8 << 20, 16 << 20)
        return limits
    }()
}

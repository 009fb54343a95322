import AsyncHTTPClient
import Foundation
import GatewaySettings
import NIOCore
import NIOHTTP1

/// Asks a running gateway to do what a command wants.
public struct ControlClient: Sendable {
    /// Waits as long as it takes: nothing to tell is no fault of a stream's.
    private static let client: HTTPClient = {
        var configuration = HTTPClient.Configuration()
        configuration.timeout = .init(connect: .seconds(10), read: nil)
        return HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
    }()

    /// The gateway's process, where the kernel tells it.
    package let process: pid_t?
    private let path: String

    /// A client of the socket at `path`, or nil where nobody listens there.
    ///
    /// - Throws: `Problem` with status 77 where a gateway listens and this user may not speak to it.
    public init?(socket path: String) throws {
        let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let octets = Array(path.utf8)
        guard octets.count < MemoryLayout.size(ofValue: address.sun_path) else { return nil }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: octets) }
        let size = socklen_t(MemoryLayout<sockaddr_un>.size)
        let result = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { connect(descriptor, $0, size) }
        }
        guard result == 0 else {
            guard errno == EACCES || errno == EPERM else { return nil }
            throw Problem(
                "not_permitted", .notPermitted, "a gateway is running, and this user may not open its socket \(path)",
                hint: "join its group and log in again, or run as its user; --state-dir names another store")
        }
        self.path = path
        // What the kernel knows of who listens: `struct ucred`, which Swift does not see.
        var owner = (process: pid_t(0), user: uid_t(0), group: gid_t(0))
        var length = socklen_t(MemoryLayout.size(ofValue: owner))
        process = getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &owner, &length) == 0 ? owner.process : nil
    }

    /// Runs an operation in the gateway, printing and asking through `output`.
    ///
    /// Cancelling the task cancels the operation in the gateway.
    ///
    /// - Throws: `Problem` as the gateway met it, what `output` throws, and `CancellationError`.
    public func run(_ request: OperationRequest, output: any OperationOutput) async throws {
        do {
            try await exchange(request, output)
        } catch {
            try Task.checkCancellation()
            switch error {
            case is HTTPParserError, is HTTPClientError, is IOError, is ChannelError: throw Self.gone
            default: throw error
            }
        }
    }

    private static let gone = Problem(
        "gateway_gone", .tryAgain, "the gateway closed the connection before it answered",
        hint: "it stopped, or this command did not read its output for five minutes: see its log and try again")

    private func exchange(_ request: OperationRequest, _ output: any OperationOutput) async throws {
        var message = HTTPClientRequest(url: try url("/v1/operations"))
        message.method = .POST
        // The gateway reads on for the end of this connection, so that another operation needs another one.
        message.headers.replaceOrAdd(name: "connection", value: "close")
        message.body = .bytes(ByteBuffer(bytes: try JSONEncoder().encode(request)))
        let response = try await Self.client.execute(message, deadline: .distantFuture)
        guard response.status == .ok else {
            throw Problem(
                "gateway_refused", .protocolBroken, "the gateway answered \(response.status)",
                hint: "if it is another version, restart it")
        }
        var questions: [String: Task<Void, any Error>] = [:]
        defer { for question in questions.values { question.cancel() } }
        var line: [UInt8] = []
        for try await buffer in response.body {
            for octet in buffer.readableBytesView {
                guard octet == UInt8(ascii: "\n") else {
                    line.append(octet)
                    continue
                }
                switch try JSONDecoder().decode(ControlMessage.self, from: Data(line)) {
                case .data(let text): try await output.data(text)
                case .note(let text): try await output.note(text)
                case .octets(let data): try await output.octets(Array(data))
                case .progress(let progress): try await output.progress(progress)
                case .work(let progress): try await output.progress(progress)
                case .pressure(let pressure): try await output.pressure(pressure)
                case .warning(let problem): try await output.warn(problem)
                case .question(let id, let question):
                    questions[id] = Task { try await answer(question, id, output) }
                case .settle(let id):
                    try await output.settle()
                    try await post(.answer(.confirmation(true)), id)
                case .withdrawn(let id): questions.removeValue(forKey: id)?.cancel()
                case .problem(let problem): throw problem
                case .done: return
                }
                line = []
            }
        }
        throw Self.gone
    }

    /// Asks the person and brings back what they said.
    private func answer(_ question: Question, _ id: String, _ output: any OperationOutput) async throws {
        let answer: ControlAnswer
        do {
            answer = .answer(try await output.ask(question))
        } catch {
            try Task.checkCancellation()
            answer = .problem(Problem(describing: error) ?? .unexpected(error))
        }
        try await post(answer, id)
    }

    private func post(_ answer: ControlAnswer, _ id: String) async throws {
        var message = HTTPClientRequest(url: try url("/v1/answers/\(id)"))
        message.method = .POST
        message.body = .bytes(ByteBuffer(bytes: try JSONEncoder().encode(answer)))
        _ = try await Self.client.execute(message, timeout: .seconds(10))
    }

    private func url(_ route: String) throws -> String {
        guard let host = path.addingPercentEncoding(withAllowedCharacters: .alphanumerics) else {
            throw Problem("control_socket_unusable", .cannotCreate, "the socket's path \(path) makes no URL")
        }
        return "http+unix://\(host)\(route)"
    }
}

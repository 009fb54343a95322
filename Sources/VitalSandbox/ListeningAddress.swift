/// Where a sandbox listens.
public struct SandboxAddress: Sendable, Equatable {
    /// Always 127.0.0.1.
    public let host: String
    /// The port bound, also when 0 was asked for.
    public let port: Int
    /// The base URL for a client, without a slash at the end.
    public var baseURL: String { "http://\(host):\(port)" }
}

/// Hands the address to whoever waits for it, once it is known or known never to come.
actor ListeningAddress {
    private var result: Result<SandboxAddress, SandboxError>?
    private var waiting: [Int: CheckedContinuation<SandboxAddress, any Error>] = [:]
    private var nextTicket = 0

    func settle(_ result: Result<SandboxAddress, SandboxError>) {
        guard self.result == nil else { return }
        self.result = result
        for continuation in waiting.values { continuation.resume(with: result.mapError { $0 as any Error }) }
        waiting = [:]
    }

    func value() async throws -> SandboxAddress {
        if let result { return try result.get() }
        nextTicket += 1
        let ticket = nextTicket
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                if Task.isCancelled {
                    continuation.resume(throwing: CancellationError())
                } else {
                    waiting[ticket] = continuation
                }
            }
        } onCancel: {
            Task { await self.abandon(ticket) }
        }
    }

    private func abandon(_ ticket: Int) {
        waiting.removeValue(forKey: ticket)?.resume(throwing: CancellationError())
    }
}

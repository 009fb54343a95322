import GatewaySettings

extension Result where Failure == any Error {
    /// The outcome of asynchronous work.
    package init(_ work: () async throws -> Success) async {
        do { self = .success(try await work()) } catch { self = .failure(error) }
    }

    /// Whether it came about.
    package var isSuccess: Bool {
        if case .success = self { true } else { false }
    }
}

extension Problem {
    /// The problem behind any error; one of none of the modules is a fault of this program.
    package init(telling error: any Error) { self = Problem(describing: error) ?? .unexpected(error) }
}

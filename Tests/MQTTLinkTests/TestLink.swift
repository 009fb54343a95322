import MQTTLink
import TestBroker

extension TestBroker {
    /// This broker, reached directly or through a proxy.
    func address(
        through proxy: CuttingProxy? = nil, user: String? = nil, password: String? = nil, tls: MQTTCertificates? = nil
    ) -> MQTTBroker {
        MQTTBroker(
            host: "127.0.0.1", port: proxy?.port ?? port, tls: tls,
            credentials: user.map { MQTTCredentials(username: $0, password: password) })
    }

    /// A connection to it.
    func connect(
        _ id: String = "test", versions: [MQTTVersion] = [.v5, .v311], user: String? = nil, password: String? = nil
    ) async throws -> MQTTConnection {
        var options = MQTTOptions(clientID: id)
        options.versions = versions
        return try await MQTTConnection.open(address(user: user, password: password), options)
    }
}

/// The error that work ends with; `nil` if it succeeds.
func failure<Value: Sendable>(of work: () async throws(MQTTError) -> Value) async -> MQTTError? {
    do throws(MQTTError) {
        _ = try await work()
        return nil
    } catch {
        return error
    }
}

import AsyncHTTPClient
import HealthReadings
import Logging
import NIOCore
import NIOHTTP1
import NIOSSL

/// The server's API: users, connected sources and time series.
///
/// Calls are named after what they do and throw ``VitalError`` only, or `CancellationError` where their task was
/// cancelled. Nothing is retried here: whoever calls knows what waiting means. Redirects are not followed, since the
/// key would go along.
///
/// The value may be copied freely; its connections close when the last copy goes.
public struct VitalAPI: Sendable {
    /// What a call may take.
    public struct Limits: Sendable, Hashable {
        /// How long a connection may take to come about.
        public var connecting: Duration
        /// How long a whole call may take, from its beginning to the last octet of the answer.
        public var call: Duration
        /// How long an answer may be.
        public var responseBytes: Int

        /// 10 s for connecting, 30 s for a call, 1 MiB for an answer.
        public init(
            connecting: Duration = .seconds(10), call: Duration = .seconds(30), responseBytes: Int = 1 << 20
        ) {
            self.connecting = connecting
            self.call = call
            self.responseBytes = responseBytes
        }
    }

    /// Where requests go.
    public let server: VitalServer
    let credentials: VitalCredentials
    let limits: Limits
    let recorder: (any RequestRecorder)?
    let logger: Logger
    let connections: Connections
    private let authorities: String?

    /// Makes a client; nothing is sent yet.
    ///
    /// - Parameters:
    ///   - server: where the server is.
    ///   - credentials: a team's key, or a person's session.
    ///   - limits: how long requests may take.
    ///   - authorities: a PEM file of the certificates to trust in place of the system's; nil: the system's.
    ///   - recorder: sees every request body; by default the one that the environment asks for in debug builds.
    ///   - logger: gets one line a call at debug level: route, status, milliseconds.
    public init(
        server: VitalServer, credentials: VitalCredentials, limits: Limits = Limits(), authorities: String? = nil,
        recorder: (any RequestRecorder)? = DirectoryRequestRecorder.fromEnvironment(),
        logger: Logger = Logger(label: "healthrelay.vital")
    ) {
        self.server = server
        self.credentials = credentials
        self.limits = limits
        self.recorder = recorder
        self.logger = logger
        self.authorities = authorities
        connections = Connections(limits, authorities: authorities)
    }

    /// A client of the same server, with the same credentials and connections of its own, that waits otherwise.
    ///
    /// - Parameter limits: how long requests may take.
    public func limited(to limits: Limits) -> VitalAPI {
        VitalAPI(
            server: server, credentials: credentials, limits: limits, authorities: authorities, recorder: recorder,
            logger: logger)
    }

    /// The pool of connections, closed when the last copy of the client goes.
    final class Connections: Sendable {
        let client: HTTPClient

        init(_ limits: Limits, authorities: String?) {
            var configuration = HTTPClient.Configuration()
            var tls = TLSConfiguration.makeClientConfiguration()
            // RFC 8996: TLS 1.0 and 1.1 are not to be used any more.
            tls.minimumTLSVersion = .tlsv12
            if let authorities { tls.trustRoots = .file(authorities) }
            configuration.tlsConfiguration = tls
            configuration.redirectConfiguration = .disallow
            configuration.timeout.connect = .nanoseconds(limits.connecting.nanoseconds)
            // Waiting and trying again is the caller's; here a refused connection is one at once.
            configuration.connectionPool.retryConnectionEstablishment = false
            client = HTTPClient(eventLoopGroup: HTTPClient.defaultEventLoopGroup, configuration: configuration)
        }

        deinit { client.shutdown { _ in } }
    }
}

extension VitalAPI: CustomStringConvertible, CustomReflectable {
    /// Names the host and nothing else.
    public var description: String { "VitalAPI(\(server.host))" }
    /// Shows the host and nothing else.
    public var customMirror: Mirror { Mirror(self, children: ["host": server.host]) }
}

extension Duration {
    /// Whole nanoseconds; saturates after 292 years.
    var nanoseconds: Int64 {
        let (seconds, attoseconds) = components
        let (product, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
        let (sum, carry) = product.addingReportingOverflow(attoseconds / 1_000_000_000)
        return overflow || carry ? .max : sum
    }
}

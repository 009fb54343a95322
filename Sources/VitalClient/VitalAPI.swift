import HealthReadings
import Logging
import OutgoingHTTP

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
    let connections: HTTPConnections
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
        connections = HTTPConnections(
            HTTPLimits(connecting: limits.connecting, call: limits.call, responseBytes: limits.responseBytes),
            authorities: authorities)
    }

    /// A client of the same server, with the same credentials and connections of its own, that waits otherwise.
    ///
    /// - Parameter limits: how long requests may take.
    public func limited(to limits: Limits) -> VitalAPI {
        VitalAPI(
            server: server, credentials: credentials, limits: limits, authorities: authorities, recorder: recorder,
            logger: logger)
    }
}

extension VitalAPI: CustomStringConvertible, CustomReflectable {
    /// Names the host and nothing else.
    public var description: String { "VitalAPI(\(server.host))" }
    /// Shows the host and nothing else.
    public var customMirror: Mirror { Mirror(self, children: ["host": server.host]) }
}

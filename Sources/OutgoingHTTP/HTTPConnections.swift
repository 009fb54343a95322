import AsyncHTTPClient
import Foundation
import HealthReadings
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL

/// What an exchange may take.
package struct HTTPLimits: Sendable, Hashable {
    /// How long a connection may take to come about.
    package var connecting: Duration
    /// How long a whole exchange may take, from its beginning to the last octet of the answer.
    package var call: Duration
    /// How long an answer may be, in octets.
    package var responseBytes: Int
    /// Whether an answer that is longer is cut there: where only its status counts.
    package var cutsAnswers: Bool

    /// 10 s for connecting, 30 s for an exchange, 1 MiB for an answer.
    package init(
        connecting: Duration = .seconds(10), call: Duration = .seconds(30), responseBytes: Int = 1 << 20,
        cutsAnswers: Bool = false
    ) {
        self.connecting = connecting
        self.call = call
        self.responseBytes = responseBytes
        self.cutsAnswers = cutsAnswers
    }
}

/// An answer whose body is complete.
package struct HTTPAnswer: Sendable {
    package var status: Int
    package var headers: HTTPHeaders
    package var body: [UInt8]
}

/// Why there is no answer. Words of the network's errors name addresses and never headers.
package enum HTTPExchangeError: Error, Sendable, Hashable {
    /// No answer in time: the server may have the request.
    case timeout
    /// No connection in time: the server has nothing.
    case connectingTimeout
    /// The server cannot be reached: it has nothing.
    case noConnection(String)
    /// The connection broke before the answer was whole: the server may have the request.
    case connectionLost(String)
    /// The certificate is not trusted, or TLS failed otherwise.
    case untrustedServer(String)
    /// The server does not take the certificate that it was shown.
    case refusedIdentity(String)
    /// The answer is larger than ``HTTPLimits/responseBytes``.
    case answerTooLarge
}

/// The pool of connections to a server; they close when the last reference goes.
///
/// Certificates are always checked, TLS 1.2 is the least, and redirects are not followed: credentials would go along.
package final class HTTPConnections: Sendable, CustomReflectable {
    private let client: HTTPClient
    private let limits: HTTPLimits
    private let deadlines = Deadlines()

    /// Creates a pool; nothing is connected yet.
    ///
    /// - Parameters:
    ///   - limits: what an exchange may take.
    ///   - authorities: a PEM file of the certificates to trust in place of the system's; `nil`: the system's.
    ///   - identity: the certificate that this client shows; `nil`: none.
    ///   - addresses: the address to connect to by host. The URL's host stays the TLS server's name and the `Host`.
    package init(
        _ limits: HTTPLimits, authorities: String?, identity: HTTPIdentity? = nil, addresses: [String: String] = [:]
    ) {
        self.limits = limits
        var configuration = HTTPClient.Configuration()
        var tls = TLSConfiguration.makeClientConfiguration()
        // RFC 8996: TLS 1.0 and 1.1 are not to be used any more.
        tls.minimumTLSVersion = .tlsv12
        if let authorities { tls.trustRoots = .file(authorities) }
        if let identity {
            tls.certificateChain = identity.chain.map { .certificate($0) }
            tls.privateKey = .privateKey(identity.key)
        }
        configuration.tlsConfiguration = tls
        configuration.redirectConfiguration = .disallow
        configuration.dnsOverride = addresses
        // Nobody reads traces. The default tracer drops spans, but a span is made for each request, with its attributes.
        configuration.tracing.tracer = nil
        configuration.timeout.connect = .nanoseconds(limits.connecting.nanoseconds)
        // Waiting and trying again is the caller's; here a refused connection is one at once.
        configuration.connectionPool.retryConnectionEstablishment = false
        client = HTTPClient(eventLoopGroup: HTTPClient.defaultEventLoopGroup, configuration: configuration)
    }

    deinit { client.shutdown { _ in } }

    /// Shows nothing: connections know the requests that they carry, with their credentials.
    package var customMirror: Mirror { Mirror(self, children: []) }

    /// Sends a request.
    ///
    /// The exchange's time covers the body as well: a server that sends one octet a second must not hold us for ever.
    ///
    /// - Throws: ``HTTPExchangeError``, or `CancellationError` if the task was cancelled.
    package func answer(to request: HTTPClientRequest) async throws -> HTTPAnswer {
        let (client, limits) = (client, limits)
        let exchange = Task {
            let response = try await client.execute(request, timeout: .nanoseconds(limits.call.nanoseconds))
            return HTTPAnswer(
                status: Int(response.status.code), headers: response.headers,
                body: try await Self.octets(of: response.body, limits))
        }
        let deadline = deadlines.add(limits.call) { exchange.cancel() }
        let result = await withTaskCancellationHandler {
            await exchange.result
        } onCancel: {
            exchange.cancel()
        }
        let isInTime = deadlines.remove(deadline)
        do {
            return try result.get()
        } catch {
            throw isInTime || Task.isCancelled ? Self.translated(error) : HTTPExchangeError.timeout
        }
    }

    private static func octets(of body: HTTPClientResponse.Body, _ limits: HTTPLimits) async throws -> [UInt8] {
        guard limits.cutsAnswers else {
            return Array(try await body.collect(upTo: limits.responseBytes).readableBytesView)
        }
        var octets: [UInt8] = []
        for try await part in body {
            octets += part.readableBytesView.prefix(limits.responseBytes - octets.count)
            if octets.count == limits.responseBytes { break }
        }
        return octets
    }

    private static func translated(_ error: any Error) -> any Error {
        if Task.isCancelled { return CancellationError() }
        switch error {
        case is HTTPExchangeError, is CancellationError: return error
        case is NIOTooManyBytesError: return HTTPExchangeError.answerTooLarge
        case let error as HTTPClientError where connectingTimeouts.contains(error):
            return HTTPExchangeError.connectingTimeout
        case let error as HTTPClientError where timeouts.contains(error): return HTTPExchangeError.timeout
        case let error as HTTPClientError where losses.contains(error):
            return HTTPExchangeError.connectionLost(error.shortDescription)
        case let error as HTTPClientError: return HTTPExchangeError.noConnection(error.shortDescription)
        case ChannelError.connectTimeout: return HTTPExchangeError.connectingTimeout
        case let error as IOError where !breaks.contains(error.errnoCode):
            return HTTPExchangeError.noConnection(String("\(error)".prefix(300)))
        case is IOError, is ChannelError, is HTTPParserError:
            return HTTPExchangeError.connectionLost(String("\(error)".prefix(300)))
        case is NIOConnectionError, is SocketAddressError:
            return HTTPExchangeError.noConnection(String("\(error)".prefix(300)))
        case NIOSSLError.uncleanShutdown:
            return HTTPExchangeError.connectionLost("TLS ended in the middle of the answer")
        case is NIOSSLError, is NIOSSLExtraError, is BoringSSLError, is NIOTLSUnwrappingError,
            is NIOSSLCloseTimedOutError:
            let words = TLSFailure.words(error)
            return TLSFailure.refusesIdentity(error)
                ? HTTPExchangeError.refusedIdentity(words) : HTTPExchangeError.untrustedServer(words)
        // A connection that was there ends in many ways, a stream of HTTP/2 with errors of its own (RFC 9113, 6.4). The libraries'
        // own texts name files of the machine that built them.
        default: return HTTPExchangeError.connectionLost("\(type(of: error))")
        }
    }

    /// What a connection ends with that was there; others say that none came about.
    private static let breaks = [ECONNRESET, EPIPE, ECONNABORTED, ETIMEDOUT]
    private static let connectingTimeouts: [HTTPClientError] = [
        .connectTimeout, .tlsHandshakeTimeout, .getConnectionFromPoolTimeout,
    ]
    private static let timeouts: [HTTPClientError] = [.deadlineExceeded, .readTimeout, .writeTimeout]
    private static let losses: [HTTPClientError] = [.remoteConnectionClosed, .uncleanShutdown]
}

extension Duration {
    /// Whole nanoseconds; saturates after 292 years.
    package var nanoseconds: Int64 {
        let (seconds, attoseconds) = components
        let (product, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
        let (sum, carry) = product.addingReportingOverflow(attoseconds / 1_000_000_000)
        return overflow || carry ? .max : sum
    }
}

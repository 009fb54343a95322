import Crypto
import FleetDocuments
import Foundation
import GatewaySettings
import GuardedServer
import HTTPTypes
import HealthReadings
import Hummingbird
import HummingbirdCore
import LocalAccess
import Logging
import NIOCore
import NIOSSL
import ServiceLifecycle
import SwiftASN1
import Synchronization
import X509

/// The authority over HTTPS: enrolment with a token, renewal with a certificate, and what everybody may read.
package struct AuthorityServer: Sendable {
    private let desk: AuthorityDesk
    private let identity: AuthorityIdentity
    private let listen: ListenAddress
    private let rate: RequestRate
    private let logger: Logger

    /// - Parameter rate: how often one network may ask for a certificate.
    package init(
        desk: AuthorityDesk, identity: AuthorityIdentity, listen: ListenAddress, logger: Logger,
        rate: RequestRate = RequestRate(limit: 60, window: .seconds(60))
    ) {
        self.desk = desk
        self.identity = identity
        self.listen = listen
        self.logger = logger
        self.rate = rate
    }

    /// The server.
    ///
    /// - Parameter started: told the port once it listens.
    package func service(started: @escaping @Sendable (Int) async -> Void) -> some Service {
        let identity = identity
        var limits = ServerLimits()
        limits.connections = 512
        limits.bodyOctets = EnrolmentRequest.mostBytes
        limits.requestOctets = 2 * EnrolmentRequest.mostBytes
        return RestingServer(
            router: router(), address: .hostname(listen.host, port: listen.port), logger: logger,
            guarding: ServerGuard(tls: { identity.context }, limits: limits)
        ) { channel in
            await started(channel.localAddress?.port ?? listen.port)
        }
    }

    func router() -> Router<ChannelContext> {
        let router = Router(context: ChannelContext.self)
        router.add(
            middleware: RefusalMiddleware<ChannelContext> { [logger = desk.logger] error in
                Self.refusal(error, logger)
            })
        router.post("v1/enrol") { request, context in
            let wanted = try await read(request, context)
            return Response.json(try await desk.enrol(wanted).document)
        }
        router.post("v1/renew") { request, context in
            let wanted = try await read(request, context)
            guard let shown = try? await context.channel.nioSSL_peerCertificate().get(),
                let octets = try? shown.toDERBytes(), let certificate = try? Certificate(derEncoded: octets)
            else { throw AuthorityError.unknownCertificate }
            return Response.json(try await desk.renew(wanted, with: certificate).document)
        }
        router.get("v1/authority") { _, _ in
            Response.octetsResponse(Array(desk.authority.pem.utf8), "application/x-pem-file")
        }
        router.get("v1/revoked") { _, _ in
            guard let list = desk.currentList() else {
                throw APIRefusal(.serviceUnavailable, "no_list", "there is no revocation list yet")
            }
            return Response.octetsResponse(Array(list.pem.utf8), "application/x-pem-file")
        }
        router.get("health") { _, _ in
            // Anybody may ask: one number is read, and nothing is written.
            _ = try await desk.store.listNumber()
            let list = desk.currentList()
            let isWell = list.map { desk.now() < $0.expires } ?? false
            return Response.json(
                .object([
                    "status": isWell ? "ok" : "failing", "store": "ok",
                    "revocation_list_until": .optional(list?.expires.description),
                ]), status: isWell ? .ok : .serviceUnavailable)
        }
        return router
    }

    private func read(_ request: Request, _ context: ChannelContext) async throws -> EnrolmentRequest {
        let peer = PeerAddress(context.channel.remoteAddress?.ipAddress)
        if let wait = rate.admit(peer.network) {
            var refusal = APIRefusal(
                .tooManyRequests, "too_many_requests", "this network has asked for too many certificates in a minute")
            refusal.headers[.retryAfter] = "\(max(1, wait.components.seconds + 1))"
            throw refusal
        }
        let most = EnrolmentRequest.mostBytes
        return try EnrolmentRequest(
            try await request.octets(
                upTo: most,
                orElse: APIRefusal(
                    .contentTooLarge, "document_too_large", "a request may have \(most) bytes at most")))
    }

    private static func refusal(_ error: any Error, _ logger: Logger) -> APIRefusal? {
        switch error {
        case let error as FleetDocumentError:
            return APIRefusal(
                error.code == "document_too_large" ? .contentTooLarge : .badRequest, error.code, "\(error)")
        case let error as AuthorityError:
            logger.warning("a request was refused", metadata: ["code": "\(error.code)", "words": "\(error)"])
            return APIRefusal(error)
        default:
            logger.warning("a request failed", metadata: ["error": "\(type(of: error))"])
            return nil
        }
    }
}

extension APIRefusal {
    fileprivate init(_ error: AuthorityError) {
        let status: HTTPResponse.Status =
            switch error {
            case .unknownToken, .tokenExpired, .tokenUsed, .unknownCertificate: .unauthorized
            case .otherGateway, .revoked: .forbidden
            case .badRequest: .badRequest
            case .keyUnsupported, .notProven, .keyUsed: .unprocessableContent
            case .nameTaken, .revokedCertificateGood: .conflict
            case .tooManyCertificates: .tooManyRequests
            case .broker, .absent, .present, .unusableFile, .authorityNotValid, .store: .serviceUnavailable
            case .noSuchGateway: .notFound
            }
        // The words of a failure of our own name files: they stay in the log.
        let words = status == .serviceUnavailable ? "the authority can't do this now" : "\(error)"
        self.init(status, error.code, words)
    }
}

/// What the authority's server proves itself with: a certificate that the authority signs for it, with a key that is made
/// at each start and never written down.
package final class AuthorityIdentity: Sendable {
    private struct State {
        var context: NIOSSLContext
        var from: Instant
        var until: Instant
    }

    private let authority: Authority
    private let names: [String]
    private let state: Mutex<State>

    /// - Parameter names: host names and addresses that gateways reach the server by.
    package init(_ authority: Authority, names: [String], at now: Instant) throws {
        self.authority = authority
        self.names = names
        state = Mutex(try Self.make(authority, names, now))
    }

    /// What the next connection speaks TLS with.
    package var context: NIOSSLContext { state.withLock(\.context) }

    /// Makes another certificate if half of the time of the present one is over, or the clock was put back before it.
    package func refresh(at now: Instant) throws {
        let (from, until) = state.withLock { ($0.from, $0.until) }
        let middle = from.advanced(bySeconds: (until.seconds - from.seconds) / 2)
        guard now < from || now >= middle else { return }
        let fresh = try Self.make(authority, names, now)
        state.withLock { $0 = fresh }
    }

    private static func make(_ authority: Authority, _ names: [String], _ now: Instant) throws -> State {
        let key = P256.Signing.PrivateKey()
        let certificate = try authority.serverCertificate(names: names, .init(key.publicKey), at: now)
        let chain = try NIOSSLCertificate(bytes: Array(try certificate.pem.utf8), format: .pem)
        var configuration = TLSConfiguration.makeServerConfiguration(
            certificateChain: [.certificate(chain)],
            privateKey: .privateKey(try NIOSSLPrivateKey(bytes: Array(key.pemRepresentation.utf8), format: .pem)))
        configuration.minimumTLSVersion = .tlsv12
        configuration.applicationProtocols = ["http/1.1"]
        configuration.trustRoots = .certificates([
            try NIOSSLCertificate(bytes: Array(authority.pem.utf8), format: .pem)
        ])
        // A gateway that enrols has no certificate yet.
        configuration.certificateVerification = .optionalVerification
        return State(
            context: try NIOSSLContext(configuration: configuration), from: certificate.notValidBefore.moment,
            until: certificate.notValidAfter.moment)
    }
}

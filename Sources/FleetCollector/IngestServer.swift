import FleetDocuments
import FleetStore
import GatewaySettings
import GuardedServer
import HTTPTypes
import HealthReadings
import Hummingbird
import HummingbirdCore
import Logging
import NIOCore
import NIOSSL
import ServiceLifecycle
import SwiftASN1
import Synchronization
import X509

/// The HTTPS ingest: takes documents of gateways and answers 200 after they are durable.
package struct IngestServer: Sendable {
    let desk: DocumentDesk
    let metrics: CollectorMetrics
    let identity: IngestIdentity
    let page: OverviewPage
    let listen: ListenAddress
    let limits: ServerLimits
    let logger: Logger
    private let storeLog: QuietRepeats
    private let room = IngestRoom()
    private let tokens: GatewayTokens
    private let revocations: Revocations?

    /// How many bytes a document may have: those of the largest sealed batch.
    package static let mostOctets = SealedBatch.mostBytes
    /// After how many seconds a gateway tries again while the store is away.
    private static let retryAfter = "30"

    package init(
        desk: DocumentDesk, metrics: CollectorMetrics, identity: IngestIdentity, listen: ListenAddress, logger: Logger,
        limits: ServerLimits = IngestServer.limits, pageToken: String? = nil, revocations: Revocations? = nil
    ) {
        page = OverviewPage(store: desk.store, metrics: metrics, token: pageToken)
        self.revocations = revocations
        self.desk = desk
        self.metrics = metrics
        self.identity = identity
        self.listen = listen
        self.limits = limits
        self.logger = logger
        storeLog = QuietRepeats()
        tokens = GatewayTokens(store: desk.store)
    }

    /// What the ingest allows a connection: thousands of gateways may come at once after an outage, and those of a clinic come
    /// from one network, or from the one address of its router.
    package static var limits: ServerLimits {
        var limits = ServerLimits()
        limits.connections = 4096
        limits.connectionsOfOne = limits.connections
        limits.bodyOctets = mostOctets
        limits.requestOctets = 2 * mostOctets
        return limits
    }

    /// The server.
    ///
    /// - Parameter started: told the port once it listens.
    package func service(started: @escaping @Sendable (Int) async -> Void) -> some Service {
        let identity = identity
        return RestingServer(
            router: router(), address: .hostname(listen.host, port: listen.port), logger: .quiet(logger),
            guarding: ServerGuard(tls: { identity.context }, limits: limits)
        ) { channel in
            await started(channel.localAddress?.port ?? listen.port)
        }
    }

    func router() -> Router<ChannelContext> {
        let router = Router(context: ChannelContext.self)
        router.add(middleware: RefusalMiddleware<ChannelContext>())
        router.post("v1/readings") { request, context in
            let gateway = try await gateway(request, context)
            let receipt = try await taking(request, of: gateway) { octets async throws(DocumentFailure) in
                try await desk.keep(octets, from: gateway)
            }
            return Response.json(receipt.document)
        }
        for part in [FleetTopic.Part.status, .hello] {
            router.post("v1/\(part.rawValue)") { request, context in
                let gateway = try await gateway(request, context)
                let answer = try await taking(request, of: gateway) { octets async throws(DocumentFailure) in
                    try await desk.note(octets, part, from: gateway)
                }
                // A status is mostly news for the centre alone.
                if part == .status, answer.configuration == nil { return Response(status: .noContent) }
                return Response.json(answer.document)
            }
        }
        router.get("health") { _, _ in
            let health = await metrics.health()
            return Response.json(health.document, status: health.isWell ? .ok : .serviceUnavailable)
        }
        router.get("/") { request, context in
            try page.requireAccess(request, peer: context.channel.remoteAddress?.ipAddress)
            return try await answering { () async throws(DocumentFailure) in
                do throws(CentralStoreError) { return try await page.response() } catch { throw .store(error) }
            }
        }
        router.get("metrics") { _, _ in
            let text = try await answering { () async throws(DocumentFailure) in
                do throws(CentralStoreError) { return try await metrics.text() } catch { throw .store(error) }
            }
            return Response.octetsResponse(Array(text.utf8), "text/plain; version=0.0.4; charset=utf-8")
        }
        return router
    }

    /// Who sends a request: the common name of its verified certificate, or the gateway that its token is bound to.
    private func gateway(_ request: Request, _ context: ChannelContext) async throws -> GatewayID {
        if let certificate = try? await context.channel.nioSSL_peerCertificate().get() {
            guard let name = IngestIdentity.commonName(of: certificate), let gateway = GatewayID(ifValid: name) else {
                throw APIRefusal(
                    .forbidden, "certificate_names_no_gateway", "the certificate's common name is no gateway id",
                    hint: "a gateway id has 1 to \(GatewayID.longest) characters of A-Z, a-z, 0-9, _ and -")
            }
            try requireNotRevoked(certificate, of: gateway)
            return gateway
        }
        var unknown = APIRefusal(
            .unauthorized, "not_signed_in", "expected a gateway's certificate, or a token that is known here",
            hint: "make one with `healthrelay-collector token GATEWAY`")
        unknown.headers[.wwwAuthenticate] = "Bearer"
        let parts = (request.headers[.authorization] ?? "").split(separator: " ", maxSplits: 1)
        guard parts.count == 2, parts[0].lowercased() == "bearer" else { throw unknown }
        let token = String(parts[1])
        let gateway = try await answering { () async throws(DocumentFailure) in
            do throws(CentralStoreError) { return try await tokens.gateway(of: token) } catch { throw .store(error) }
        }
        guard let gateway = gateway.flatMap({ GatewayID(ifValid: $0) }) else { throw unknown }
        return gateway
    }

    /// Refuses a certificate that was revoked. A connection that was open before is asked again with each request.
    private func requireNotRevoked(_ certificate: NIOSSLCertificate, of gateway: GatewayID) throws(APIRefusal) {
        guard let revocations else { return }
        let parsed = (try? certificate.toDERBytes()).flatMap { try? Certificate(derEncoded: $0) }
        switch parsed.map(revocations.verdict(on:)) ?? .unknown {
        case .good: return
        case .revoked:
            desk.counters.showRevokedCertificate()
            logger.warning("a revoked certificate was shown", metadata: ["gateway": "\(gateway)"])
            throw APIRefusal(.forbidden, "certificate_revoked", "the certificate of \(gateway) was revoked")
        case .unknown:
            throw Self.unavailable(
                "revocation_list_unavailable",
                "the collector has no revocation list of the certificate's authority that it could verify")
        }
    }

    /// Reads a gateway's document and answers it, if there is room for the document.
    ///
    /// The room is taken before the body is read: a gateway that begins many requests and ends none would else have a document's
    /// memory for each of them.
    private func taking<Result>(
        _ request: Request, of gateway: GatewayID, _ answer: ([UInt8]) async throws(DocumentFailure) -> Result
    ) async throws -> Result {
        let length = request.headers[.contentLength].flatMap { Int($0) } ?? Self.mostOctets
        let bytes = min(max(length, 0), Self.mostOctets)
        guard room.enter(bytes, of: gateway.description) else {
            throw Self.unavailable("store_busy", "too many documents are on their way; nothing of this was stored")
        }
        defer { room.leave(bytes, of: gateway.description) }
        let octets = try await request.octets(
            upTo: Self.mostOctets,
            orElse: APIRefusal(
                .contentTooLarge, "document_too_large", "a document may have \(Self.mostOctets) bytes at most",
                hint: "send smaller batches"))
        return try await answering { () async throws(DocumentFailure) in try await answer(octets) }
    }

    /// Answers as HTTP does for what a document's failure is.
    private func answering<Result>(
        _ body: () async throws(DocumentFailure) -> Result
    ) async throws -> Result {
        do {
            return try await body()
        } catch {
            guard case .store(let error) = error else { throw APIRefusal(error) }
            // A thousand gateways may ask while it is away.
            if let others = storeLog.next() {
                logger.error(
                    "the store can't be used", metadata: ["error": "\(error)", "not_logged_before": "\(others)"])
            }
            // The words may name a host of the owner's: they stay in the log.
            throw Self.unavailable(error.code, "the store can't be used now; nothing of this was stored")
        }
    }

    /// The answer to a gateway that is to try again.
    private static func unavailable(_ code: String, _ words: String) -> APIRefusal {
        var refusal = APIRefusal(.serviceUnavailable, code, words)
        refusal.headers[.retryAfter] = retryAfter
        return refusal
    }
}

extension APIRefusal {
    /// The answer to a document that isn't taken.
    init(_ failure: DocumentFailure) {
        let status: HTTPResponse.Status =
            switch failure {
            case .document(.tooLarge): .contentTooLarge
            case .document(.otherGateway): .forbidden
            case .document(.unexpected), .document(.badKey): .badRequest
            case .document(.newerSchema), .document(.otherKey), .document(.sealBroken), .badValue:
                .unprocessableContent
            case .store: .serviceUnavailable
            }
        self.init(status, failure.code, failure.words)
    }
}

/// Lets something be logged every ten seconds at most.
private final class QuietRepeats: Sendable {
    private let state = Mutex<(last: ContinuousClock.Instant?, others: Int)>((nil, 0))

    /// - Returns: how many were not logged since the last one that was; `nil`: this isn't to be logged either.
    func next() -> Int? {
        state.withLock { state in
            if let last = state.last, ContinuousClock.now - last < .seconds(10) {
                state.others += 1
                return nil
            }
            defer { state = (ContinuousClock.now, 0) }
            return state.others
        }
    }
}

import AsyncHTTPClient
import Crypto
import FleetDocuments
import Foundation
import GatewaySettings
import HealthReadings
import LocalAccess
import NIOCore
import NIOHTTP1
import NIOSSL
import ServiceLifecycle
import SwiftASN1
import Testing
import X509

@testable import FleetAuthority

@Suite("The authority over HTTPS") struct AuthorityServerTests {
    private struct Answer {
        var status: UInt
        var octets: [UInt8]
        var headers: HTTPHeaders
        var text: String { String(decoding: octets, as: UTF8.self) }
    }

    private struct Caller {
        let client: HTTPClient
        let address: String

        func send(_ octets: [UInt8]?, to path: String) async throws -> Answer {
            var request = HTTPClientRequest(url: address + path)
            request.method = octets == nil ? .GET : .POST
            if let octets { request.body = .bytes(octets) }
            let response = try await client.execute(request, timeout: .seconds(60))
            let body = try await response.body.collect(upTo: 1 << 20)
            return Answer(
                status: response.status.code, octets: Array(body.readableBytesView), headers: response.headers)
        }
    }

    /// Runs an authority's server by the machine's own clock, which TLS verifies by.
    private func serving(
        _ rate: RequestRate = RequestRate(limit: 1000), _ body: @escaping (AuthorityDesk, Int) async throws -> Void
    ) async throws {
        let folder = FileManager.default.temporaryDirectory.path + "/authority-" + UUID().uuidString.prefix(8)
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        _ = try Authority.make(in: folder, at: .systemClock)
        let desk = try AuthorityDesk(
            directory: folder, plan: AuthorityDesk.Plan(url: "https://localhost"), logger: AuthorityFixture.quiet)
        let identity = try AuthorityIdentity(desk.authority, names: ["localhost", "127.0.0.1"], at: .systemClock)
        let server = AuthorityServer(
            desk: desk, identity: identity, listen: ListenAddress(host: "127.0.0.1", port: 0),
            logger: AuthorityFixture.quiet, rate: rate)
        let (ports, port) = AsyncStream.makeStream(of: Int.self)
        let work = Task {
            defer { port.finish() }
            try await server.service { port.yield($0) }.run()
        }
        let number = try #require(await ports.first { _ in true })
        defer { work.cancel() }
        try await body(desk, number)
    }

    private func calling(
        _ desk: AuthorityDesk, _ port: Int, with certificate: (pem: String, key: P256.Signing.PrivateKey)? = nil,
        _ body: (Caller) async throws -> Void
    ) async throws {
        var tls = TLSConfiguration.makeClientConfiguration()
        tls.trustRoots = .certificates([
            try NIOSSLCertificate(bytes: Array(desk.authority.pem.utf8), format: .pem)
        ])
        if let certificate {
            tls.certificateChain = [
                .certificate(try NIOSSLCertificate(bytes: Array(certificate.pem.utf8), format: .pem))
            ]
            tls.privateKey = .privateKey(
                try NIOSSLPrivateKey(bytes: Array(certificate.key.pemRepresentation.utf8), format: .pem))
        }
        var configuration = HTTPClient.Configuration()
        configuration.tlsConfiguration = tls
        let client = HTTPClient(configuration: configuration)
        let result: Result<Void, any Error>
        do {
            result = .success(try await body(Caller(client: client, address: "https://localhost:\(port)")))
        } catch { result = .failure(error) }
        try? await client.shutdown()
        try result.get()
    }

    @Test("a gateway enrols, renews with its certificate, and is refused after it was revoked")
    func life() async throws {
        let gateway = AuthorityFixture.gateway
        try await serving { desk, port in
            let (key, next) = (P256.Signing.PrivateKey(), P256.Signing.PrivateKey())
            let ticket = try await desk.makeTicket(for: gateway)
            let wanted = EnrolmentRequest(
                gateway: gateway, token: ticket.token, request: try AuthorityFixture.request(.init(key)))
            let renewal = EnrolmentRequest(
                gateway: gateway, token: nil, request: try AuthorityFixture.request(.init(next))
            ).document.octets
            var certificate = ""
            try await calling(desk, port) { caller in
                let answer = try await caller.send(wanted.document.octets, to: "/v1/enrol")
                #expect(answer.status == 200)
                certificate = try EnrolmentAnswer(answer.octets).certificate
                // Without a certificate nothing is renewed.
                let refused = try await caller.send(renewal, to: "/v1/renew")
                #expect(refused.status == 401 && refused.text.contains("certificate_unknown"))
                #expect(try await caller.send(nil, to: "/v1/authority").octets == Array(desk.authority.pem.utf8))
                #expect(try await caller.send(nil, to: "/v1/revoked").status == 503)
                #expect(try await caller.send(nil, to: "/health").status == 503)
                try await desk.refreshList()
                #expect(try await caller.send(nil, to: "/health").status == 200)
            }
            try await calling(desk, port, with: (certificate, key)) { caller in
                let answer = try await caller.send(renewal, to: "/v1/renew")
                #expect(answer.status == 200)
                let fresh = try Certificate(pemEncoded: try EnrolmentAnswer(answer.octets).certificate)
                #expect(fresh.publicKey == .init(next.publicKey))
                _ = try await desk.revoke(gateway)
                let refused = try await caller.send(renewal, to: "/v1/renew")
                #expect(refused.status == 403 && refused.text.contains("gateway_revoked"))
                let list = try await caller.send(nil, to: "/v1/revoked")
                #expect(
                    try RevocationList(list.octets, signedBy: [desk.authority.certificate]).contains(
                        Certificate(pemEncoded: certificate)))
            }
            // A server's certificate is no gateway's: the connection ends.
            let server = try desk.authority.serverCertificate(
                names: ["gw-0001"], .init(key.publicKey), at: .systemClock)
            try await calling(desk, port, with: (try server.pem, key)) { caller in
                await #expect(throws: (any Error).self) { _ = try await caller.send(renewal, to: "/v1/renew") }
            }
        }
    }

    @Test("bad input is named, and too much of it is put off")
    func badInput() async throws {
        try await serving(RequestRate(limit: 6)) { desk, port in
            try await calling(desk, port) { caller in
                let request = try AuthorityFixture.request(.init(P256.Signing.PrivateKey()))
                let token = String(repeating: "0", count: 64)
                let cases: [(String, UInt, String)] = [
                    ("no document", 400, "bad_document"),
                    (#"{"schema":1,"gateway":"gw 1","request":"x"}"#, 400, "a gateway's id"),
                    (#"{"schema":9,"gateway":"gw1","request":"x"}"#, 400, "newer_schema"),
                    (#"{"schema":1,"gateway":"gw1","token":"\#(token)","request":"x"}"#, 400, "no PEM document"),
                    (String(repeating: " ", count: EnrolmentRequest.mostBytes + 1), 413, "document_too_large"),
                    (
                        EnrolmentRequest(gateway: AuthorityFixture.gateway, token: token, request: request).document
                            .text, 401, "token_unknown"
                    ),
                ]
                for (text, status, words) in cases {
                    let answer = try await caller.send(Array(text.utf8), to: "/v1/enrol")
                    let said = String(decoding: answer.octets, as: UTF8.self)
                    #expect(answer.status == status && (said.contains(words) || words == "a gateway's id"), "\(said)")
                }
                let late = try await caller.send(Array("{}".utf8), to: "/v1/enrol")
                #expect(late.status == 429 && late.headers.first(name: "Retry-After") != nil)
                #expect(try await caller.send(nil, to: "/v1/nothing").status == 404)
            }
        }
    }
}

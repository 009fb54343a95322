import Crypto
import Foundation
import HealthReadings
import LogLines
import NIOSSL
import ScriptedServer
import SwiftASN1
import Testing
import X509

@testable import VitalClient

@Suite("The way to the server")
struct TransportTests {
    /// A server's side of TLS of these versions, and the file with the authority that vouches for it.
    private func tls(
        _ versions: ClosedRange<Int>, in folder: String
    ) throws -> (context: NIOSSLContext, certificate: String) {
        let (authorityKey, key) = (P256.Signing.PrivateKey(), P256.Signing.PrivateKey())
        let authorityName = try DistinguishedName { CommonName("authority") }
        func make(
            _ name: DistinguishedName, _ key: P256.Signing.PrivateKey, _ extensions: Certificate.Extensions
        ) throws -> String {
            try Certificate(
                version: .v3, serialNumber: Certificate.SerialNumber(), publicKey: .init(key.publicKey),
                notValidBefore: Date() - 86_400, notValidAfter: Date() + 86_400, issuer: authorityName, subject: name,
                signatureAlgorithm: .ecdsaWithSHA256, extensions: extensions, issuerPrivateKey: .init(authorityKey)
            ).serializeAsPEM().pemString
        }
        let authority = try make(
            authorityName, authorityKey,
            Certificate.Extensions {
                Critical(BasicConstraints.isCertificateAuthority(maxPathLength: nil))
                Critical(KeyUsage(keyCertSign: true))
            })
        let certificate = try make(
            DistinguishedName { CommonName("server") }, key,
            Certificate.Extensions {
                Critical(BasicConstraints.notCertificateAuthority)
                SubjectAlternativeNames([.ipAddress(ASN1OctetString(contentBytes: [127, 0, 0, 1]))])
            })
        var configuration = TLSConfiguration.makeServerConfiguration(
            certificateChain: [.certificate(try NIOSSLCertificate(bytes: Array(certificate.utf8), format: .pem))],
            privateKey: .privateKey(try NIOSSLPrivateKey(bytes: Array(key.pemRepresentation.utf8), format: .pem)))
        let all: [TLSVersion] = [.tlsv1, .tlsv11, .tlsv12, .tlsv13]
        configuration.minimumTLSVersion = all[versions.lowerBound]
        configuration.maximumTLSVersion = all[versions.upperBound]
        let path = folder + "/authority.pem"
        try authority.write(toFile: path, atomically: true, encoding: .utf8)
        return (try NIOSSLContext(configuration: configuration), path)
    }

    private func withFolder(_ body: (String) async throws -> Void) async throws {
        let folder = NSTemporaryDirectory() + "transport-\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        try await body(folder)
    }

    private func ask(_ server: ScriptedServer, _ authorities: String?) async throws -> VitalError? {
        let api = VitalAPI(
            server: try VitalServer(baseURL: server.baseURL), credentials: .apiKey(Secret(testKey)),
            authorities: authorities, recorder: nil, logger: LogLines().logger())
        return await failure { _ = try await api.connectedSources(of: "u-1") }
    }

    @Test("the key is not sent over TLS 1.0 or 1.1", arguments: [0...0, 0...1, 1...1])
    func outdated(versions: ClosedRange<Int>) async throws {
        try await withFolder { folder in
            let tls = try tls(versions, in: folder)
            try await ScriptedServer.with({ _ in .json(200, #"{"providers":[]}"#) }, tls: tls.context) { server in
                let error = try await ask(server, tls.certificate)
                #expect(error?.kind == .untrustedServer)
                // The certificate is trusted: it is the version that is refused.
                #expect(error?.serverSaid?.contains("its certificate") == false, "\(error?.serverSaid ?? "")")
                #expect(server.requests.isEmpty)
            }
        }
    }

    @Test(
        "TLS 1.2 and 1.3 do; a certificate that nobody vouches for is refused before the key is sent",
        arguments: [2, 3])
    func current(version: Int) async throws {
        try await withFolder { folder in
            let tls = try tls(version...version, in: folder)
            try await ScriptedServer.with({ _ in .json(200, #"{"providers":[]}"#) }, tls: tls.context) { server in
                let refused = try await ask(server, nil)
                #expect(refused?.kind == .untrustedServer)
                #expect(refused?.serverSaid?.contains("its certificate") == true, "\(refused?.serverSaid ?? "")")
                #expect(server.requests.isEmpty)
                let accepted = try await ask(server, tls.certificate)
                #expect(accepted == nil)
                #expect(server.requests.count == 1)
            }
        }
    }

    @Test("TLS that fails is told in words, without a library's own text and the paths in it")
    func words() async throws {
        try await withFolder { folder in
            let tls = try tls(2...3, in: folder)
            let empty = folder + "/empty.pem"
            try "no certificate\n".write(toFile: empty, atomically: true, encoding: .utf8)
            try await ScriptedServer.with({ _ in .ok }, tls: tls.context) { server in
                for authorities in [nil, empty, folder + "/absent.pem"] {
                    let error = try await ask(server, authorities)
                    let said = try #require(error?.serverSaid)
                    #expect(error?.kind == .untrustedServer, "\(said)")
                    for word in ["OPENSSL", "BoringSSL", "NIOSSL", ".cc", "checkouts", "error:"] {
                        #expect(!said.contains(word), "\(said)")
                    }
                }
                #expect(server.requests.isEmpty)
            }
        }
    }

    @Test("no redirect takes the key anywhere else", arguments: [301, 302, 303, 307, 308])
    func redirects(status: Int) async throws {
        try await ScriptedServer.with({ _ in .json(200, #"{"providers":[]}"#) }) { other in
            let target = other.baseURL
            try await ScriptedServer.with({ _ in .json(status, "{}", headers: ["Location": target + "/v2/user"]) }) {
                server in
                let error = await failure { _ = try await client(of: server).connectedSources(of: "u-1") }
                #expect(error?.kind == .redirected)
                let post = await failure { try await client(of: server).post(glucosePost(), for: "u-1") }
                #expect(post?.kind == .redirected && other.requests.isEmpty)
            }
        }
    }

    @Test(
        "a host that only looks like this machine is another one",
        arguments: [
            "127.evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "evil.localhost", "0.0.0.0",
            "10.0.0.9", "[fe80::1]", "[::2]",
        ])
    func exposed(host: String) throws {
        #expect(try VitalServer(baseURL: "http://\(host):8000").isExposed)
        #expect(try !VitalServer(baseURL: "https://\(host):8000").isExposed)
    }

    @Test("loopback needs no TLS", arguments: ["127.0.0.1", "127.1.2.3", "localhost", "LOCALHOST", "[::1]"])
    func loopback(host: String) throws {
        #expect(try !VitalServer(baseURL: "http://\(host):8000").isExposed)
    }
}

import Crypto
import FleetDocuments
import Foundation
import HealthReadings
import NIOSSL
import SwiftASN1
import Testing
import X509

@testable import FleetAuthority

@Suite("The fleet's authority") struct AuthorityTests {
    @Test("OpenSSL and BoringSSL take it for an anchor, of gateways' certificates as clients only")
    func anchor() async throws {
        let fixture = try AuthorityFixture()
        let answer = try await fixture.enrol(P256.Signing.PrivateKey())
        let (anchor, leaf) = (fixture.folder + "/ca.pem", try fixture.write(answer.certificate, "gw.pem"))
        let at = "\(fixture.now.seconds)"
        func verify(_ purpose: String, _ file: String) throws -> Int32 {
            try openSSL("verify", "-x509_strict", "-attime", at, "-purpose", purpose, "-CAfile", anchor, file).status
        }
        #expect(try verify("sslclient", leaf) == 0)
        #expect(try verify("sslserver", leaf) != 0)
        let key = P256.Signing.PrivateKey()
        let server = try fixture.desk.authority.serverCertificate(
            names: ["a.example", "127.0.0.1"], .init(key.publicKey), at: fixture.now)
        let serverFile = try fixture.write(try server.pem, "server.pem")
        #expect(try verify("sslserver", serverFile) == 0)
        #expect(try verify("sslclient", serverFile) != 0)
        // The handshake with BoringSSL is in AuthorityServerTests; here it reads the file.
        #expect(try NIOSSLCertificate.fromPEMFile(anchor).count == 1)
        let text = try openSSL("x509", "-in", anchor, "-noout", "-text").text
        #expect(text.contains("CA:TRUE, pathlen:0") && text.contains("Certificate Sign, CRL Sign"))
        // A gateway's certificate is no authority.
        let below = try fixture.write(try Self.signed(by: answer), "below.pem")
        #expect(try openSSL("verify", "-attime", at, "-CAfile", anchor, "-untrusted", leaf, below).status != 0)
    }

    /// A certificate that names a gateway's as its issuer.
    private static func signed(by answer: EnrolmentAnswer) throws -> String {
        let (issuer, key) = (try Certificate(pemEncoded: answer.certificate), P256.Signing.PrivateKey())
        return try Certificate(
            version: .v3, serialNumber: .init(), publicKey: .init(key.publicKey),
            notValidBefore: issuer.notValidBefore, notValidAfter: issuer.notValidAfter, issuer: issuer.subject,
            subject: issuer.subject, signatureAlgorithm: .ecdsaWithSHA256, extensions: .init(),
            issuerPrivateKey: .init(key)
        ).pem
    }

    @Test("its key is its owner's alone, it is made once, and an interrupted beginning goes on with the same key")
    func files() throws {
        let fixture = try AuthorityFixture()
        let keyFile = fixture.folder + "/ca.key"
        let mode = try FileManager.default.attributesOfItem(atPath: keyFile)[.posixPermissions] as? Int
        #expect(mode == 0o600)
        #expect(throws: AuthorityError.present(directory: fixture.folder)) {
            try Authority.make(in: fixture.folder, at: fixture.now)
        }
        let key = try Data(contentsOf: URL(fileURLWithPath: keyFile))
        try FileManager.default.removeItem(atPath: fixture.folder + "/ca.pem")
        #expect(throws: AuthorityError.absent(directory: fixture.folder)) { try Authority(in: fixture.folder) }
        let again = try Authority.make(in: fixture.folder, at: fixture.now)
        #expect(try Data(contentsOf: URL(fileURLWithPath: keyFile)) == key)
        #expect(try Authority(in: fixture.folder).fingerprint == again.fingerprint)
        // Another one's certificate, and a key that others may read, are refused.
        let foreign = try AuthorityFixture()
        try FileManager.default.removeItem(atPath: foreign.folder + "/ca.pem")
        try FileManager.default.copyItem(atPath: fixture.folder + "/ca.pem", toPath: foreign.folder + "/ca.pem")
        #expect(throws: AuthorityError.self) { try Authority(in: foreign.folder) }
        chmod(keyFile, 0o644)
        #expect(throws: AuthorityError.self) { try Authority(in: fixture.folder) }
    }

    @Test("of a request only the key counts, which has to be on P-256 or Ed25519 and proven")
    func requests() async throws {
        let fixture = try AuthorityFixture()
        func found(_ pem: String) -> String {
            do {
                _ = try KeyRequest(pem: pem)
                return "taken"
            } catch { return "\(error)" }
        }
        #expect(found(try AuthorityFixture.request(.init(P256.Signing.PrivateKey()))) == "taken")
        #expect(found(try AuthorityFixture.request(.init(Curve25519.Signing.PrivateKey()))) == "taken")
        for (arguments, words) in [
            (["ec", "ec_paramgen_curve:P-384"], "found a key on P-384"),
            (["rsa", "rsa_keygen_bits:2048"], "found an RSA key"),
            (["ec", "ec_paramgen_curve:secp256k1"], "found a key on curve"),
        ] {
            let key = fixture.folder + "/\(arguments[1]).key"
            let made = try openSSL("genpkey", "-algorithm", arguments[0], "-pkeyopt", arguments[1], "-out", key)
            #expect(made.status == 0)
            let request = try openSSL("req", "-new", "-key", key, "-subj", "/CN=gw-0001").text
            #expect(found(request).contains(words), "\(arguments): \(found(request))")
        }
        // Another key's signature proves nothing.
        let (mine, theirs) = (P256.Signing.PrivateKey(), P256.Signing.PrivateKey())
        let good = try CertificateSigningRequest(pemEncoded: try AuthorityFixture.request(.init(theirs)))
        let forged = try CertificateSigningRequest(
            version: .v1, subject: good.subject, publicKey: .init(mine.publicKey), attributes: good.attributes,
            signatureAlgorithm: good.signatureAlgorithm, signature: good.signature)
        #expect(found(try forged.serializeAsPEM().pemString) == "\(AuthorityError.notProven)")
        #expect(found("hello").contains("found no PEM document"))
        #expect(found(fixture.desk.authority.pem).contains("found another PEM document"))
        let empty = "-----BEGIN CERTIFICATE REQUEST-----\nMAA=\n-----END CERTIFICATE REQUEST-----\n"
        #expect(found(empty).contains("other"))

        // The name is the token's.
        let ticket = try await fixture.desk.makeTicket(for: AuthorityFixture.gateway)
        let answer = try await fixture.desk.enrol(
            EnrolmentRequest(
                gateway: AuthorityFixture.gateway, token: ticket.token,
                request: try AuthorityFixture.request(.init(mine), name: "gw-9999")))
        let certificate = try Certificate(pemEncoded: answer.certificate)
        #expect(certificate.commonName == "gw-0001")
        #expect(certificate.notValidBefore == fixture.now.advanced(bySeconds: -300).date)
        #expect(certificate.notValidAfter == fixture.now.advanced(bySeconds: 90 * 86_400).date)
        #expect(certificate.serialNumber.bytes.count >= 16)
        #expect(try answer.authorities == fixture.desk.authority.certificate.pem)
    }

    @Test("a certificate does not outlive its authority, and an authority that is not yet valid signs none")
    func times() async throws {
        let fixture = try AuthorityFixture()
        fixture.advance(Authority.lifetime - 86_400)
        let answer = try await fixture.enrol(P256.Signing.PrivateKey())
        #expect(
            try Certificate(pemEncoded: answer.certificate).notValidAfter
                == fixture.desk.authority.certificate.notValidAfter)
        fixture.advance(2 * 86_400)
        await #expect(throws: AuthorityError.self) { try await fixture.enrol(P256.Signing.PrivateKey()) }
    }

    @Test("authorities that gateways trust besides are certificates and nothing else")
    func others() throws {
        let (fixture, other) = (try AuthorityFixture(), try AuthorityFixture())
        var plan = fixture.desk.plan
        plan.alsoTrustFile = other.folder + "/ca.pem"
        let both = try AuthorityFixture.desk(fixture.folder, plan, .init())
        #expect(try PEMDocument.parseMultiple(pemString: try both.authorities()).count == 2)
        plan.alsoTrustFile = other.folder + "/ca.key"
        let wrong = try AuthorityFixture.desk(fixture.folder, plan, .init())
        #expect(throws: AuthorityError.self) { try wrong.authorities() }
    }
}

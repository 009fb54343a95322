import Crypto
import FleetAuthority
import FleetDelivery
import FleetDocuments
import Foundation
import GatewaySettings
import HealthReadings
import SwiftASN1
import Synchronization
import X509

@testable import FleetCollector

/// An authority with gateways, whose list a collector reads.
final class AuthorityBench: Sendable {
    let folder = SampleBatch.folder()
    let desk: AuthorityDesk
    let clock: @Sendable () -> Instant

    init(at start: Instant = .systemClock, days: Int = 90) throws {
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        _ = try Authority.make(in: folder, at: start)
        let box = Box(start)
        clock = { box.moment.withLock(\.self) }
        self.box = box
        var plan = AuthorityDesk.Plan(url: "https://localhost")
        plan.days = days
        desk = try AuthorityDesk(
            directory: folder, plan: plan, logger: RevocationTests.quiet,
            now: clock)
    }

    private let box: Box

    private final class Box: Sendable {
        let moment: Mutex<Instant>
        init(_ start: Instant) { moment = Mutex(start) }
    }

    deinit { try? FileManager.default.removeItem(atPath: folder) }

    func advance(_ seconds: Int64) { box.moment.withLock { $0 = $0.advanced(bySeconds: seconds) } }

    func enrol(_ name: String) async throws -> (certificate: Certificate, key: P256.Signing.PrivateKey) {
        let (gateway, key) = (try GatewayID(name), P256.Signing.PrivateKey())
        let ticket = try await desk.makeTicket(for: gateway)
        let answer = try await desk.enrol(
            EnrolmentRequest(gateway: gateway, token: ticket.token, request: try Self.request(key)))
        return (try Certificate(pemEncoded: answer.certificate), key)
    }

    private static func request(_ key: P256.Signing.PrivateKey) throws -> String {
        try CertificateSigningRequest(
            version: .v1, subject: try DistinguishedName { CommonName("x") }, privateKey: .init(key),
            attributes: .init(), signatureAlgorithm: .ecdsaWithSHA256
        ).serializeAsPEM().pemString
    }

    // MARK: Files

    /// Enrols a gateway, and writes what it gets as a gateway does.
    func identity(_ name: String) async throws -> FleetIdentity {
        let (certificate, key) = try await enrol(name)
        return try identity(of: GatewayID(name), certificate, key)
    }

    /// Renews a gateway's certificate.
    func renewed(_ identity: FleetIdentity) async throws -> FleetIdentity {
        let key = P256.Signing.PrivateKey()
        let shown = try Certificate(
            pemEncoded: try String(contentsOfFile: identity.files.certificate, encoding: .utf8))
        let answer = try await desk.renew(
            EnrolmentRequest(gateway: identity.gateway, token: nil, request: try Self.request(key)), with: shown)
        return try self.identity(of: identity.gateway, try Certificate(pemEncoded: answer.certificate), key)
    }

    private func identity(
        of gateway: GatewayID, _ certificate: Certificate, _ key: P256.Signing.PrivateKey
    ) throws -> FleetIdentity {
        let (certificateFile, keyFile) = try write(certificate, key)
        return FleetIdentity(
            gateway: gateway,
            files: .init(
                authorities: folder + "/" + Authority.certificateFile, certificate: certificateFile,
                privateKey: keyFile))
    }

    private func write(_ certificate: Certificate, _ key: P256.Signing.PrivateKey) throws -> (String, String) {
        let base = folder + "/" + Array(certificate.serialNumber.bytes).hexadecimal()
        try PrivateFile.write(Array(key.pemRepresentation.utf8), to: base + ".key")
        try PrivateFile.write(Array(try certificate.serializeAsPEM().pemString.utf8), to: base + ".pem")
        return (base + ".pem", base + ".key")
    }

    /// Settings of a collector that gateways of this authority know, and that knows them.
    func collectorSettings() throws -> CollectorSettings {
        let key = P256.Signing.PrivateKey()
        var settings = CollectorSettings()
        let (certificateFile, keyFile) = try write(
            try desk.authority.serverCertificate(names: ["localhost"], .init(key.publicKey), at: clock()), key)
        (settings.certificateFile, settings.privateKeyFile) = (certificateFile, keyFile)
        settings.gatewayAuthorityFile = folder + "/" + Authority.certificateFile
        settings.revocationListFile = desk.listFile
        return settings
    }

    func revocations(_ file: String? = nil) -> Revocations {
        Revocations(
            file: file ?? desk.listFile, authorityFile: folder + "/ca.pem", logger: RevocationTests.quiet,
            now: clock)
    }
}

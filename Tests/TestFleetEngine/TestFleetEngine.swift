import AMQPLink
import AsyncHTTPClient
import Crypto
import FleetAuthority
import FleetDelivery
import FleetDocuments
import Foundation
import HealthReadings
import Logging
import NIOCore
import NIOHTTP1
import SwiftASN1
import TestRabbitMQ
import X509

/// A RabbitMQ node whose gateways an authority vouches for, with the collector behind it.
package final class TestFleetEngine: Sendable {
    /// The broker has answered something else than that it is done.
    package struct Refused: Error { package let path: String }

    package let folder: String
    package let desk: AuthorityDesk
    package let node: TestRabbitMQ
    package let users: BrokerUsers

    package init() async throws {
        folder = FileManager.default.temporaryDirectory.path + "/engine-" + UUID().uuidString.prefix(8)
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        _ = try Authority.make(in: folder, at: .systemClock)
        desk = try AuthorityDesk(
            directory: folder, plan: AuthorityDesk.Plan(url: "https://localhost"),
            logger: Logger(label: "tests") { _ in SwiftLogNoOpLogHandler() })
        for (name, names) in [
            ("broker", ["broker.example", "localhost", "127.0.0.1"]), ("collector", ["collector.example"]),
        ] {
            let key = P256.Signing.PrivateKey()
            let certificate = try desk.authority.serverCertificate(
                names: names, .init(key.publicKey), isClient: true, at: .systemClock)
            try Self.write(key.pemRepresentation, folder + "/\(name).key")
            try Self.write(try certificate.serializeAsPEM().pemString, folder + "/\(name).pem")
        }
        node = try TestRabbitMQ(
            .init(
                authorities: folder + "/ca.pem", certificate: folder + "/broker.pem",
                privateKey: folder + "/broker.key"))
        users = BrokerUsers(
            .init(url: "http://127.0.0.1:\(node.managementPort)", user: "guest", password: "guest"))
        try await put("users/collector.example", #"{"password_hash":"","tags":""}"#)
        try await put("permissions/%2F/collector.example", #"{"configure":".*","write":".*","read":".*"}"#)
    }

    deinit { try? FileManager.default.removeItem(atPath: folder) }

    /// Writes a file that only its owner can read.
    package static func write(_ text: String, _ path: String) throws {
        try PrivateFile.write(Array((text + "\n").utf8), to: path)
    }

    private func put(_ path: String, _ body: String) async throws {
        var request = HTTPClientRequest(url: "http://127.0.0.1:\(node.managementPort)/api/\(path)")
        request.method = .PUT
        request.headers.add(name: "Authorization", value: "Basic Z3Vlc3Q6Z3Vlc3Q=")
        request.headers.add(name: "Content-Type", value: "application/json")
        request.body = .bytes(Array(body.utf8))
        let answer = try await HTTPClient.shared.execute(request, timeout: .seconds(30))
        guard (200..<300).contains(Int(answer.status.code)) else { throw Refused(path: path) }
    }

    /// The collector's way to the node.
    package func broker(_ host: String = "localhost", authority: String? = nil) -> AMQPBroker {
        AMQPBroker(
            host: host, port: node.port, credentials: .certificate,
            tls: .init(
                authorityFile: authority ?? folder + "/ca.pem", certificateFile: folder + "/collector.pem",
                privateKeyFile: folder + "/collector.key"))
    }

    /// Enrols a gateway, and has the broker know it.
    package func enrol(
        _ gateway: GatewayID, as name: String, readmits: Bool = false, oldCertificatesAreHarmless: Bool = false
    ) async throws -> FleetIdentity {
        let key = P256.Signing.PrivateKey()
        let ticket = try await desk.makeTicket(
            for: gateway, readmits: readmits, oldCertificatesAreHarmless: oldCertificatesAreHarmless)
        let request = try CertificateSigningRequest(
            version: .v1, subject: try DistinguishedName { CommonName("x") }, privateKey: .init(key),
            attributes: .init(), signatureAlgorithm: .ecdsaWithSHA256)
        let answer = try await desk.enrol(
            EnrolmentRequest(
                gateway: gateway, token: ticket.token, request: try request.serializeAsPEM().pemString))
        guard try await desk.settle(users).isEmpty else { throw Refused(path: "users/\(gateway)") }
        let base = folder + "/" + name
        try Self.write(key.pemRepresentation, base + ".key")
        try Self.write(answer.certificate, base + ".pem")
        return FleetIdentity(
            gateway: gateway,
            files: FleetIdentity.Files(
                authorities: folder + "/ca.pem", certificate: base + ".pem", privateKey: base + ".key"))
    }
}

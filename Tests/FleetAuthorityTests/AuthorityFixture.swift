import Crypto
import FleetAuthority
import FleetDocuments
import Foundation
import HealthReadings
import Logging
import SwiftASN1
import Synchronization
import X509

/// An authority in a temporary folder, with a clock that tests move.
final class AuthorityFixture: Sendable {
    let folder: String
    let desk: AuthorityDesk
    private let clock: Clock

    final class Clock: Sendable {
        private let moment = Mutex(Instant(seconds: 1_795_000_000))
        var now: Instant { moment.withLock(\.self) }
        func advance(_ seconds: Int64) { moment.withLock { $0 = $0.advanced(bySeconds: seconds) } }
    }

    init(days: Int = 90) throws {
        folder = FileManager.default.temporaryDirectory.path + "/authority-" + UUID().uuidString.prefix(8)
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        let clock = Clock()
        self.clock = clock
        _ = try Authority.make(in: folder, at: clock.now)
        var plan = AuthorityDesk.Plan(url: "https://localhost:8491")
        plan.days = days
        desk = try Self.desk(folder, plan, clock)
    }

    deinit { try? FileManager.default.removeItem(atPath: folder) }

    static func desk(_ folder: String, _ plan: AuthorityDesk.Plan, _ clock: Clock) throws -> AuthorityDesk {
        try AuthorityDesk(directory: folder, plan: plan, logger: quiet, now: { clock.now })
    }

    /// The same authority as another process sees it.
    func other() throws -> AuthorityDesk { try Self.desk(folder, desk.plan, clock) }

    var now: Instant { clock.now }
    func advance(_ seconds: Int64) { clock.advance(seconds) }

    static var quiet: Logger { Logger(label: "tests") { _ in SwiftLogNoOpLogHandler() } }

    static let gateway = gatewayID("gw-0001")

    /// A certification request for a key, under whatever name.
    static func request(_ key: Certificate.PrivateKey, name: String = "anything") throws -> String {
        let request = try CertificateSigningRequest(
            version: .v1, subject: try DistinguishedName { CommonName(name) }, privateKey: key,
            attributes: .init(), signatureAlgorithm: key.isEd25519 ? .ed25519 : .ecdsaWithSHA256)
        return try request.serializeAsPEM().pemString
    }

    /// Enrols a gateway with a new token.
    func enrol(
        _ key: P256.Signing.PrivateKey, gateway: GatewayID = AuthorityFixture.gateway
    ) async throws -> EnrolmentAnswer {
        let ticket = try await desk.makeTicket(for: gateway)
        return try await desk.enrol(
            EnrolmentRequest(gateway: gateway, token: ticket.token, request: try Self.request(.init(key))))
    }

    func write(_ text: String, _ name: String) throws -> String {
        let path = folder + "/" + name
        try Data(text.utf8).write(to: URL(fileURLWithPath: path))
        return path
    }
}

extension Certificate.PrivateKey {
    var isEd25519: Bool { Curve25519.Signing.PublicKey(publicKey) != nil }
}

/// A gateway's id that tests know to be one.
func gatewayID(_ text: String) -> GatewayID {
    guard let id = GatewayID(ifValid: text) else { preconditionFailure("\(text) is no gateway's id") }
    return id
}

/// Runs OpenSSL's program, which is what brokers and libmosquitto verify with.
func openSSL(_ arguments: String...) throws -> (status: Int32, text: String) {
    let (process, pipe) = (Process(), Pipe())
    process.executableURL = URL(fileURLWithPath: "/usr/bin/openssl")
    process.arguments = arguments
    process.standardOutput = pipe
    process.standardError = pipe
    process.standardInput = FileHandle.nullDevice
    try process.run()
    let text = String(decoding: pipe.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
    process.waitUntilExit()
    return (process.terminationStatus, text)
}

extension JSONValue {
    /// Compact JSON as bytes.
    var octets: [UInt8] { Array(text.utf8) }
}

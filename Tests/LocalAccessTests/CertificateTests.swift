import Foundation
import Testing

@testable import LocalAccess

@Suite("The gateway's certificate") struct CertificateTests {
    private let now = Date(timeIntervalSince1970: 1_800_000_000)

    private func directory() throws -> String {
        let path = FileManager.default.temporaryDirectory.appendingPathComponent("hr-\(UUID().uuidString)").path
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        return path
    }

    @Test("it is kept over restarts, in a file that its owner alone can read")
    func kept() throws {
        let directory = try directory()
        let first = try CertificateKeeper(directory: directory, names: ["box"], now: now)
        let second = try CertificateKeeper(directory: directory, names: ["box"], now: now + 86_400)
        #expect(first.certificate.fingerprint == second.certificate.fingerprint)
        #expect(first.certificate.fingerprint.count == 64)
        let mode = try FileManager.default.attributesOfItem(atPath: directory + "/tls.pem")[.posixPermissions]
        #expect(mode as? Int == 0o600)
    }

    @Test("it is renewed thirty days before it ends, and never by starting")
    func renewed() throws {
        let directory = try directory()
        let keeper = try CertificateKeeper(directory: directory, names: ["box"], now: now)
        let first = keeper.certificate
        #expect(try keeper.update(now: first.renewsAt - 1) == nil)
        let later = try CertificateKeeper(directory: directory, names: ["box"], now: first.notAfter + 1)
        #expect(later.certificate.fingerprint == first.fingerprint)
        #expect(try later.update(now: first.renewsAt) == .renewed)
        let second = later.certificate
        #expect(second.fingerprint != first.fingerprint && second.notAfter > first.notAfter)
        let mode = try FileManager.default.attributesOfItem(atPath: directory + "/tls.pem.previous")[.posixPermissions]
        #expect(mode as? Int == 0o600)
    }

    @Test("a start under a clock that is years off keeps the pinned certificate", arguments: [-10, 10])
    func wrongStart(_ years: Double) throws {
        let directory = try directory()
        let first = try CertificateKeeper(directory: directory, names: ["box"], now: now).certificate
        let wrong = now + years * 365 * 86_400
        let again = try CertificateKeeper(directory: directory, names: ["box"], now: wrong).certificate
        #expect(again.fingerprint == first.fingerprint)
    }

    @Test("a certificate that was renewed under a future clock gives way to the one before when the clock is right")
    func restored() throws {
        let directory = try directory()
        let keeper = try CertificateKeeper(directory: directory, names: ["box"], now: now)
        let first = keeper.certificate
        #expect(try keeper.update(now: now + 10 * 365 * 86_400) == .renewed)
        #expect(keeper.certificate.fingerprint != first.fingerprint)
        let restarted = try CertificateKeeper(directory: directory, names: ["box"], now: now)
        #expect(try restarted.update(now: now + 60) == .restored)
        #expect(restarted.certificate.fingerprint == first.fingerprint)
        #expect(try restarted.update(now: now + 120) == nil)
        let next = try CertificateKeeper(directory: directory, names: ["box"], now: now)
        #expect(next.certificate.fingerprint == first.fingerprint)
    }

    @Test("a damaged file is not replaced in silence", arguments: ["", "-----BEGIN CERTIFICATE-----", "\0\0"])
    func damaged(_ contents: String) throws {
        let directory = try directory()
        let path = directory + "/tls.pem"
        try contents.write(toFile: path, atomically: true, encoding: .utf8)
        #expect(throws: AccessError.self) { try CertificateKeeper(directory: directory, names: ["box"], now: now) }
        #expect(try String(contentsOfFile: path, encoding: .utf8) == contents)
    }

    @Test("openssl reads it: P-256, TLS server, its names")
    func openssl() throws {
        let directory = try directory()
        let keeper = try CertificateKeeper(directory: directory, names: ["box", "box.local"], now: Date())
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/openssl")
        process.arguments = ["x509", "-in", directory + "/tls.pem", "-noout", "-text", "-fingerprint", "-sha256"]
        let pipe = Pipe()
        process.standardOutput = pipe
        try process.run()
        let text = String(decoding: pipe.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        #expect(process.terminationStatus == 0)
        for part in ["prime256v1", "DNS:box, DNS:box.local, DNS:localhost", "TLS Web Server Authentication"] {
            #expect(text.contains(part), "\(part) in \(text)")
        }
        let fingerprint = text.split(separator: "=").last.map { $0.lowercased().filter(\.isHexDigit) }
        #expect(fingerprint == keeper.certificate.fingerprint)
    }
}

import Crypto
import Foundation
import HealthReadings
import SwiftASN1
import Testing
import X509

@testable import GatewayCommands
@testable import GatewaySettings

/// What `doctor` says of the certificates with which a gateway proves itself to a fleet.
@Suite("Fleets, looked at by doctor")
struct FleetCheckTests {
    private static let start = Instant(seconds: 1_795_000_000)

    /// An enrolment whose certificate is good for 90 days.
    private struct Bench {
        let root = FileManager.default.temporaryDirectory.path + "/fleet-checks-" + UUID().uuidString.prefix(8)
        let folder: EnrolmentFolder
        var record: EnrolmentRecord

        init() throws {
            try FileManager.default.createDirectory(
                atPath: root + "/enrolment/study/0a", withIntermediateDirectories: true)
            folder = EnrolmentFolder(state: root, destination: "study")
            record = EnrolmentRecord(
                gateway: "gw-1", url: "https://ca.example:8491", token: "t", authority: "a",
                current: .init(
                    serial: "0a", issuer: "CN=ca", from: start, until: start.advanced(bySeconds: 90 * 86_400)))
            for name in ["private.key", "certificate.pem", "ca.pem"] {
                try PrivateFile.write(Array("x".utf8), to: folder.path + "/0a/" + name)
            }
        }

        func write() throws {
            try PrivateFile.write(
                Array(record.document.text.utf8), to: folder.path + "/" + EnrolmentFolder.recordFile)
        }

        func check(_ day: Int64) -> DoctorCheck? {
            Doctor.enrolmentCheck(folder, of: "study", at: start.advanced(bySeconds: day * 86_400))
        }

        func remove() { try? FileManager.default.removeItem(atPath: root) }
    }

    @Test("an enrolment is good, not yet valid, late, expired, refused, not renewed, or its files are gone")
    func enrolments() throws {
        var bench = try Bench()
        defer { bench.remove() }
        #expect(bench.check(1) == nil)
        try bench.write()
        for day in [Int64(0), 59, 61] { #expect(bench.check(day)?.ok == true, "day \(day)") }
        func bad(_ day: Int64, _ words: String) {
            let check = bench.check(day)
            #expect(check?.ok == false && check?.mend != nil, "day \(day)")
            #expect(check?.found.contains(words) == true, "\(check?.found ?? "nothing")")
        }
        bad(-1, "begins at")
        bad(66, "was not renewed")
        bad(90, "ended at")
        bench.record.renewal = .init(
            code: "timeout", message: "no answer", at: Self.start.advanced(bySeconds: 61 * 86_400), count: 3)
        try bench.write()
        bad(62, "could not be renewed: no answer")
        bench.record.refusal = .init(code: "certificate_refused", message: "said no", at: Self.start, count: 1)
        try bench.write()
        bad(62, "is refused, and the one before is used: said no")
        bad(91, "ended at")
        try FileManager.default.removeItem(atPath: bench.folder.path + "/0a/ca.pem")
        bad(1, "cannot read \(bench.folder.path)/0a/ca.pem")
        try PrivateFile.write(Array("{".utf8), to: bench.folder.path + "/" + EnrolmentFolder.recordFile)
        bad(1, "record.json can't be read")
    }

    @Test("files of the owner's own: missing, no certificate, not yet valid, about to end, ended")
    func files() throws {
        let bench = try Bench()
        defer { bench.remove() }
        func certificate(_ days: Int64) throws -> String {
            let key = Certificate.PrivateKey(P256.Signing.PrivateKey())
            let name = try DistinguishedName { CommonName("gw-1") }
            let begin = Date(timeIntervalSince1970: Double(Self.start.seconds))
            return try Certificate(
                version: .v3, serialNumber: .init(), publicKey: key.publicKey, notValidBefore: begin,
                notValidAfter: begin.addingTimeInterval(Double(days) * 86_400), issuer: name, subject: name,
                signatureAlgorithm: .ecdsaWithSHA256, extensions: .init(), issuerPrivateKey: key
            ).serializeAsPEM().pemString + "\n"
        }
        let path = bench.root + "/file.pem"
        func found(_ day: Int64, isAuthority: Bool = false) -> (Bool, String) {
            let now = Self.start.advanced(bySeconds: day * 86_400)
            let check =
                isAuthority
                ? Doctor.authorityCheck(path, of: "study", at: now)
                : Doctor.certificateCheck(path, of: "study", at: now)
            return (check.ok, check.found)
        }
        #expect(found(1) == (false, "study: cannot read \(path)"))
        try PrivateFile.write(Array("x".utf8), to: path)
        #expect(found(1) == (false, "study: \(path) holds no certificate in PEM"))
        try PrivateFile.write(Array(try certificate(90).utf8), to: path)
        #expect(found(59).0 && !found(61).0 && !found(90).0 && !found(-1).0)
        #expect(found(61).1.contains("ends soon, at") && found(90).1.contains("ended at"))
        #expect(found(-1).1.contains("this machine's clock says"))
        // Of several authorities, one that has ended is of no importance.
        try PrivateFile.write(Array((try certificate(10) + certificate(400)).utf8), to: path)
        #expect(found(60, isAuthority: true).0 && !found(60).0)
        #expect(!found(380, isAuthority: true).0)
    }
}

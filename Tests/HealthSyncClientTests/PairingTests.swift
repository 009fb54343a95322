import EmulatedPhone
import Foundation
import HealthReadings
import Testing

@testable import HealthSyncClient

@Suite("What a QR code holds, and phones that are kept") struct PairingTests {
    private static let fingerprint = String(repeating: "0aF1", count: 16)
    private static func json(_ changes: [String: Any?] = [:]) throws -> String {
        var members: [String: Any] = [
            "version": "1", "host": "192.168.1.20", "port": 49213, "code": "Ab3dE7gH",
            "expiresAt": "2026-11-20T12:05:00Z", "certificateFingerprint": fingerprint,
        ]
        for (key, value) in changes { members[key] = value }
        return String(decoding: try JSONSerialization.data(withJSONObject: members), as: UTF8.self)
    }

    @Test("it is read as the app writes it, with space around it as pasting leaves it")
    func payload() throws {
        let payload = try PairingPayload(json: " \n" + Self.json() + "\n")
        #expect(payload.host == "192.168.1.20" && payload.port == 49213 && payload.code == "Ab3dE7gH")
        #expect(payload.fingerprint.description == Self.fingerprint.lowercased())
        #expect(payload.expiresAt == Instant(rfc3339: "2026-11-20T12:05:00Z"))
        #expect(!"\(payload)".contains("Ab3dE7gH") && !String(reflecting: payload).contains("Ab3dE7gH"))
        #expect(try PairingPayload(json: Self.json(["host": "[fe80::1%eth0]"])).host == "fe80::1%eth0")
    }

    @Test("what can't be one is refused with the member's name, and without the code")
    func malformed() throws {
        let cases: [(String, String)] = [
            ("not json", "JSON"), ("[]", "object"), (try Self.json(["version": "2"]), "newer"),
            (try Self.json(["version": 1]), "version"), (try Self.json(["port": 0]), "port"),
            (try Self.json(["port": 70000]), "port"), (try Self.json(["port": "1"]), "port"),
            (try Self.json(["host": "a b"]), "host"), (try Self.json(["host": "evil.example/path"]), "host"),
            (try Self.json(["host": ""]), "host"), (try Self.json(["code": ""]), "code"),
            (try Self.json(["code": "a\r\nb"]), "code"), (try Self.json(["certificateFingerprint": "abc"]), "SHA-256"),
            (try Self.json(["expiresAt": "soon"]), "expiresAt"), (String(repeating: " ", count: 9000), "bytes"),
        ]
        for (text, word) in cases {
            #expect {
                try PairingPayload(json: text)
            } throws: { error in
                "\(error)".contains(word) && !"\(error)".contains("Ab3dE7gH")
            }
        }
    }

    @Test("fingerprints are read in every usual form", arguments: ["", "sha256:", "SHA256:"])
    func fingerprints(prefix: String) throws {
        let plain = try #require(CertificateFingerprint(prefix + Self.fingerprint))
        let colons = stride(from: 0, to: 64, by: 2).map { start in
            String(Self.fingerprint.dropFirst(start).prefix(2)).uppercased()
        }.joined(separator: ":")
        #expect(CertificateFingerprint(prefix + colons) == plain)
        #expect(CertificateFingerprint(prefix + Self.fingerprint.dropLast()) == nil)
        #expect(CertificateFingerprint(prefix + Self.fingerprint.dropLast() + "+") == nil)
    }

    @Test("phones are kept one by one, readable by their owner alone, and replaced as a whole")
    func files() throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("phones-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let phones = PairedPhones(directory: folder.path + "/healthsync")
        #expect(phones.all().isEmpty)
        func phone(_ name: String, _ token: String) throws -> PairedPhone {
            PairedPhone(
                name: name, host: "192.168.1.20", port: 49213,
                fingerprint: try CertificateFingerprint(Self.fingerprint).orThrow(),
                token: try PhoneToken(token).orThrow(), expiresAt: Instant(seconds: 1_800_000_000),
                pairedAt: Instant(seconds: 1_795_176_000))
        }
        try phones.save(phone("Ann's iPhone", "first"))
        try phones.save(phone("../../etc", "second"))
        try phones.save(phone("Ann's iPhone", "third"))
        #expect(phones.all().map(\.name) == ["../../etc", "Ann's iPhone"])
        #expect(try phones.all().last == phone("Ann's iPhone", "third"))
        var status = stat()
        #expect(stat(phones.directory, &status) == 0 && status.st_mode & 0o777 == 0o700)
        let files = try FileManager.default.contentsOfDirectory(atPath: phones.directory)
        #expect(files.count == 2)
        for file in files {
            #expect(stat(phones.directory + "/" + file, &status) == 0 && status.st_mode & 0o777 == 0o600)
        }
        // A file that was cut short, and what somebody else left there, is no phone.
        try Data(#"{"format":1,"name":"#.utf8).write(to: URL(fileURLWithPath: phones.directory + "/cut.json"))
        #expect(phones.all().count == 2)
        #expect(try phones.remove("Ann's iPhone"))
        #expect(try !phones.remove("Ann's iPhone"))
        #expect(phones.all().map(\.name) == ["../../etc"])
    }

    @Test(
        "numbers keep their digits; a double's last digits are none",
        arguments: [
            ("97", "97"), ("0.97", "0.97"), ("36.60", "36.60"), ("36.600000000000001", "36.6"), ("72.0", "72.0"),
            ("1e-3", "0.001"), ("1.5E2", "150"), ("-0.5", "-0.5"),
        ])
    func numbers(text: String, expected: String) throws {
        let node = try JSONReader.read(Array(text.utf8))
        #expect(node.decimal?.description == expected)
    }

    @Test(
        "what is no JSON is refused",
        arguments: [
            "", "{", "[1,]", "{\"a\":1,}", "01", "1.", "+1", "tru", "nul", "\"\\x\"", "\"\\ud800\"", "\"\\u12\"", "NaN",
            "1 2", "\"a",
            "{\"a\":1,\"a\":2}", "1e999999999999999999999999999999999999999999999999999999999999999999",
        ])
    func notJSON(text: String) {
        #expect(throws: JSONFailure.self) { try JSONReader.read(Array(text.utf8)) }
    }
}

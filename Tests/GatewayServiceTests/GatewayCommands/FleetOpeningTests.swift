import Crypto
import Foundation
import ReadingDelivery
import SwiftASN1
import Testing
import WebDestinations
import X509

@testable import GatewayCommands
@testable import GatewaySettings

@Suite("Fleets, opened") struct FleetOpeningTests {
    /// What opens from a destination's settings: its address, or the message of its problem.
    private func opened(_ text: String, _ folder: WebSettingsFolder) throws -> String {
        do {
            let fleet = FleetSetting(setting: try folder.setting(text))
            if try fleet.isWeb() { return try fleet.webPlace().servers.map(\.url).joined(separator: " ") }
            _ = try fleet.place()
            return try fleet.addresses().map(\.text).joined(separator: " ")
        } catch let problem as Problem {
            #expect(problem.status == .configuration)
            return problem.message
        }
    }

    @Test("a person whose id is longer than a fleet takes is told where the settings are read, without the id")
    func longPerson() throws {
        let folder = try WebSettingsFolder()
        defer { folder.remove() }
        let fleet = "kind: fleet, hosts: [\"mqtts://a\"]"
        func told(_ text: String, _ current: String, _ other: String) throws -> [String] {
            let people = "user: {client_user_id: \(current)}\nusers: [{client_user_id: \(other)}]\n"
            return try folder.settings(text, more: people).peopleRefusedByFleets
        }
        let (longest, tooLong) = (String(repeating: "b", count: 256), String(repeating: "b", count: 257))
        #expect(try told(fleet, longest, "brown_bear").isEmpty)
        let lines = try told(fleet, tooLong, tooLong + "b")
        #expect(lines.count == 2 && lines.allSatisfy { $0.contains("web gets nothing of theirs") })
        #expect(lines.allSatisfy { !$0.contains("bbb") })
        #expect(lines.first?.contains("user.client_user_id: ") == true && lines.first?.contains("257 bytes") == true)
        #expect(lines.last?.hasPrefix("users: ") == true && lines.last?.contains("258 bytes") == true)
        // It gets nothing of them anyway, or is no fleet.
        #expect(try told("\(fleet), people: [brown_bear]", tooLong, "brown_bear").isEmpty)
        #expect(try told("kind: file, path: /tmp/lines.jsonl", tooLong, "brown_bear").isEmpty)
    }

    @Test("what a fleet's settings are, and what is wrong with them")
    func settings() throws {
        let folder = try WebSettingsFolder()
        defer { folder.remove() }
        let (certificate, key) = (try folder.file("gateway.pem", Self.certificate), try folder.file("gateway.key", "x"))
        let centre = try folder.file(
            "centre.pub",
            """
            -----BEGIN PUBLIC KEY-----
            MCowBQYDK2VuAyEAvBQkSVPLHGzs6YiJ/vQWjiYL+vH+pQlZG3pR2RQ3i1I=
            -----END PUBLIC KEY-----

            """)
        let hosts = "kind: fleet, hosts: [\"mqtts://a\", \"mqtts://b:8884\"]"
        let own = "\(hosts), certificate_file: \(certificate), private_key_file: \(key)"
        let token = try folder.file("token", "0123abcd\n")
        let web = "kind: fleet, hosts: [\"https://a\", \"https://b:8490\"]"
        let pair = try Self.pair(folder)
        let cases: [(String, String)] = [
            (hosts, "mqtts://a:8883 mqtts://b:8884"),
            ("\(hosts), gateway: ward-7", "mqtts://a:8883 mqtts://b:8884"),
            (own, "mqtts://a:8883 mqtts://b:8884"),
            ("\(own), gateway: ward-7", "mqtts://a:8883"),
            ("\(hosts), acknowledgement: broker", "mqtts://a:8883"),
            ("\(hosts), seal_to_file: \(centre)", "mqtts://a:8883"),
            ("\(hosts), gateway: \"ward 7\"", "destinations.web.gateway: gateway: expected 1 to 23 characters"),
            ("\(hosts), seal_to_file: \(certificate)", "destinations.web.seal_to_file: \(certificate): expected a PEM"),
            ("\(hosts), seal_to_file: /nowhere/k", "destinations.web.seal_to_file: cannot read /nowhere/k"),
            ("\(hosts), private_key_file: \(key)", "destinations.web.certificate_file: a certificate and its"),
            ("kind: fleet, hosts: [\"mqtt://a\"]", "destinations.web.hosts reaches a over plain mqtt"),
            (
                "kind: fleet, hosts: [\"mqtts://a\", \"mqtts://a:8883\"]",
                "destinations.web.hosts: mqtts://a:8883 is named"
            ),
            ("kind: fleet, hosts: [\"coap://a\"]", "destinations.web.hosts: expected mqtts://HOST"),
            ("\(hosts), token_file: \(token)", "destinations.web.token_file: it is for collectors"),
            (
                "kind: fleet, hosts: [\"mqtts://a\", \"https://b\"], token_file: \(token)",
                "destinations.web.hosts: brokers and collectors are named in one list"
            ),
            ("\(web), gateway: ward-7, token_file: \(token)", "https://a https://b:8490"),
            ("\(web), certificate_file: \(pair.certificate), private_key_file: \(pair.key)", "https://a https://b"),
            ("\(web), token_file: \(token)", "destinations.web.gateway: a token is for one gateway's id"),
            ("\(web), gateway: ward-7", "destinations.web.token_file: neither a token nor a certificate is set"),
            (
                "\(own.replacing(hosts, with: web)), token_file: \(token)",
                "destinations.web.token_file: a certificate is"
            ),
            ("\(own.replacing(hosts, with: web))", "are no PEM files of a certificate and its key"),
            ("\(web), certificate_file: \(certificate)", "destinations.web.private_key_file: a certificate and its"),
            ("\(web), acknowledgement: broker, token_file: \(token)", "destinations.web.acknowledgement: there is no"),
            ("\(web), username: x, token_file: \(token)", "destinations.web.username: it is for brokers"),
            (
                "kind: fleet, hosts: [\"http://a.example\"], gateway: w, token_file: \(token)",
                "destinations.web.hosts reaches a.example over plain http"
            ),
        ]
        for (text, expected) in cases {
            let found = try opened(text, folder)
            #expect(found.contains(expected), "\(text): \(found)")
        }
        #expect(FleetSetting.commonName(in: certificate) == "gw0001")
        #expect(FleetSetting.commonName(in: key) == nil)
        #expect(throws: Problem.self) { try folder.setting("kind: fleet, hosts: []") }
        #expect(throws: Problem.self) { try folder.setting("\(hosts), acknowledgement: perhaps") }
    }

    /// Files of a certificate and its key.
    private static func pair(_ folder: WebSettingsFolder) throws -> (certificate: String, key: String) {
        let key = P256.Signing.PrivateKey()
        let name = try DistinguishedName { CommonName("gw0002") }
        let certificate = try Certificate(
            version: .v3, serialNumber: .init(), publicKey: .init(key.publicKey), notValidBefore: Date() - 3600,
            notValidAfter: Date() + 86_400, issuer: name, subject: name, signatureAlgorithm: .ecdsaWithSHA256,
            extensions: Certificate.Extensions(), issuerPrivateKey: .init(key))
        return (
            try folder.file("own.pem", try certificate.serializeAsPEM().pemString),
            try folder.file("own.key", key.pemRepresentation)
        )
    }

    @Test("a lost connection is waited out for up to a minute at random, a refusal for five")
    func backoff() {
        var backoff = FleetSetting.backoff
        backoff.jitter = { 0 }
        #expect(backoff.delay(failures: 1) == .zero)
        backoff.jitter = { 1 }
        #expect([1, 2, 3, 4].map { backoff.delay(failures: $0) } == [60, 120, 240, 300].map { .seconds($0) })
    }

    /// Of `CN=gw0001, OU=gateways, O=clinic`.
    private static let certificate = """
        -----BEGIN CERTIFICATE-----
        MIIBwjCCAWegAwIBAgIUSg8Apgq2AXQeqT5EDTmR6dNMMKYwCgYIKoZIzj0EAwIw
        NTEPMA0GA1UECgwGY2xpbmljMREwDwYDVQQLDAhnYXRld2F5czEPMA0GA1UEAwwG
        Z3cwMDAxMCAXDTI2MTEyNjEyMzEzMloYDzIxMjYxMTAyMTIzMTMyWjA1MQ8wDQYD
        VQQKDAZjbGluaWMxETAPBgNVBAsMCGdhdGV3YXlzMQ8wDQYDVQQDDAZndzAwMDEw
        WTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAASj8aqMXWweQgKDhGbRazsz/FfKijlW
        u2US5DYzXm9VzN1m6NjpQ2C7iR+5bytHXkp5Z2I2Cdg+ydqzjhl4U8kTo1MwUTAd
        BgNVHQ4EFgQUSllTEojoM6ubCgX11fxedgDFGB8wHwYDVR0jBBgwFoAUSllTEojo
        M6ubCgX11fxedgDFGB8wDwYDVR0TAQH/BAUwAwEB/zAKBggqhkjOPQQDAgNJADBG
        AiEA2dtIr5peAVyw5D/JB3ko6Sbmcu0UgBN07UkskWOoTKoCIQChp9hwxdTqaEHD
        y2cAgxwMFClPigf2Ivh8HKESd3bOqQ==
        -----END CERTIFICATE-----

        """
}

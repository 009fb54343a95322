import Foundation
import MQTTLink
import TestBroker
import TestSupport
import Testing

@Suite("MQTT over TLS", .timeLimit(.minutes(2)), .enabled(if: TestBroker.isInstalled, "\(TestBroker.needs)"))
struct TLSTests {
    private func open(
        _ port: UInt16, host: String = "127.0.0.1", _ tls: MQTTCertificates, versions: [MQTTVersion] = [.v5, .v311]
    ) async throws(MQTTError) -> MQTTConnection {
        var options = MQTTOptions(clientID: "test")
        options.versions = versions
        return try await MQTTConnection.open(MQTTBroker(host: host, port: port, tls: tls), options)
    }

    @Test("messages go over TLS to a broker whose certificate is trusted and names it")
    func trusted() async throws {
        let authority = try TestAuthority()
        let broker = try await TestBroker.start(
            lines: authority.lines(try authority.issue("broker", for: ["DNS:localhost", "IP:127.0.0.1"])))
        for host in ["127.0.0.1", "localhost"] {
            let connection = try await open(
                broker.port, host: host, MQTTCertificates(authorities: authority.certificate))
            try await connection.subscribe(to: "t")
            let payload = (0..<300_000).map { UInt8(truncatingIfNeeded: $0) }
            try await connection.publish(MQTTMessage(topic: "t", payload: payload))
            for number in 0..<50 { try await connection.publish(MQTTMessage(topic: "t", text: "\(number)")) }
            var messages = connection.messages.makeAsyncIterator()
            #expect(await messages.next()?.payload == payload)
            for number in 0..<50 { #expect(await messages.next()?.text == "\(number)") }
            await connection.close()
        }
    }

    @Test("a broker of another authority is refused", arguments: MQTTVersion.allCases)
    func wrongAuthority(version: MQTTVersion) async throws {
        let (authority, other) = (try TestAuthority(), try TestAuthority())
        let broker = try await TestBroker.start(
            lines: authority.lines(try authority.issue("broker", for: ["IP:127.0.0.1"])))
        for certificates in [MQTTCertificates(authorities: other.certificate), MQTTCertificates()] {
            let error = await failure { () throws(MQTTError) in
                try await open(broker.port, certificates, versions: [version])
            }
            #expect(error?.kind == .certificate, "\(error?.message ?? "")")
        }
    }

    @Test("a broker whose certificate names another host is refused")
    func wrongName() async throws {
        let authority = try TestAuthority()
        let broker = try await TestBroker.start(
            lines: authority.lines(try authority.issue("broker", for: ["DNS:broker.example"])))
        let error = await failure { () throws(MQTTError) in
            try await open(broker.port, MQTTCertificates(authorities: authority.certificate))
        }
        #expect(error?.kind == .certificate, "\(error?.message ?? "")")
        #expect(error?.message.contains("127.0.0.1") == true)
    }

    @Test("a broker that wants a certificate of ours", arguments: MQTTVersion.allCases)
    func clientCertificate(version: MQTTVersion) async throws {
        let (authority, other) = (try TestAuthority(), try TestAuthority())
        let broker = try await TestBroker.start(
            rules: ["pattern readwrite home/%u/#"],
            lines: authority.lines(try authority.issue("broker", for: ["IP:127.0.0.1"]))
                + ["require_certificate true", "use_identity_as_username true"])
        let ours = try authority.issue("gateway")
        let connection = try await open(
            broker.port,
            MQTTCertificates(
                authorities: authority.certificate, certificate: ours.certificate, privateKey: ours.key),
            versions: [version])
        try await connection.publish(MQTTMessage(topic: "home/gateway/a", text: "x"))
        if version == .v5 {
            let refused = await failure { () throws(MQTTError) in
                try await connection.publish(MQTTMessage(topic: "home/other/a", text: "x"))
            }
            #expect(refused?.kind == .notAuthorized)
        }
        let foreign = try other.issue("gateway")
        let without = MQTTCertificates(authorities: authority.certificate)
        let wrong = MQTTCertificates(
            authorities: authority.certificate, certificate: foreign.certificate, privateKey: foreign.key)
        for certificates in [without, wrong] {
            let error = await failure { () throws(MQTTError) in
                try await open(broker.port, certificates, versions: [version])
            }
            // The broker's reason can be lost with the connection.
            #expect([.clientCertificate, .tls].contains(error?.kind), "\(error?.message ?? "")")
            #expect(error?.message.contains("certificate") == true)
        }
    }

    @Test("files that cannot be used are named")
    func files() async throws {
        let (authority, other) = (try TestAuthority(), try TestAuthority())
        let broker = try await TestBroker.start(
            lines: authority.lines(try authority.issue("broker", for: ["IP:127.0.0.1"])))
        let (ours, others) = (try authority.issue("gateway"), try other.issue("gateway"))
        let nothing = authority.path("nothing.pem")
        let empty = authority.path("empty.pem")
        try Data().write(to: URL(fileURLWithPath: empty))
        let locked = authority.path("locked.key")
        try TestProcess.run(
            "/usr/bin/openssl", ["ec", "-in", ours.key, "-aes256", "-passout", "pass:x", "-out", locked])
        let ca = authority.certificate
        for certificates in [
            MQTTCertificates(authorities: nothing), MQTTCertificates(authorities: empty),
            MQTTCertificates(authorities: ca, certificate: ours.certificate),
            MQTTCertificates(authorities: ca, certificate: ours.certificate, privateKey: nothing),
            MQTTCertificates(authorities: ca, certificate: empty, privateKey: ours.key),
            MQTTCertificates(authorities: ca, certificate: ours.certificate, privateKey: others.key),
            // Nobody is asked for its passphrase.
            MQTTCertificates(authorities: ca, certificate: ours.certificate, privateKey: locked),
        ] {
            let error = await failure { () throws(MQTTError) in try await open(broker.port, certificates) }
            #expect(error?.kind == .files, "\(certificates): \(error?.message ?? "")")
        }
    }

    @Test("TLS to a broker without, and the other way round")
    func mixedUp() async throws {
        let authority = try TestAuthority()
        let plain = try await TestBroker.start()
        let error = await failure { () throws(MQTTError) in
            try await open(plain.port, MQTTCertificates(authorities: authority.certificate))
        }
        #expect([.tls, .lost].contains(error?.kind), "\(error?.message ?? "")")
        let secured = try await TestBroker.start(
            lines: authority.lines(try authority.issue("broker", for: ["IP:127.0.0.1"])))
        let other = await failure { () throws(MQTTError) in
            try await MQTTConnection.open(secured.address(), MQTTOptions(clientID: "test"))
        }
        #expect([.lost, .protocolViolation].contains(other?.kind), "\(other?.message ?? "")")
    }

    @Test("many TLS connections at a time")
    func many() async throws {
        let authority = try TestAuthority()
        let broker = try await TestBroker.start(
            lines: authority.lines(try authority.issue("broker", for: ["IP:127.0.0.1"])))
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<12 {
                group.addTask {
                    let connection = try await MQTTConnection.open(
                        broker.address(tls: MQTTCertificates(authorities: authority.certificate)),
                        MQTTOptions(clientID: "c\(number)"))
                    try await connection.publish(MQTTMessage(topic: "t", text: "x"))
                    await connection.close()
                }
            }
            try await group.waitForAll()
        }
    }
}

import DeliveryFixture
import HealthReadings
import MQTTLink
import ReadingStore
import TestBroker
import Testing

@testable import MQTTDestinations
@testable import ReadingDelivery

@Suite(
    "The test of an MQTT destination", .timeLimit(.minutes(2)),
    .enabled(if: TestBroker.isInstalled, "\(TestBroker.needs)"))
struct ProofTests {
    private func findings(_ destination: MQTTDestination) async -> [String: Bool?] {
        Dictionary(await destination.test().map { ($0.name, $0.isGood) }) { first, _ in first }
    }

    @Test("a broker that takes everything, and leaves nothing behind")
    func good() async throws {
        let authority = try TestAuthority()
        let broker = try await TestBroker.start(
            lines: authority.lines(try authority.issue("broker", for: ["IP:127.0.0.1"])))
        let plain = try await TestBroker.start()
        try await Fixture.with { fixture in
            let destination = fixture.destination(
                broker.port, tls: MQTTCertificates(authorities: authority.certificate))
            #expect(
                await findings(destination)
                    == ["address": true, "certificate": true, "credentials": true, "permission": true])
            #expect(
                await findings(fixture.destination(plain.port)) == [
                    "address": true, "credentials": true, "permission": true,
                ])
            let left = try await kept(plain)
            #expect(left.isEmpty)
        }
    }

    @Test("it does not end the connection that delivers")
    func beside() async throws {
        let broker = try await TestBroker.start()
        try await Fixture.with { fixture in
            try await fixture.read(1)
            let destination = fixture.destination(broker.port)
            let worker = fixture.worker(destination)
            _ = await worker.syncOnce()
            _ = await destination.test()
            #expect(!broker.log.contains("already connected"))
        }
    }

    @Test("what is wrong is named")
    func bad() async throws {
        let authority = try TestAuthority()
        let secured = try await TestBroker.start(
            lines: authority.lines(try authority.issue("broker", for: ["DNS:broker.example"])))
        let guarded = try await TestBroker.start(
            users: ["gateway": "right"], rules: ["user gateway", "topic readwrite healthrelay/#"])
        try await Fixture.with { fixture in
            let nobody = fixture.destination(try TCPPort.free())
            #expect(await findings(nobody) == ["address": false])
            #expect(
                await findings(
                    fixture.destination(secured.port, tls: MQTTCertificates(authorities: authority.certificate)))
                    == ["address": true, "certificate": false])
            #expect(
                await findings(fixture.destination(guarded.port, user: "gateway", password: "wrong"))
                    == ["address": true, "credentials": false])
            let destination = fixture.destination(guarded.port, user: "gateway", password: "right")
            #expect(await findings(destination) == ["address": true, "credentials": true, "permission": false])
            let permission = await destination.test().last
            // Commands know what a failure to deliver is.
            #expect((permission?.cause as? DeliveryFailure)?.code == "forbidden")
            #expect(permission?.found.contains("homeassistant/device/") == true && permission?.mend != nil)
        }
    }

    @Test("MQTT 3.1.1 cannot prove the permission")
    func older() async throws {
        var script = ScriptedBroker.Script()
        script.connackFive = nil
        let broker = try ScriptedBroker(script)
        try await Fixture.with { fixture in
            let findings = await findings(fixture.destination(broker.port))
            let expected: [String: Bool?] = ["address": true, "credentials": true, "permission": Bool?.none]
            #expect(findings == expected)
        }
    }
}

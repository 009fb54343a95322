import AsyncHTTPClient
import FleetAuthority
import FleetDocuments
import Foundation
import HealthReadings
import NIOCore
import NIOHTTP1
import TestFleetEngine
import TestRabbitMQ
import Testing

/// The authority at a real RabbitMQ node.
@Suite("Gateways' users at the broker", .enabled(if: TestRabbitMQ.isInstalled), .timeLimit(.minutes(5)))
struct BrokerUsersTests {
    private func ask(
        _ engine: TestFleetEngine, _ method: HTTPMethod, _ path: String, _ body: String? = nil
    ) async throws -> (status: UInt, text: String) {
        var request = HTTPClientRequest(url: "http://127.0.0.1:\(engine.node.managementPort)/api/\(path)")
        request.method = method
        request.headers.add(name: "Authorization", value: "Basic Z3Vlc3Q6Z3Vlc3Q=")
        request.headers.add(name: "Content-Type", value: "application/json")
        if let body { request.body = .bytes(Array(body.utf8)) }
        let answer = try await HTTPClient.shared.execute(request, timeout: .seconds(60))
        let octets = try await answer.body.collect(upTo: 1 << 20)
        return (answer.status.code, String(decoding: octets.readableBytesView, as: UTF8.self))
    }

    @Test("a user that is no gateway's is neither changed nor removed, and no gateway gets its name")
    func others() async throws {
        let engine = try await TestFleetEngine()
        let rights = #"{"configure":".*","write":".*","read":".*"}"#
        for (name, user) in [
            ("collector", #"{"password":"secret","tags":""}"#),
            ("boss", #"{"password":"secret","tags":"administrator"}"#),
        ] {
            #expect(try await ask(engine, .PUT, "users/\(name)", user).status == 201)
            #expect(try await ask(engine, .PUT, "permissions/%2F/\(name)", rights).status == 201)
        }
        func state(_ name: String) async throws -> [String] {
            [
                try await ask(engine, .GET, "users/\(name)").text,
                try await ask(engine, .GET, "users/\(name)/permissions").text,
            ]
        }
        // `guest` is the authority's own user.
        for name in ["collector", "boss", "guest"] {
            let (gateway, before) = (try GatewayID(name), try await state(name))
            do {
                _ = try await engine.desk.makeTicket(for: gateway, users: engine.users)
                Issue.record("\(name) may enrol")
            } catch { #expect(error.code == "name_taken", "\(error)") }
            #expect(try await engine.desk.store.gateways(at: .systemClock).isEmpty)
            await #expect(throws: BrokerUsers.Failure.self) { try await engine.users.admit(name) }
            try await engine.users.remove(name)
            #expect(try await state(name) == before)
        }

        // A gateway's user is known by its tag, and by its topics where a former version or the operator made it.
        let names = ["gw-made", "gw-former", "gw-by-hand"]
        try await engine.users.admit("gw-made")
        for (name, topic) in [("gw-former", "gw-former"), ("gw-by-hand", "{username}")] {
            _ = try await ask(engine, .PUT, "users/\(name)", #"{"password_hash":"","tags":""}"#)
            let topics = #"{"exchange":"amq.topic","write":"^healthrelay\\.\#(topic)\\.(readings)$","read":""}"#
            #expect(try await ask(engine, .PUT, "topic-permissions/%2F/\(name)", topics).status == 201)
        }
        for name in names {
            _ = try await engine.desk.makeTicket(for: try GatewayID(name), users: engine.users)
            try await engine.users.admit(name)
            #expect(try await engine.users.holder(of: name) == .gateway)
            #expect(try await ask(engine, .GET, "users/\(name)").text.contains("healthrelay-gateway"))
            try await engine.users.remove(name)
            #expect(try await engine.users.holder(of: name) == .nobody)
            try await engine.users.remove(name)
        }
        // The broker has no list of what was revoked: a stolen certificate would be let in with the user of another.
        let stolen = try GatewayID("gw-stolen")
        _ = try await engine.enrol(stolen, as: "stolen")
        _ = try await engine.desk.revoke(stolen)
        #expect(try await engine.desk.settle(engine.users) == [])
        do {
            _ = try await engine.desk.makeTicket(for: stolen, readmits: true, users: engine.users)
            Issue.record("a token was made")
        } catch { #expect(error.code == "revoked_certificate_good", "\(error)") }
        #expect(try await engine.users.holder(of: "gw-stolen") == .nobody)
        _ = try await engine.desk.makeTicket(
            for: stolen, readmits: true, oldCertificatesAreHarmless: true, users: engine.users)

        // A broker that can't be asked lets no gateway have a name that may be another user's.
        let last = try GatewayID("gw-5")
        let nobody = BrokerUsers(.init(url: "http://127.0.0.1:9", user: "u", password: "p"))
        do {
            _ = try await engine.desk.makeTicket(for: last, users: nobody)
            Issue.record("a token was made")
        } catch { #expect(error.code == "broker_unavailable", "\(error)") }
    }

    @Test("a broker that has lost a gateway's user, or has that of a revoked one again, is told once more")
    func lostUsers() async throws {
        let engine = try await TestFleetEngine()
        let (kept, revoked) = (try GatewayID("gw-kept"), try GatewayID("gw-revoked"))
        for gateway in [kept, revoked] { _ = try await engine.enrol(gateway, as: gateway.description) }
        _ = try await engine.desk.revoke(revoked)
        #expect(try await engine.desk.settle(engine.users) == [])
        #expect(try await engine.users.all()["gw-kept"] == true)
        #expect(try await engine.users.all()["guest"] == false)
        try await engine.desk.compare(engine.users)
        #expect(try await engine.desk.store.gateways(at: .systemClock).allSatisfy(\.isSettledAtBroker))

        #expect(try await ask(engine, .DELETE, "users/gw-kept").status == 204)
        let again = #"{"password_hash":"","tags":"healthrelay-gateway"}"#
        #expect(try await ask(engine, .PUT, "users/gw-revoked", again).status == 201)
        try await engine.desk.compare(engine.users)
        #expect(try await engine.desk.settle(engine.users) == [])
        #expect(try await engine.users.holder(of: "gw-kept") == .gateway)
        #expect(try await engine.users.holder(of: "gw-revoked") == .nobody)
        // A broker that is away has lost nothing.
        let nobody = BrokerUsers(.init(url: "http://127.0.0.1:9", user: "u", password: "p"))
        try await engine.desk.compare(nobody)
        #expect(try await engine.desk.store.gateways(at: .systemClock).allSatisfy(\.isSettledAtBroker))
    }
}

import AsyncHTTPClient
import Crypto
import FleetAuthority
import FleetDocuments
import FleetStore
import Foundation
import GatewaySettings
import HealthReadings
import Logging
import NIOCore
import NIOHTTP1
import NIOSSL
import SwiftASN1
import Synchronization
import Testing
import X509

@testable import FleetCollector

@Suite("Revoked certificates at the ingest") struct RevocationTests {
    static var quiet: Logger { Logger(label: "tests") { _ in SwiftLogNoOpLogHandler() } }

    @Test("the list counts as soon as it changes; one that is damaged, older or forged takes nothing back")
    func lists() async throws {
        let (bench, stranger) = (try AuthorityBench(), try AuthorityBench())
        let (one, other) = (try await bench.enrol("gw1").certificate, try await bench.enrol("gw2").certificate)
        let revocations = bench.revocations()
        #expect(revocations.verdict(on: one) == .unknown && revocations.standing() == .unavailable)
        try await bench.desk.refreshList()
        #expect(revocations.verdict(on: one) == .good && revocations.standing() == .good)
        let older = try Data(contentsOf: URL(fileURLWithPath: bench.desk.listFile))
        bench.advance(60)
        _ = try await bench.desk.revoke(GatewayID("gw1"))
        #expect(revocations.verdict(on: one) == .revoked && revocations.verdict(on: other) == .good)
        try await stranger.desk.refreshList()
        let forged = try Data(contentsOf: URL(fileURLWithPath: stranger.desk.listFile))
        for content in [older, forged, Data("damaged".utf8)] {
            try content.write(to: URL(fileURLWithPath: bench.desk.listFile), options: .atomic)
            #expect(revocations.verdict(on: one) == .revoked && revocations.verdict(on: other) == .good)
            #expect(revocations.standing() == .unreadable)
        }
        try FileManager.default.removeItem(atPath: bench.desk.listFile)
        #expect(revocations.verdict(on: one) == .revoked)
        // A collector that starts then has nothing to go by.
        #expect(bench.revocations().verdict(on: other) == .unknown)
        // A list whose time is over still refuses who is in it.
        try await bench.desk.refreshList()
        #expect(revocations.standing() == .good)
        bench.advance(30 * 86_400)
        #expect(revocations.standing() == .expired)
        #expect(revocations.verdict(on: one) == .revoked && revocations.verdict(on: other) == .good)
    }

    @Test("each of two authorities has its own list in the file, and one without a list vouches for nobody")
    func twoAuthorities() async throws {
        let (old, new) = (try AuthorityBench(), try AuthorityBench())
        let (one, other) = (try await old.enrol("gw1").certificate, try await old.enrol("gw2").certificate)
        let (third, fourth) = (try await new.enrol("gw3").certificate, try await new.enrol("gw4").certificate)
        _ = try await old.desk.revoke(GatewayID("gw1"))
        _ = try await new.desk.revoke(GatewayID("gw3"))
        func text(_ path: String) throws -> String { try String(contentsOfFile: path, encoding: .utf8) }
        let (file, authorities) = (old.folder + "/both.crl", old.folder + "/both.pem")
        let (oldList, newList) = (try text(old.desk.listFile), try text(new.desk.listFile))
        try (old.desk.authority.pem + new.desk.authority.pem).write(
            toFile: authorities, atomically: true, encoding: .utf8)
        let revocations = Revocations(file: file, authorityFile: authorities, logger: Self.quiet, now: old.clock)
        func verdicts() -> [Revocations.Verdict] { [one, other, third, fourth].map(revocations.verdict(on:)) }

        try oldList.write(toFile: file, atomically: true, encoding: .utf8)
        #expect(verdicts() == [.revoked, .good, .unknown, .unknown] && revocations.standing() == .incomplete)
        let store = try SQLiteCentralStore(directory: old.folder + "/collector")
        try await store.prepare()
        let health = await CollectorMetrics(
            store: store, counters: CollectorCounters(), silentAfterMinutes: 45,
            revocations: { revocations.standing() }
        ).health()
        #expect(health.isWell && health.document.text.contains(#""status":"degraded""#))
        #expect(health.document.text.contains(#""revocation_list":"incomplete""#))
        await store.close()

        for content in [oldList + newList, newList + oldList] {
            try content.write(toFile: file, atomically: true, encoding: .utf8)
            #expect(verdicts() == [.revoked, .good, .revoked, .good] && revocations.standing() == .good)
        }
        // A list that is gone or damaged stays in force, and the other one is read.
        old.advance(60)
        _ = try await old.desk.revoke(GatewayID("gw2"))
        var lines = newList.split(separator: "\n").map(String.init)
        lines[1] = String(lines[1].reversed())
        for content in ["", lines.joined(separator: "\n") + "\n"] {
            try (content + text(old.desk.listFile)).write(toFile: file, atomically: true, encoding: .utf8)
            #expect(verdicts() == [.revoked, .revoked, .revoked, .good] && revocations.standing() == .unreadable)
        }
        // An authority that is trusted no more needs no list.
        try old.desk.authority.pem.write(toFile: authorities, atomically: true, encoding: .utf8)
        try text(old.desk.listFile).write(toFile: file, atomically: true, encoding: .utf8)
        #expect(verdicts() == [.revoked, .revoked, .unknown, .unknown] && revocations.standing() == .good)
    }

    @Test("numbers say which list is newer: the authority's clock may have been ahead")
    func clockAhead() async throws {
        let bench = try AuthorityBench()
        let (one, other) = (try await bench.enrol("gw1").certificate, try await bench.enrol("gw2").certificate)
        let revocations = bench.revocations()
        bench.advance(86_400)
        _ = try await bench.desk.revoke(GatewayID("gw1"))
        #expect(revocations.verdict(on: one) == .revoked && revocations.verdict(on: other) == .good)
        bench.advance(-86_400)
        _ = try await bench.desk.revoke(GatewayID("gw2"))
        #expect(revocations.verdict(on: one) == .revoked && revocations.verdict(on: other) == .revoked)
        #expect(revocations.standing() == .good)
    }

    @Test("a gateway that is revoked is refused on the connection that it has")
    func ingest() async throws {
        let bench = try AuthorityBench()
        let gateway = try await bench.enrol("gw1")
        var settings = CollectorSettings()
        settings.listen = ListenAddress(host: "127.0.0.1", port: 0)
        settings.gatewayAuthorityFile = bench.folder + "/ca.pem"
        settings.revocationListFile = bench.desk.listFile
        let directory = bench.folder + "/collector"
        let runner = CollectorRunner(settings, directory: directory, logger: Self.quiet)
        let (ports, port) = AsyncStream.makeStream(of: Int.self)
        let work = Task {
            defer { port.finish() }
            try await runner.run(isStoppedBySignals: false) { port.yield($0) }
        }
        let number = try #require(await ports.first { _ in true })
        var tls = TLSConfiguration.makeClientConfiguration()
        tls.trustRoots = .file(directory + "/tls.pem")
        let pem = try gateway.certificate.serializeAsPEM().pemString
        tls.certificateChain = [.certificate(try NIOSSLCertificate(bytes: Array(pem.utf8), format: .pem))]
        tls.privateKey = .privateKey(
            try NIOSSLPrivateKey(bytes: Array(gateway.key.pemRepresentation.utf8), format: .pem))
        var configuration = HTTPClient.Configuration()
        configuration.tlsConfiguration = tls
        let client = HTTPClient(configuration: configuration)
        func send(_ batch: Int64) async throws -> (UInt, String) {
            var request = HTTPClientRequest(url: "https://localhost:\(number)/v1/readings")
            request.method = .POST
            request.body = .bytes(SampleBatch.octets("gw1", batch, ids: 0..<2))
            let response = try await client.execute(request, timeout: .seconds(60))
            let body = try await response.body.collect(upTo: 1 << 20)
            return (response.status.code, String(decoding: body.readableBytesView, as: UTF8.self))
        }
        let result: Result<Void, any Error>
        do {
            let early = try await send(1)
            #expect(early.0 == 503 && early.1.contains("revocation_list_unavailable"))
            try await bench.desk.refreshList()
            #expect(try await send(1).0 == 200)
            _ = try await bench.desk.revoke(GatewayID("gw1"))
            let refused = try await send(2)
            #expect(refused.0 == 403 && refused.1.contains("certificate_revoked"))
            result = .success(())
        } catch { result = .failure(error) }
        try? await client.shutdown()
        work.cancel()
        _ = try? await work.value
        try result.get()
    }

    @Test("/health fails without a list, and says so of one that is over")
    func health() async throws {
        let bench = try AuthorityBench()
        let store = try SQLiteCentralStore(directory: bench.folder + "/collector")
        try await store.prepare()
        let revocations = bench.revocations()
        let metrics = CollectorMetrics(
            store: store, counters: CollectorCounters(), silentAfterMinutes: 45,
            revocations: { revocations.standing() })
        func health() async -> (Bool, String) {
            let health = await metrics.health()
            return (health.isWell, health.document.text)
        }
        let none = await health()
        #expect(!none.0 && none.1.contains(#""status":"failing""#))
        #expect(none.1.contains(#""revocation_list":"unavailable""#))
        #expect(try await metrics.text().contains("healthrelay_fleet_revocation_list_ok 0\n"))
        try await bench.desk.refreshList()
        let good = await health()
        #expect(good.0 && good.1.contains(#""status":"ok""#) && good.1.contains(#""revocation_list":"ok""#))
        #expect(try await metrics.text().contains("healthrelay_fleet_revocation_list_ok 1\n"))
        bench.advance(30 * 86_400)
        let over = await health()
        #expect(over.0 && over.1.contains(#""status":"degraded""#))
        #expect(over.1.contains(#""revocation_list":"expired""#))
        await store.close()
    }

    @Test("settings of the list and of the authority that can't be used are named")
    func settings() {
        let cases = [
            ("ingest: {revocation_list_file: /x}", "needs gateway_ca_file"),
            ("ca: {url: \"http://a\"}", "ca.url: expected https://HOST:PORT"),
            ("ca: {certificate_days: 0}", "ca.certificate_days: expected a whole number from 1 to 397"),
            ("broker: {url: \"http://a.example:15672\", username: u, password_file: /x}", "needs https"),
            ("broker: {url: \"https://a.example:15671\"}", "expected username and password_file"),
        ]
        for (text, words) in cases {
            do {
                _ = try CollectorSettings(text: text, path: "c.yaml")
                Issue.record("\(text) was taken")
            } catch { #expect(error.message.contains(words), "\(error.message)") }
        }
        #expect(AuthoritySettings().plan.url == "https://localhost:8491")
    }
}

import AsyncHTTPClient
import FleetCollector
import FleetDocuments
import FleetStore
import Foundation
import GatewaySettings
import HealthReadings
import LogLines
import Logging
import NIOCore
import NIOHTTP1
import NIOSSL
import TestPostgreSQL
import TestSupport
import Testing

/// What the ingest answers to documents about the gateway itself, and while its database is away.
@Suite("The ingest's other answers", .timeLimit(.minutes(3))) struct IngestOutageTests {
    private typealias Answer = (status: UInt, text: String, headers: HTTPHeaders)

    /// Calls a collector that runs.
    private func calling(
        _ collector: RunningCollector, _ directory: String,
        _ body: (_ send: (String, [UInt8], String) async throws -> Answer) async throws -> Void
    ) async throws {
        var tls = TLSConfiguration.makeClientConfiguration()
        tls.trustRoots = .file(directory + "/tls.pem")
        var configuration = HTTPClient.Configuration()
        configuration.tlsConfiguration = tls
        let client = HTTPClient(configuration: configuration)
        do {
            try await body { path, octets, token in
                var request = HTTPClientRequest(url: collector.url + path)
                request.method = octets.isEmpty ? .GET : .POST
                request.headers.add(name: "Authorization", value: "Bearer \(token)")
                if !octets.isEmpty { request.body = .bytes(octets) }
                let response = try await client.execute(request, timeout: .seconds(60))
                let text = String(buffer: try await response.body.collect(upTo: 1 << 20))
                return (response.status.code, text, response.headers)
            }
        } catch {
            try? await client.shutdown()
            throw error
        }
        try await client.shutdown()
    }

    @Test("status and hello are taken from the gateway of the token alone, and answered")
    func documents() async throws {
        let directory = SampleBatch.folder()
        let store = try SQLiteCentralStore(directory: directory)
        try await store.prepare()
        let token = try await GatewayTokens(store: store).make(for: "gw1", at: .systemClock)
        let collector = try await RunningCollector.start(in: directory)
        let (mine, other, now) = (try GatewayID("gw1"), try GatewayID("gw2"), Instant(seconds: 1_800_000_000))
        func hello(_ gateway: GatewayID, _ batches: [Int64] = []) -> [UInt8] {
            Array(FleetHello(gateway: gateway, sentAt: now, version: "1.0", unconfirmed: batches).document.text.utf8)
        }
        let report = FleetReport(
            gateway: mine, sentAt: now, version: "1.1", backlog: .init(waiting: 3, handedOver: 4, oldest: now))
        let status = Array(FleetStatus.online(report).document.text.utf8)
        try await calling(collector, directory) { send in
            #expect(try await send("/v1/readings", SampleBatch.octets("gw1", 5, ids: 0..<2), token).status == 200)
            let greeted = try await send("/v1/hello", hello(mine, [5, 6]), token)
            #expect(greeted.status == 200)
            let answer = try FleetAnswer(Array(greeted.text.utf8), for: mine)
            #expect(answer.receipts.map(\.batch) == [5] && answer.configuration == nil)
            #expect(try await send("/v1/status", status, token).status == 204)
            let record = try #require(try await store.gateways().first)
            #expect(record.version == "1.1" && record.backlog == 7 && record.oldest == now)
            let version = try await store.setConfiguration(#"{"log.level":"debug"}"#, of: nil, at: now)
            let told = try await send("/v1/status", status, token)
            #expect(told.status == 200)
            #expect(try FleetAnswer(Array(told.text.utf8), for: mine).configuration?.version == version)
            #expect(try await send("/v1/hello", hello(other), token).status == 403)
            #expect(try await send("/v1/status", Array("{}".utf8), token).status == 400)
            #expect(try await send("/v1/hello", hello(mine), "wrong").status == 401)
            #expect(try await store.removeTokens(of: "gw1") == 1)
            #expect(try await send("/v1/hello", hello(mine), token).status == 401)
        }
        await collector.stop()
        await store.close()
    }

    @Test(
        "while the database is away the answer is 503 with a time, and the same is taken afterwards",
        .enabled(if: TestPostgreSQL.isInstalled))
    func databaseAway() async throws {
        let server = try TestPostgreSQL()
        var settings = CollectorSettings()
        settings.postgreSQL = try server.database()
        let directory = SampleBatch.folder()
        let store = try settings.store(directory: directory)
        try await store.prepare()
        let token = try await GatewayTokens(store: store).make(for: "gw1", at: .systemClock)
        let log = LogLines()
        let collector = try await RunningCollector.start(in: directory, settings, logger: log.logger())
        let batch = SampleBatch.octets("gw1", 1, ids: 0..<2)
        try await calling(collector, directory) { send in
            #expect(try await send("/health", [], token).status == 200)
            server.stop()
            let away = try await send("/v1/readings", batch, token)
            #expect(away.status == 503 && away.headers.first(name: "retry-after") == "30")
            #expect(away.text.contains("store_unavailable") && !away.text.contains("dbname"))
            #expect(log.lines(from: .error).contains { $0.contains("the store can't be used") })
            #expect(try await send("/health", [], token).status == 503)
            #expect(try await send("/metrics", [], token).status == 503)
            try server.start()
            #expect(try await send("/v1/readings", batch, token).status == 200)
            #expect(try await store.gateways().map(\.stored) == [2])
        }
        await collector.stop()
        await store.close()
    }

    @Test("the database's password comes from a file of the collector's own", .enabled(if: TestPostgreSQL.isInstalled))
    func passwordFile() async throws {
        let server = try TestPostgreSQL()
        let address = try server.database()
        _ = try server.run(at: address, "CREATE ROLE clerk LOGIN PASSWORD 'quite secret'")
        _ = try server.run(at: address, "GRANT ALL ON SCHEMA public TO clerk")
        let file = try server.run(at: address, "SHOW hba_file").trimmingCharacters(in: .whitespacesAndNewlines)
        _ = try server.run(
            at: address,
            "COPY (VALUES ('local all clerk scram-sha-256'), ('local all all trust')) TO '\(file)'")
        _ = try server.run(at: address, "SELECT pg_reload_conf()")
        let folder = SampleBatch.folder()
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        func store(_ password: String, mode: Int = 0o600) async throws -> any CentralStore {
            let path = folder + "/password"
            try? FileManager.default.removeItem(atPath: path)
            #expect(
                FileManager.default.createFile(
                    atPath: path, contents: Data((password + "\n").utf8), attributes: [.posixPermissions: mode]))
            var settings = CollectorSettings()
            settings.postgreSQL = address.replacing("user=healthrelay", with: "user=clerk")
            settings.postgreSQLPasswordFile = path
            return try settings.store(directory: folder)
        }
        // The server reads the file a moment after it was told to.
        try await until {
            let wrong = try await store("wrong")
            let isRefused = await {
                do { try await wrong.prepare() } catch { return true }; return false
            }()
            await wrong.close()
            return isRefused
        }
        let right = try await store("quite secret")
        try await right.prepare()
        await right.close()
        await #expect { try await store("quite secret", mode: 0o644) } throws: { error in
            (error as? Problem)?.code == "secret_open"
        }
    }
}

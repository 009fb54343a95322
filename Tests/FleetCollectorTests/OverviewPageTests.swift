import AsyncHTTPClient
import FleetCollector
import FleetStore
import Foundation
import HealthReadings
import NIOCore
import NIOHTTP1
import NIOSSL
import Testing

/// The page for operators.
@Suite("The collector's page", .timeLimit(.minutes(3))) struct OverviewPageTests {
    private func get(
        _ collector: RunningCollector, _ directory: String, _ headers: [(String, String)] = []
    ) async throws -> (status: UInt, text: String, headers: HTTPHeaders) {
        var tls = TLSConfiguration.makeClientConfiguration()
        tls.trustRoots = .file(directory + "/tls.pem")
        var configuration = HTTPClient.Configuration()
        configuration.tlsConfiguration = tls
        let client = HTTPClient(configuration: configuration)
        var request = HTTPClientRequest(url: collector.url + "/")
        for (name, value) in headers { request.headers.replaceOrAdd(name: name, value: value) }
        let response = try await client.execute(request, timeout: .seconds(60))
        let text = String(buffer: try await response.body.collect(upTo: 1 << 20))
        try await client.shutdown()
        return (response.status.code, text, response.headers)
    }

    @Test("it lists gateways on this machine alone, has no script, and shows what they say as text")
    func local() async throws {
        let directory = SampleBatch.folder()
        let store = try SQLiteCentralStore(directory: directory)
        try await store.prepare()
        try await store.note(
            GatewaySighting(
                gateway: "gw1", heard: .systemClock, version: "<script>alert(1)</script>\"\u{301}<\u{301}", backlog: 3))
        try await store.note(GatewaySighting(gateway: "gw0", heard: Instant(seconds: 1)))
        let collector = try await RunningCollector.start(in: directory)
        let page = try await get(collector, directory)
        #expect(page.status == 200 && page.text.contains("2 gateways, 1 silent, 3 readings wait at them"))
        #expect(page.text.contains("&lt;script&gt;") && !page.text.contains("<script"))
        #expect(page.text.unicodeScalars.contains("&quot;\u{301}&lt;\u{301}".unicodeScalars))
        #expect(page.headers.first(name: "content-security-policy")?.hasPrefix("default-src 'none'") == true)
        let (silent, well) = (page.text.range(of: "gw0"), page.text.range(of: "gw1"))
        #expect(try #require(silent).lowerBound < (try #require(well)).lowerBound)
        #expect(try await get(collector, directory, [("host", "collector.example:8490")]).status == 403)
        #expect(try await get(collector, directory, [("x-forwarded-for", "192.0.2.7")]).status == 403)
        await collector.stop()
        await store.close()
    }

    @Test("with a token it is for whoever has it, and for nobody else")
    func token() async throws {
        let directory = SampleBatch.folder()
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        let path = directory + "/page.token"
        #expect(
            FileManager.default.createFile(
                atPath: path, contents: Data("open sesame\n".utf8), attributes: [.posixPermissions: 0o600]))
        let settings = try CollectorSettings(text: "page: {token_file: \(path)}", path: "f")
        let collector = try await RunningCollector.start(in: directory, settings)
        let unknown = try await get(collector, directory)
        #expect(unknown.status == 401)
        #expect(unknown.headers.first(name: "www-authenticate")?.hasPrefix("Basic realm=") == true)
        let basic = "Basic " + Data("operator:open sesame".utf8).base64EncodedString()
        #expect(try await get(collector, directory, [("authorization", basic)]).status == 200)
        #expect(try await get(collector, directory, [("authorization", "Bearer open sesame")]).status == 200)
        #expect(try await get(collector, directory, [("authorization", "Bearer open")]).status == 401)
        await collector.stop()
    }
}

import AsyncHTTPClient
import EmulatedRadio
import Foundation
import HealthReadings
import Hummingbird
import LocalAccess
import LogLines
import Logging
import NIOCore
import NIOHTTP1
import NIOSSL
import ReadingStore
import ServiceLifecycle
import Synchronization
import Testing

@testable import GatewayCommands
@testable import GatewaySettings
@testable import GuardedServer
@testable import LocalAPI

/// The local API over a real socket, with or without TLS, on a gateway with an emulated radio.
///
/// Where a test says nothing else, callers on loopback are trusted (`http.local`).
final class APIBench: Sendable {
    /// An answer.
    struct Answer: Sendable {
        var status: Int
        var headers: HTTPHeaders
        var text: String
        var object: [String: any Sendable] { text.object }
        /// The published code of a refusal.
        var code: String? { (object["error"] as? [String: any Sendable])?["code"] as? String }
    }

    let radio: EmulatedRadio
    let gateway: Gateway
    let door: AccessPoint
    let hub = APIEventHub()
    let counters = RequestCounters()
    let directory: URL
    let log = LogLines()
    let address: String
    /// Every route, as `GET /health`.
    let routes: [String]
    private let client: HTTPClient
    private let group: ServiceGroup
    private let running: Task<Void, any Error>
    private let locked: Locked

    private final class Locked: Sendable {
        let value = Mutex(false)
    }

    init(
        tls: Bool, meters: [EmulatedMeter] = [], captures: [String] = ["two-meters"],
        settings: [String: String] = [:], limits: ServerLimits = ServerLimits(), in place: URL? = nil,
        mostReadings: Int = HealthSyncRoutes.mostReadings, programs: RequestRate = RequestRate(),
        machine: GatewayClock.Machine = GatewayClock.Machine(),
        time: @escaping @Sendable () async -> Date = { Date() }
    ) async throws {
        directory = try place ?? GatewayBench.scratch()
        let state = StateDirectory(flag: directory.appendingPathComponent("state").path, environment: [:])
        radio = EmulatedRadio(meters, adapter: .emulated)
        let (radio, log) = (radio, log)
        let logger = log.logger()
        var flags = GatewayBench.zone.merging([
            "http.listen": "127.0.0.1:0", "http.tls": tls ? "on" : "off", "sync.backfill_days": "36500",
            "http.local": "trusted",
        ]) { $1 }
        flags.merge(settings) { $1 }
        let settings = try Settings(
            environment: [:], flags: flags, managed: ManagedSettings(stateDirectory: state.path))
        gateway = try await Gateway.open(
            settings, state: state, radio: { _, _ in radio }, machine: machine, isService: true, logger: logger)
        if !captures.isEmpty {
            _ = try await CaptureReplay(captures.map(Self.fixture)).run(with: gateway.reader())
        }
        door = try AccessPoint(
            settings, directory: state.path, logger: logger, programs: programs, time: time)
        gateway.door = door
        let locked = Locked()
        self.locked = locked
        let server = LocalServer(
            gateway: gateway, door: door, hub: hub, counters: counters,
            isLocked: { locked.value.withLock(\.self) }, logger: logger, limits: limits, mostReadings: mostReadings)
        routes = server.router().routes.map { "\($0.method) \($0.path)" }
        let (addresses, started) = AsyncStream<String>.makeStream()
        let service = server.service { started.yield($0) }
        let feed = EventFeed(
            hub: hub, store: gateway.store, workers: gateway.destinations.workers,
            manager: try? gateway.requireManager())
        let group = ServiceGroup(services: [service, feed], logger: logger)
        self.group = group
        running = Task { try await group.run() }
        var first: String?
        for await address in addresses {
            first = address
            break
        }
        address = String(try #require(first).dropLast())
        var configuration = HTTPClient.Configuration()
        configuration.tlsConfiguration = .makeClientConfiguration()
        configuration.tlsConfiguration?.certificateVerification = .none
        client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
    }

    static func fixture(_ name: String) -> String {
        URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent(
            "../../../Fixtures/\(name).btsnoop"
        ).path
    }

    /// Whether the store's key is not there.
    var isLocked: Bool {
        get { locked.value.withLock(\.self) }
        set { locked.value.withLock { $0 = newValue } }
    }

    var port: Int { door.port }

    func send(
        _ path: String, _ method: HTTPMethod = .GET, token: String? = nil, headers: [(String, String)] = [],
        body: String? = nil, octets: [UInt8]? = nil
    ) async throws -> Answer {
        var request = HTTPClientRequest(url: address + path)
        if let octets { request.body = .bytes(ByteBuffer(bytes: octets)) }
        request.method = method
        if let token { request.headers.add(name: "Authorization", value: "Bearer " + token) }
        if let body {
            request.body = .bytes(ByteBuffer(string: body))
            request.headers.add(name: "Content-Type", value: "application/json")
        }
        for (name, value) in headers { request.headers.replaceOrAdd(name: name, value: value) }
        let response = try await client.execute(request, timeout: .seconds(60))
        let text = String(buffer: try await response.body.collect(upTo: 1 << 25))
        return Answer(status: Int(response.status.code), headers: response.headers, text: text)
    }

    /// Sends a request and takes what comes at once: of a stream its beginning.
    func peek(
        _ path: String, _ method: HTTPMethod = .GET, headers: [(String, String)] = [], body: String? = nil
    ) async throws -> Answer {
        guard path.hasPrefix("/api/v1/events") else {
            return try await send(path, method, headers: headers, body: body)
        }
        var request = HTTPClientRequest(url: address + path)
        for (name, value) in headers { request.headers.replaceOrAdd(name: name, value: value) }
        let response = try await client.execute(request, timeout: .seconds(60))
        var text = ""
        for try await part in response.body {
            text += String(buffer: part)
            break
        }
        return Answer(status: Int(response.status.code), headers: response.headers, text: text)
    }

    /// A stream of events, line by line, until `isEnough`.
    func events(
        _ path: String = "/api/v1/events", token: String? = nil, last: String? = nil, headers: [(String, String)] = [],
        started: @escaping @Sendable () async throws -> Void = {}, until isEnough: @Sendable (String) -> Bool
    ) async throws -> String {
        var request = HTTPClientRequest(url: address + path)
        if let token { request.headers.add(name: "Authorization", value: "Bearer " + token) }
        if let last { request.headers.add(name: "Last-Event-ID", value: last) }
        for (name, value) in headers { request.headers.replaceOrAdd(name: name, value: value) }
        let response = try await client.execute(request, timeout: .seconds(120))
        var received = ByteBuffer()
        var hasStarted = false
        for try await part in response.body {
            received.writeImmutableBuffer(part)
            if !hasStarted {
                hasStarted = true
                try await started()
            }
            // The connection cuts an event wherever it likes; an empty line ends it.
            let text = String(buffer: received)
            if text.hasSuffix("\n\n"), isEnough(text) { break }
        }
        return String(buffer: received)
    }

    /// A program that was let in.
    func token(expiresIn seconds: TimeInterval = 3600, for grant: AccessGrant = .owner) async throws -> String {
        try await door.clients.admit("test", as: .client, for: grant, now: Date(), expiresAt: Date() + seconds).token
            .text
    }

    /// Adds another person to the current user, with a reading that she has entered.
    func addAnna() async throws {
        try await gateway.store.setPeople([StorePerson(clientUserID: "anna", timeZone: "Europe/Berlin", shares: [])])
        let anna = try #require(try await gateway.store.user("anna"))
        let text = EntryText(kind: "glucose", value: "123", unit: "mg/dL", time: "2026-11-20T11:00:00Z")
        _ = try await EntryDesk(gateway).add(text, of: anna) { _ in }
    }

    /// - Parameter isKept: whether the state directory stays, for another bench.
    func stop(keeping isKept: Bool = false) async throws {
        try await client.shutdown()
        await group.triggerGracefulShutdown()
        try await running.value
        await door.close()
        try await gateway.close()
        if !isKept { try? FileManager.default.removeItem(at: directory) }
    }
}

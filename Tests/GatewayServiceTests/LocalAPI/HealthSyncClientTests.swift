import Foundation
import LocalAccess
import NIOHTTP1
import Synchronization
import Testing

@testable import GatewayCommands

/// A client that is as strict as the Health Sync app's published one: it knows the app's types and no others, times without
/// fractions, and refuses whatever it does not expect; it sends no more than that one does.
@Suite("A client of the Health Sync app", .timeLimit(.minutes(5))) struct HealthSyncClientTests {
    @Test("it pairs by what the QR code holds, and fetches what the gateway says it has")
    func course() async throws {
        let bench = try await APIBench(tls: true, captures: ["cuff-three", "cuff-kpa", "two-meters"])
        let client = try await PublishedClient(of: bench)
        try await client.pair()
        let status: PublishedClient.Status = try await client.get("/api/v1/status")
        #expect(status.status == "ok" && status.version == "1" && !status.deviceName.isEmpty)
        #expect(abs(status.serverTime.timeIntervalSinceNow) < 60)
        let types: PublishedClient.Types = try await client.get("/api/v1/health/types")
        #expect(types.enabledTypes == status.enabledTypes && !types.enabledTypes.isEmpty)
        let answer = try await client.fetch(
            types.enabledTypes, from: "2020-01-01T00:00:00Z", to: "2030-01-01T00:00:00Z")
        #expect(answer.status == .ok && !answer.samples.isEmpty)
        // A type that could be served and isn't measured here has no samples.
        let measured: Set = ["heartRate", "bloodPressureSystolic", "bloodPressureDiastolic"]
        #expect(
            Set(answer.samples.map(\.type)) == measured && measured.isSubset(of: types.enabledTypes.map(\.rawValue)))
        for sample in answer.samples {
            #expect(sample.startDate <= sample.endDate && !sample.sourceName.isEmpty && sample.value > 0)
        }
        // One type alone, in a time in which there is nothing.
        let none = try await client.fetch([.heartRate], from: "2019-01-01T00:00:00Z", to: "2019-01-02T00:00:00Z")
        #expect(none.status == .ok && none.samples.isEmpty)
        try await bench.stop()
    }

    @Test("a locked store, a type that is not served, a token that is gone: as the client expects each")
    func refusals() async throws {
        let bench = try await APIBench(tls: true)
        let client = try await PublishedClient(of: bench)
        let late = client
        try await client.pair()
        bench.isLocked = true
        let locked = try await client.fetch([.heartRate], from: "2020-01-01T00:00:00Z", to: "2030-01-01T00:00:00Z")
        #expect(locked.status == .locked && locked.samples.isEmpty && locked.message != nil)
        bench.isLocked = false
        await #expect(throws: PublishedClient.Refused(status: 403)) {
            _ = try await client.fetch([.steps], from: "2020-01-01T00:00:00Z", to: "2030-01-01T00:00:00Z")
        }
        _ = try await bench.door.clients.revokeAll(now: Date())
        await #expect(throws: PublishedClient.Refused(status: 401)) {
            let _: PublishedClient.Status = try await client.get("/api/v1/status")
        }
        // The code is good once.
        await #expect(throws: PublishedClient.Refused(status: 400)) { try await late.pair() }
        try await bench.stop()
    }

    @Test("an IPv6 address is told as it stands in a URL, for the client puts the URL together")
    func brackets() async throws {
        let bench = try await APIBench(tls: true, captures: [], settings: ["http.listen": "[::1]:0"])
        let output = Collected()
        try await bench.gateway.run(OperationRequest(.client(.invite(.init())), json: true), output: output)
        #expect(try #require(output.data.first).object["host"] as? String == "[::1]")
        try await bench.stop()
    }
}

/// What the published client does and takes, by its public source.
private final class PublishedClient: Sendable {
    struct Refused: Error, Equatable { var status: Int }

    struct Invitation: Decodable {
        var version, host, code, certificateFingerprint: String
        var port: Int
        var expiresAt: Date
    }
    struct Pairing: Decodable {
        var token: String
        var expiresAt: Date
    }
    struct Status: Decodable {
        var status, version, deviceName: String
        var enabledTypes: [Kind]
        var serverTime: Date
    }
    struct Types: Decodable { var enabledTypes: [Kind] }
    struct Request: Encodable {
        var startDate, endDate: Date
        var types: [Kind]
    }
    struct Answer: Decodable {
        enum Status: String, Decodable { case ok, noPermission, locked, error }
        var status: Status
        var samples: [Sample]
        var message: String?
    }
    struct Sample: Decodable {
        var id: UUID
        var type, unit, sourceName: String
        var value: Double
        var startDate, endDate: Date
        var metadata: [String: String]?
    }
    /// The types of its first version, all of which later ones know too.
    enum Kind: String, Codable, CaseIterable {
        case steps, distanceWalkingRunning, distanceCycling, activeEnergyBurned, basalEnergyBurned, exerciseTime,
            standHours, flightsClimbed, workouts, heartRate, restingHeartRate, walkingHeartRateAverage,
            heartRateVariability, bloodPressureSystolic, bloodPressureDiastolic, bloodOxygen, respiratoryRate,
            bodyTemperature, vo2Max, sleepAnalysis, sleepInBed, sleepAsleep, sleepAwake, sleepREM, sleepCore, sleepDeep,
            weight, height, bodyMassIndex, bodyFatPercentage, leanBodyMass
    }

    private let bench: APIBench
    private let invitation: Invitation
    private let token = Mutex("")

    init(of bench: APIBench) async throws {
        self.bench = bench
        let output = Collected()
        try await bench.gateway.run(OperationRequest(.client(.invite(.init())), json: true), output: output)
        invitation = try Self.decoder.decode(Invitation.self, from: Data(try #require(output.data.first).utf8))
        #expect(invitation.version == "1" && invitation.expiresAt > Date() && invitation.port == bench.port)
        #expect(invitation.certificateFingerprint == bench.door.certificates?.certificate.fingerprint)
        #expect(Self.isLocal(invitation.host), "\(invitation.host)")
    }

    func pair() async throws {
        let body = ["code": invitation.code, "clientName": "Ann's Mac, ü"]
        let answer: Pairing = try await send("/api/v1/pair", body: try JSONEncoder().encode(body), isAuthorized: false)
        #expect(answer.expiresAt > Date())
        token.withLock { $0 = answer.token }
    }

    func get<Value: Decodable>(_ path: String) async throws -> Value { try await send(path, body: nil) }

    func fetch(_ types: [Kind], from: String, to: String) async throws -> Answer {
        let encoder = JSONEncoder()
        encoder.dateEncodingStrategy = .iso8601
        func date(_ text: String) throws -> Date { try Date(text, strategy: .iso8601) }
        let request = Request(startDate: try date(from), endDate: try date(to), types: types)
        return try await send("/api/v1/health/data", body: try encoder.encode(request))
    }

    private func send<Value: Decodable>(_ path: String, body: Data?, isAuthorized: Bool = true) async throws -> Value {
        let answer = try await bench.send(
            path, body == nil ? .GET : .POST, token: isAuthorized ? token.withLock(\.self) : nil,
            body: body.map { String(decoding: $0, as: UTF8.self) })
        guard (200...299).contains(answer.status) || answer.status == 423 else { throw Refused(status: answer.status) }
        return try Self.decoder.decode(Value.self, from: Data(answer.text.utf8))
    }

    private static let decoder: JSONDecoder = {
        let decoder = JSONDecoder()
        decoder.dateDecodingStrategy = .iso8601
        return decoder
    }()

    /// It pairs with this machine, `.local` names, and addresses of private networks only.
    private static func isLocal(_ host: String) -> Bool {
        host == "localhost" || host.hasSuffix(".local") || ["127.", "192.168.", "10."].contains(where: host.hasPrefix)
            || (16...31).contains { host.hasPrefix("172.\($0).") } || host.hasPrefix("fe80:")
    }
}

import AsyncHTTPClient
import Foundation
import HealthReadings
import LocalAccess
import NIOCore
import NIOHTTP1
import ReadingStore
import Synchronization
import TestSupport
import Testing

@testable import GatewayCommands
@testable import GatewaySettings
@testable import LocalAPI

/// A gateway with readings, a person and a device that nothing else is called.
final class Marked: Sendable {
    static let person = "marker_person_5813"
    static let device = "Marker-Meter-7Q"
    /// mg/dL, and mmHg systolic and diastolic.
    static let values = ["198.7", "187.3", "103.9"]
    static let names = [person, device]

    /// What a client proves itself with.
    typealias Credential = [(String, String)]

    let api: APIBench
    /// What the person has entered, by the route that changes it: what is withdrawn cannot be corrected.
    private let entered: [String: ReadingID]
    private let count = Mutex(0)
    private let client = HTTPClient(eventLoopGroupProvider: .singleton)

    init() async throws {
        let api = try await APIBench(tls: false, captures: [], settings: ["http.local": "session"])
        self.api = api
        let person = try await api.gateway.store.setCurrentUser(Self.person, timeZone: "Europe/Berlin")
        var entered: [String: ReadingID] = [:]
        for (minute, method) in ["PATCH", "DELETE"].enumerated() {
            let text = EntryText(
                kind: "glucose", value: Self.values[0], unit: "mg/dL", time: "2026-11-20T11:0\(minute):00Z")
            let result = try await EntryDesk(api.gateway).add(text, of: person) { _ in }
            entered["\(method) /api/v1/readings/{id}"] = result.reading?.id
        }
        self.entered = entered
        try await measure()
    }

    /// A glucose meter and a cuff that are one device measure once more.
    ///
    /// - Parameter listeners: streams that have to bring it before this returns, so that nothing of it is on its way.
    func measure(until listeners: [Listener] = []) async throws {
        let store = api.gateway.store
        let number = count.withLock { count in
            count += 1
            return UInt8(count)
        }
        let device = DeviceDescription(
            address: DeviceAddress(bits: 0xC000_0000_5813, kind: .random), model: nil, serial: nil, name: Self.device)
        let now = Instant.systemClock
        let contact = try await store.beginContact(with: device, at: now, clock: nil, batteryPercent: nil)
        let values: [(UInt16, [UInt8])] = [
            // Sequence, base time, and 1987e-6 kg/L of a finger's capillary whole blood.
            (0x2A18, [0x02, number, 0x00, 0xEA, 0x07, 0x0B, 0x14, 0x0C, 0x1E, number, 0xC3, 0xA7, 0x11]),
            (0x2A35, [0x02, 0x51, 0xF7, 0x0F, 0xF4, 0x00, 0x00, 0xEA, 0x07, 0x0B, 0x14, 0x0C, 0x1F, number]),
        ]
        for (ordinal, value) in values.enumerated() {
            _ = try await store.append(
                [
                    Frame(
                        format: FrameFormat(characteristic: value.0), payload: value.1, receivedAt: now,
                        ordinal: ordinal)
                ], of: contact)
        }
        try await store.endContact(contact, ContactSummary(isComplete: true, received: values.count))
        // The cuff's reading is the last; its second is the number of the measurement.
        let last = "T12:31:" + (number < 10 ? "0\(number)" : "\(number)")
        #expect(await eventually { listeners.allSatisfy { $0.text.contains(last) } })
    }

    func program(_ life: TimeInterval = 3600, for grant: AccessGrant = .owner) async throws -> Credential {
        [("Authorization", "Bearer " + (try await api.token(expiresIn: life, for: grant)))]
    }

    func browser(_ life: TimeInterval = 3600, for grant: AccessGrant = .owner) async throws -> Credential {
        let (token, client) = try await api.door.clients.admit(
            "browser", as: .page, for: grant, now: Date(), expiresAt: Date() + life)
        let cookie = SessionCookie(isSecured: false, port: api.port)
        return [
            ("Cookie", "\(cookie.name)=\(token.cookie)"), ("X-Session-Key", token.key),
            ("X-CSRF-Token", api.door.csrfToken(of: "page-\(client.number)")),
        ]
    }

    /// All that a route answers, its header fields included; of a stream what comes within a second.
    ///
    /// - Parameter query: what stands behind the path, with its question mark.
    func answer(
        _ route: String, _ credential: Credential, last: String? = nil, query: String = ""
    ) async throws -> String {
        let parts = route.split(separator: " ").map(String.init)
        if parts[1] == "/api/v1/events" {
            let listener = try await listen(credential, last: last, query: query)
            try await Task.sleep(for: .seconds(1))
            listener.end()
            return listener.text
        }
        let newest = try await api.gateway.store.query(.init(limit: 1)).readings.first?.id.description ?? firstID
        let id = entered[route]?.description ?? newest
        let path = parts[1].replacing("{id}", with: id).replacing("{kind}", with: "glucose").replacing(
            "{name}", with: "vital")
        let bodies = [
            "/api/v1/health/data":
                #"{"startDate":"2020-01-01T00:00:00Z","endDate":"2099-01-01T00:00:00Z","types":["bloodGlucose","#
                + #""bloodPressureSystolic","bloodPressureDiastolic"]}"#,
            "/api/v1/scan": #"{"seconds":1}"#,
            // These two change nothing, and answer with the reading.
            "/api/v1/readings/figures": "{\"ids\":[\"\(id)\"],\"left_out\":false}",
            "/api/v1/readings/\(id)": "{\"value\":\"\(Self.values[0])\"}",
        ]
        let body = ["POST", "PATCH"].contains(parts[0]) ? bodies[path] ?? "{}" : nil
        // The day that the markers are measured on.
        let days = [
            "/api/v1/summaries/body": "date=2026-11-20",
            // CSV has values as they were measured.
            "/api/v1/reports/glucose": "from=2026-11-20&to=2026-11-20&format=csv",
        ]
        let day = days[path].map { (query.isEmpty ? "?" : "&") + $0 } ?? ""
        let answer = try await api.send(
            path + query + day, HTTPMethod(rawValue: parts[0]), headers: credential, body: body)
        // An answer that was refused for their number would show nothing, and prove nothing.
        #expect(answer.status != 429, "\(route)")
        return answer.headers.map { "\($0.name): \($0.value)" }.joined(separator: "\n") + "\n" + answer.text
    }

    /// The id of the first reading, for when the store has none any more.
    private var firstID: String { String(repeating: "5", count: 32) }

    /// A stream of events that stays open; what it answers instead, where it is refused.
    func listen(_ credential: Credential, last: String?, query: String = "") async throws -> Listener {
        var request = HTTPClientRequest(url: api.address + "/api/v1/events" + query)
        for (name, value) in credential { request.headers.add(name: name, value: value) }
        if let last { request.headers.add(name: "Last-Event-ID", value: last) }
        return Listener(try await client.execute(request, timeout: .seconds(300)))
    }

    /// What an operation prints, or the problem it ends with.
    func printed(_ operation: GatewayCommands.Operation) async throws -> String {
        let output = Collected()
        do {
            try await api.gateway.run(OperationRequest(operation, json: true), output: output)
        } catch {
            let problem = try #require(Problem(describing: error), "\(operation): \(error)")
            return output.text + problem.document.text
        }
        return output.text
    }

    /// What the store's export holds: it is imported into another store and asked there.
    func exported() async throws -> String {
        let file = api.directory.appendingPathComponent("export")
        let output = FileOutput(file)
        try await api.gateway.run(
            OperationRequest(.store(.export(passphrase: "a long passphrase of the test")), json: true), output: output)
        let state = StateDirectory(flag: api.directory.appendingPathComponent("other").path, environment: [:])
        let settings = try Settings(environment: [:], flags: GatewayBench.zone)
        _ = try await Gateway.importing(
            file.path, passphrase: "a long passphrase of the test", settings, state: state)
        let other = try await Gateway.open(settings, state: state)
        let collected = Collected()
        for operation: GatewayCommands.Operation in [.query(.init()), .device(.list), .user(.show)] {
            try? await other.run(OperationRequest(operation, json: true), output: collected)
        }
        try await other.close()
        return collected.text
    }

    func stop() async throws {
        try await client.shutdown()
        try await api.stop()
    }
}

/// What a stream of events has brought.
final class Listener: Sendable {
    private final class Said: Sendable {
        let text = Mutex("")
    }

    private let said: Said
    private let task: Task<Void, Never>

    init(_ response: HTTPClientResponse) {
        let said = Said()
        self.said = said
        task = Task {
            do {
                for try await part in response.body { said.text.withLock { $0 += String(buffer: part) } }
            } catch {
                // The other side closed it, or the test is over.
            }
        }
    }

    var text: String { said.text.withLock(\.self) }
    /// Forgets what has come so far.
    func forget() { said.text.withLock { $0 = "" } }
    func end() { task.cancel() }
}

/// Keeps the octets of an export.
private final class FileOutput: OperationOutput {
    private let file: Mutex<FileHandle>

    init(_ url: URL) {
        _ = FileManager.default.createFile(atPath: url.path, contents: nil)
        file = Mutex(FileHandle(forWritingAtPath: url.path) ?? .nullDevice)
    }

    func data(_ line: String) {}
    func note(_ line: String) {}
    func octets(_ octets: [UInt8]) throws { try file.withLock { try $0.write(contentsOf: Data(octets)) } }
}

extension String {
    func contains(anyOf markers: [String]) -> Bool { markers.contains { contains($0) } }
}

import DeliveryFixture
import Foundation
import HealthReadings
import Logging
import ReadingStore
import ScriptedServer
import Synchronization
import Testing
import VitalClient

@testable import ReadingDelivery
@testable import VitalDestination

/// A worker beside a scripted server and a fresh store.
func with(
    _ script: VitalScript = VitalScript(), policy: SourcePolicy = .create, clock: SyncClock = .system,
    call: Duration = .seconds(60), _ change: (inout OutboxWorker.Options) -> Void = { _ in },
    _ body: @Sendable (OutboxWorker, Fixture) async throws -> Void
) async throws {
    var options = OutboxWorker.Options()
    options.backoff = Backoff(jitter: { 1 })
    change(&options)
    let given = options
    try await Fixture.with { fixture in
        try await ScriptedServer.with({ script.answer($0) }) { server in
            let worker = OutboxWorker(
                store: fixture.store, api: try api(server.baseURL, call: call), policy: policy, options: given,
                clock: clock, logger: Fixture.quiet)
            try await body(worker, fixture)
        }
    }
}

/// A worker for a scripted server, which can take nothing back, and one for a file, which can, over one store.
func withServerAndFile(
    _ script: VitalScript = VitalScript(), clock: SyncClock = .system, batchLimit: Int = 4,
    _ body: @escaping @Sendable (OutboxWorker, OutboxWorker, Fixture, String) async throws -> Void
) async throws {
    try await with(script, clock: clock) { vital, fixture in
        try await body(vital, fixture.lines(clock: clock, batchLimit: batchLimit), fixture, fixture.path)
    }
}

extension OutboxWorker {
    /// People and their sources at the server the worker delivers to.
    nonisolated var sources: SourceKeeper {
        get throws { try #require(destination as? VitalDestination).sources }
    }
}

/// A client of a server at this address.
func api(_ baseURL: String, key: String = "sk_eu_0123456789abcdef", call: Duration = .seconds(60)) throws -> VitalAPI {
    VitalAPI(
        server: try VitalServer(baseURL: baseURL), credentials: .apiKey(Secret(key)), limits: .init(call: call),
        recorder: DirectoryRequestRecorder.fromEnvironment(), logger: Fixture.quiet)
}

/// What a scripted Vital server holds; a test changes it as it goes.
final class VitalScript: Sendable {
    struct State: Sendable {
        var sources: [String: String] = [:]
        var connectedOn = "2026-01-01T00:00:00Z"
        /// Answers of the next calls of a kind, before the server behaves.
        var next: [ScriptedAnswer] = []
        var nextCreate: [ScriptedAnswer] = []
        var nextUser: [ScriptedAnswer] = []
        var nextChange: [ScriptedAnswer] = []
        var nextList: [ScriptedAnswer] = []
        /// Decides about a post by its body; nil: taken.
        var judge: (@Sendable (String) -> ScriptedAnswer?)?
        /// Ids of samples taken, in order of arrival.
        var taken: [String] = []
        var posts: [Int] = []
        var created: [String] = []
        var lists = 0
        var userID = "00000000-0000-4000-8000-000000000001"
        /// Users beside the one: their ids at the server by the client's.
        var users: [String: String] = [:]
        /// Whether posts are judged whatever the sources are.
        var ignoresSources = false
        /// Bodies of the posts taken.
        var bodies: [String] = []
        var zones: [String] = []
    }

    let state: Mutex<State>

    init(connected: [String] = ["accuchek_ble", "omron_ble"]) {
        state = Mutex(State(sources: Dictionary(uniqueKeysWithValues: connected.map { ($0, "connected") })))
    }

    func change(_ change: (inout State) -> Void) { state.withLock { change(&$0) } }
    var now: State { state.withLock { $0 } }

    func answer(_ request: ReceivedRequest) -> ScriptedAnswer {
        let text = request.text
        return state.withLock { state in
            let path = request.path.split(separator: "/").map(String.init)
            func pop(_ list: inout [ScriptedAnswer]) -> ScriptedAnswer? { list.isEmpty ? nil : list.removeFirst() }
            switch (request.method, path.count > 1 ? path[1] : "", path.count > 2 ? path[2] : "") {
            case ("PATCH", "user", _):
                if let answer = pop(&state.nextChange) { return answer }
                state.zones += text.matches(of: /"fallback_time_zone":"([^"]+)"/).map { String($0.1) }
                return .json(200, #"{"success":true}"#)
            case ("POST", "user", _):
                let name = text.firstMatch(of: /"client_user_id":"([^"]+)"/).map { String($0.1) } ?? ""
                if let id = state.users[name] {
                    return .json(200, #"{"user_id":"\#(id)","client_user_id":"\#(name)"}"#)
                }
                return pop(&state.nextUser)
                    ?? .json(200, #"{"user_id":"\#(state.userID)","client_user_id":"white_bear"}"#)
            case ("GET", "user", "providers"):
                state.lists += 1
                if let answer = pop(&state.nextList) { return answer }
                guard path.last == state.userID || state.users.values.contains(path.last ?? "") else {
                    return .json(404, #"{"detail":"User not found"}"#)
                }
                let list = state.sources.map { slug, status in
                    #"{"name":"n","slug":"\#(slug)","logo":"","created_on":"\#(state.connectedOn)","status":"\#(status)"}"#
                }
                return .json(200, #"{"providers":[\#(list.joined(separator: ","))]}"#)
            case ("POST", "link", "token"):
                guard text.contains(#""user_id":"\#(state.userID)""#) else {
                    return .json(404, #"{"detail":"User not found"}"#)
                }
                return .json(200, #"{"link_token":"lt_1","link_web_url":"https://link.example.org/?token=lt_1"}"#)
            case ("POST", "link", _):
                if let answer = pop(&state.nextCreate) { return answer }
                let slug = path.last ?? ""
                state.created.append(slug)
                guard state.sources[slug] == nil else { return .json(409, #"{"detail":"already connected"}"#) }
                state.sources[slug] = "connected"
                return .json(200, #"{"success":true}"#)
            case ("DELETE", "user", _):
                state.sources[path.last ?? ""] = nil
                return .json(200, #"{"success":true}"#)
            case ("POST", "timeseries", _), ("POST", "summary", "body"):
                let user = path.count > 3 && path[1] == "summary" ? path[3] : path.count > 2 ? path[2] : ""
                let ids = text.matches(of: /[\[,]\{"(?:systolic":\{")?id":"([0-9a-f]{32})"/).map { String($0.1) }
                state.posts.append(ids.count)
                if let answer = pop(&state.next) { return answer }
                let provider = text.firstMatch(of: /"provider":"([a-z_]+)"/).map { String($0.1) } ?? ""
                let isKnown = user == state.userID || state.users.values.contains(user)
                guard isKnown, state.ignoresSources || state.sources[provider] == "connected" else {
                    let detail =
                        #"{"error_type":"SOURCE_NOT_CONNECTED","error_message":"\#(provider) is not connected"}"#
                    return .json(400, #"{"detail":\#(detail)}"#)
                }
                if let answer = state.judge?(text) { return answer }
                state.taken += ids
                state.bodies.append(user + " " + text)
                return .ok
            default: return .json(404, #"{"detail":"Not Found"}"#)
            }
        }
    }
}

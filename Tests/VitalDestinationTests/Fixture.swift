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

/// Decodes the tests' own frames: kind (its top bit: a failure; the next: no failure after all), number, seconds, value; each a 64-bit
/// big-endian word.
struct TestDecoder: FrameDecoding {
    static func frame(
        _ kind: ReadingKind, number: Int, seconds: Int64, value: Int64, ordinal: Int, slot: UInt8? = nil,
        isFailed: Bool = false, isMended: Bool = false
    ) -> Frame {
        let codes: [ReadingKind: UInt8] = [
            .glucose: 1, .bloodPressure: 2, .temperature: 6, .weight: 7, .bodyComposition: 8,
        ]
        var payload: [UInt8] = [codes[kind] ?? 0]
        for word in [Int64(number), seconds, value] {
            for shift in stride(from: 56, through: 0, by: -8) {
                payload.append(UInt8(truncatingIfNeeded: word >> Int64(shift)))
            }
        }
        if let slot { payload.append(slot) }
        if isFailed { payload[0] |= 0x80 }
        if isMended { payload[0] |= 0x40 }
        return Frame(
            format: FrameFormat(rawValue: 0x1_0000), payload: payload, receivedAt: Instant(seconds: seconds + 60),
            ordinal: ordinal)
    }

    func decode(_ frame: Frame, model: String?) -> DecodedFrame {
        let words = (0..<3).map { index in
            frame.payload[(1 + 8 * index)..<(9 + 8 * index)].reduce(Int64(0)) { $0 << 8 | Int64($1) }
        }
        let number = ExactDecimal(significand: words[2])
        let value: RecordValue =
            switch frame.payload[0] & 0x3F {
            case 1:
                .glucose(
                    GlucoseValue(
                        concentration: Quantity(number, .milligramsPerDecilitre), sampleType: .capillaryWholeBlood,
                        sampleLocation: .finger))
            case 6:
                .vital(VitalValue(kind: .temperature, [.init(.temperature, Self.tenths(words[2], .degreesCelsius))]))
            case 7: .vital(VitalValue(kind: .weight, [.init(.weight, Self.tenths(words[2], .kilograms))]))
            case 8: .vital(Self.composition(words[2]))
            default:
                .bloodPressure(
                    BloodPressureValue(
                        systolic: Quantity(number, .millimetresOfMercury),
                        diastolic: Quantity(ExactDecimal(significand: 80), .millimetresOfMercury),
                        meanArterial: Quantity(.notANumber, .millimetresOfMercury)))
            }
        var record = Record(
            value: value, sequence: UInt16(words[0]), baseTime: WallTime(secondsSinceEpoch: words[1]),
            userSlot: frame.payload.count > 25 ? frame.payload[25] : nil)
        if frame.payload[0] & 0x80 != 0 { record.exclusion = .errorRecord }
        return .record(record)
    }

    private static func tenths(_ value: Int64, _ unit: MeasurementUnit) -> Quantity {
        Quantity(ExactDecimal(significand: value, exponent: -1), unit)
    }

    /// Tenths of per cent of fat, and a thousand times tenths of kilograms, where a weight came with it.
    private static func composition(_ value: Int64) -> VitalValue {
        var parts = [VitalValue.Measured(.bodyFat, tenths(value % 1000, .percent))]
        if value >= 1000 { parts.append(.init(.weight, tenths(value / 1000, .kilograms))) }
        return VitalValue(kind: .bodyComposition, parts)
    }
}

/// A store in a folder of its own.
struct Fixture: Sendable {
    static let user = "white_bear"
    static let start: Int64 = 1_700_000_000

    let store: ReadingStore
    let folder: String

    static func with<Result: Sendable>(_ body: @Sendable (Fixture) async throws -> Result) async throws -> Result {
        let folder = FileManager.default.temporaryDirectory.appending(path: "sync-\(UUID().uuidString)").path
        let fixture = try await open(folder)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let result = try await body(fixture)
        try fixture.store.close()
        return result
    }

    /// The store of a folder, which may have been opened before.
    static func open(_ folder: String) async throws -> Fixture {
        let store = try await ReadingStore.open(
            directory: folder, decoder: TestDecoder(), clientUserID: user, timeZone: "UTC", logger: quiet,
            now: { Instant(seconds: start + 100_000_000) })
        return Fixture(store: store, folder: folder)
    }

    /// Where readings are appended by ``lines(at:clock:batchLimit:)``, unless a test says otherwise.
    var path: String { folder + "/readings.jsonl" }

    /// A worker for a file.
    func lines(at path: String? = nil, clock: SyncClock = .system, batchLimit: Int = 4) -> OutboxWorker {
        worker(JSONLinesDestination(name: "file", path: path ?? self.path), clock: clock, batchLimit: batchLimit)
    }

    /// A worker that waits after failures without chance.
    func worker(_ destination: any Destination, clock: SyncClock, batchLimit: Int? = nil) -> OutboxWorker {
        var options = OutboxWorker.Options()
        options.backoff = Backoff(jitter: { 1 })
        if let batchLimit { options.batchLimit = batchLimit }
        return OutboxWorker(store: store, destination: destination, options: options, clock: clock, logger: Self.quiet)
    }

    static let quiet = Logger(label: "quiet") { _ in SwiftLogNoOpLogHandler() }

    /// Stores readings of one device, one a minute, numbered from `first`.
    func read(
        _ count: Int, from first: Int = 1, kind: ReadingKind = .glucose, device: UInt64 = 1,
        provider: String = "accuchek_ble", metAt: Int64 = start + 90_000_000, slot: UInt8? = nil,
        isFailed: Bool = false,
        isMended: Bool = false, value: (Int) -> Int64 = { Int64(80 + $0 % 100) }
    ) async throws {
        let description = DeviceDescription(
            address: DeviceAddress(bits: 0xC000_0000_0000 + device, kind: .random), provider: provider)
        let contact = try await store.beginContact(
            with: description, at: Instant(seconds: metAt), clock: nil, batteryPercent: nil)
        let frames = (0..<count).map { index in
            TestDecoder.frame(
                kind, number: first + index, seconds: Self.start + Int64(first + index) * 60,
                value: value(first + index),
                ordinal: index, slot: slot, isFailed: isFailed, isMended: isMended)
        }
        _ = try await store.append(frames, of: contact)
        try await store.endContact(contact, ContactSummary(isComplete: true, received: count))
    }

    var waiting: Int {
        get async throws { try await store.groupsWaiting().reduce(0) { $0 + $1.count } }
    }

    var person: StoreUser {
        get async throws { try await store.currentUser() }
    }
}

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

/// A clock that stands until it is moved; it tells how long its sleepers want to sleep.
final class ManualClock: Sendable {
    private struct Sleeper {
        var due: Duration
        var continuation: CheckedContinuation<Void, any Error>
    }

    private struct State {
        var uptime: Duration = .zero
        var sleepers: [Int: Sleeper] = [:]
        var next = 0
        var slept: [Duration] = []
        var jump: Duration = .zero
    }

    private let state = Mutex(State())

    var syncClock: SyncClock {
        var clock = SyncClock.system
        clock.now = {
            Instant(seconds: Fixture.start + 100_000_000).advanced(by: self.state.withLock { $0.uptime + $0.jump })
        }
        clock.uptime = { self.state.withLock { $0.uptime } }
        clock.sleep = { try await self.sleep($0) }
        return clock
    }

    /// Sets the clock that can be read, as a person or a time server does.
    func jump(by duration: Duration) { state.withLock { $0.jump += duration } }

    /// What was asked for, in order.
    var slept: [Duration] { state.withLock { $0.slept } }

    /// Waits until that many sleeps were asked for.
    func waitForSleeps(_ count: Int) async throws {
        for _ in 0..<2000 {
            if slept.count >= count { return }
            try await Task.sleep(for: .milliseconds(5))
        }
    }

    func advance(by duration: Duration) {
        let due = state.withLock { state in
            state.uptime += duration
            let due = state.sleepers.filter { $0.value.due <= state.uptime }
            for number in due.keys { state.sleepers[number] = nil }
            return due.values.map(\.continuation)
        }
        for continuation in due { continuation.resume() }
    }

    private func sleep(_ duration: Duration) async throws {
        let number = state.withLock { state in
            state.next += 1
            state.slept.append(duration)
            return state.next
        }
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
                let isCancelled = state.withLock { state in
                    guard !Task.isCancelled else { return true }
                    state.sleepers[number] = Sleeper(due: state.uptime + duration, continuation: continuation)
                    return false
                }
                if isCancelled { continuation.resume(throwing: CancellationError()) }
            }
        } onCancel: {
            state.withLock { $0.sleepers.removeValue(forKey: number) }?.continuation.resume(
                throwing: CancellationError())
        }
    }
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

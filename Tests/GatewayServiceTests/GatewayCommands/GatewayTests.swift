import Foundation
import HealthDevices
import HealthReadings
import Hummingbird
import Logging
import ReadingStore
import Synchronization
import Testing
import VitalClient

@testable import GatewayCommands
@testable import GatewaySettings

/// A context for parts that need one of some type.
typealias PlainContext = BasicRequestContext

@Suite("The gateway put together")
struct GatewayTests {
    /// Keeps what an operation prints.
    private final class Kept: OperationOutput {
        private let lines = Mutex<(data: [String], notes: [String])>(([], []))
        var data: [String] { lines.withLock { $0.data } }
        func data(_ line: String) { lines.withLock { $0.data.append(line) } }
        func note(_ line: String) { lines.withLock { $0.notes.append(line) } }
    }

    private static let quiet = Logger(label: "quiet") { _ in SwiftLogNoOpLogHandler() }

    private func with(
        _ environment: [String: String] = [:], _ body: (Gateway, StateDirectory) async throws -> Void
    ) async throws {
        let path = NSTemporaryDirectory() + "gateway-\(UUID().uuidString.prefix(8))"
        defer { try? FileManager.default.removeItem(atPath: path) }
        let state = StateDirectory(flag: path, environment: [:])
        let settings = try Settings(
            environment: environment.merging(["HEALTHRELAY_USER_TIME_ZONE": "Europe/Berlin", "HOME": path]) { $1 })
        let gateway = try await Gateway.open(settings, state: state, logger: Self.quiet)
        try await body(gateway, state)
        try gateway.store.close()
    }

    @Test("a store in use is told with its owner; with patience it is waited for")
    func locked() async throws {
        let path = NSTemporaryDirectory() + "gateway-\(UUID().uuidString.prefix(8))"
        defer { try? FileManager.default.removeItem(atPath: path) }
        let state = StateDirectory(flag: path, environment: [:])
        let settings = try Settings(environment: ["HOME": path])
        var first: Gateway? = try await Gateway.open(settings, state: state, logger: Self.quiet)
        await #expect(throws: StoreError.locked(pid: getpid())) {
            _ = try await Gateway.open(settings, state: state, logger: Self.quiet)
        }
        let second = Task {
            try await Gateway.open(settings, state: state, patience: .seconds(60), logger: Self.quiet).store.close()
        }
        try await Task.sleep(for: .milliseconds(100))
        try first?.store.close()
        first = nil
        try await second.value
    }

    @Test("without a key there is no delivery, and each command that needs it says what to set")
    func noKey() async throws {
        try await with { gateway, _ in
            #expect(gateway.destinations.worker == nil)
            for operation in [
                GatewayCommands.Operation.sync(.now(from: nil, to: nil)), .source(.list), .user(.create("bear")),
                .source(.link("oura", wait: 1)), .sync(.watch()),
            ] {
                await #expect(throws: Problem.self, "\(operation)") {
                    try await gateway.run(OperationRequest(operation, json: true), output: Kept())
                }
            }
            // What is here needs no server.
            let kept = Kept()
            for operation in [GatewayCommands.Operation.user(.show), .sync(.status), .store(.stats), .store(.verify)] {
                try await gateway.run(OperationRequest(operation, json: true), output: kept)
            }
            #expect(kept.data.count == 4 && kept.data.allSatisfy { $0.hasPrefix("{") })
        }
    }

    @Test("a provider is the catalogue's, unless the settings name another")
    func providers() async throws {
        let model = try #require(Catalogue().models.first)
        try await with { gateway, _ in #expect(gateway.settings.provider(of: model) == model.provider) }
        try await with(["HEALTHRELAY_SOURCES_MAP": "\(model.id)=manual"]) { gateway, _ in
            #expect(gateway.settings.provider(of: model) == "manual")
        }
    }

    @Test("sync.ignore takes addresses, models and providers; anything else is refused, never sent by a slip")
    func ignored() async throws {
        try await with(["HEALTHRELAY_SYNC_IGNORE": "C0:00:00:00:18:08,accuchek_guide,omron_ble"]) { gateway, _ in
            let origins = try DeliveryRules(settings: gateway.settings, catalogue: gateway.catalogue).ignoredOrigins()
            #expect(origins.addresses == [0xC000_0000_1808] && origins.models == ["accuchek_guide"])
            #expect(origins.providers == ["omron_ble"])
        }
        let problem = await #expect(throws: Problem.self) {
            try await self.with(["HEALTHRELAY_SYNC_IGNORE": "omron_bel"]) { _, _ in }
        }
        #expect(problem?.code == "config_invalid" && problem?.message.contains("'omron_bel'") == true)
    }

    @Test("sync.ignore takes the clouds and the phone before anything of them is stored")
    func ignoredClouds() async throws {
        try await with(["HEALTHRELAY_SYNC_IGNORE": "whoop,garmin,apple_health_kit"]) { gateway, _ in
            let origins = try DeliveryRules(settings: gateway.settings, catalogue: gateway.catalogue).ignoredOrigins()
            #expect(origins == IgnoredOrigins(providers: ["whoop", "garmin", "apple_health_kit"]))
        }
    }

    @Test("a provider that the store knows can be ignored, and goes on being so when nothing else names it any more")
    func ignoredStored() async throws {
        let path = NSTemporaryDirectory() + "gateway-\(UUID().uuidString.prefix(8))"
        defer { try? FileManager.default.removeItem(atPath: path) }
        let ignoring = ["HOME": path, "HEALTHRELAY_SYNC_IGNORE": "my_meters"]
        try await Self.meet("my_meters", at: path, environment: ["HOME": path])
        // At the second time the meter has another provider.
        try await Self.meet("manual", at: path, environment: ignoring)
        try await Self.meet("manual", at: path, environment: ignoring)
        // Once it is no longer ignored, nothing names it.
        try await Self.meet("manual", at: path, environment: ["HOME": path])
        let problem = await #expect(throws: Problem.self) {
            try await Self.meet("manual", at: path, environment: ignoring)
        }
        #expect(problem?.code == "config_invalid")
    }

    /// Opens a gateway, and has it meet a meter of a provider.
    private static func meet(_ provider: String, at path: String, environment: [String: String]) async throws {
        let gateway = try await Gateway.open(
            Settings(environment: environment), state: StateDirectory(flag: path, environment: [:]), logger: quiet)
        let meter = DeviceDescription(
            address: DeviceAddress(bits: 0xC000_0000_1808, kind: .random), provider: provider)
        let contact = try await gateway.store.beginContact(
            with: meter, at: .systemClock, clock: nil, batteryPercent: nil)
        try await gateway.store.endContact(contact, ContactSummary(isComplete: true, received: 0))
        try gateway.store.close()
    }

    @Test("libre.deliver: none holds sensors whatever slug they are given, and no meter that shares it")
    func libreKept() async throws {
        for map in [[:], ["HEALTHRELAY_SOURCES_MAP": "freestyle_libre=manual"]] {
            try await with(map.merging(["HEALTHRELAY_LIBRE_DELIVER": "none"]) { $1 }) { gateway, _ in
                let origins = try DeliveryRules(settings: gateway.settings, catalogue: gateway.catalogue)
                    .ignoredOrigins()
                #expect(origins == IgnoredOrigins(providers: ["freestyle_libre_ble"], models: ["freestyle_libre"]))
            }
        }
    }

    @Test("a session is kept with mode 0600 and read again; a damaged file is none; key and token together are refused")
    func sessions() throws {
        let folder = NSTemporaryDirectory() + "session-\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let file = SessionFile(directory: folder)
        #expect(try file.load() == nil)
        for number in 0..<3 {
            let record = VitalSessionRecord(
                userID: "u", signInToken: "s", accessToken: "a\(number)", refreshToken: "r", expiresAt: 7)
            try file.save(record)
            #expect(try file.load() == record)
        }
        let attributes = try FileManager.default.attributesOfItem(atPath: folder + "/session.json")
        #expect((attributes[.posixPermissions] as? NSNumber)?.intValue == 0o600)
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder) == ["session.json"])
        try "{".write(toFile: folder + "/session.json", atomically: true, encoding: .utf8)
        #expect(try file.load() == nil)

        let key = folder + "/key"
        try "secretword".write(toFile: key, atomically: true, encoding: .utf8)
        var environment = ["HEALTHRELAY_SERVER_SIGN_IN_TOKEN_FILE": key, "HOME": "/nonexistent"]
        let malformed = #expect(throws: Problem.self) {
            try VitalConnection(Settings(environment: environment), state: folder)
        }
        #expect(malformed?.code == "key_unreadable" && malformed?.message.contains("secretword") == false)
        environment["HEALTHRELAY_SERVER_API_KEY_FILE"] = key
        let both = #expect(throws: Problem.self) {
            try VitalConnection(Settings(environment: environment), state: folder)
        }
        #expect(both?.code == "config_invalid")
    }

    @Test("a key's file: white space around the key is dropped; one that is empty or not there says so")
    func keys() throws {
        let path = NSTemporaryDirectory() + "key-\(UUID().uuidString)"
        defer { try? FileManager.default.removeItem(atPath: path) }
        func connection() throws -> VitalConnection? {
            try VitalConnection(
                Settings(environment: ["HEALTHRELAY_SERVER_API_KEY_FILE": path, "HOME": "/nonexistent"]),
                state: "/nonexistent")
        }
        #expect(#expect(throws: Problem.self) { try connection() }?.code == "key_unreadable")
        try " \n".write(toFile: path, atomically: true, encoding: .utf8)
        #expect(#expect(throws: Problem.self) { try connection() }?.code == "key_unreadable")
        for text in [
            "sk_us\n0123\n", "sk_us 0123", "sk_us\r\n0123", "sk_us\u{0}0123", "sk_us\u{1B}0123", "sk\u{2028}0",
        ] {
            try text.write(toFile: path, atomically: true, encoding: .utf8)
            let problem = #expect(throws: Problem.self) { try connection() }
            #expect(
                problem?.code == "key_unreadable" && problem?.message.contains(path) == true, "\(text.debugDescription)"
            )
        }
        try "sk_us_0123\n".write(toFile: path, atomically: true, encoding: .utf8)
        guard case .apiKey(let key)? = try connection()?.credentials else {
            Issue.record("no key")
            return
        }
        #expect(key == Secret("sk_us_0123"))
        #expect(try VitalConnection(Settings(environment: ["HOME": "/nonexistent"]), state: "/nonexistent") == nil)
    }

    @Test("requests travel through the control socket as they are")
    func requests() throws {
        var query = QueryOperation()
        query.from = "2026-11-20"
        query.limit = 7
        let operations: [GatewayCommands.Operation] = [
            .query(query), .user(.create("ä b")), .user(.remove(confirmed: "bear", local: true)),
            .user(.remove(confirmed: nil, local: false)), .source(.link("oura", wait: 300)),
            .sync(.now(from: "2026-11-20", to: nil)), .sync(.watch()), .store(.verify),
        ]
        for operation in operations {
            let request = OperationRequest(operation, json: true)
            let octets = try JSONEncoder().encode(request)
            #expect(try JSONDecoder().decode(OperationRequest.self, from: octets) == request)
        }
    }

    @Test("the server's errors end with the status the documentation gives them")
    func statuses() {
        let expected: [(VitalError.Kind, Problem.ExitStatus)] = [
            (.authenticationFailed, .notPermitted), (.forbidden, .notPermitted), (.noConnection, .unavailable),
            (.untrustedServer, .unavailable), (.timeout, .tryAgain), (.rateLimitExceeded, .tryAgain),
            (.serverError, .tryAgain), (.sourceNotConnected, .configuration), (.notJSON, .protocolBroken),
            (.redirected, .protocolBroken), (.unexpectedAnswer, .protocolBroken), (.notFound, .protocolBroken),
        ]
        for (kind, status) in expected {
            let error = VitalError(kind, route: "GET /")
            let problem = Problem(describing: error)
            #expect(problem?.status == status && problem?.code == error.code, "\(kind)")
        }
        let stores: [(StoreError, Problem.ExitStatus)] = [
            (.locked(pid: 1), .tryAgain), (.cannotCreate(path: "", reason: ""), .cannotCreate),
            (.notPermitted(path: ""), .notPermitted), (.diskFull, .inputOutput),
            (.tooLittleSpace(path: "", needed: 1, free: 0), .inputOutput),
            (.inputOutput(detail: ""), .inputOutput),
            (.corrupt(detail: ""), .badData), (.foreign(path: ""), .badData), (.newerSchema, .badData),
            (.limitOutOfRange(0), .usage), (.invalidCursor(""), .usage), (.unknownTimeZone(""), .configuration),
            (.internalFault(detail: ""), .ourFault),
        ]
        for (error, status) in stores {
            let problem = Problem(describing: error)
            #expect(problem?.status == status && problem?.hint?.isEmpty == false, "\(error)")
        }
    }

    @Test("hexadecimal as people write it; what is none says where")
    func hexadecimal() throws {
        for text in ["0a0B", "0A 0b", "0x0a,0x0b", "0a:0b", "0a-0b", " 0a\n0b "] {
            #expect(try Hexadecimal.octets(text) == [10, 11], "\(text)")
        }
        #expect(
            #expect(throws: Problem.self) { try Hexadecimal.octets("0a0g") }?.message.contains("character 4") == true)
        for text in ["", "0", "0x", "abc", "０a"] { #expect(throws: Problem.self) { try Hexadecimal.octets(text) } }
    }
}

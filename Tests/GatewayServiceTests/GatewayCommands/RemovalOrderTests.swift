import Foundation
import ReadingStore
import ScriptedServer
import Synchronization
import Testing

@testable import GatewayCommands
@testable import GatewaySettings

/// `store forget --server` of several people, at a server that fails on the way.
@Suite("The order of removals", .timeLimit(.minutes(5))) struct RemovalOrderTests {
    /// A server that knows everybody it is asked for.
    private final class People: Sendable {
        /// Requests that fail, such as `GET brown_bear` and `DELETE brown_bear`.
        private let failing = Mutex<Set<String>>([])
        private let gone = Mutex<Set<String>>([])
        private static let ids = [
            "white_bear": "00000000-0000-4000-8000-000000000001",
            "brown_bear": "00000000-0000-4000-8000-000000000002",
        ]

        func fail(_ requests: String...) { failing.withLock { $0 = Set(requests) } }

        /// Who was removed.
        var removed: Set<String> { gone.withLock(\.self) }

        func answer(_ request: ReceivedRequest) -> ScriptedAnswer {
            guard request.headers["x-vital-api-key"] == "sk_us" else {
                return .json(401, #"{"detail":"invalid token"}"#)
            }
            let last = request.path.split(separator: "/").last.map(String.init) ?? ""
            guard let (name, id) = Self.ids.first(where: { $0.key == last || $0.value == last }) else {
                return .json(404, #"{"detail":"no such user"}"#)
            }
            if failing.withLock({ $0.contains("\(request.method) \(name)") }) { return .json(503, "{}") }
            let isGone = gone.withLock { gone in
                defer { if request.method == "DELETE" { gone.insert(name) } }
                return gone.contains(name)
            }
            if isGone { return .json(404, #"{"detail":"no such user"}"#) }
            return request.method == "DELETE"
                ? .json(200, #"{"success":true}"#)
                : .json(200, #"{"user_id":"\#(id)","client_user_id":"\#(name)"}"#)
        }
    }

    private static let everybody = GatewayCommands.Operation.store(.forget(ForgetOperation(atServer: true)))

    /// A gateway of two people, which delivers to a scripted server.
    private func with(
        _ people: People, _ body: @escaping @Sendable (GatewayBench, ScriptedServer) async throws -> Void
    ) async throws {
        try await ScriptedServer.with({ people.answer($0) }) { server in
            let bench = try await GatewayBench(settings: [
                "server.base_url": server.baseURL, "server.api_key_file": DoctorTests.file("sk_us"),
                "user.client_user_id": "white_bear",
            ])
            try await bench.gateway.store.setPeople([
                StorePerson(clientUserID: "brown_bear", timeZone: "Europe/Berlin", shares: [])
            ])
            #expect(try await names(bench) == ["brown_bear", "white_bear"])
            try await body(bench, server)
            try await bench.stop()
        }
    }

    private func names(_ bench: GatewayBench) async throws -> [String] {
        try await bench.gateway.store.users().map(\.clientUserID).filter { !$0.isEmpty }.sorted()
    }

    @Test(
        "the server is asked for everybody before it removes anybody", arguments: ["white_bear", "brown_bear"])
    func asked(_ failing: String) async throws {
        let people = People()
        try await with(people) { bench, server in
            people.fail("GET \(failing)")
            let problem = try await bench.problem(Self.everybody)
            #expect(problem.code == "server_error" && problem.message.contains("nothing was erased here"))
            #expect(!problem.message.contains("already removed"), "\(problem)")
            #expect(!server.requests.contains { $0.method == "DELETE" })
            #expect(try await names(bench) == ["brown_bear", "white_bear"])
            people.fail()
            try await bench.run(Self.everybody)
            #expect(people.removed == ["white_bear", "brown_bear"])
            #expect(try await names(bench).isEmpty)
        }
    }

    @Test("a server that fails between two removals is told of, nothing is erased here, and a second try ends it")
    func middle() async throws {
        let people = People()
        try await with(people) { bench, server in
            // The current person is the last to be removed.
            people.fail("DELETE white_bear")
            let problem = try await bench.problem(Self.everybody)
            #expect(problem.code == "server_error" && problem.status == .tryAgain)
            #expect(problem.message.contains("already removed at vital: 1 of 2 people"), "\(problem)")
            #expect(problem.message.contains("nothing was erased here"), "\(problem)")
            #expect(problem.hint?.contains("try again") == true, "\(problem)")
            #expect(people.removed == ["brown_bear"])
            #expect(try await names(bench) == ["brown_bear", "white_bear"])
            // Everybody was asked for before the first was removed.
            let methods = server.requests.map(\.method)
            #expect(methods == ["GET", "GET", "DELETE", "DELETE"])
            people.fail()
            let lines = try await bench.lines(Self.everybody)
            let users = try #require(lines.first?.object["users"] as? [[String: any Sendable]])
            #expect(users.map { $0["at_server"] as? String } == ["absent", "removed"])
            #expect(try await names(bench).isEmpty)
        }
    }

    @Test("a key that is refused is nothing to wait for: the hint says what a person has to do")
    func refusedKey() async throws {
        try await ScriptedServer.with({ _ in .json(401, #"{"detail":"Invalid key"}"#) }) { server in
            let bench = try await GatewayBench(settings: [
                "server.base_url": server.baseURL, "server.api_key_file": DoctorTests.file("sk_us"),
                "user.client_user_id": "white_bear",
            ])
            let problem = try await bench.problem(Self.everybody)
            #expect(problem.code == "authentication_failed" && problem.status == .notPermitted)
            #expect(problem.hint?.contains("try again later") == false, "\(problem)")
            #expect(problem.hint?.contains("check the key") == true && problem.hint?.contains("--server") == true)
            try await bench.stop()
        }
    }

    @Test("a backup that is being made while somebody is erased counts among those that still have them")
    func duringBackup() async throws {
        let backups = try GatewayBench.scratch()
        let phrase = try DoctorTests.file("correct horse battery")
        let bench = try await GatewayBench(settings: ["backup.to": backups.path, "backup.passphrase_file": phrase])
        let (before, during) = (Collected(), Collected())
        try await bench.run(.store(.forget(ForgetOperation())), output: before)
        #expect(!before.notes.contains { $0.contains("still have what was erased") }, "\(before.notes)")
        bench.gateway.isBackingUp.withLock { $0 = true }
        try await bench.run(.store(.forget(ForgetOperation())), output: during)
        #expect(during.notes.contains { $0.hasPrefix("1 backups in \(backups.path) still have") }, "\(during.notes)")
        try await bench.stop()
    }
}

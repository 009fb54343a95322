import Foundation
import HealthReadings
import ReadingDelivery
import ReadingStore
import ScriptedServer
import Synchronization
import TestSupport
import Testing

@testable import GatewayCommands
@testable import GatewaySettings

@Suite("Failures that outlive the process", .timeLimit(.minutes(5))) struct DelayStatusTests {
    /// A gateway with readings that delivers to a webhook, opened as a command or as the service opens it.
    private func gateway(_ files: WebSettingsFolder, _ port: Int, _ more: String = "") async throws -> Gateway {
        let settings = try Settings(
            file: files.file(
                "config.yaml",
                """
                destinations:
                  - {name: hook, kind: webhook, url: "http://127.0.0.1:\(port)/h", allow_private: true, backfill_days: 36500,
                     secret_file: \(files.folder.path)/secret\(more)}
                user: {client_user_id: white_bear, time_zone: Europe/Berlin}
                """), environment: ["HOME": files.folder.path])
        return try await Gateway.open(
            settings, state: StateDirectory(flag: files.folder.path + "/state", environment: [:]),
            radio: { _, _ in nil },
            isService: true)
    }

    private func secret(_ files: WebSettingsFolder, _ letter: Character) throws {
        _ = try files.file("secret", "whsec_" + Data(String(repeating: letter, count: 32).utf8).base64EncodedString())
    }

    private func status(_ gateway: Gateway) async throws -> [String: any Sendable] {
        let output = Collected()
        try await gateway.run(OperationRequest(.sync(.status), json: true), output: output)
        let destinations = try #require(output.data.first).object["destinations"] as? [[String: any Sendable]]
        return try #require(destinations?.first)
    }

    private func code(_ status: [String: any Sendable]) -> String? {
        (status["failure"] as? [String: any Sendable])?["code"] as? String
    }

    @Test("what failed and when it is tried again is told by the next process, until the settings are others")
    func told() async throws {
        let files = try WebSettingsFolder()
        defer { files.remove() }
        try secret(files, "a")
        let count = Mutex(0)
        let isTaken = Mutex(false)
        try await ScriptedServer.with({ request in
            guard request.method == "POST" else { return .json(204, "") }
            count.withLock { $0 += 1 }
            return isTaken.withLock(\.self) ? .json(204, "") : .json(401, "{}")
        }) { server in
            let port = try #require(URL(string: server.baseURL)?.port)
            let first = try await gateway(files, port)
            _ = try await CaptureReplay([APIBench.fixture("two-meters")]).run(with: first.reader())
            let problem = await #expect(throws: Problem.self) {
                try await first.run(
                    OperationRequest(.sync(.now(from: nil, to: nil)), json: true), output: Collected())
            }
            #expect(problem?.code == "authentication_failed" && problem?.status == .notPermitted)
            try await first.close()

            let second = try await gateway(files, port)
            let told = try await status(second)
            #expect(code(told) == "authentication_failed")
            let next = try #require((told["next_attempt"] as? String).flatMap(Instant.init(rfc3339:)))
            let left = next.seconds - Instant.systemClock.seconds
            #expect((880...901).contains(left), "\(left)")
            // A service that begins asks nobody.
            let running = Task { try await second.destinations.worker?.run() }
            try await Task.sleep(for: .milliseconds(300))
            #expect(count.withLock(\.self) == 1)
            running.cancel()
            try await running.value
            try await second.close()

            // What is selected, and for whom, says nothing of the key.
            let third = try await gateway(files, port, ", kinds: [glucose]")
            #expect(code(try await status(third)) == "authentication_failed")
            try await third.close()

            try secret(files, "b")
            let fourth = try await gateway(files, port)
            let fresh = try await status(fourth)
            #expect(code(fresh) == nil && fresh["next_attempt"] is NSNull)
            let again = Task { try await fourth.destinations.worker?.run() }
            #expect(await eventually { count.withLock(\.self) == 2 })
            #expect(await eventually { ((try? await code(status(fourth))) ?? nil) == "authentication_failed" })
            again.cancel()
            try await again.value

            // A test that succeeds, and whoever switches it on, say that it is settled.
            isTaken.withLock { $0 = true }
            try await fourth.run(OperationRequest(.destination(.enable("hook")), json: true), output: Collected())
            #expect(code(try await status(fourth)) == nil)
            try await fourth.close()
        }
    }
}

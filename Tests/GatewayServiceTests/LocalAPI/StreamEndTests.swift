import Foundation
import HealthReadings
import LocalAccess
import NIOHTTP1
import ReadingStore
import Synchronization
import TestSupport
import Testing

@testable import GatewayCommands
@testable import LocalAPI

@Suite("Streams of events and who may still see them", .timeLimit(.minutes(5))) struct StreamEndTests {
    enum Ending: CaseIterable, Sendable { case revoked, allRevoked, signedOut, expired, everybodyForgotten }

    /// What one stream got until it ended by itself; `nil` where it did not end.
    private func stream(
        _ bench: APIBench, token: String? = nil, headers: [(String, String)] = [],
        started: @escaping @Sendable () async throws -> Void
    ) async throws -> String? {
        try await within(.seconds(20)) {
            try await bench.events(token: token, headers: headers, started: started) { _ in false }
        }
    }

    @Test("a stream ends when its client is revoked, signed out, expired or forgotten", arguments: Ending.allCases)
    func ends(_ ending: Ending) async throws {
        let bench = try await APIBench(tls: true, captures: [])
        let (gateway, door) = (bench.gateway, bench.door)
        let isPage = ending == .signedOut
        let life: TimeInterval = ending == .expired ? 3 : 3600
        let (token, client) = try await door.clients.admit(
            "test", as: isPage ? .page : .client, for: .owner, now: Date(), expiresAt: Date() + life)
        let cookie = [("Cookie", "__Host-healthrelay=\(token.text)")]
        let changed = Stamp()
        let text = try await stream(bench, token: isPage ? nil : token.text, headers: isPage ? cookie : []) {
            changed.set()
            func run(_ operation: GatewayCommands.Operation) async throws {
                try await gateway.run(OperationRequest(operation, json: true), output: Collected())
            }
            switch ending {
            case .revoked: try await run(.client(.revoke(client.number)))
            case .allRevoked: try await run(.client(.revoke(nil)))
            case .signedOut:
                let session = try await bench.send("/api/v1/session", headers: cookie)
                let csrf = session.object["csrf_token"] as? String ?? ""
                let answer = try await bench.send(
                    "/api/v1/session", .DELETE, headers: cookie + [("X-CSRF-Token", csrf)])
                #expect(answer.status == 204)
            case .expired: break
            case .everybodyForgotten: try await run(.store(.forget(ForgetOperation())))
            }
            // The next heartbeat comes after fifteen seconds: something else tells the stream.
            #expect(await eventually { bench.counters.openStreams == 0 })
            #expect(changed.elapsed < .seconds(12))
            // Nothing of what happens after it may come.
            bench.hub.post("sync", .object(["late": true]))
        }
        let ended = try #require(text, "the stream of a client that is \(ending) did not end")
        #expect(!ended.contains("\"late\""), "\(ended)")
        #expect(changed.elapsed < .seconds(15))
        #expect(await eventually { bench.counters.openStreams == 0 })
        try await bench.stop()
    }

    @Test("under a clock in the future a stream goes on until its token ends by the gateway's clock, or is revoked")
    func futureClock() async throws {
        // The machine's clock is ten years ahead of the one that tokens are judged by.
        let late: @Sendable () -> Date = { Date() - 10 * 365 * 86_400 }
        let bench = try await APIBench(tls: true, captures: [], time: late)
        let (gateway, door) = (bench.gateway, bench.door)
        func admit(for seconds: TimeInterval) async throws -> String {
            try await door.clients.admit("test", as: .client, for: .owner, now: late(), expiresAt: late() + seconds)
                .token.text
        }
        let kept = try await within(.seconds(20)) { [token = try await admit(for: 3600)] in
            try await bench.events(token: token) {
                bench.hub.post("sync", .object(["first": true]))
            } until: {
                $0.contains("\"first\"")
            }
        }
        #expect(kept?.contains("\"first\"") == true)
        let expired = try await stream(bench, token: admit(for: 2)) {}
        #expect(expired != nil, "a stream outlives its token")
        let token = try await admit(for: 3600)
        let revoked = try await stream(bench, token: token) {
            let output = Collected()
            try await gateway.run(OperationRequest(.client(.revoke(nil)), json: true), output: output)
            #expect(output.data == [#"{"revoked":2}"#])
        }
        #expect(revoked != nil, "a stream outlives a revocation")
        #expect(try await bench.send("/api/v1/readings", token: token).status == 401)
        try await bench.stop()
    }

    @Test("another client's stream goes on")
    func others() async throws {
        let bench = try await APIBench(tls: true, captures: [])
        let token = try await bench.token()
        let (_, other) = try await bench.door.clients.admit(
            "x", as: .client, for: .owner, now: Date(), expiresAt: Date() + 60)
        let door = bench.door
        let text = try await within(.seconds(20)) {
            try await bench.events(token: token) {
                _ = try await door.clients.revoke(other.number, now: Date())
                try await Task.sleep(for: .milliseconds(300))
                bench.hub.post("sync", .object(["late": true]))
            } until: {
                $0.contains("\"late\"")
            }
        }
        #expect(text?.contains("\"late\"") == true)
        try await bench.stop()
    }

    @Test("consent withdrawn while a stream is open: nothing of that kind comes any more, nor from the ring")
    func consent() async throws {
        let bench = try await APIBench(tls: true, captures: [])
        let (gateway, token) = (bench.gateway, try await bench.token())
        let store = gateway.store
        let text = try await bench.events(token: token) {
            _ = try await CaptureReplay([APIBench.fixture("two-meters")]).run(with: gateway.reader())
        } until: {
            $0.contains("\"kind\":\"blood_pressure\"")
        }
        let first = try #require(text.firstMatch(of: /id: (\S+)\nevent: reading/)).1
        let user = try await store.currentUser().key
        for kind in ReadingKind.allCases { try await store.setConsent(kind, granted: false, of: user) }
        let rest = try await bench.events(token: token, last: Self.before(first)) {
            bench.hub.post("sync", .object(["end": true]))
        } until: {
            $0.contains("\"end\"")
        }
        #expect(!rest.contains("event: reading"), "\(rest)")
        try await bench.stop()
    }

    @Test("what was erased does not come back from the ring", arguments: [true, false])
    func erased(_ everybody: Bool) async throws {
        let bench = try await APIBench(tls: true, captures: [])
        let (gateway, token) = (bench.gateway, try await bench.token())
        let text = try await bench.events(token: token) {
            _ = try await CaptureReplay([APIBench.fixture("two-meters")]).run(with: gateway.reader())
        } until: {
            $0.components(separatedBy: "event: reading").count > 4
        }
        let first = try #require(text.firstMatch(of: /id: (\S+)\nevent: reading/)).1
        let again = try await bench.events(token: token, last: Self.before(first)) { $0.contains("event: reading") }
        #expect(again.contains("event: reading"))
        if everybody {
            try await gateway.run(
                OperationRequest(.store(.forget(ForgetOperation())), json: true), output: Collected())
        } else {
            try await gateway.run(
                OperationRequest(.user(.remove(confirmed: nil, local: true)), json: true), output: Collected())
        }
        // At once, before the ring can have heard of it by itself.
        let fresh = try await bench.token()
        let rest = try await bench.events(token: fresh, last: Self.before(first)) { $0.contains("event: erased") }
        #expect(!rest.contains("event: reading"), "\(rest)")
        try await bench.stop()
    }

    @Test("a ring that has not heard of an erasure yet gives nothing away")
    func late() {
        let hub = APIEventHub()
        let start = ChangePosition(feed: "0123456789ab", number: 0)
        hub.resume(at: start)
        hub.post(
            [(1, .init("reading", kind: .glucose, to: .household, .object(["value": "secret"])))],
            upTo: ChangePosition(feed: start.feed, number: 1))
        hub.post("sync", .object([:]))
        func news(behind number: Int64, erasures: Int, limit: Int = APIEventHub.capacity) -> APIEventHub.News? {
            let place = EventPlace(change: ChangePosition(feed: start.feed, number: number), ring: 0)
            return hub.news(after: place, erasures: erasures, limit: limit)
        }
        #expect(news(behind: 0, erasures: 0)?.events.count == 2)
        #expect(news(behind: 0, erasures: 1) == nil)
        hub.forget(erasures: 1)
        #expect(news(behind: 0, erasures: 1) == nil)
        let rest = news(behind: 1, erasures: 1)
        #expect(rest?.events.map(\.number) == [2] && rest?.position == 2)
        // A batch at a time.
        for _ in 0..<100 { hub.post("sync", .object([:])) }
        let part = news(behind: 1, erasures: 1, limit: 32)
        #expect(part?.events.count == 31 && part?.position == 32)
    }

    /// The position in front of an event.
    private static func before(_ id: Substring) -> String {
        let parts = id.split(separator: "-")
        return "\(parts[0])-\((UInt64(parts[1]) ?? 1) - 1)"
    }
}

/// Remembers when something happened.
private final class Stamp: Sendable {
    private let moment = Mutex<ContinuousClock.Instant?>(nil)
    func set() { moment.withLock { $0 = .now } }
    var elapsed: Duration { moment.withLock { $0.map { ContinuousClock.now - $0 } ?? .seconds(1000) } }
}

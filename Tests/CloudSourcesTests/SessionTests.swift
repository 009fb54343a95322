import EmulatedCloud
import Foundation
import HealthReadings
import Synchronization
import Testing

@testable import CloudSources

/// A session against the emulated cloud.
struct CloudBench: Sendable {
    let cloud: EmulatedCloud
    let directory: URL
    let vendor: CloudVendor
    let session: CloudSession
    let slept: Slept

    final class Slept: Sendable {
        let total = Mutex(Duration.zero)
        let now = Mutex(Instant.systemClock)
    }

    var accounts: CloudAccounts { CloudAccounts(directory: directory.appendingPathComponent("cloud").path) }

    static func run(
        _ vendor: CloudVendor = .whoop, _ state: EmulatedCloud.State = .init(), limits: CloudLimits = CloudLimits(),
        _ body: @Sendable (CloudBench) async throws -> Void
    ) async throws {
        try await EmulatedCloud.with(state) { cloud in
            let directory = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
            try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
            defer { try? FileManager.default.removeItem(at: directory) }
            let slept = Slept()
            let session = CloudSession(
                vendor, accounts: CloudAccounts(directory: directory.appendingPathComponent("cloud").path),
                limits: limits,
                now: { slept.now.withLock(\.self) },
                sleep: { time in
                    slept.total.withLock { $0 += time }
                    slept.now.withLock { $0 = $0.advanced(by: time) }
                })
            try await body(
                CloudBench(cloud: cloud, directory: directory, vendor: vendor, session: session, slept: slept))
        }
    }

    func client(_ contract: CloudService.Contract = .vendor) throws -> CloudClient {
        let secret = CloudSecret(contract == .vendor ? "client-secret" : "app-key")
        return CloudClient(
            vendor, try CloudService(contract, url: cloud.url, app: "client", secret: secret), patience: .seconds(20))
    }

    @discardableResult
    func connect(_ contract: CloudService.Contract = .vendor) async throws -> CloudAccount {
        let client = try client(contract)
        var attempt = CloudAuthorization()
        attempt.redirectURI = "http://127.0.0.1:1" + client.service.redirectPath(state: attempt.state)
        let query = cloud.follow(try await client.page(of: attempt))
        let end = try attempt.end(query: query, of: client.service)
        return try await session.connect(end, of: attempt, through: client, person: "ann")
    }

    /// Fetches; gives the records.
    @discardableResult
    func fetch(_ contract: CloudService.Contract = .vendor) async throws -> (CloudSession.Summary, [CloudRecord]) {
        let records = Mutex<[CloudRecord]>([])
        let summary = try await session.fetch(through: try client(contract)) { batch in
            records.withLock { $0 += batch.records }
        }
        return (summary, records.withLock(\.self))
    }

    func failure(_ contract: CloudService.Contract = .vendor) async throws -> CloudError? {
        do {
            try await fetch(contract)
            return nil
        } catch let error as CloudError {
            return error
        }
    }
}

@Suite("A cloud account", .timeLimit(.minutes(3))) struct CloudSessionTests {
    static let now = Date()

    static func nights(_ count: Int) -> EmulatedCloud.State {
        var state = EmulatedCloud.State()
        state.records["whoop/sleep"] = (0..<count).map {
            CloudRecords.sleep("night-\($0)", at: now - Double($0 + 1) * 3600)
        }
        return state
    }

    @Test(
        "is connected with state and PKCE, kept for its owner alone, and shown nowhere",
        arguments: [
            CloudService.Contract.vendor, .wearService,
        ])
    func connects(_ contract: CloudService.Contract) async throws {
        try await CloudBench.run { bench in
            let account = try await bench.connect(contract)
            #expect(account.person == "ann" && account.contract == contract)
            #expect(account.user == (contract == .wearService ? "user-of-whoop" : nil))
            let path = bench.accounts.directory + "/whoop.json"
            let mode = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
            #expect(mode == 0o600)
            #expect(try bench.accounts.state(of: .whoop).account == account)
            let file = try String(contentsOfFile: path, encoding: .utf8)
            let token = file.firstMatch(of: /access-1?[^"]*/).map { String($0.0) }
            #expect((token != nil) == (contract == .vendor))
            if let token { #expect(!"\(account)".contains(token) && !String(reflecting: account).contains(token)) }
        }
    }

    @Test("a refusal, another state, a parameter that comes twice and no code end nothing as connected")
    func redirects() throws {
        let vendor = try CloudService(.vendor, url: CloudService.whoop, app: "a", secret: nil)
        let wear = try CloudService(.wearService, url: "https://wear.example/v1", app: "a", secret: nil)
        let attempt = CloudAuthorization()
        #expect(wear.url == "https://wear.example" && wear.redirectPath(state: "s") == "/callback/s")
        let state = "state=\(attempt.state)"
        #expect(try attempt.end(query: "code=c&\(state)&scope=x", of: vendor) == .code(CloudSecret(made: "c")))
        #expect(
            try attempt.end(query: "error=access_denied&error_description=no%0Await&\(state)", of: vendor)
                == .refused("access_denied: no wait"))
        for query in [
            "", "code=c", "code=c&state=x", "code=c&code=d&\(state)", "code=a%20b&\(state)", state, "error=x&state=y",
            "success=true&user_id=u&\(state)",
        ] {
            #expect(throws: CloudAuthorization.Refusal.self, "\(query)") { try attempt.end(query: query, of: vendor) }
        }
        // A wear service's redirect has the state in its path; what it sends besides is checked all the same.
        #expect(try attempt.end(query: "success=true&user_id=u", of: wear) == .user("u"))
        #expect(try attempt.end(query: "success=false", of: wear) == .refused("no reason was given"))
        for query in ["success=true&user_id=u&state=x", "success=true", "success=true&user_id=a%20b", "user_id=u"] {
            #expect(throws: CloudAuthorization.Refusal.self, "\(query)") { try attempt.end(query: query, of: wear) }
        }
        let other = CloudAuthorization()
        #expect(other.state != attempt.state && other.verifier != attempt.verifier && attempt.state.utf8.count == 43)
        // The example of RFC 7636, appendix B.
        #expect(
            CloudAuthorization.base64URL([3, 236, 255, 224, 193]) == "A-z_4ME")
    }

    @Test("a code is good once, before it expires, and for who asked alone")
    func codes() async throws {
        try await CloudBench.run { bench in
            let client = try bench.client()
            let attempt = CloudAuthorization(redirectURI: "http://127.0.0.1:1/callback")
            let end = try attempt.end(
                query: bench.cloud.follow(try await client.page(of: attempt)), of: client.service)
            let thief = CloudAuthorization(redirectURI: "http://127.0.0.1:1/callback")
            for attempt in [thief, attempt] {
                let error = await #expect(throws: CloudError.self) {
                    try await bench.session.connect(end, of: attempt, through: client, person: "ann")
                }
                #expect(error?.kind == .authenticationFailed)
                #expect(try bench.accounts.state(of: .whoop).account == nil)
            }
            bench.cloud.change { $0.codesExpire = true }
            await #expect(throws: CloudError.self) { try await bench.connect() }
            #expect(!FileManager.default.fileExists(atPath: bench.accounts.directory + "/whoop.json"))
        }
    }

    @Test("an address without TLS, but on this machine, is refused")
    func exposed() {
        for url in ["http://wear.example", "ftp://wear.example", "wear", "https://a:b@wear.example"] {
            #expect(throws: CloudService.Invalid.self) {
                try CloudService(.wearService, url: url, app: "a", secret: nil)
            }
        }
    }

    @Test("tokens that expire are renewed once, however many fetch at once, and are durable before they are used")
    func renews() async throws {
        try await CloudBench.run(.whoop, Self.nights(3)) { bench in
            try await bench.connect()
            bench.cloud.change { $0.expireAccess() }
            try await withThrowingTaskGroup(of: Int.self) { tasks in
                for _ in 0..<4 { tasks.addTask { try await bench.fetch().1.count } }
                for try await count in tasks { #expect(count == 3) }
            }
            #expect(bench.cloud.state.renewals == 1 && bench.cloud.state.reuses == 0)
            // By the clock, before the service has to say so.
            bench.slept.now.withLock { $0 = $0.advanced(bySeconds: 3590) }
            let (summary, _) = try await bench.fetch()
            #expect(summary.renewals == 1 && bench.cloud.state.renewals == 2)
        }
    }

    @Test("records of another of WHOOP's users than before are refused, until the account is disconnected")
    func anotherOwner() async throws {
        try await CloudBench.run(.whoop, Self.nights(2)) { bench in
            try await bench.connect()
            try await bench.fetch()
            #expect(try bench.accounts.state(of: .whoop).account?.owner == "10129")
            // The browser was signed in to somebody else's account when ann connected hers again.
            bench.cloud.change {
                $0.records["whoop/sleep"] = [
                    CloudRecords.sleep("other", at: Self.now - 1800).replacing("10129", with: "4242")
                ]
            }
            try await bench.connect()
            let received = Mutex(0)
            let error = await #expect(throws: CloudError.self) {
                try await bench.session.fetch(through: try bench.client()) { batch in
                    received.withLock { $0 += batch.records.count }
                }
            }
            #expect(error?.kind == .otherAccount && error?.detail == "expected WHOOP's user 10129, found 4242")
            #expect(received.withLock(\.self) == 0)
            try await bench.session.forget()
            try await bench.connect()
            #expect(try await bench.fetch().1.count == 1)
        }
    }

    @Test("a fetch that is ended while tokens are renewed keeps the new ones: the old ones are worth nothing")
    func endedWhileRenewing() async throws {
        try await CloudBench.run(.whoop, Self.nights(3)) { bench in
            try await bench.connect()
            bench.cloud.change {
                $0.expireAccess()
                $0.renewalDelay = 500
            }
            let fetch = Task { try await bench.fetch() }
            while bench.cloud.state.renewals == 0 { try await Task.sleep(for: .milliseconds(5)) }
            fetch.cancel()
            await #expect(throws: (any Error).self) { try await fetch.value }
            bench.cloud.change { $0.renewalDelay = 0 }
            #expect(try await bench.fetch().1.count == 3)
            #expect(bench.cloud.state.renewals == 1 && bench.cloud.state.reuses == 0)
        }
    }

    @Test("tokens that were revoked end it, and so does a refresh token that was used before")
    func revoked() async throws {
        try await CloudBench.run { bench in
            try await bench.connect()
            let old = try bench.accounts.state(of: .whoop)
            bench.cloud.change { $0.expireAccess() }
            try await bench.fetch()
            // The file as it was before: its refresh token is used up.
            try bench.accounts.save(old, of: .whoop)
            bench.cloud.change { $0.expireAccess() }
            #expect(try await bench.failure()?.kind == .tokenExpired)
            #expect(bench.cloud.state.reuses == 1)
            try await bench.connect()
            bench.cloud.change { $0.revokeAll() }
            #expect(try await bench.failure()?.kind == .tokenExpired)
        }
        try await CloudBench.run { bench in
            try await bench.connect(.wearService)
            bench.cloud.change { $0.connected = [] }
            #expect(try await bench.failure(.wearService)?.kind == .tokenExpired)
        }
    }

    @Test(
        "pages are fetched to the end, from some days before the last fetch on",
        arguments: [
            CloudService.Contract.vendor, .wearService,
        ])
    func pages(_ contract: CloudService.Contract) async throws {
        var state = Self.nights(60)
        state.records["whoop/recovery"] = [CloudRecords.recovery(7, at: Self.now - 3600)]
        let recovery = state.records["whoop/recovery"]?.first
        try await CloudBench.run(.whoop, state) { bench in
            try await bench.connect(contract)
            let (summary, records) = try await bench.fetch(contract)
            #expect(summary.records == ["recovery": 1, "sleep": 60, "workouts": 0, "cycles": 0])
            #expect(records.count == 61 && Set(records).count == 61)
            #expect(records.contains { String(decoding: $0.json, as: UTF8.self) == recovery })
            let first = bench.cloud.state.requests.last { $0.contains("sleep") }
            #expect(first?.contains(contract == .vendor ? "limit=25" : "limit=100") == true)
            let (again, _) = try await bench.fetch(contract)
            #expect(again.from == summary.to.advanced(bySeconds: -CloudVendor.overlap))
            #expect(try bench.accounts.state(of: .whoop).account?.lastFetchAt == again.to)
        }
    }

    @Test(
        "connected again, it goes on where the last fetch ended, however long ago that is; a disconnect forgets that",
        arguments: [
            CloudService.Contract.vendor, .wearService,
        ])
    func connectedAgain(_ contract: CloudService.Contract) async throws {
        try await CloudBench.run(.whoop, Self.nights(2)) { bench in
            try await bench.connect(contract)
            let (first, _) = try await bench.fetch(contract)
            bench.slept.now.withLock { $0 = $0.advanced(bySeconds: 70 * 86_400) }
            bench.cloud.change {
                $0.revokeAll()
                $0.connected = []
            }
            #expect(try await bench.failure(contract)?.kind == .tokenExpired)
            try await bench.connect(contract)
            let (again, _) = try await bench.fetch(contract)
            #expect(again.from == first.to.advanced(bySeconds: -CloudVendor.overlap))
            try await bench.session.forget()
            try await bench.connect(contract)
            let (fresh, _) = try await bench.fetch(contract)
            #expect(fresh.from == fresh.to.advanced(bySeconds: -CloudLimits().firstSpan))
        }
    }

    @Test("connected again before a record has said whose it is, it may be another account: 30 days are fetched")
    func unknownOwner() async throws {
        try await CloudBench.run { bench in
            try await bench.connect()
            try await bench.fetch()
            try await bench.connect()
            let (summary, _) = try await bench.fetch()
            #expect(summary.from == summary.to.advanced(bySeconds: -CloudLimits().firstSpan))
        }
    }

    @Test("after a clock that was ahead, what came while it was ahead is fetched: 30 days")
    func clockAhead() async throws {
        try await CloudBench.run(.whoop, Self.nights(2)) { bench in
            try await bench.connect()
            let before = bench.slept.now.withLock(\.self)
            for _ in 0..<2 {
                bench.slept.now.withLock { $0 = $0.advanced(bySeconds: 40 * 86_400) }
                try await bench.fetch()
            }
            // Put right twenty days after the first of these fetches.
            bench.slept.now.withLock { $0 = before.advanced(bySeconds: 20 * 86_400) }
            let (summary, _) = try await bench.fetch()
            #expect(summary.from == summary.to.advanced(bySeconds: -CloudLimits().firstSpan))
            // A second that is put right is no such clock.
            bench.slept.now.withLock { $0 = $0.advanced(bySeconds: -2) }
            let (next, _) = try await bench.fetch()
            #expect(next.from == next.to.advanced(bySeconds: -CloudVendor.overlap))
        }
    }

    @Test("a first fetch that begins later than usual leaves what lies before to the next one")
    func laterBeginning() async throws {
        try await CloudBench.run(.whoop, Self.nights(60)) { bench in
            try await bench.connect()
            let start = bench.slept.now.withLock(\.self).advanced(bySeconds: -86_400)
            let part = try await bench.session.fetch(through: try bench.client(), from: start) { _ in }
            #expect(part.from == start && (part.records["sleep"] ?? 0) < 60)
            let (whole, records) = try await bench.fetch()
            #expect(whole.from == whole.to.advanced(bySeconds: -CloudLimits().firstSpan) && records.count == 60)
            #expect(try await bench.fetch().0.from == whole.to.advanced(bySeconds: -CloudVendor.overlap))
        }
    }

    @Test("nights that a strap kept for twelve days come, though fetches went on without them; it takes four requests")
    func late() async throws {
        try await CloudBench.run(.whoop, Self.nights(1)) { bench in
            try await bench.connect()
            try await bench.fetch()
            for _ in 0..<12 {
                bench.slept.now.withLock { $0 = $0.advanced(bySeconds: 86_400) }
                try await bench.fetch()
            }
            let late = (1...12).map { (day: Int) -> String in
                CloudRecords.sleep("late-\(day)", at: Self.now.addingTimeInterval(Double(day) * 86_400 - 3600))
            }
            bench.cloud.change { $0.records["whoop/sleep", default: []] += late }
            let asked = bench.cloud.count("GET /developer/")
            let (_, records) = try await bench.fetch()
            #expect(records.count { String(decoding: $0.json, as: UTF8.self).contains("late-") } == 12)
            #expect(bench.cloud.count("GET /developer/") == asked + 4)
        }
    }

    @Test(
        "passing faults are tried again; a page in the middle that stays away ends it, and the next fetch begins there")
    func faults() async throws {
        try await CloudBench.run(.whoop, Self.nights(60)) { bench in
            try await bench.connect()
            for fault in [EmulatedCloud.Fault.cut, .cutAfter, .half, .status(503), .status(500)] {
                bench.cloud.change { $0.fail("activity/sleep", fault, times: 2) }
                let (summary, records) = try await bench.fetch()
                #expect(records.count == 60 && summary.retries == 2, "\(fault)")
            }
            bench.cloud.change { $0.fail("activity/sleep", .status(503), times: 4) }
            #expect(try await bench.failure()?.kind == .serverError)
            for (fault, kind) in [
                (EmulatedCloud.Fault.html, CloudError.Kind.notJSON), (.status(302), .redirected),
                (.status(403), .forbidden),
                (.status(404), .notSupported), (.status(418), .refused), (.lyingCursor, .pagesDoNotAdvance),
            ] {
                bench.cloud.change { $0.fail("activity/sleep", fault, times: 3) }
                #expect(try await bench.failure()?.kind == kind, "\(fault)")
                bench.cloud.change { $0.forgetFaults() }
            }
            #expect(try await bench.failure() == nil)
        }
    }

    @Test("records that come on two pages come once")
    func doubled() async throws {
        var state = Self.nights(30)
        var nights = state.records["whoop/sleep"] ?? []
        nights.insert(nights[2], at: 27)
        state.records["whoop/sleep"] = nights
        try await CloudBench.run(.whoop, state) { bench in
            try await bench.connect()
            #expect(try await bench.fetch().1.count == 30)
        }
    }

    @Test("pages without anything new are followed while their cursors are new, and not for ever")
    func pagesWithoutNews() async throws {
        try await CloudBench.run(.whoop, Self.nights(60)) { bench in
            try await bench.connect()
            bench.cloud.change { $0.fail("activity/sleep", .emptyPage, times: 19) }
            #expect(try await bench.fetch().1.count == 60)
            bench.cloud.change { $0.fail("activity/sleep", .emptyPage, times: 20) }
            #expect(try await bench.failure()?.kind == .pagesDoNotAdvance)
            #expect(try await bench.failure() == nil)
        }
        // A whole page in the middle that came before.
        var state = Self.nights(30)
        let nights = state.records["whoop/sleep"] ?? []
        state.records["whoop/sleep"] = Array(nights.prefix(25) + nights.prefix(25) + nights.suffix(5))
        try await CloudBench.run(.whoop, state) { bench in
            try await bench.connect()
            #expect(try await bench.fetch().1.count == 30)
        }
    }

    @Test("what the service allows is heeded: a short wait is waited, a long one ends it and is kept across a restart")
    func rates() async throws {
        try await CloudBench.run(.whoop, Self.nights(3)) { bench in
            try await bench.connect()
            bench.cloud.change { $0.fail("recovery", .status(429, retryAfter: "7")) }
            #expect(try await bench.fetch().1.count == 3)
            #expect(bench.slept.total.withLock { (Duration.seconds(7)...Duration.seconds(8)).contains($0) })
            // Without a time it is WHOOP's minute.
            bench.cloud.change { $0.fail("recovery", .status(429)) }
            #expect(try await bench.fetch().1.count == 3)
            #expect(bench.slept.total.withLock { (Duration.seconds(66)...Duration.seconds(69)).contains($0) })

            bench.cloud.change { $0.fail("recovery", .status(429, retryAfter: "3600")) }
            let error = try await bench.failure()
            #expect(error?.kind == .rateLimitExceeded && (error?.retryAfter ?? .zero) > .seconds(3500))
            let asked = bench.cloud.state.requests.count
            let restarted = CloudSession(.whoop, accounts: bench.accounts, now: { bench.slept.now.withLock(\.self) })
            await #expect(throws: CloudError.self) { try await restarted.fetch(through: try bench.client()) { _ in } }
            #expect(bench.cloud.state.requests.count == asked, "nothing is asked before the time")
            bench.slept.now.withLock { $0 = $0.advanced(bySeconds: 3601) }
            _ = try await restarted.fetch(through: try bench.client()) { _ in }
        }
    }

    @Test("what a wear service doesn't have of Garmin is left out; if it has nothing, that is an error")
    func unsupported() async throws {
        var state = EmulatedCloud.State()
        state.unsupported = ["garmin/epochs", "garmin/skinTemp"]
        state.records["garmin/dailies"] = [CloudRecords.garmin("d-1", at: Self.now - 7200, #""steps":4210"#)]
        try await CloudBench.run(.garmin, state) { bench in
            let account = try await bench.connect(.wearService)
            #expect(account.user == "user-of-garmin")
            let (summary, records) = try await bench.fetch(.wearService)
            #expect(summary.unsupported == ["epochs", "skinTemp"] && records.count == 1)
            bench.cloud.change { state in
                state.unsupported = Set(CloudVendor.garmin.collections.map { "garmin/\($0)" })
            }
            #expect(try await bench.failure(.wearService)?.kind == .notSupported)
        }
    }

    @Test("is disconnected without a network: nothing is left here, and the service is told when it can be")
    func disconnects() async throws {
        try await CloudBench.run { bench in
            try await bench.connect(.wearService)
            let unreachable = try CloudService(.wearService, url: "http://127.0.0.1:1", app: "client", secret: nil)
            let (account, untold) = try await bench.session.disconnect { _, _, _ in CloudClient(.whoop, unreachable) }
            #expect(account?.user == "user-of-whoop" && untold?.kind == .noConnection)
            let state = try bench.accounts.state(of: .whoop)
            #expect(state.account == nil && state.pending.map(\.user) == ["user-of-whoop"])
            #expect(bench.cloud.state.connected == ["user-of-whoop"])
            await #expect(throws: CloudSession.NotConnected.self) { try await bench.fetch(.wearService) }

            let client = try bench.client(.wearService)
            try await bench.session.tellOfDisconnects { _, _, _ in client }
            #expect(bench.cloud.state.connected.isEmpty)
            #expect(!FileManager.default.fileExists(atPath: bench.accounts.directory + "/whoop.json"))
            // Once more changes nothing.
            #expect(try await bench.session.disconnect { _, _, _ in client }.account == nil)
        }
        // Connected again: the service must not be told of the former disconnect.
        try await CloudBench.run { bench in
            try await bench.connect(.wearService)
            _ = try await bench.session.disconnect { _, _, _ in nil }
            try await bench.connect(.wearService)
            let client = try bench.client(.wearService)
            try await bench.session.tellOfDisconnects { _, _, _ in client }
            #expect(bench.cloud.state.connected == ["user-of-whoop"])
        }
        // A vendor's token can revoke itself alone.
        try await CloudBench.run { bench in
            try await bench.connect()
            let client = try bench.client()
            #expect(try await bench.session.disconnect { _, _, _ in client }.untold == nil)
            #expect(bench.cloud.count("DELETE /developer/v2/user/access") == 1)
        }
    }

    @Test("is forgotten at once, though a fetch goes on: that ends, and keeps nothing of the account")
    func forgotten() async throws {
        try await CloudBench.run(.whoop, Self.nights(60)) { bench in
            try await bench.connect()
            let client = try bench.client()
            await #expect(throws: CloudSession.NotConnected.self) {
                try await bench.session.fetch(through: client) { _ in try await bench.session.forget() }
            }
            #expect(bench.cloud.count("activity/sleep") == 1)
            #expect(!FileManager.default.fileExists(atPath: bench.accounts.directory + "/whoop.json"))
        }
    }

    @Test("a file that can't be read is told, and can be disconnected")
    func damaged() async throws {
        try await CloudBench.run { bench in
            try await bench.connect()
            let path = bench.accounts.directory + "/whoop.json"
            for text in ["", "{", #"{"format":2}"#, #"{"format":1,"account":{"contract":"vendor"}}"#] {
                try text.write(toFile: path, atomically: true, encoding: .utf8)
                await #expect(throws: CloudAccounts.Failure.self) { try await bench.fetch() }
            }
            _ = try await bench.session.disconnect { _, _, _ in nil }
            #expect(!FileManager.default.fileExists(atPath: path))
        }
    }
}

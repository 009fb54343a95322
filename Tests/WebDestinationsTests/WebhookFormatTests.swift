import DeliveryFixture
import Foundation
import HealthReadings
import OutgoingHTTP
import ScriptedServer
import Synchronization
import Testing

@testable import ReadingDelivery
@testable import ReadingStore
@testable import WebDestinations

extension ReceivedRequest {
    fileprivate var json: [String: Any] {
        (try? JSONSerialization.jsonObject(with: Data(body)) as? [String: Any]) ?? [:]
    }

    /// Of a document of Terra's: its date.
    fileprivate var date: String {
        let day = (json["data"] as? [[String: Any]])?.first?["metadata"] as? [String: Any]
        return String((day?["start_time"] as? String ?? "").prefix(10))
    }

    /// Of a document of Terra's: the values of its glucose.
    fileprivate var glucose: [Int] {
        let data = (json["data"] as? [[String: Any]])?.first?["glucose_data"] as? [String: Any]
        return (data?["blood_glucose_samples"] as? [[String: Any]] ?? []).compactMap {
            $0["blood_glucose_mg_per_dL"] as? Int
        }
    }

    /// Of ROOK's summary of a day.
    fileprivate var summary: [String: Any] {
        let health = (json["body_health"] as? [String: Any])?["summary"] as? [String: Any]
        return health?["body_summary"] as? [String: Any] ?? [:]
    }

    /// Of ROOK's summary: the values of its glucose.
    fileprivate var summedGlucose: [Int] {
        let data = summary["blood_glucose"] as? [String: Any]
        return (data?["blood_glucose_granular_data_array"] as? [[String: Any]] ?? []).compactMap {
            $0["blood_glucose_mg_per_dL_int"] as? Int
        }
    }

    /// Of ROOK's summary: how many heart rates it has.
    fileprivate var summedHeartRates: Int {
        let data = summary["heart_rate"] as? [String: Any]
        return (data?["hr_granular_data_array"] as? [[String: Any]])?.count ?? 0
    }

    fileprivate var ordering: Int64? { headers["x-terra-ordering-timestamp"].flatMap { Int64($0) } }
}

@Suite("Webhooks in the formats of others")
struct WebhookFormatTests {
    private static let taken = ScriptedAnswer.json(204, "")
    /// ROOK takes no underscore.
    private static let rookUser = "white-bear"

    private static func destination(
        _ url: String, _ fixture: Fixture, _ format: WebhookFormat, clock: SyncClock = .system,
        secret: String = "secret", authorities: String? = nil
    ) throws -> WebhookDestination {
        WebhookDestination(
            name: "study",
            server: try WebServer(url: url, authorities: authorities, permitsExposed: true, allowsQuery: true),
            secret: format.hasStandardSecret
                ? try WebhookSecret(webhookSecret) : try WebhookSecret(words: secret, atMost: 2),
            format: format, store: fixture.store,
            sender: WebhookSender(version: "0.2.0", clientUUID: "9dd1a2e0-1b1a-4a3e-9f3e-0f5c3c9f2d11"),
            allowsPrivate: true, clock: clock, logger: Fixture.quiet)
    }

    /// A worker beside a receiver and a fresh store.
    private static func with(
        _ format: WebhookFormat, _ script: @escaping ScriptedServer.Script = { _ in taken },
        clock: SyncClock = .system, timeZone: String = "UTC", user: String? = nil,
        _ body: @Sendable (OutboxWorker, Fixture, ScriptedServer) async throws -> Void
    ) async throws {
        try await Fixture.with(timeZone: timeZone, user: user ?? (format.isRook ? rookUser : Fixture.user)) { fixture in
            try await ScriptedServer.with(script) { server in
                let worker = fixture.worker(
                    try destination(server.baseURL + "/hook", fixture, format, clock: clock), clock: clock)
                try await body(worker, fixture, server)
            }
        }
    }

    // MARK: Signatures

    @Test("Terra's own signature, and ROOK's own hash")
    func vectors() throws {
        let terra = try WebhookSecret(words: "secret\n", atMost: 2)
        #expect(
            terra.terraSignature(timestamp: 1_700_000_000, body: Array(#"{"type":"body"}"#.utf8))
                == "t=1700000000,v1=6df44bafee2e32f124f329a45a6c73c512bcf4e4546dd24284122a4fdcc1b6db")
        let two = try WebhookSecret(words: "secret\nformer\n", atMost: 2)
        #expect(two.terraSignature(timestamp: 1, body: []).split(separator: ",").count == 3)
        let rook = try WebhookSecret(words: "ROOK_Secret_Key", atMost: 1)
        #expect(rook.rookHash(of: "ROOK") == "382da6381717a0fdfeba9ef922041df3ea8db97bbd2d20af21e216bdd1e6096b")
        #expect(throws: WebhookSecret.Malformed.self) { try WebhookSecret(words: "one two", atMost: 1) }
        #expect(throws: WebhookSecret.Malformed.self) { try WebhookSecret(words: " \n", atMost: 2) }
        // It may be one secret with a space, which would be signed with as two.
        #expect(throws: WebhookSecret.Malformed.self) { try WebhookSecret(words: "secret former", atMost: 2) }
        #expect(throws: WebhookSecret.Malformed.self) { try WebhookSecret(words: "a\nb\nc", atMost: 2) }
    }

    // MARK: Open mHealth

    @Test("Open mHealth: the data points of a reading, signed as Standard Webhooks signs")
    func openMHealth() async throws {
        try await Self.with(.openMHealth) { worker, fixture, server in
            try await fixture.read(2)
            #expect(await worker.syncOnce() == SyncReport(delivered: 2))
            for request in server.requests {
                let points = try #require(JSONSerialization.jsonObject(with: Data(request.body)) as? [[String: Any]])
                let header = try #require(points.first?["header"] as? [String: Any])
                #expect(points.count == 1 && header["user_id"] as? String == Fixture.user)
                let id = try #require(request.headers["webhook-id"])
                let timestamp = try #require(request.headers["webhook-timestamp"].flatMap { Int64($0) })
                let signature = try WebhookSecret(webhookSecret).signature(
                    id: id, timestamp: timestamp, body: request.body)
                #expect(request.headers["webhook-signature"] == signature)
            }
            // There is no way to take a data point back.
            try await fixture.read(1, isFailed: true)
            #expect(await worker.syncOnce().retracted == 0)
            #expect(try await fixture.store.leftBehind(at: worker.place()) == 1)
            #expect(server.requests.count == 2)
        }
    }

    // MARK: ROOK

    @Test("ROOK: a document for each reading, with the hash of account, person and time")
    func rook() async throws {
        try await Self.with(.rook) { worker, fixture, server in
            try await fixture.read(2)
            #expect(await worker.syncOnce() == SyncReport(delivered: 2))
            let secret = try WebhookSecret(words: "secret", atMost: 1)
            for request in server.requests {
                #expect(request.json["document_version"] as? Int == 1)
                #expect(request.json["data_structure"] as? String == "blood_glucose_event")
                let account = try #require(request.json["client_uuid"] as? String)
                #expect(account == "9dd1a2e0-1b1a-4a3e-9f3e-0f5c3c9f2d11")
                let time = try #require(request.text.split(separator: #""datetime_string":""#).dropFirst().first)
                let hashed = account + Self.rookUser + time.prefix { $0 != "\"" }
                #expect(request.headers["x-rook-hash"] == secret.rookHash(of: hashed))
                #expect(request.headers["webhook-signature"] == nil)
            }
        }
    }

    @Test("ROOK: a repeat has its document's version, what is sent anew a higher one, also after a restart")
    func versions() async throws {
        let answers = Mutex<[ScriptedAnswer]>([.cut, .half(200, "{}"), .json(500, "{}")])
        let clock = ManualClock()
        try await Self.with(
            .rook, { _ in answers.withLock { $0.isEmpty ? Self.taken : $0.removeFirst() } }, clock: clock.syncClock
        ) { worker, fixture, server in
            try await fixture.read(1)
            for _ in 0..<3 {
                #expect(await worker.syncOnce().delivered == 0)
                clock.advance(by: .seconds(10))
            }
            #expect(await worker.syncOnce() == SyncReport(delivered: 1))
            #expect(Set(server.requests.map(\.body)).count == 1)
            #expect(server.requests.last?.json["document_version"] as? Int == 1)
            try await fixture.store.redeliver(to: "study")
            let restarted = fixture.worker(try Self.destination(server.baseURL, fixture, .rook), clock: .system)
            #expect(await restarted.syncOnce() == SyncReport(delivered: 1))
            #expect(server.requests.last?.json["document_version"] as? Int == 2)
        }
    }

    @Test("ROOK: a receiver that has one document of a reading already, and answers 409, gets the other")
    func conflict() async throws {
        let attempts = Mutex(0)
        let script: ScriptedServer.Script = { request in
            guard request.text.contains(#""blood_pressure_event""#) else { return Self.taken }
            return attempts.withLock { count -> ScriptedAnswer in
                count += 1
                return count == 1 ? .cut : .json(409, "{}")
            }
        }
        try await Self.with(.rook, script) { worker, fixture, server in
            let text = EntryText(
                kind: "blood_pressure", value: "120/80", unit: "mmHg", pulse: "62",
                time: Instant(seconds: Fixture.start).description)
            let zone = try #require(ZoneRules.named("UTC"))
            let entry = try ManualEntry(
                text, person: Self.rookUser, zones: [(Instant(microseconds: .min), zone)], now: .systemClock)
            try await fixture.store.enter(entry)
            #expect(await worker.syncOnce().failure?.code == "no_connection")
            _ = await worker.syncOnce()
            let structures = server.requests.map { $0.json["data_structure"] as? String }
            #expect(structures == ["blood_pressure_event", "blood_pressure_event", "heart_rate_event"])
        }
    }

    @Test("ROOK: a correction has the second of what it corrects, and a higher version")
    func correctedVersions() async throws {
        try await Self.with(.rook) { worker, fixture, server in
            let first = try enteredGlucose("5.6", by: Self.rookUser)
            let second = try enteredGlucose("6.5", by: Self.rookUser, corrects: first.id)
            let back = try enteredGlucose("5.6", by: Self.rookUser, corrects: second.id)
            for entry in [first, second, back] {
                try await fixture.store.enter(entry)
                #expect(await worker.syncOnce().delivered == 1)
            }
            let times = server.requests.map { request in
                request.text.split(separator: #""datetime_string":""#).dropFirst().first.map { $0.prefix(20) }
            }
            #expect(times.count == 3 && Set(times).count == 1)
            #expect(server.requests.map { $0.json["document_version"] as? Int } == [1, 2, 3])
        }
    }

    @Test("ROOK: two readings of a kind in one second are two events")
    func seconds() async throws {
        try await Self.with(.rook) { worker, fixture, server in
            _ = try await worker.place()
            try await fixture.read(1)
            try await fixture.read(1, device: 2, provider: "contour_ble")
            #expect(await worker.syncOnce() == SyncReport(delivered: 2))
            let times = server.requests.map { request in
                request.text.split(separator: #""datetime_string":""#).dropFirst().first.map { $0.prefix(20) }
            }
            #expect(Set(times).count == 2)
        }
    }

    @Test(
        "ROOK's summaries: the whole day in one document, whose version rises, and the day without what is taken back")
    func rookSummary() async throws {
        try await Self.with(.rookSummary) { worker, fixture, server in
            try await fixture.read(3)
            #expect(await worker.syncOnce() == SyncReport(delivered: 3))
            try await fixture.read(1, from: 4)
            try await fixture.read(1, from: 3000)
            #expect(await worker.syncOnce() == SyncReport(delivered: 2))
            try await fixture.read(1, from: 2, isFailed: true)
            #expect(await worker.syncOnce().retracted == 1)
            #expect(server.requests.map(\.summedGlucose) == [[81, 82, 83], [81, 82, 83, 84], [80], [81, 83, 84]])
            let versions = server.requests.compactMap { $0.json["document_version"] as? Int }
            #expect(versions.count == 4 && versions == Set(versions).sorted() && versions.allSatisfy { $0 < Int32.max })
            let secret = try WebhookSecret(words: "secret", atMost: 1)
            for request in server.requests {
                #expect(request.json["data_structure"] as? String == "body_summary")
                let time = try #require((request.summary["metadata"] as? [String: Any])?["datetime_string"] as? String)
                let text = "9dd1a2e0-1b1a-4a3e-9f3e-0f5c3c9f2d11\(Self.rookUser)\(time)"
                #expect(request.headers["x-rook-hash"] == secret.rookHash(of: text))
            }
        }
    }

    @Test(
        "ROOK: a person whose id ROOK does not take is refused, with the reason",
        arguments: [WebhookFormat.rook, .rookSummary], ["white_bear", "bär", String(repeating: "a", count: 51)])
    func rookPerson(format: WebhookFormat, user: String) async throws {
        try await Self.with(format, user: user) { worker, fixture, server in
            try await fixture.read(2)
            let report = await worker.syncOnce()
            #expect(report.delivered == 0 && report.refused == 2 && report.failure == nil)
            #expect(server.requests.isEmpty)
            let words = try await fixture.store.refused(at: worker.place()).map(\.serverSaid)
            #expect(words.allSatisfy { $0.hasPrefix("not sent: person: no_place: ROOK takes ids of 1 to 50 letters") })
        }
    }

    @Test("ROOK's summaries: a recording that goes on over midnight is on both days, and taken back from both")
    func rookNight() async throws {
        try await Self.with(.rookSummary) { worker, fixture, server in
            // From 23:59:20 to 00:00:19; every tenth sample has no value.
            try await fixture.read(1, from: 106, kind: .heartRate)
            #expect(await worker.syncOnce() == SyncReport(delivered: 1))
            #expect(server.requests.map(\.summedHeartRates) == [36, 18])
            try await fixture.read(1, from: 106, kind: .heartRate, isFailed: true)
            #expect(await worker.syncOnce().retracted == 1)
            #expect(server.requests.map(\.summedHeartRates) == [36, 18, 0, 0])
        }
    }

    @Test("ROOK's summaries: a repeat has the same version, and nothing is left on the days of a person who is erased")
    func rookSummaryAgain() async throws {
        let answers = Mutex([ScriptedAnswer.json(500, "{}")])
        let clock = ManualClock()
        try await Self.with(
            .rookSummary, { _ in answers.withLock { $0.isEmpty ? Self.taken : $0.removeFirst() } },
            clock: clock.syncClock
        ) { worker, fixture, server in
            try await fixture.read(2)
            #expect(await worker.syncOnce().delivered == 0)
            await worker.retryNow()
            #expect(await worker.syncOnce().delivered == 2)
            #expect(server.requests.count == 2 && Set(server.requests.map(\.body)).count == 1)
            try await fixture.store.eraseUser(try await fixture.person.key, retracts: true)
            #expect(await worker.syncOnce().retracted == 2)
            let blank = server.requests.dropFirst(2)
            #expect(!blank.isEmpty && blank.allSatisfy { $0.summedGlucose.isEmpty })
            let dates = blank.compactMap { ($0.summary["metadata"] as? [String: Any])?["datetime_string"] as? String }
            #expect(dates.contains { $0.hasPrefix("2023-11-14") })
        }
    }

    // MARK: Terra

    @Test("Terra: the whole day in one document, signed under both names")
    func terra() async throws {
        try await Self.with(.terra) { worker, fixture, server in
            try await fixture.read(5)
            #expect(await worker.syncOnce() == SyncReport(delivered: 5))
            let request = try #require(server.requests.first)
            #expect(server.requests.count == 1 && request.glucose == [81, 82, 83, 84, 85])
            #expect(request.date == "2023-11-14")
            let user = request.json["user"] as? [String: Any]
            #expect(user?["reference_id"] as? String == Fixture.user)
            let signature = try #require(request.headers["x-terra-signature"])
            #expect(request.headers["terra-signature"] == signature)
            let time = try #require(signature.dropFirst(2).split(separator: ",").first.flatMap { Int64($0) })
            #expect(abs(time - Int64(Date().timeIntervalSince1970)) < 60)
            #expect(
                try WebhookSecret(words: "secret", atMost: 1).terraSignature(timestamp: time, body: request.body)
                    == signature)
            #expect(UUID(uuidString: request.headers["x-terra-trace-id"] ?? "") != nil)
        }
    }

    @Test("Terra: a later reading sends its whole day again, a retraction the day without it")
    func again() async throws {
        try await Self.with(.terra) { worker, fixture, server in
            try await fixture.read(3)
            #expect(await worker.syncOnce() == SyncReport(delivered: 3))
            try await fixture.read(1, from: 4)
            try await fixture.read(1, from: 3000)
            #expect(await worker.syncOnce() == SyncReport(delivered: 2))
            #expect(server.requests.dropFirst().map(\.glucose) == [[81, 82, 83, 84], [80]])
            #expect(server.requests.map(\.date) == ["2023-11-14", "2023-11-14", "2023-11-17"])
            try await fixture.read(1, from: 2, isFailed: true)
            #expect(await worker.syncOnce().retracted == 1)
            #expect(server.requests.last?.glucose == [81, 83, 84] && server.requests.last?.date == "2023-11-14")
            // It counts again.
            try await fixture.read(1, from: 2, isCorrected: true)
            #expect(await worker.syncOnce().delivered == 1)
            #expect(server.requests.last?.glucose == [81, 82, 83, 84])
            let order = server.requests.compactMap(\.ordering)
            #expect(order.count == server.requests.count && order == Set(order).sorted())
            #expect(Set(server.requests.map { $0.headers["x-terra-trace-id"] }).count == order.count)
        }
    }

    @Test("Terra: each person has days of their own, by their own zone")
    func people() async throws {
        try await Self.with(.terra) { worker, fixture, server in
            let cuff: UInt64 = 0xC000_0000_0002
            try await fixture.store.setPeople([
                StorePerson(clientUserID: Fixture.user, timeZone: "UTC", shares: [.init(address: cuff, slot: 1)]),
                StorePerson(
                    clientUserID: "brown_bear", timeZone: "America/New_York", shares: [.init(address: cuff, slot: 2)]),
            ])
            for (first, slot) in [(1, 1), (10, 2)] as [(Int, UInt8)] {
                try await fixture.read(
                    2, from: first, kind: .bloodPressure, device: 2, provider: "omron_ble", slot: slot)
            }
            #expect(await worker.syncOnce() == SyncReport(delivered: 4))
            #expect(server.requests.count == 2)
            let users = server.requests.compactMap { $0.json["user"] as? [String: String] }
            #expect(users.compactMap { $0["reference_id"] }.sorted() == ["brown_bear", Fixture.user])
            #expect(Set(users.compactMap { $0["user_id"] }).count == 2)
            for request in server.requests {
                let isBrown = request.text.contains("brown_bear")
                #expect(request.text.contains(#""systolic_bp":90"#) == isBrown)
                #expect(request.text.contains(#""systolic_bp":81"#) != isBrown)
                #expect(request.text.contains("-05:00") == isBrown)
            }
        }
    }

    @Test("Terra: other kinds and meters of the day are in its document")
    func others() async throws {
        try await Self.with(.terra) { worker, fixture, server in
            try await fixture.read(2)
            try await fixture.read(1, kind: .bloodPressure, device: 2, provider: "omron_ble")
            #expect(await worker.syncOnce() == SyncReport(delivered: 3))
            // Each kind is delivered by itself, with the whole day.
            #expect(server.requests.count == 2 && Set(server.requests.map(\.body)).count == 1)
            #expect(server.requests.allSatisfy { $0.text.contains(#""systolic_bp":81"#) && $0.glucose.count == 2 })
        }
    }

    @Test("Terra: what the destination may not have is in no document")
    func consent() async throws {
        try await Self.with(.terra) { worker, fixture, server in
            _ = try await worker.place()
            try await fixture.store.setRule(
                DestinationRule(selection: DestinationSelection(kinds: [.glucose])), of: "study")
            try await fixture.read(2)
            try await fixture.read(1, kind: .bloodPressure, device: 2, provider: "omron_ble")
            #expect(await worker.syncOnce().delivered == 2)
            #expect(!server.requests.isEmpty && !server.requests.contains { $0.text.contains("systolic") })
        }
    }

    @Test(
        "days: what a person no longer consents to is not sent again with the next document",
        arguments: [WebhookFormat.terra, .rookSummary])
    func withdrawnConsent(format: WebhookFormat) async throws {
        try await Self.with(format) { worker, fixture, server in
            try await fixture.read(2)
            try await fixture.read(1, kind: .bloodPressure, device: 2, provider: "omron_ble")
            try await fixture.read(
                1, kind: .bodyComposition, device: 3, provider: "xiaomi_ble", value: { _ in 723_215 })
            #expect(await worker.syncOnce().delivered == 4)
            func hasGlucose(_ request: ReceivedRequest) -> Bool {
                !(format == .terra ? request.glucose : request.summedGlucose).isEmpty
            }
            #expect(server.requests.last.map(hasGlucose) == true)
            #expect(server.requests.last?.text.contains("72.3") == true)
            let (person, place) = (try await fixture.person.key, try await worker.place())
            try await fixture.store.setConsent(.glucose, granted: false, of: person, at: place)
            try await fixture.store.setConsent(.weight, granted: false, of: person, at: place)
            try await fixture.read(1, from: 5, kind: .bloodPressure, device: 2, provider: "omron_ble")
            #expect(await worker.syncOnce().delivered == 1)
            let last = try #require(server.requests.last)
            #expect(!hasGlucose(last) && !last.text.contains("72.3"))
            #expect(last.text.contains("systolic"))
            // Once more with consent, it is there again.
            try await fixture.store.setConsent(.glucose, granted: true, of: person, at: place)
            try await fixture.read(1, from: 6, kind: .bloodPressure, device: 2, provider: "omron_ble")
            #expect(await worker.syncOnce().delivered == 1)
            #expect(server.requests.last.map(hasGlucose) == true)
        }
    }

    @Test(
        "what a receiver may have got counts as left behind if it is excluded before it has answered; what it has not does not",
        arguments: [WebhookFormat.openMHealth, .rook],
        [
            (ScriptedAnswer.cut, 1), (.half(200, "{}"), 1), (.json(500, "{}"), 1), (.json(429, "{}"), 0),
            (.json(400, "{}"), 0), (.json(401, "{}"), 0),
        ])
    func lostAnswer(format: WebhookFormat, fault: (answer: ScriptedAnswer, count: Int)) async throws {
        let isFaulty = Mutex(true)
        try await Self.with(format, { _ in isFaulty.withLock { $0 } ? fault.answer : Self.taken }) {
            worker, fixture, server in
            try await fixture.read(3)
            #expect(await worker.syncOnce().delivered == 0)
            try await fixture.read(3, isFailed: true)
            let place = try await worker.place()
            // Events go one after the other: only one was under way.
            #expect(try await fixture.store.leftBehind(at: place) == fault.count)
            #expect(try await fixture.store.verify().isEmpty)
            // What counts again and is delivered is there, and no longer counts so.
            isFaulty.withLock { $0 = false }
            try await fixture.read(3, isCorrected: true)
            #expect(await worker.syncOnce().delivered == 3)
            #expect(try await fixture.store.leftBehind(at: place) == 0)
        }
    }

    @Test("an event counts as left behind, too, if the receiver's proxy has reset its stream of HTTP/2")
    func resetStream() async throws {
        try await Fixture.with(user: Self.rookUser) { fixture in
            let authority = try TestAuthority(in: fixture.folder)
            try await ResettingServer.with(tls: try authority.context(protocols: ["h2"])) { server in
                let worker = fixture.worker(
                    try Self.destination(server.baseURL + "/hook", fixture, .rook, authorities: authority.path),
                    clock: .system)
                try await fixture.read(2)
                let failure = await worker.syncOnce().failure
                #expect(failure?.code == "no_connection" && server.requests == 1, "\(failure?.description ?? "")")
                try await fixture.read(2, isFailed: true)
                #expect(try await fixture.store.leftBehind(at: worker.place()) == 1)
            }
        }
    }

    @Test(
        "a process that is killed while it sends leaves behind what the receiver may have; one that cannot connect does not"
    )
    func killedWhileSending() async throws {
        try await Self.with(.rook) { worker, fixture, server in
            try await fixture.read(2)
            let place = try await worker.place()
            let group = try #require(try await fixture.store.groupsWaiting(at: place).first)
            let items = try await fixture.store.outboxBatch(
                user: group.user, resource: group.resource, provider: group.provider, limit: 1, at: place)
            try await fixture.store.noteOffer(items.map(\.id), at: Instant(seconds: 5))
            try await fixture.read(2, isFailed: true)
            #expect(try await fixture.store.leftBehind(at: place) == 1)
        }
        try await Fixture.with(user: Self.rookUser) { fixture in
            // Nothing listens at that port.
            let worker = fixture.worker(
                try Self.destination("http://127.0.0.1:1/hook", fixture, .rook), clock: .system)
            try await fixture.read(2)
            #expect(await worker.syncOnce().failure?.code == "no_connection")
            try await fixture.read(2, isFailed: true)
            #expect(try await fixture.store.leftBehind(at: worker.place()) == 0)
        }
    }

    @Test("Terra: the day is the person's, not the gateway's")
    func zone() async throws {
        // 22:14 of the person's clock, and 08:14 of the next day in UTC.
        try await Self.with(.terra, timeZone: "Pacific/Honolulu") { worker, fixture, server in
            try await fixture.read(1)
            #expect(await worker.syncOnce() == SyncReport(delivered: 1))
            #expect(server.requests.first?.text.contains("2023-11-14T22:14:20.000000-10:00") == true)
            #expect(server.requests.first?.date == "2023-11-14")
        }
    }

    @Test("Terra: an answer that was lost leads to the same delivery again; the timestamp never falls")
    func retries() async throws {
        let answers = Mutex<[ScriptedAnswer]>([.cut, .half(200, "{}"), .json(500, "{}"), .json(400, "{}")])
        let clock = ManualClock()
        try await Self.with(
            .terra, { _ in answers.withLock { $0.isEmpty ? Self.taken : $0.removeFirst() } }, clock: clock.syncClock
        ) { worker, fixture, server in
            try await fixture.read(3)
            for _ in 0..<4 {
                let report = await worker.syncOnce()
                #expect(report.delivered == 0 && report.refused == 0 && report.failure != nil)
                clock.advance(by: .seconds(10))
            }
            #expect(await worker.syncOnce() == SyncReport(delivered: 3))
            #expect(server.requests.count == 5 && Set(server.requests.map(\.body)).count == 1)
            #expect(Set(server.requests.compactMap(\.ordering)).count == 1)
            #expect(Set(server.requests.map { $0.headers["x-terra-trace-id"] }).count == 1)
            #expect(Set(server.requests.map { $0.headers["x-terra-signature"] }).count == 5)
            let first = try #require(server.requests.first?.ordering)
            // Another document, although the clock has not moved.
            try await fixture.read(1, from: 4)
            #expect(await worker.syncOnce() == SyncReport(delivered: 1))
            #expect(try #require(server.requests.last?.ordering) > first)
        }
    }

    @Test("Terra: after a restart timestamps are later than the last delivery, whatever the clock says")
    func restart() async throws {
        let clock = ManualClock()
        try await Self.with(.terra, clock: clock.syncClock) { worker, fixture, server in
            clock.advance(by: .seconds(1_000_000))
            try await fixture.read(1)
            #expect(await worker.syncOnce() == SyncReport(delivered: 1))
            let behind = ManualClock()
            let restarted = fixture.worker(
                try Self.destination(server.baseURL, fixture, .terra, clock: behind.syncClock), clock: behind.syncClock)
            try await fixture.read(1, from: 2)
            #expect(await restarted.syncOnce() == SyncReport(delivered: 1))
            let order = server.requests.compactMap(\.ordering)
            #expect(order.count == 2 && order[0] < order[1])
        }
    }

    @Test(
        "numbers of days rise over restarts, although a backlog runs ahead of the clock and the clock is set back",
        arguments: [WebhookFormat.terra, .rookSummary])
    func restarts(format: WebhookFormat) async throws {
        let clock = ManualClock()
        try await Self.with(format, clock: clock.syncClock) { worker, fixture, server in
            // A document for each of five days, while the clock stands. A process that is killed notes none of them.
            for day in 0..<5 { try await fixture.read(1, from: 1 + 1440 * day) }
            #expect(await worker.syncOnce() == SyncReport(delivered: 5))
            try await fixture.store.redeliver(to: "study")
            for _ in 0..<3 {
                clock.jump(by: .seconds(-3600))
                let destination = try Self.destination(server.baseURL, fixture, format, clock: clock.syncClock)
                let group = try #require(try await fixture.store.groupsWaiting(at: worker.place()).first)
                let items = try await fixture.store.outboxBatch(
                    user: group.user, resource: group.resource, provider: group.provider, limit: 10,
                    at: worker.place())
                let batch = DeliveryBatch(
                    target: group.target, person: try await fixture.person, items: items, range: nil, isLast: true)
                for part in try await destination.parts(batch) { _ = try await destination.send(part) }
            }
            let order =
                format == .terra
                ? server.requests.compactMap(\.ordering)
                : server.requests.compactMap { ($0.json["document_version"] as? Int).map(Int64.init) }
            #expect(order.count == 20 && order == Set(order).sorted())
            // Not a write for each document.
            let before = fixture.store.commitCount
            let destination = try Self.destination(server.baseURL, fixture, format, clock: clock.syncClock)
            let key = try await worker.place()
            #expect(try await fixture.store.lastOrder(of: key) ?? 0 >= order.last ?? 0)
            let group = try #require(try await fixture.store.groupsWaiting(at: key).first)
            let items = try await fixture.store.outboxBatch(
                user: group.user, resource: group.resource, provider: group.provider, limit: 10, at: key)
            let batch = DeliveryBatch(
                target: group.target, person: try await fixture.person, items: items, range: nil, isLast: true)
            for part in try await destination.parts(batch) { _ = try await destination.send(part) }
            #expect(fixture.store.commitCount == before + 1)
        }
    }

    @Test("Terra: a day with pruned readings is not sent again: the receiver would lose them")
    func pruned() async throws {
        try await Self.with(.terra) { worker, fixture, server in
            try await fixture.read(3)
            #expect(await worker.syncOnce() == SyncReport(delivered: 3))
            // Nothing waits for the destination that every store begins with.
            try await fixture.store.removeDestination("vital")
            let pruning = try await fixture.store.prune(olderThan: .seconds(100_000_000 - 150))
            #expect(pruning.readings == 2)
            try await fixture.read(1, from: 4)
            let report = await worker.syncOnce()
            #expect(report.delivered == 0 && report.refused == 1)
            #expect(try await fixture.store.refused(at: worker.place()).first?.serverSaid.contains("pruned") == true)
            #expect(server.requests.count == 1)
            // Other days are.
            try await fixture.read(1, from: 3000)
            #expect(await worker.syncOnce().delivered == 1)
        }
    }

    @Test(
        "ROOK: a day is not sent again if a recording that began the evening before was pruned; a new address never had it"
    )
    func prunedEvening() async throws {
        try await Self.with(.rookSummary) { worker, fixture, server in
            // From 23:59:20 to 00:00:19, and in the morning.
            try await fixture.read(1, from: 106, kind: .heartRate)
            try await fixture.read(1, from: 600)
            #expect(await worker.syncOnce().delivered == 2)
            #expect(server.requests.last?.summedHeartRates == 18)
            let count = server.requests.count
            try await fixture.store.removeDestination("vital")
            #expect(try await fixture.store.prune(olderThan: .seconds(100_000_000 - 10_000)).readings == 1)
            try await fixture.read(1, from: 700)
            let report = await worker.syncOnce()
            #expect(report.delivered == 0 && report.refused == 1 && server.requests.count == count)
            #expect(try await fixture.store.refused(at: worker.place()).first?.serverSaid.contains("pruned") == true)
            let name = try #require(try await fixture.store.destinations().first { $0.state == .enabled }?.name)
            for address in ["a", "b"] { try await fixture.store.acceptAddress(address, of: name) }
            try await fixture.read(1, from: 701)
            #expect(await worker.syncOnce().delivered == 1)
        }
    }

    @Test("Terra: nothing is left on the days of a person who is erased")
    func erased() async throws {
        try await Self.with(.terra) { worker, fixture, server in
            try await fixture.read(2)
            #expect(await worker.syncOnce() == SyncReport(delivered: 2))
            let user = try #require(server.requests.first?.json["user"] as? [String: String])
            try await fixture.store.eraseUser(try await fixture.person.key, retracts: true)
            let report = await worker.syncOnce()
            #expect(report.retracted == 2)
            let blank = server.requests.dropFirst()
            #expect(blank.map(\.date).contains("2023-11-14") && blank.allSatisfy { $0.glucose.isEmpty })
            #expect(blank.allSatisfy { $0.json["user"] as? [String: String] == user })
            let order = server.requests.compactMap(\.ordering)
            #expect(order == Set(order).sorted())
        }
    }

    // MARK: What receivers answer

    @Test("410 switches every format off, and 401 waits for a person", arguments: WebhookFormat.allCases)
    func answers(format: WebhookFormat) async throws {
        let status = Mutex(401)
        try await Self.with(format, { _ in .json(status.withLock(\.self), "{}") }) { worker, fixture, server in
            try await fixture.read(3)
            let failure = await worker.syncOnce().failure
            #expect(failure?.code == "authentication_failed" && failure?.needsPerson == true)
            status.withLock { $0 = 429 }
            #expect(await worker.syncOnce().failure?.retryAfter == .seconds(300))
            status.withLock { $0 = 503 }
            #expect(await worker.syncOnce().failure?.code == "server_error")
            status.withLock { $0 = 410 }
            #expect(await worker.syncOnce().failure?.code == "gone")
            #expect(await worker.syncOnce().held.map(\.hold) == [.destinationDisabled])
            status.withLock { $0 = 202 }
            try await fixture.store.setDestinationEnabled(true, "study")
            #expect(await worker.syncOnce() == SyncReport(delivered: 3))
        }
    }

    @Test("the waits are those of the formats' own senders")
    func schedules() {
        func waits(_ format: WebhookFormat) -> [Int64] {
            var backoff = format.backoff
            backoff.jitter = { 0 }
            return (1...6).map { backoff.delay(failures: $0).components.seconds }
        }
        #expect(waits(.terra) == [300, 1800, 3600, 7200, 14_400, 14_400])
        #expect(waits(.rook) == [7200, 86_400, 172_800, 172_800, 172_800, 172_800])
        #expect(waits(.openMHealth) == [5, 300, 1800, 7200, 18_000, 36_000])
    }
}

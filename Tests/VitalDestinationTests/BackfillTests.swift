import DeliveryFixture
import Foundation
import GRDB
import HealthReadings
import ScriptedServer
import Testing
import VitalClient

@testable import ReadingDelivery
@testable import ReadingStore
@testable import VitalDestination

extension Fixture {
    /// Has the person be in another zone since an instant, in seconds, after what is stored was read.
    func travel(to zone: String, at seconds: Int64) async throws {
        try await store.setCurrentUser(Self.user, timeZone: zone)
        try await store.write(.setting) { db in
            try db.execute(
                sql: "UPDATE user_zone SET begins_at = ? WHERE zone = ?", arguments: [seconds * 1_000_000, zone])
        }
    }
}

@Suite("Backfill, what is ignored, and the time zone")
struct BackfillTests {
    private static let day: Int64 = 86_400

    private struct Post: Decodable {
        struct Item: Decodable { var start_date: String }
        var stage: String
        var start_date: String?
        var end_date: String?
        var is_final_chunk: Bool
        var time_zone: String
        var data: [Item]
    }

    private func posts(_ script: VitalScript) throws -> [Post] {
        try script.now.bodies.map {
            try JSONDecoder().decode(Post.self, from: Data($0.drop { $0 != "{" }.utf8))
        }
    }

    /// Readings a day apart.
    private func daily(_ fixture: Fixture, _ count: Int, device: UInt64 = 1, metAfter days: Int) async throws {
        let description = DeviceDescription(
            address: DeviceAddress(bits: 0xC000_0000_0000 + device, kind: .random), model: "model_\(device)",
            provider: "accuchek_ble")
        let contact = try await fixture.store.beginContact(
            with: description, at: Instant(seconds: Fixture.start + Int64(days) * Self.day), clock: nil,
            batteryPercent: nil)
        let frames = (0..<count).map { number in
            TestDecoder.frame(
                .glucose, number: number + 1, seconds: Fixture.start + Int64(number) * Self.day + Int64(device),
                value: 90, ordinal: number)
        }
        _ = try await fixture.store.append(frames, of: contact)
        try await fixture.store.endContact(contact, ContactSummary(isComplete: true, received: count))
    }

    @Test("what a meter held when it was first met is historical, with its period; what it measured since is daily")
    func stages() async throws {
        let script = VitalScript()
        try await with(script) { worker, fixture in
            try await daily(fixture, 30, metAfter: 20)
            #expect(await worker.syncOnce() == SyncReport(delivered: 30))
            let posts = try posts(script)
            #expect(posts.map(\.stage) == ["historical", "daily"] && posts.map(\.data.count) == [20, 10])
            #expect(posts.map(\.is_final_chunk) == [true, true])
            #expect(posts[0].start_date == posts[0].data.first?.start_date)
            #expect(posts[0].end_date == posts[0].data.last?.start_date)
            #expect(posts[1].start_date == nil && posts[1].end_date == nil)
        }
    }

    @Test("a backfill of more than 31 days is cut into weeks; only its last chunk is final, in however many batches")
    func weeks() async throws {
        for limit in [500, 40] {
            let script = VitalScript()
            try await with(script, { $0.batchLimit = limit }) { worker, fixture in
                try await daily(fixture, 101, metAfter: 100)
                #expect(await worker.syncOnce() == SyncReport(delivered: 101))
                let posts = try posts(script)
                let old = posts.filter { $0.stage == "historical" }
                #expect(old.reduce(0) { $0 + $1.data.count } == 100)
                #expect(old.filter(\.is_final_chunk).count == 1 && old.last?.is_final_chunk == true)
                for post in old {
                    let start = try #require(Instant(rfc3339: post.start_date ?? ""))
                    let end = try #require(Instant(rfc3339: post.end_date ?? ""))
                    let items = post.data.compactMap { Instant(rfc3339: $0.start_date) }
                    #expect(items.allSatisfy { start <= $0 && $0 <= end })
                    #expect(end.seconds - start.seconds <= 31 * Self.day)
                }
                if limit == 500 { #expect(old.allSatisfy { $0.data.count <= 7 }) }
                let all = posts.flatMap(\.data).map(\.start_date)
                #expect(all == all.sorted())
            }
        }
    }

    @Test("periods: 31 days are one, more are weeks that touch and do not overlap")
    func periods() {
        let start = Instant(seconds: 1_700_000_000)
        #expect(PostPeriod.cut(start...start) == [start...start])
        let month = start...start.advanced(bySeconds: 31 * Self.day)
        #expect(PostPeriod.cut(month) == [month])
        let weeks = PostPeriod.cut(start...start.advanced(bySeconds: 31 * Self.day + 1))
        #expect(weeks.count == 5 && weeks.first?.lowerBound == start)
        #expect(weeks.last?.upperBound == start.advanced(bySeconds: 31 * Self.day + 1))
        for (one, next) in zip(weeks, weeks.dropFirst()) {
            #expect(next.lowerBound.seconds == one.upperBound.seconds + 1)
        }
    }

    @Test(
        "older than the backfill is held and kept; a longer backfill delivers it, and age is counted from first contact"
    )
    func backfillDays() async throws {
        let script = VitalScript()
        try await with(script) { worker, fixture in
            try await fixture.store.setBackfillDays(10)
            try await daily(fixture, 30, metAfter: 25)
            let groups = try await fixture.store.groupsWaiting()
            #expect(groups.map(\.count) == [15, 15] && groups.map(\.held) == [.noSource, .olderThanBackfill])
            #expect(groups[0].oldest.seconds == Fixture.start + 15 * Self.day + 1)
            let report = await worker.syncOnce()
            #expect(report.delivered == 15 && report.held.map(\.hold) == [.olderThanBackfill])
            #expect(report.held.map(\.count) == [15])
            let held = try await fixture.store.query(ReadingQuery(limit: 100)).readings.filter {
                $0.deliveries.first?.hold != nil
            }
            #expect(held.count == 15 && held.allSatisfy { $0.deliveries.map(\.hold) == [.olderThanBackfill] })
            // A second contact, much later, moves nothing.
            try await daily(fixture, 30, metAfter: 400)
            #expect(try await fixture.waiting == 15)
            try await fixture.store.setBackfillDays(0)
            #expect(await worker.syncOnce().delivered == 0)
            try await fixture.store.setBackfillDays(25)
            #expect(await worker.syncOnce() == SyncReport(delivered: 15))
        }
    }

    @Test("ignored by device, by model or by provider: kept, held, and delivered when it is no longer ignored")
    func ignored() async throws {
        let address = DeviceAddress(bits: 0xC000_0000_0001, kind: .random).bits
        for origins in [
            IgnoredOrigins(addresses: [address]), IgnoredOrigins(models: ["model_1"]),
        ] {
            let script = VitalScript()
            try await with(script) { worker, fixture in
                try await fixture.store.setIgnored(origins)
                try await daily(fixture, 3, metAfter: 5)
                try await daily(fixture, 4, device: 2, metAfter: 5)
                let report = await worker.syncOnce()
                #expect(report.delivered == 4 && report.held.map(\.hold) == [.ignored])
                #expect(report.held.map(\.count) == [3])
                let held = try await fixture.store.query(ReadingQuery(limit: 100)).readings.filter {
                    $0.deliveries.first?.hold != nil
                }
                #expect(
                    held.count == 3
                        && held.allSatisfy { $0.deliveries.map(\.hold) == [.ignored] && $0.device.model == "model_1" })
                try await fixture.store.setIgnored(IgnoredOrigins())
                #expect(await worker.syncOnce() == SyncReport(delivered: 3))
            }
        }
        let script = VitalScript()
        try await with(script) { worker, fixture in
            try await fixture.store.setIgnored(IgnoredOrigins(providers: ["accuchek_ble"]))
            try await daily(fixture, 3, metAfter: 5)
            #expect(await worker.syncOnce().held.map(\.hold) == [.ignored])
            #expect(script.now.posts.isEmpty)
        }
    }

    @Test(
        "a post names the zone of its readings: what was measured before a journey goes by itself", arguments: [0, 20])
    func journey(metAfter days: Int) async throws {
        let script = VitalScript()
        try await with(script) { worker, fixture in
            try await daily(fixture, 30, metAfter: days)
            try await fixture.travel(to: "Asia/Tokyo", at: Fixture.start + 10 * Self.day)
            #expect(await worker.syncOnce() == SyncReport(delivered: 30))
            let posts = try posts(script)
            let shown = posts.map { "\($0.stage) \($0.time_zone) \($0.data.count) \($0.is_final_chunk)" }
            #expect(
                shown
                    == (days == 0
                        ? ["daily UTC 10 false", "daily Asia/Tokyo 20 true"]
                        : [
                            "historical UTC 10 false", "historical Asia/Tokyo 10 true", "daily Asia/Tokyo 10 true",
                        ]))
            // Each covers its own readings, and they come in order.
            for post in posts where post.stage == "historical" {
                #expect(post.start_date == post.data.first?.start_date)
                #expect(post.end_date == post.data.last?.start_date)
            }
            let times = posts.flatMap(\.data).map(\.start_date)
            #expect(times == times.sorted() && Set(times).count == 30)
            // Sent again, they are the same.
            for reading in try await fixture.store.query(ReadingQuery(limit: 100)).readings {
                try await fixture.store.requeue(reading.id)
            }
            try await fixture.travel(to: "America/New_York", at: Fixture.start + 60 * Self.day)
            let before = script.now.bodies
            #expect(await worker.syncOnce() == SyncReport(delivered: 30))
            #expect(script.now.bodies == before + before)
        }
    }

    @Test("readings of one zone go in one post, wherever the person is now")
    func oneZone() async throws {
        let script = VitalScript()
        try await with(script) { worker, fixture in
            try await fixture.read(50)
            try await fixture.travel(to: "Asia/Tokyo", at: Fixture.start + 80_000_000)
            #expect(await worker.syncOnce() == SyncReport(delivered: 50))
            #expect(try posts(script).map(\.time_zone) == ["UTC"])
        }
    }

    @Test(
        "the zone of the readings goes with every post; the present one is told to the server once and when it changes")
    func zone() async throws {
        let script = VitalScript()
        try await with(script) { worker, fixture in
            try await fixture.read(1)
            #expect(await worker.syncOnce().delivered == 1)
            // The user was made with it.
            #expect(script.now.zones.isEmpty)
            try await fixture.store.setCurrentUser(Fixture.user, timeZone: "Europe/Berlin")
            try await worker.sources.forget()
            try await fixture.read(1, from: 10)
            #expect(await worker.syncOnce().delivered == 1)
            try await worker.sources.forget()
            try await fixture.read(1, from: 20)
            #expect(await worker.syncOnce().delivered == 1)
            #expect(script.now.zones == ["Europe/Berlin"])
            // All were measured before the person was there.
            #expect(try posts(script).map(\.time_zone) == ["UTC", "UTC", "UTC"])
        }
    }

    @Test(
        "a server that does not let the zone be changed gets the readings all the same, and is asked again; a refused key pauses",
        arguments: [(401, "authentication_failed"), (403, nil), (404, nil), (422, nil), (500, nil)])
    func refusedZone(status: Int, code: String?) async throws {
        let script = VitalScript()
        try await with(script) { worker, fixture in
            try await fixture.read(1)
            #expect(await worker.syncOnce().delivered == 1)
            try await fixture.store.setCurrentUser(Fixture.user, timeZone: "Europe/Berlin")
            try await worker.sources.forget()
            script.change { $0.nextChange = [.json(status, #"{"detail":"not with this token"}"#)] }
            try await fixture.read(1, from: 10)
            let report = await worker.syncOnce()
            #expect(report.failure?.code == code && report.delivered == (code == nil ? 1 : 0), "\(report)")
            guard code == nil else { return }
            #expect(script.now.nextChange.isEmpty && script.now.zones.isEmpty)
            try await worker.sources.forget()
            try await fixture.read(1, from: 20)
            #expect(await worker.syncOnce().delivered == 1)
            #expect(script.now.zones == ["Europe/Berlin"])
        }
    }
}

import DeliveryFixture
import Foundation
import HealthReadings
import NIOHTTP1
import OutgoingHTTP
import ReadingStore
import TestSupport
import Testing

@testable import ReadingDelivery
@testable import WebDestinations

/// Debian's InfluxDB 1.6 with users.
struct InfluxDB: Sendable {
    let server: RealServer

    static func with(bodyLimit: Int = 25_000_000, _ body: (InfluxDB) async throws -> Void) async throws {
        try await RealServer.with("influxd") { folder, port in
            let settings = """
                reporting-disabled = true
                bind-address = "127.0.0.1:0"
                [meta]
                  dir = "\(folder)/meta"
                [data]
                  dir = "\(folder)/data"
                  wal-dir = "\(folder)/wal"
                [monitor]
                  store-enabled = false
                [http]
                  bind-address = "127.0.0.1:\(port)"
                  auth-enabled = true
                  max-body-size = \(bodyLimit)
                """
            try settings.write(toFile: folder + "/settings", atomically: true, encoding: .utf8)
            return ["run", "-config", folder + "/settings"]
        } _: { server in
            let database = InfluxDB(server: server)
            _ = try await server.call("/query", form: "q=CREATE USER root WITH PASSWORD 'root' WITH ALL PRIVILEGES")
            for statement in [
                "CREATE DATABASE health", "CREATE USER gateway WITH PASSWORD 'a b:c'",
                "GRANT ALL ON health TO gateway", "CREATE USER reader WITH PASSWORD 'reader'",
                "GRANT READ ON health TO reader", "CREATE USER writer WITH PASSWORD 'writer'",
                "GRANT WRITE ON health TO writer",
            ] {
                _ = try await database.query(statement)
            }
            try await body(database)
        }
    }

    @discardableResult
    func query(_ statement: String) async throws -> AnswerJSON {
        let answer = try #require(
            try await server.call(
                "/query?db=health&epoch=ms&u=root&p=root", form: "q=" + HTTPAddress.encoded(statement)))
        return try #require(answer.json)
    }

    /// The number of points of a measurement.
    ///
    /// - Parameter person: only those of this person.
    func count(_ measurement: String, of person: String? = nil) async throws -> Int {
        let condition = person.map { " WHERE person = '\($0)'" } ?? ""
        let answer = try await query("SELECT count(\"reading_id\") FROM \"\(measurement)\"" + condition)
        guard
            case .number(let count)? = answer["results"]?.elements.first?["series"]?.elements.first?["values"]?
                .elements.first?.elements.last
        else { return 0 }
        return Int(count)
    }

    /// What stands before the fields of a measurement's only series in line protocol.
    func series(_ measurement: String) async throws -> String {
        let answer = try await query("SHOW SERIES FROM \"\(measurement)\"")
        return try #require(
            answer["results"]?.elements.first?["series"]?.elements.first?["values"]?.elements.first?.elements.first?
                .text)
    }

    /// Writes lines.
    func write(_ lines: [String]) async throws {
        let answer = try await server.call(
            "/write?db=health&precision=ms&u=root&p=root", body: lines.joined(separator: "\n"))
        try #require(answer?.isGood == true)
    }

    func destination(
        user: String = "gateway", password: String = "a b:c", database: String = "health"
    ) throws -> InfluxDBDestination {
        InfluxDBDestination(
            name: "charts", server: try WebServer(url: server.url + "/"),
            place: .database(database, login: .init(user: user, password: password)), logger: Fixture.quiet)
    }
}

@Suite("InfluxDB 1.6 of Debian", .enabled(if: RealServer.isInstalled("influxd"), "influxdb is not installed"))
struct InfluxDBServerTests {
    @Test("every reading is a point, and a reading that is sent again is the same point")
    func delivery() async throws {
        try await InfluxDB.with { database in
            try await Fixture.with { fixture in
                let worker = fixture.worker(try database.destination(), clock: .system, batchLimit: 100)
                try await fixture.read(320)
                try await fixture.read(20, kind: .bloodPressure, device: 2, provider: "omron_ble")
                try await fixture.read(5, kind: .temperature, device: 3, provider: "manual")
                #expect(await worker.syncOnce() == SyncReport(delivered: 345))
                #expect(try await database.count("glucose") == 320)
                #expect(try await database.count("blood_pressure") == 20)
                #expect(try await database.count("temperature") == 5)
                #expect(try await fixture.store.redeliver(to: "charts") == 345)
                #expect(await worker.syncOnce() == SyncReport(delivered: 345))
                #expect(try await database.count("glucose") == 320)
                // What is stored is what was measured.
                let all = try await fixture.store.query(ReadingQuery(kinds: [.glucose], limit: 1000)).readings
                let rows =
                    try await database.query("SELECT reading_id, mg_dl FROM glucose")["results"]?
                    .elements.first?["series"]?.elements.first?["values"]?.elements ?? []
                let stored = Dictionary(uniqueKeysWithValues: rows.map { ($0.elements[1].text ?? "", $0.elements[2]) })
                for reading in all {
                    guard case .glucose(let glucose) = reading.record.value else { continue }
                    let value = glucose.concentration?.number.number?.approximation ?? .nan
                    #expect(stored[reading.id.description] == .number(value))
                }
            }
        }
    }

    @Test("readings of two devices at one second are two points, also of one provider")
    func sameSecond() async throws {
        try await InfluxDB.with { database in
            try await Fixture.with { fixture in
                let worker = fixture.worker(try database.destination(), clock: .system)
                try await fixture.read(3)
                try await fixture.read(3, device: 2)
                try await fixture.read(3, device: 3, provider: "contour_ble")
                try await fixture.read(3, device: 3, provider: "contour_ble", isContinuous: true, value: { _ in 55 })
                #expect(await worker.syncOnce().delivered == 12)
                #expect(try await database.count("glucose") == 12)
            }
        }
    }

    @Test("a reading that was moved stays as the other person's, also if it was written before the former was deleted")
    func moved() async throws {
        try await InfluxDB.with { database in
            try await Fixture.with { fixture in
                let destination = try database.destination()
                let worker = fixture.worker(destination, clock: .system)
                try await fixture.read(2)
                try await fixture.read(1, kind: .heartRate, device: 2)
                #expect(await worker.syncOnce().delivered == 3)
                let user = try await fixture.moveAll(to: "brown_bear")
                let former = try await fixture.store.retractions(at: worker.place(), limit: 10)
                // The database could not delete then, and could write.
                for group in try await fixture.store.groupsWaiting(at: worker.place()) {
                    let items = try await fixture.store.outboxBatch(
                        user: group.user, resource: group.resource, provider: group.provider, limit: 10,
                        at: worker.place())
                    _ = try await destination.send(
                        DeliveryPart(target: group.target, person: user, items: items, isLast: true))
                }
                #expect(try await database.count("glucose") == 4)
                #expect(try await destination.retract(former).values.allSatisfy { $0 == .delivered })
                #expect(try await database.count("glucose") == 2)
                #expect(try await database.count("heart_rate") == 54)
                let people = try await database.query("SHOW TAG VALUES FROM glucose WITH KEY = person")
                #expect(people.document.text.contains("brown_bear"))
            }
        }
    }

    @Test("a line that is rejected is found among the others, which are stored; it alone is refused")
    func badLine() async throws {
        try await InfluxDB.with { database in
            try await Fixture.with { fixture in
                // The field has another type in this shard, and only a reading that was moved by a second has it.
                _ = try await database.server.call(
                    "/write?db=health&precision=ms&u=root&p=root",
                    body: "glucose,device=other original_time=1 1700000000000")
                let worker = fixture.worker(try database.destination(), clock: .system, batchLimit: 50)
                try await fixture.read(40)
                try await fixture.read(1, from: 17, value: { _ in 55 })
                let report = await worker.syncOnce()
                #expect(report.delivered == 40 && report.refused == 1 && report.failure == nil)
                #expect(try await database.count("glucose") == 40)
                let refused = try await fixture.store.refused(at: worker.place())
                #expect(refused.count == 1 && refused.first?.serverSaid.contains("field type conflict") == true)
            }
        }
    }

    @Test("readings older than the retention are refused, each by itself, also where nothing else waits")
    func retention() async throws {
        try await InfluxDB.with { database in
            try await Fixture.with { fixture in
                try await database.query("CREATE RETENTION POLICY year ON health DURATION 52w REPLICATION 1 DEFAULT")
                let worker = fixture.worker(try database.destination(), clock: .system, batchLimit: 50)
                try await fixture.read(2)
                let report = await worker.syncOnce()
                #expect(report.delivered == 0 && report.refused == 2 && report.failure == nil)
                let refused = try await fixture.store.refused(at: worker.place())
                #expect(refused.allSatisfy { $0.serverSaid.contains("retention policy") })
                #expect(refused.allSatisfy { $0.serverSaid.hasPrefix("older than the 364 days") })
                // However many there are.
                try await fixture.read(12, from: 10)
                #expect(await worker.syncOnce() == SyncReport(refused: 12))
            }
        }
    }

    @Test("a body that is too large is halved until it fits")
    func tooLarge() async throws {
        try await InfluxDB.with(bodyLimit: 600) { database in
            try await Fixture.with { fixture in
                let worker = fixture.worker(try database.destination(), clock: .system, batchLimit: 100)
                // Long enough to be compressed; the limit counts what comes over the wire.
                try await fixture.read(100)
                #expect(await worker.syncOnce() == SyncReport(delivered: 100))
                #expect(try await database.count("glucose") == 100)
                #expect((await worker.batchLimits[.glucose] ?? 0) < 100)
            }
        }
    }

    @Test("a reading that is excluded is deleted there, and that one alone")
    func retraction() async throws {
        try await InfluxDB.with { database in
            try await Fixture.with { fixture in
                let worker = fixture.worker(try database.destination(), clock: .system)
                try await fixture.read(5)
                try await fixture.read(5, device: 2, provider: "contour_ble")
                #expect(await worker.syncOnce().delivered == 10)
                // The meter reads it again and says now that the measurement failed.
                try await fixture.read(1, from: 3, isFailed: true)
                let report = await worker.syncOnce()
                #expect(report.retracted == 1 && report.failure == nil)
                #expect(try await database.count("glucose") == 9)
                let third = (Fixture.start + 180) * 1000
                let left = try await database.query("SELECT reading_id FROM glucose WHERE time = \(third)ms")
                #expect(left["results"]?.elements.first?["series"]?.elements.first?["values"]?.elements.count == 1)
                // It counts again.
                try await fixture.read(1, from: 3, isCorrected: true)
                #expect(await worker.syncOnce().delivered == 1)
                #expect(try await database.count("glucose") == 10)
            }
        }
    }

    @Test(
        "a night is taken back whole, and what was recorded live beside it stays",
        arguments: [0, 130])
    func night(live: Int) async throws {
        try await InfluxDB.with { database in
            try await Fixture.with { fixture in
                let worker = fixture.worker(try database.destination(), clock: .system)
                try await fixture.read(1, kind: .spo2)
                #expect(await worker.syncOnce().delivered == 1)
                let night = TestDecoder.nightSamples
                #expect(try await database.count("spo2") == night)
                let series = try await database.series("spo2")
                let start = (Fixture.start + 60) * 1000
                try await database.write(
                    (0..<live).map { "\(series) percent=97,reading_id=\"live\" \(start + Int64($0) * 60_000 + 500)" })
                #expect(try await database.count("spo2") == night + live)
                try await fixture.moveAll(to: "brown_bear")
                let report = await worker.syncOnce()
                #expect(report.retracted == 1 && report.delivered == 1 && report.failure == nil)
                #expect(try await database.count("spo2", of: Fixture.user) == live)
                #expect(try await database.count("spo2", of: "brown_bear") == night)
            }
        }
    }

    @Test("a reading whose device has got another name has one point when it is delivered again, and others' stay")
    func otherName() async throws {
        try await InfluxDB.with { database in
            try await Fixture.with { fixture in
                let worker = fixture.worker(try database.destination(), clock: .system, batchLimit: 300)
                try await fixture.read(250)
                try await fixture.read(250, device: 2)
                try await fixture.read(1, kind: .spo2)
                #expect(await worker.syncOnce() == SyncReport(delivered: 501))
                let night = TestDecoder.nightSamples
                let former = try await database.series("spo2")
                // Of another program: at a time of theirs, in the former series.
                let time = (Fixture.start + 60) * 1000 + 500
                try await database.write(["\(former) percent=97,reading_id=\"another\" \(time)"])
                try await fixture.read(1, from: 251, model: "accuchek_guide")
                #expect(await worker.syncOnce() == SyncReport(delivered: 1))
                let again = try await fixture.store.redeliver(to: "charts")
                #expect(again == 502)
                #expect(await worker.syncOnce() == SyncReport(delivered: 502))
                #expect(try await database.count("glucose") == 501)
                #expect(try await database.count("spo2") == night + 1)
                let named = try await database.query(
                    "SELECT count(\"reading_id\") FROM \"glucose\" WHERE \"device\" =~ /^accuchek_guide/")
                let count = named["results"]?.elements.first?["series"]?.elements.first?["values"]?.elements.first?
                    .elements.last
                #expect(count == .number(251))
            }
        }
    }

    @Test("a user who may not read writes a reading again beside its former point, and nothing waits")
    func otherNameWithoutPermission() async throws {
        try await InfluxDB.with { database in
            try await Fixture.with { fixture in
                let worker = fixture.worker(
                    try database.destination(user: "writer", password: "writer"), clock: .system)
                try await fixture.read(3)
                #expect(await worker.syncOnce().delivered == 3)
                try await fixture.read(1, from: 4, model: "accuchek_guide")
                try await fixture.store.redeliver(to: "charts")
                #expect(await worker.syncOnce() == SyncReport(delivered: 4))
                #expect(try await database.count("glucose") == 7)
            }
        }
    }

    @Test("a reading that is taken back leaves points of the same second whose series has more tags")
    func moreTags() async throws {
        try await InfluxDB.with { database in
            try await Fixture.with { fixture in
                let worker = fixture.worker(try database.destination(), clock: .system)
                try await fixture.read(1, kind: .bloodPressure, provider: "omron_ble")
                #expect(await worker.syncOnce().delivered == 1)
                let series = try await database.series("blood_pressure")
                let time = (Fixture.start + 60) * 1000
                try await database.write(
                    ["sample_type=other", "arm=left"].map {
                        "\(series),\($0) systolic=120,reading_id=\"another\" \(time)"
                    })
                #expect(try await database.count("blood_pressure", of: Fixture.user) == 3)
                try await fixture.moveAll(to: "brown_bear")
                let report = await worker.syncOnce()
                #expect(report.retracted == 1 && report.delivered == 1 && report.failure == nil)
                #expect(try await database.count("blood_pressure", of: Fixture.user) == 2)
                #expect(try await database.count("blood_pressure", of: "brown_bear") == 1)
            }
        }
    }

    @Test("a user who may not read cannot take back: that waits for a person, and readings go on")
    func retractionWithoutPermission() async throws {
        try await InfluxDB.with { database in
            try await Fixture.with { fixture in
                let worker = fixture.worker(
                    try database.destination(user: "writer", password: "writer"), clock: .system)
                try await fixture.read(5)
                #expect(await worker.syncOnce().delivered == 5)
                try await fixture.read(1, from: 3, isFailed: true)
                try await fixture.read(1, from: 10)
                let report = await worker.syncOnce()
                #expect(report.delivered == 1 && report.retracted == 0)
                #expect(report.failure?.code == "forbidden" && report.failure?.needsPerson == true)
                #expect(report.failure?.message.contains("needs the permission to read") == true)
                #expect(try await database.count("glucose") == 6)
            }
        }
    }

    @Test("a wrong password pauses delivery, is told once, and is not tried again and again")
    func wrongPassword() async throws {
        try await InfluxDB.with { database in
            try await Fixture.with { fixture in
                let worker = fixture.worker(try database.destination(password: "other"), clock: .system)
                try await fixture.read(5)
                let report = await worker.syncOnce()
                #expect(report.delivered == 0 && report.failure?.code == "authentication_failed")
                #expect(report.failure?.needsPerson == true && report.failure?.isRetryable == false)
                #expect(report.failure?.serverSaid == "authorization failed")
            }
        }
    }

    @Test("the test proves the credentials, the database and the permission, and writes nothing")
    func test() async throws {
        try await InfluxDB.with { database in
            func findings(_ destination: InfluxDBDestination) async -> [String: Finding] {
                Dictionary(await destination.test().map { ($0.name, $0) }) { first, _ in first }
            }
            let good = await findings(try database.destination())
            #expect(good["address"]?.isGood == true && good["credentials"]?.isGood == true)
            #expect(good["permission"]?.isGood == true && good["certificate"]?.isGood == nil)
            let password = await findings(try database.destination(password: "x"))
            #expect(password["credentials"]?.isGood == false && password["permission"]?.isGood == nil)
            let reader = await findings(try database.destination(user: "reader", password: "reader"))
            #expect(reader["credentials"]?.isGood == true && reader["permission"]?.isGood == false)
            let missing = await findings(try database.destination(user: "root", password: "root", database: "other"))
            #expect(missing["credentials"]?.isGood == true && missing["permission"]?.isGood == false)
            #expect(missing["permission"]?.found.contains("no such database") == true)
            #expect(missing["permission"]?.mend != nil)
            let shown = try await database.query("SHOW MEASUREMENTS")
            #expect(shown["results"]?.elements.first?["series"] == nil)
        }
    }
}

@Suite(
    "VictoriaMetrics of Debian",
    .enabled(if: RealServer.isInstalled("victoria-metrics"), "victoria-metrics is not installed"))
struct VictoriaMetricsTests {
    private static func with(_ body: (RealServer, InfluxDBDestination) async throws -> Void) async throws {
        try await RealServer.with("victoria-metrics") { folder, port in
            [
                "-httpListenAddr=127.0.0.1:\(port)", "-storageDataPath=\(folder)/data", "-retentionPeriod=100y",
                "-dedup.minScrapeInterval=1ms", "-search.latencyOffset=0s",
            ]
        } _: { server in
            try await body(
                server,
                InfluxDBDestination(
                    name: "charts", server: try WebServer(url: server.url), place: .database("health", login: nil),
                    logger: Fixture.quiet))
        }
    }

    /// The timestamps of all series of a metric.
    private static func timestamps(_ metric: String, _ server: RealServer) async throws -> [Int64] {
        _ = try await server.call("/internal/force_flush", method: .GET)
        let answer = try #require(
            try await server.call("/api/v1/export?match[]=\(metric)&reduce_mem_usage=0", method: .GET))
        struct Series: Decodable { var timestamps: [Int64] }
        return try String(decoding: answer.body, as: UTF8.self).split(separator: "\n").flatMap {
            try JSONDecoder().decode(Series.self, from: Data($0.utf8)).timestamps
        }
    }

    @Test("every reading is a sample, also an old one, and one that is sent again is the same")
    func delivery() async throws {
        try await Self.with { server, destination in
            try await Fixture.with { fixture in
                let worker = fixture.worker(destination, clock: .system, batchLimit: 100)
                try await fixture.read(250)
                try await fixture.read(20, kind: .bloodPressure, device: 2, provider: "omron_ble")
                #expect(await worker.syncOnce() == SyncReport(delivered: 270))
                #expect(try await Self.timestamps("glucose_mg_dl", server).count == 250)
                #expect(try await Self.timestamps("blood_pressure_systolic", server).count == 20)
                try await fixture.store.redeliver(to: "charts")
                #expect(await worker.syncOnce() == SyncReport(delivered: 270))
                let again = try await Self.timestamps("glucose_mg_dl", server)
                #expect(Set(again).count == 250)
                #expect(again.allSatisfy { $0 % 60_000 == Fixture.start * 1000 % 60_000 })
            }
        }
    }

    @Test("it cannot delete a sample: what is taken back is left behind, and told")
    func retraction() async throws {
        try await Self.with { server, destination in
            try await Fixture.with { fixture in
                let worker = fixture.worker(destination, clock: .system)
                try await fixture.read(5)
                #expect(await worker.syncOnce().delivered == 5)
                try await fixture.read(1, from: 3, isFailed: true)
                let report = await worker.syncOnce()
                #expect(report.retracted == 0 && report.failure == nil)
                #expect(try await fixture.store.leftBehind(at: worker.place()) == 1)
                #expect(try await fixture.store.retractionCount(at: worker.place()) == 0)
            }
        }
    }

    @Test("the test says that nothing proves the database")
    func test() async throws {
        try await Self.with { _, destination in
            let findings = await destination.test()
            #expect(findings.first { $0.name == "address" }?.isGood == true)
            #expect(findings.first { $0.name == "permission" }?.isGood == nil)
        }
    }
}

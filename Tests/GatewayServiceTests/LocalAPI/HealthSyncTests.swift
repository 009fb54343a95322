import Foundation
import HealthReadings
import NIOHTTP1
import ReadingStore
import Testing

@testable import GatewayCommands
@testable import LocalAPI

@Suite("The routes of the Health Sync app", .timeLimit(.minutes(5))) struct HealthSyncTests {
    private static let year = #""startDate":"2026-01-01T00:00:00Z","endDate":"2027-01-01T00:00:00Z""#

    private func samples(_ bench: APIBench, _ token: String, _ rest: String) async throws -> [String: any Sendable] {
        let answer = try await bench.send(
            "/api/v1/health/data", .POST, token: token, body: "{\(Self.year),\(rest)}")
        #expect(answer.status == 200, "\(answer.text)")
        return answer.object
    }

    @Test("the published client's types decode, and glucose is named to who asks for it only")
    func types() async throws {
        let bench = try await APIBench(tls: true)
        let token = try await bench.token()
        let status = try await bench.send("/api/v1/status", token: token).object
        #expect(status["status"] as? String == "ok" && status["version"] as? String == "1")
        let published = [
            "heartRate", "bloodPressureSystolic", "bloodPressureDiastolic", "bloodOxygen", "bodyTemperature", "weight",
            "bodyFatPercentage",
        ]
        #expect(status["enabledTypes"] as? [String] == published)
        #expect(status["serverTime"] is String && status["deviceName"] is String)
        let types = try await bench.send("/api/v1/health/types", token: token).object["enabledTypes"] as? [String]
        #expect(types == published)
        let all = try await bench.send("/api/v1/health/types?include=bloodGlucose", token: token)
        #expect(all.object["enabledTypes"] as? [String] == published + ["bloodGlucose"])
        try await bench.stop()
    }

    @Test("the OpenAPI document names every type and unit that comes, and every kind of readings")
    func document() async throws {
        let bench = try await APIBench(tls: false, captures: [])
        let document = try await bench.send("/api/v1/openapi.json").object
        let components = try #require(document["components"] as? [String: any Sendable])
        let schemas = try #require(components["schemas"] as? [String: any Sendable])
        let types = try #require(schemas["SampleType"] as? [String: any Sendable])["enum"] as? [String]
        #expect(types == HealthSyncType.allCases.map(\.rawValue))
        let sample = try #require(schemas["Sample"] as? [String: any Sendable])
        let unit = try #require((sample["properties"] as? [String: any Sendable])?["unit"] as? [String: any Sendable])
        #expect(Set(unit["enum"] as? [String] ?? []) == Set(HealthSyncType.allCases.map(\.unit)))
        let paths = try #require(document["paths"] as? [String: any Sendable])
        let route = try #require(paths["/api/v1/readings"] as? [String: any Sendable])
        let get = try #require(route["get"] as? [String: any Sendable])
        let parameters = try #require(get["parameters"] as? [[String: any Sendable]])
        let kinds = try #require(parameters.first { $0["name"] as? String == "types" })["schema"]
        let pattern = try #require((kinds as? [String: any Sendable])?["pattern"] as? String)
        let all = ReadingKind.allCases.map(\.rawValue)
        for text in all + [all.joined(separator: ",")] {
            #expect(text.range(of: pattern, options: .regularExpression) == text.startIndex..<text.endIndex)
        }
        try await bench.stop()
    }

    @Test("pressure is two samples of one measurement, linked; newest first; in HealthKit's units")
    func pressure() async throws {
        let bench = try await APIBench(tls: true, captures: ["cuff-three", "cuff-kpa"])
        let token = try await bench.token()
        let answer = try await samples(
            bench, token, #""types":["bloodPressureSystolic","bloodPressureDiastolic","heartRate"]"#)
        let all = try #require(answer["samples"] as? [[String: any Sendable]])
        #expect(all.count == answer["returnedCount"] as? Int && answer["hasMore"] as? Bool == false)
        #expect(answer["status"] as? String == "ok" && !all.isEmpty)
        var groups: [String: Set<String>] = [:]
        for sample in all {
            let type = try #require(sample["type"] as? String)
            #expect(sample["unit"] as? String == (type == "heartRate" ? "count/min" : "mmHg"))
            #expect(UUID(uuidString: try #require(sample["id"] as? String)) != nil)
            #expect(sample["startDate"] as? String == sample["endDate"] as? String)
            let metadata = try #require(sample["metadata"] as? [String: String])
            groups[try #require(metadata["correlationId"]), default: []].insert(type)
        }
        #expect(
            groups.values.allSatisfy { $0.contains("bloodPressureSystolic") && $0.contains("bloodPressureDiastolic") })
        let times = all.compactMap { $0["startDate"] as? String }
        #expect(times == times.sorted(by: >))
        #expect(Set(all.compactMap { $0["id"] as? String }).count == all.count)
        try await bench.stop()
    }

    @Test(
        "vital signs are in HealthKit's units: percentages as fractions, °C, kg; a pulse beside a saturation is a heart rate"
    )
    func vitalSigns() {
        func number(_ significand: Int64, _ exponent: Int16 = 0) -> ExactDecimal {
            ExactDecimal(significand: significand, exponent: exponent)
        }
        func samples(_ kind: ReadingKind, _ quantities: [VitalValue.Measured]) -> [String] {
            let time = Instant(seconds: 1_795_000_000)
            let reading = Reading(
                id: ReadingID(high: 7, low: 9), record: Record(value: .vital(VitalValue(kind: kind, quantities))),
                context: nil, device: DeviceDescription(address: nil, model: "x"),
                time: ResolvedTime(instant: time, basis: .corrected), receivedAt: time)
            return HealthSyncSample.samples(of: reading, Set(HealthSyncType.allCases)).map { sample in
                "\(sample.type) \(sample.value) \(sample.type.unit)"
            }
        }
        #expect(
            samples(
                .spo2,
                [
                    .init(.saturation, Quantity(number(97), .percent)),
                    .init(.pulse, Quantity(number(64), .beatsPerMinute)),
                ])
                == ["heartRate 64 count/min", "bloodOxygen 0.97 %"])
        #expect(
            samples(.temperature, [.init(.temperature, Quantity(number(9806, -2), .degreesFahrenheit))])
                == ["bodyTemperature 36.70 degC"])
        #expect(samples(.weight, [.init(.weight, Quantity(number(150), .pounds))]) == ["weight 68.039 kg"])
        #expect(
            samples(
                .bodyComposition,
                [
                    .init(.bodyFat, Quantity(number(215, -1), .percent)),
                    .init(.weight, Quantity(number(70), .kilograms)),
                ])
                == ["bodyFatPercentage 0.215 %"])
    }

    @Test("glucose is in mg/dL, whatever the meter's unit; control solution and what is no number are not served")
    func glucose() async throws {
        let bench = try await APIBench(tls: true, captures: ["glucose-first-delivery", "glucose-oddities"])
        let token = try await bench.token()
        let answer = try await samples(bench, token, #""types":["bloodGlucose"],"limit":10000"#)
        let all = try #require(answer["samples"] as? [[String: any Sendable]])
        #expect(!all.isEmpty && all.allSatisfy { $0["unit"] as? String == "mg/dL" })
        let deliverable = try await bench.gateway.store.query(.init(kinds: [.glucose], limit: 10_000)).readings
            .filter { $0.excluded == nil && $0.time.instant != nil }
        #expect(all.count == deliverable.count)
        try await bench.stop()
    }

    @Test("pages by offset give everything once, and say that there is more")
    func offsets() async throws {
        let bench = try await APIBench(tls: true, captures: ["cuff-three", "two-meters"])
        let token = try await bench.token()
        let types = #""types":["bloodPressureSystolic","bloodPressureDiastolic"]"#
        let whole = try await samples(bench, token, types)["samples"] as? [[String: any Sendable]] ?? []
        var pieces: [String] = []
        var hasMore = true
        while hasMore {
            let page = try await samples(bench, token, types + #","limit":3,"offset":\#(pieces.count)"#)
            pieces += (page["samples"] as? [[String: any Sendable]] ?? []).compactMap { $0["id"] as? String }
            hasMore = page["hasMore"] as? Bool ?? false
            #expect((page["message"] is String) == hasMore)
        }
        #expect(pieces == whole.compactMap { $0["id"] as? String })
        try await bench.stop()
    }

    @Test("an offset that no page ended at lately is looked for so far and no further")
    func wideOffset() async throws {
        let bench = try await APIBench(tls: true, captures: ["cuff-three"])
        let token = try await bench.token()
        for offset in ["20001", "1000000000", "9223372036854775807"] {
            let answer = try await bench.send(
                "/api/v1/health/data", .POST, token: token,
                body: #"{\#(Self.year),"types":["heartRate"],"offset":\#(offset)}"#)
            #expect(answer.status == 400 && answer.code == "offset_out_of_range", "\(answer.text)")
        }
        let behind = try await samples(bench, token, #""types":["heartRate"],"offset":20000"#)
        #expect((behind["samples"] as? [Any])?.isEmpty == true && behind["hasMore"] as? Bool == false)
        try await bench.stop()
    }

    @Test("a request looks through so many readings, and the next one goes on behind them")
    func mostReadings() async throws {
        let bench = try await APIBench(tls: true, captures: ["cuff-three", "two-meters"], mostReadings: 2)
        let token = try await bench.token()
        let types = #""types":["bloodPressureSystolic","bloodPressureDiastolic","heartRate"]"#
        let all = try await bench.gateway.store.query(.init(kinds: [.bloodPressure], limit: 1000)).readings
            .flatMap {
                HealthSyncSample.samples(of: $0, [.bloodPressureSystolic, .bloodPressureDiastolic, .heartRate])
            }
        let wanted = all.count - 1
        var (requests, found): (Int, [[String: any Sendable]]) = (0, [])
        while found.isEmpty, requests < 100 {
            requests += 1
            let page = try await samples(bench, token, types + #","limit":1,"offset":\#(wanted)"#)
            found = page["samples"] as? [[String: any Sendable]] ?? []
            #expect(page["hasMore"] as? Bool == found.isEmpty)
        }
        #expect(requests > 1, "one request looked through \(all.count) samples")
        let id = try #require(found.first?["id"] as? String)
        #expect(all.last?.document["id"] == .string(id))
        try await bench.stop()
    }

    @Test("a reading that comes in between two pages moves none onto the next page a second time")
    func moving() async throws {
        let bench = try await APIBench(tls: true, captures: ["cuff-three"])
        let token = try await bench.token()
        let types = #""types":["bloodPressureSystolic","bloodPressureDiastolic","heartRate"]"#
        func ids(_ rest: String) async throws -> [String] {
            let page = try await samples(bench, token, types + rest)["samples"] as? [[String: any Sendable]] ?? []
            return page.compactMap { $0["id"] as? String }
        }
        let whole = try await ids("")
        let first = try await ids(#","limit":2"#)
        _ = try await CaptureReplay([APIBench.fixture("two-meters")]).run(with: bench.gateway.reader())
        let second = try await ids(#","limit":2,"offset":2"#)
        #expect(first + second == Array(whole.prefix(4)))
        try await bench.stop()
    }

    /// A page of pressures and pulses: each sample as its reading's id and its type.
    private func page(
        _ bench: APIBench, _ token: String, _ limit: Int, at offset: Int
    ) async throws -> (samples: [String], hasMore: Bool) {
        let types = #""types":["bloodPressureSystolic","bloodPressureDiastolic","heartRate"]"#
        let answer = try await samples(bench, token, types + #","limit":\#(limit),"offset":\#(offset)"#)
        let found = try #require(answer["samples"] as? [[String: any Sendable]])
        let names = try found.map { sample in
            let metadata = try #require(sample["metadata"] as? [String: String])
            let (id, type) = (try #require(metadata["readingId"]), try #require(sample["type"] as? String))
            return "\(id) \(type)"
        }
        return (names, try #require(answer["hasMore"] as? Bool))
    }

    /// Enters a pressure with a pulse.
    private func enter(_ minute: Int, _ bench: APIBench, _ person: StoreUser) async throws -> ReadingID {
        let text = EntryText(
            kind: "blood_pressure", value: "12\(minute)/80", unit: "mmHg", pulse: "6\(minute)",
            time: "2026-11-20T11:0\(minute):00Z")
        let result = try await EntryDesk(bench.gateway).add(text, of: person) { _ in }
        return try #require(result.reading).id
    }

    @Test("the newest readings come and go between two pages, and every other sample comes once", arguments: 1...8)
    func comingAndGoing(limit: Int) async throws {
        let bench = try await APIBench(tls: true, captures: [])
        let token = try await bench.token()
        let person = try await bench.gateway.store.setCurrentUser("ann", timeZone: "Europe/Berlin")
        var ids: [ReadingID] = []
        for minute in 1...5 { ids.insert(try await enter(minute, bench, person), at: 0) }
        let whole = try await page(bench, token, 100, at: 0).samples
        #expect(whole.count == 15)
        var (pieces, hasMore) = try await page(bench, token, limit, at: 0)
        #expect(hasMore && pieces == Array(whole.prefix(limit)))
        // What was sent stays sent, also of a reading that was sent in part.
        let newest = try await enter(6, bench, person)
        let sent = Set(pieces.map { $0.prefix { $0 != " " } })
        for id in ids where sent.contains(id.description[...]) {
            _ = try await EntryDesk(bench.gateway).withdraw(id)
        }
        let left = Array(whole.dropFirst(limit)).filter { !sent.contains($0.prefix { $0 != " " }) }
        let first = pieces.count
        while hasMore, pieces.count < 100 {
            let next = try await page(bench, token, limit, at: pieces.count)
            #expect(next.samples.count == limit || !next.hasMore)
            (pieces, hasMore) = (pieces + next.samples, next.hasMore)
        }
        #expect(Array(pieces.dropFirst(first)) == left)
        #expect(!pieces.contains { $0.hasPrefix(newest.description) })
        try await bench.stop()
    }

    @Test("a reading that a page had room for a part of comes whole with the next ones, whatever comes in between")
    func cut() async throws {
        let bench = try await APIBench(tls: true, captures: [])
        let (token, other) = (try await bench.token(), try await bench.token())
        let person = try await bench.gateway.store.setCurrentUser("ann", timeZone: "Europe/Berlin")
        for minute in 1...3 { _ = try await enter(minute, bench, person) }
        let whole = try await page(bench, token, 100, at: 0).samples
        var pieces: [String] = []
        for (minute, limit) in [(4, 1), (5, 1), (6, 3), (7, 3)] {
            pieces += try await page(bench, token, limit, at: pieces.count).samples
            // Another client's pages begin with the readings that have come.
            _ = try await enter(minute, bench, person)
            _ = try await page(bench, other, limit, at: pieces.count - limit)
        }
        #expect(pieces == Array(whole.prefix(8)))
        let last = try await page(bench, token, 3, at: pieces.count)
        #expect(last.samples == Array(whole.suffix(1)) && !last.hasMore)
        try await bench.stop()
    }

    @Test("a locked store answers 423, with a document that the client decodes")
    func locked() async throws {
        let bench = try await APIBench(tls: true)
        let token = try await bench.token()
        bench.isLocked = true
        let answer = try await bench.send(
            "/api/v1/health/data", .POST, token: token, body: #"{\#(Self.year),"types":["heartRate"]}"#)
        #expect(answer.status == 423 && answer.object["status"] as? String == "locked")
        #expect((answer.object["samples"] as? [Any])?.isEmpty == true)
        #expect(try await bench.send("/api/v1/readings", token: token).status == 423)
        #expect(try await bench.send("/api/v1/status", token: token).status == 200)
        try await bench.stop()
    }
}

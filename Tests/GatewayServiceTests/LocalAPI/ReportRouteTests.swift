import Foundation
import HealthDevices
import HealthReadings
import LocalAccess
import NIOHTTP1
import ReadingStore
import Synchronization
import TestSupport
import Testing

@testable import GatewayCommands
@testable import LocalAPI

/// Reports over the local API.
@Suite("Reports over the local API", .timeLimit(.minutes(5))) struct ReportRouteTests {
    private static let day = "from=2026-11-20&to=2026-11-20"

    /// What `report` writes.
    private static func command(_ kind: ReportOperation.Kind, _ format: ReportOperation.Format, _ house: Household)
        async throws -> String
    {
        var operation = ReportOperation(kind)
        (operation.person, operation.from, operation.to) = (house.people[1], "2026-11-20", "2026-11-20")
        operation.format = format
        let output = KeptOctets()
        try await ReportRunner(gateway: house.api.gateway, output: output).run(operation)
        return String(decoding: output.kept, as: UTF8.self)
    }

    /// A report without the time it was made at.
    private static func timeless(_ text: String) -> String {
        text.replacing(/"made_at":"[^"]*"/, with: "").replacing(/2026-\d\d-\d\d \d\d:\d\d/, with: "")
            .replacing(/20\d\d-\d\d-\d\d \d\d:\d\d/, with: "")
    }

    @Test("each form of each report is byte for byte what the command writes")
    func sameBytes() async throws {
        let house = try await Household(2)
        for _ in 0..<3 { _ = try await house.glucose(1) }
        _ = try await house.pressure(slot: 2)
        let hers = try await house.token(.read, 1)
        let forms: [(String, ReportOperation.Format, String)] = [
            ("html", .html, "text/html; charset=utf-8"), ("svg", .svg, "image/svg+xml"),
            ("json", .json, "application/json"), ("csv", .csv, "text/csv; charset=utf-8"),
        ]
        for kind in ReportOperation.Kind.allCases {
            for (name, format, type) in forms {
                let answer = try await house.get("/api/v1/reports/\(kind.rawValue)?\(Self.day)&format=\(name)", hers)
                #expect(answer.status == 200, "\(kind) \(name): \(answer.text.prefix(300))")
                #expect(answer.headers.first(name: "content-type") == type)
                #expect(answer.headers.first(name: "cache-control") == "no-store")
                let written = try await Self.command(kind, format, house)
                #expect(Self.timeless(answer.text) == Self.timeless(written), "\(kind) \(name)")
            }
        }
        let page = try await house.get("/api/v1/reports/bp?\(Self.day)", hers)
        #expect(page.text.contains("<svg ") && page.text.contains(house.people[1]))
        #expect(page.headers.first(name: "content-security-policy")?.hasSuffix("sandbox") == true)
        #expect(
            page.headers.first(name: "content-disposition") == "inline; filename=\"bp-2026-11-20-2026-11-20.html\"")
        try await house.stop()
    }

    @Test("a report is in the language that is asked for, as text and on the page; data has none")
    func language() async throws {
        let house = try await Household(1)
        _ = try await house.pressure(slot: 1)
        let hers = try await house.token(.read, 0)
        let path = "/api/v1/reports/bp?\(Self.day)"
        let german = try await house.get(path + "&language=de", hers)
        #expect(german.text.contains("<html lang=\"de\" dir=\"ltr\">") && german.text.contains("Blutdruck zu Hause"))
        let arabic = try await house.get(path + "&language=ar&format=fragment", hers)
        #expect(arabic.text.contains("lang=\"ar\" dir=\"rtl\"") && arabic.text.contains("ضغط الدم في المنزل"))
        for format in ["json", "csv"] {
            let (one, other) = (
                try await house.get(path + "&format=\(format)", hers),
                try await house.get(path + "&format=\(format)&language=fr", hers)
            )
            #expect(one.status == 200 && Self.timeless(one.text) == Self.timeless(other.text))
        }
        try await house.stop()
    }

    @Test("a recording that began before the period is in its report, with the samples that it has there")
    func night() async throws {
        let house = try await Household(1)
        let store = house.api.gateway.store
        // 23:59:30 in Berlin.
        let begin = try #require(Instant(rfc3339: "2026-11-19T22:59:30Z"))
        var block = RecordedBlock(characteristic: 0x2A37)
        for second in 0..<60 {
            block.add([0x00, second < 30 ? 72 : second == 59 ? 90 : 60], atMilliseconds: second * 1000)
        }
        let strap = DeviceDescription(address: Household.meter(7), model: nil, serial: nil, name: "Strap")
        let contact = try await store.beginContact(with: strap, at: begin, clock: nil, batteryPercent: nil)
        _ = try await store.append(
            [Frame(format: .heartRateBlock, payload: block.payload, receivedAt: begin, ordinal: 0)], of: contact)
        try await store.endContact(contact, ContactSummary(isComplete: true, received: 1))
        let token = try await house.token(.read, 0)
        for (date, lowest, highest) in [("2026-11-19", 72, 72), ("2026-11-20", 60, 90)] {
            let report = try await house.get("/api/v1/reports/heart_rate?from=\(date)&to=\(date)&format=json", token)
            let day = #"{"date":"\#(date)","readings":1,"lowest":\#(lowest),"highest":\#(highest)}"#
            #expect(report.text.contains(#""readings":1,"left_out":[],"by_day":[\#(day)]"#), "\(report.text)")
        }
        let none = try await house.get("/api/v1/reports/heart_rate?from=2026-11-21&to=2026-11-21&format=json", token)
        #expect(none.text.contains(#""readings":0,"left_out":[],"by_day":[]"#), "\(none.text)")
        try await house.stop()
    }

    @Test("a sensor that came through another program is told by its pace, and reported in the unit of its values")
    func sensorByPace() async throws {
        let house = try await Household(1)
        let begin = try #require(Instant(rfc3339: "2026-11-20T07:00:00Z"))
        let number = ExactDecimal(significand: 67, exponent: -1)
        let value = RecordValue.glucose(GlucoseValue(concentration: Quantity(number, .millimolesPerLitre)))
        try await house.api.gateway.store.add(
            (0..<24).map { place in
                ImportedSample(
                    person: house.people[0], provider: "apple_health_kit", source: "Dexcom G7", value: value,
                    time: ImportedTime(begin.advanced(bySeconds: Int64(place) * 300), utcOffsetMinutes: 60))
            })
        let token = try await house.token(.read, 0)
        let sensor = try await house.get("/api/v1/reports/sensor?\(Self.day)&format=json", token)
        #expect(sensor.text.contains(#""unit":"mmol/L""#) && sensor.text.contains(#""sensor_by_pace":24"#))
        #expect(sensor.text.contains(#""sufficiency":"not_enough","values":24"#), "\(sensor.text)")
        let glucose = try await house.get("/api/v1/reports/glucose?\(Self.day)&format=json", token)
        #expect(glucose.text.contains(#""sensor_by_pace":24,"readings":0"#), "\(glucose.text)")
        try await house.stop()
    }

    @Test("a PDF is made by its own program; a few at a time, and the server answers meanwhile")
    func pdf() async throws {
        let house = try await Household(2)
        _ = try await house.pressure(slot: 2)
        let hers = try await house.token(.read, 1)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<6 {
                group.addTask {
                    let answer = try await house.get("/api/v1/reports/bp?\(Self.day)&format=pdf", hers)
                    #expect(answer.status == 200, "\(answer.text.prefix(300))")
                    #expect(answer.headers.first(name: "content-type") == "application/pdf")
                    #expect(answer.text.hasPrefix("%PDF-"))
                }
            }
            try await group.waitForAll()
        }
        try await house.stop()
    }

    @Test("a report is one person's: a client gets its own person's, and the household each by name")
    func people() async throws {
        let house = try await Household(2)
        _ = try await house.pressure(slot: 2)
        let hers = try await house.token(.read, 1)
        let household = try await house.token(.read, nil)
        let path = "/api/v1/reports/bp?\(Self.day)&format=json"
        let own = try await house.get(path, hers)
        #expect(own.text.contains(#""person":"person-1""#) && own.text.contains(#""readings":1"#), "\(own.text)")
        let named = try await house.get(path + "&person=person-1", household)
        #expect(Self.timeless(named.text) == Self.timeless(own.text))
        let current = try await house.get(path, household)
        #expect(current.text.contains(#""person":"person-0""#) && current.text.contains(#""readings":0"#))
        #expect(try await house.get(path + "&person=person-0", hers).code == "other_person")
        #expect(try await house.get(path + "&person=nobody", household).code == "no_such_user")
        try await house.stop()
    }

    @Test("what can't be meant is refused in the words of the API; a kind without consent is not shown")
    func refused() async throws {
        let house = try await Household(1)
        _ = try await house.pressure(slot: 1)
        let token = try await house.token(.read, 0)
        for query in [
            "from=yesterday", "from=2026-02-30", "period=0d", "period=14", "period=99999d", "period=7d&from=2026-11-20",
            "format=docx", "protocol=who", "paper=a3", "language=tlh", "line=85/135", "unit=bar", "without_flagged=1",
            "csv_style=tab",
            "to=9000-01-01", "period=7d&period=7d", "color=red", "from=2026-11-21&to=2026-11-20",
        ] {
            let answer = try await house.get("/api/v1/reports/bp?\(query)", token)
            #expect(answer.status == 400 && answer.code == "bad_request", "\(query): \(answer.text)")
            #expect(!answer.text.contains("--"), "\(query): \(answer.text)")
        }
        #expect(try await house.get("/api/v1/reports/mood", token).code == "no_such_report")
        let fortnight = try await house.get("/api/v1/reports/bp?period=14d&to=2026-11-20&format=json", token)
        #expect(fortnight.text.contains(#""from":"2026-11-07","to":"2026-11-20","days":14"#), "\(fortnight.text)")
        try await house.api.gateway.store.setConsent(.bloodPressure, granted: false, of: house.key(0))
        #expect(try await house.get("/api/v1/reports/bp?\(Self.day)", token).code == "no_consent")
        #expect(try await house.get("/api/v1/reports/weight?\(Self.day)", token).status == 200)
        try await house.stop()
    }
}

/// Keeps the octets that an operation yields.
final class KeptOctets: OperationOutput {
    private let state = Mutex<[UInt8]>([])
    var kept: [UInt8] { state.withLock(\.self) }

    func data(_ line: String) {}
    func note(_ line: String) {}
    func octets(_ octets: [UInt8]) { state.withLock { $0 += octets } }
}

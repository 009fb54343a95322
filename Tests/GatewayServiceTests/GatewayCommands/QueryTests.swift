import HealthReadings
import ReadingStore
import Testing

@testable import GatewayCommands
@testable import GatewaySettings

@Suite("Queries of a household", .timeLimit(.minutes(5))) struct QueryTests {
    /// A gateway of two people in two zones. Each has a glucose of one moment: in Berlin the 20th has begun, in New York it is still
    /// the 19th.
    static func household() async throws -> GatewayBench {
        let bench = try await GatewayBench(settings: ["user.client_user_id": "anna"])
        let store = bench.gateway.store
        try await store.setPeople([
            StorePerson(clientUserID: "anna", timeZone: "Europe/Berlin", shares: []),
            StorePerson(clientUserID: "ben", timeZone: "America/New_York", shares: []),
        ])
        for (name, value) in [("anna", "101"), ("ben", "202")] {
            let person = try #require(try await store.user(name))
            let text = EntryText(kind: "glucose", value: value, unit: "mg/dL", time: "2026-11-20T02:00:00Z")
            _ = try await EntryDesk(bench.gateway).add(text, of: person) { _ in }
        }
        return bench
    }

    private static func query(
        of person: String?, on date: String? = nil, as format: QueryOperation.Format = .ndjson
    ) -> GatewayCommands.Operation {
        var query = QueryOperation()
        (query.person, query.format) = (person, format)
        (query.from, query.to) = (date, date)
        return .query(query)
    }

    @Test(
        "a date is a day of the person who is asked for, or else of the current user",
        arguments: [
            ("anna", "2026-11-19", []), ("anna", "2026-11-20", ["101"]), ("ben", "2026-11-19", ["202"]),
            ("ben", "2026-11-20", []), (nil, "2026-11-19", []), (nil, "2026-11-20", ["101", "202"]),
        ] as [(String?, String, [String])])
    func days(_ person: String?, _ date: String, _ expected: [String]) async throws {
        let bench = try await Self.household()
        let lines = try await bench.lines(Self.query(of: person, on: date))
        #expect(lines.count == expected.count, "\(lines)")
        #expect(expected.allSatisfy { value in lines.contains { $0.contains("\"value\":\(value)") } }, "\(lines)")
        try await bench.stop()
    }

    @Test("a heart rate's day is one of the person's, too")
    func heartRate() async throws {
        let bench = try await Self.household()
        let operation = HeartRateOperation(from: "2026-11-20", to: "2026-11-20", person: "ben")
        let text = try await bench.lines(.heartRate(operation)).joined()
        #expect(text.contains(#""from":"2026-11-20T05:00:00Z","to":"2026-11-21T04:59:59.999999Z""#), "\(text)")
        try await bench.stop()
    }

    @Test("LibreView's table names one person: it is refused for the readings of several")
    func libreView() async throws {
        let bench = try await Self.household()
        let problem = try await bench.problem(Self.query(of: nil, as: .libreview))
        #expect(problem.code == "usage" && problem.status == .usage && problem.hint?.contains("--person") == true)
        let lines = try await bench.lines(Self.query(of: "ben", as: .libreview))
        #expect(lines.first?.hasSuffix(",ben") == true && lines.count == 3, "\(lines)")
        #expect(lines.last?.contains("19-11-2026 21:00") == true && lines.last?.contains("202") == true, "\(lines)")
        try await bench.stop()
    }
}

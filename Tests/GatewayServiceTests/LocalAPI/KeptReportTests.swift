import Foundation
import HealthReadings
import LocalAccess
import NIOHTTP1
import ReadingStore
import TestSupport
import Testing

@testable import GatewayCommands
@testable import LocalAPI

/// Reports of which most readings were read for the page before.
@Suite("Reports of readings that were kept", .timeLimit(.minutes(5))) struct KeptReportTests {
    private static let days = "from=2026-11-01&to=2026-11-24&format=json"

    private static func timeless(_ text: String) -> String { text.replacing(/"made_at":"[^"]*"/, with: "") }

    /// What a desk that has kept nothing makes.
    private static func anew(_ kind: ReportOperation.Kind, _ person: String, _ house: Household) async throws -> String
    {
        var operation = ReportOperation(kind)
        (operation.person, operation.from, operation.to) = (person, "2026-11-01", "2026-11-24")
        operation.format = .json
        let output = KeptOctets()
        try await ReportRunner(gateway: house.api.gateway, output: output).run(operation)
        return String(decoding: output.kept, as: UTF8.self)
    }

    @Test("whatever happens between two pages, a report is the one that is made anew", arguments: 1...6)
    func course(_ seed: UInt64) async throws {
        let house = try await Household(2)
        let store = house.api.gateway.store
        var generator = SeededGenerator(seed: seed)
        let tokens = [try await house.token(.read, 0), try await house.token(.read, 1)]
        var ids: [ReadingID] = []
        for step in 0..<24 {
            let person = Int.random(in: 0...1, using: &generator)
            let what = Int.random(in: 0..<9, using: &generator)
            switch what {
            case 0...3: ids.append(try await house.glucose(person))
            case 4: ids.append(try await house.pressure(slot: person + 1))
            case 5:
                guard let id = ids.randomElement(using: &generator) else { continue }
                _ = try await store.leaveOut([id], reason: "step \(step)", by: "test")
            case 6:
                guard let id = ids.randomElement(using: &generator) else { continue }
                _ = try await store.include([id], by: "test")
            case 7:
                guard let id = ids.randomElement(using: &generator) else { continue }
                _ = try await store.moveReadings(.readings([id]), to: house.key(person))
            default:
                let zone = ["Europe/Berlin", "Pacific/Auckland"].randomElement(using: &generator) ?? "UTC"
                _ = try await store.setCurrentUser(house.people[0], timeZone: zone)
            }
            for (number, token) in tokens.enumerated() {
                // Every report each time would be more than a client may ask for at once.
                let second: ReportOperation.Kind = what == 4 || step.isMultiple(of: 3) ? .bp : .sensor
                for kind in [.glucose, second] {
                    let answer = try await house.get("/api/v1/reports/\(kind.rawValue)?\(Self.days)", token)
                    #expect(answer.status == 200)
                    let wanted = try await Self.anew(kind, house.people[number], house)
                    #expect(
                        Self.timeless(answer.text).trimmingCharacters(in: .whitespacesAndNewlines)
                            == Self.timeless(wanted).trimmingCharacters(in: .whitespacesAndNewlines),
                        "step \(step): \(what)")
                }
            }
        }
        _ = try await store.eraseUser(house.key(1))
        let gone = try await house.get("/api/v1/reports/glucose?\(Self.days)", tokens[1])
        #expect(gone.status >= 400 || !ids.contains { gone.text.contains($0.description) }, "\(gone.text)")
        try await house.stop()
    }

    @Test("a reading that came since is added to those that were kept, and only it is read")
    func later() async throws {
        let house = try await Household(1)
        let store = house.api.gateway.store
        for _ in 0..<3 { _ = try await house.glucose(0) }
        let query = ReadingQuery(
            kinds: [.glucose], from: Instant(seconds: 0), to: Instant(seconds: 4_000_000_000), limit: 100,
            user: try await house.key(0))
        let mark = try await store.readingsMark()
        let id = try await house.glucose(0)
        let later = try await store.collect(query, since: mark, into: [ReadingID]()) { $0.append($1.id) }
        #expect(later?.contents == [id])
        // Nothing more than once.
        let then = try await store.collect(query, since: try #require(later).mark, into: [ReadingID]()) {
            $0.append($1.id)
        }
        #expect(then?.contents == [])
        _ = try await store.leaveOut([id], reason: nil, by: "test")
        let changed = try await store.collect(query, since: mark, into: [ReadingID]()) { $0.append($1.id) }
        #expect(changed == nil)
        try await house.stop()
    }
}

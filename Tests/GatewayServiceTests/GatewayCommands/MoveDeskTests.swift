import HealthReadings
import ReadingStore
import Testing

@testable import GatewayCommands

/// What the arguments of `move` select.
@Suite("What is to be moved", .timeLimit(.minutes(5))) struct MoveDeskTests {
    @Test(
        "a date is a day of the person who has the readings, or else of the current user, not of who gets them",
        arguments: [
            ("ben", "anna", "2026-11-20T05:00:00Z", "2026-11-21T04:59:59.999999Z"),
            ("anna", "ben", "2026-11-19T23:00:00Z", "2026-11-20T22:59:59.999999Z"),
            (nil, "ben", "2026-11-19T23:00:00Z", "2026-11-20T22:59:59.999999Z"),
        ] as [(String?, String, String, String)])
    func days(_ person: String?, _ receiver: String, _ first: String, _ last: String) async throws {
        let bench = try await QueryTests.household()
        let operation = MoveOperation(
            device: "C0:00:00:00:18:08", from: "2026-11-20", to: "2026-11-20", person: person, toPerson: receiver)
        let (selection, to) = try await MoveDesk(bench.gateway).selection(operation)
        guard case .device(let readings) = selection else {
            Issue.record("\(selection)")
            return
        }
        #expect(readings.range?.lowerBound.description == first && readings.range?.upperBound.description == last)
        #expect(to.clientUserID == receiver)
        #expect((readings.person == nil) == (person == nil))
        try await bench.stop()
    }
}

import DeliveryFixture
import Foundation
import HealthReadings
import OutgoingHTTP
import ScriptedServer
import Testing

@testable import ReadingDelivery
@testable import ReadingStore
@testable import WebDestinations

@Suite("What a Nightscout token may do")
struct NightscoutPermissionTests {
    private static let token = "gateway-0123456789abcdef"
    private static let entries: Set = ["api:entries:read", "api:entries:create"]
    private static let notes: Set = ["api:treatments:read", "api:treatments:create"]

    /// A destination that uploads notes, or none, beside a site that lets its token do these things alone.
    private static func with(
        _ site: NightscoutSite, _ permissions: Set<String>,
        _ body:
            @Sendable (
                Fixture, @Sendable (_ notes: Bool, _ token: String) throws -> NightscoutDestination
            ) async throws -> Void
    ) async throws {
        site.change { $0.options.tokens = [token: permissions] }
        try await Fixture.with { fixture in
            try await ScriptedServer.with({ await site.answer($0) }) { server in
                try await body(fixture) { notes, token in
                    NightscoutDestination(
                        name: "sugar", server: try WebServer(url: server.baseURL), credential: .token(token),
                        store: fixture.store, isPersonChosen: false, deliversBloodPressure: notes,
                        limits: HTTPLimits(connecting: .seconds(5), call: .seconds(30)), logger: Fixture.quiet)
                }
            }
        }
    }

    @Test(
        "a site that takes no notes of the token, or none at all, gets glucose all the same", arguments: [true, false])
    func notesAlone(hasPlugin: Bool) async throws {
        let site = NightscoutSite()
        site.change { $0.options.takesNotes = hasPlugin }
        try await Self.with(site, hasPlugin ? Self.entries : Self.entries.union(Self.notes)) { fixture, destination in
            let worker = fixture.worker(try destination(true, Self.token), clock: .system)
            try await fixture.read(2, kind: .bloodPressure, device: 2, provider: "omron_ble", value: { _ in 128 })
            try await fixture.read(3)
            let first = await worker.syncOnce()
            #expect(first.delivered == 3 && first.refused == 0)
            let failure = try #require(first.failure)
            #expect(failure.scope == .target && failure.code == (hasPlugin ? "forbidden" : "not_json"))
            #expect(failure.isOfTargetAlone)
            #expect(failure.message.contains(hasPlugin ? "api:treatments:create" : "careportal"))
            // One of them is taken back, which may be there for all that is known.
            try await fixture.read(
                1, from: 2, kind: .bloodPressure, device: 2, provider: "omron_ble", isFailed: true, value: { _ in 128 })
            try await fixture.read(2, from: 10)
            let second = await worker.syncOnce()
            #expect(second.delivered == 2 && site.current.entries.count == 5)
            #expect(second.failure?.scope == .target)
            site.change {
                $0.options.tokens = [Self.token: Self.entries.union(Self.notes)]
                $0.options.takesNotes = true
            }
            #expect(await worker.syncOnce().delivered == 1)
            #expect(site.current.treatments.count == 1)
        }
    }

    @Test("a token with few permissions is known to a site that strangers may not read; a wrong one is not")
    func privateSite() async throws {
        let site = NightscoutSite()
        site.change { $0.options.isReadable = false }
        try await Self.with(site, Self.entries) { fixture, destination in
            #expect(try await destination(false, Self.token).test().map(\.isGood) == [true, nil, true, true])
            let wrong = try await destination(false, "gateway-fedcba9876543210").test()
            #expect(wrong.map(\.isGood) == [true, nil, false, nil])
            let notes = try await destination(true, Self.token).test()
            #expect(notes.map(\.isGood) == [true, nil, true, false])
            #expect(notes.last?.found.contains("api:treatments:create") == true)
            site.change { $0.options.tokens = [Self.token: Self.entries.union(Self.notes)] }
            #expect(try await destination(true, Self.token).test().map(\.isGood) == [true, nil, true, true])
            site.change { $0.options.takesNotes = false }
            let plugin = try await destination(true, Self.token).test()
            #expect(plugin.map(\.isGood) == [true, nil, true, false])
            #expect(plugin.last?.mend?.contains("careportal") == true)
            #expect(site.current.entries.isEmpty && site.current.treatments.isEmpty)
        }
    }
}

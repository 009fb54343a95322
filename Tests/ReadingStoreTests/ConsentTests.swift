import GRDB
import HealthReadings
import Synchronization
import Testing

@testable import ReadingStore

@Suite("Consent, of everything and of one destination")
struct ConsentTests {
    private let harness: Harness
    private let file: DestinationKey
    private let user: UserKey

    private var store: ReadingStore { harness.store }

    init() async throws {
        harness = try await Harness()
        file = try await harness.store.setDestination(
            "file", kind: "file", kinds: [.glucose, .bloodPressure], hasUniqueSeconds: false, needsSource: false)
        user = try await harness.store.currentUser().key
        try await harness.contact([Build.glucose(1, "2026-11-20T10:00:00"), Build.pressure(2, "2026-11-20T10:01:00")])
    }

    /// The kinds that a destination may get, as consents, as what waits, and as what is sent.
    private func granted(at destination: DestinationKey) async throws -> Set<ReadingKind> {
        let kinds: Set<ReadingKind> = [.glucose, .bloodPressure]
        let said = try await store.consents(of: user, at: destination).filter {
            $0.isGranted && kinds.contains($0.kind)
        }
        let waiting = try await store.groupsWaiting(at: destination).filter { $0.held != .noConsent }
        #expect(Set(said.map(\.kind)) == Set(waiting.map(\.resource)))
        var sent: Set<ReadingKind> = []
        for kind in kinds {
            let items = try await store.outboxBatch(
                user: user, resource: kind, provider: "accuchek_ble", limit: 9, at: destination)
            if !items.isEmpty { sent.insert(kind) }
        }
        #expect(sent == Set(said.map(\.kind)))
        return sent
    }

    private let both: Set<ReadingKind> = [.glucose, .bloodPressure]

    @discardableResult
    private func name(_ name: String, at address: String = "here") async throws -> DestinationKey {
        try await store.setDestination(
            name, kind: "file", kinds: both, hasUniqueSeconds: false, needsSource: false, address: address)
    }

    private func shown() async throws -> Set<ReadingKind> {
        try await store.consentedKinds(of: user).intersection([.glucose, .bloodPressure])
    }

    @Test("what a person says of several kinds is recorded in one commit: all of it counts, or nothing")
    func severalKinds() async throws {
        let before = store.commitCount
        try await store.setConsents(ReadingKind.allCases, granted: false, of: user)
        #expect(store.commitCount == before + 1)
        #expect(try await store.consents(of: user).allSatisfy { !$0.isGranted })
    }

    @Test("a device that the settings give to a person whole is recorded by that person's consent, met or not")
    func recordingOfWhole() async throws {
        let addresses = ([0xC000_0000_180D, 0xC000_0000_180E] as [UInt64]).map {
            DeviceAddress(bits: $0, kind: .random)
        }
        try await store.setPeople([
            StorePerson(
                clientUserID: "brown_bear", timeZone: "Europe/Berlin",
                shares: [.init(address: addresses[0].bits, slot: nil)])
        ])
        let brown = try #require(try await store.user("brown_bear")).key
        try await store.setConsent(.heartRate, granted: false, of: brown)
        #expect(try await store.person(ofDevice: addresses[0]) == brown)
        #expect(try await !store.recordableKinds(of: addresses[0]).contains(.heartRate))
        #expect(try await store.person(ofDevice: addresses[1]) == user)
        #expect(try await store.recordableKinds(of: addresses[1]).contains(.heartRate))
        // The serial number says that both are one device.
        for address in addresses { try await harness.contact([], device: Build.device(address.bits, serial: "7")) }
        #expect(try await store.person(ofDevice: addresses[1]) == brown)
        #expect(try await !store.recordableKinds(of: addresses[1]).contains(.heartRate))
    }

    @Test("a denial to one destination holds there alone; granted again, it goes there")
    func own() async throws {
        try await store.setConsent(.glucose, granted: false, of: user, at: file)
        #expect(try await granted(at: file) == [.bloodPressure])
        #expect(try await granted(at: .vital) == [.glucose, .bloodPressure])
        #expect(try await shown() == [.glucose, .bloodPressure])
        let readings = try await store.query(ReadingQuery(kinds: [.glucose])).readings
        let holds = readings[0].deliveries.map { ($0.destination, $0.state == .held(.noConsent)) }
        #expect(holds.first { $0.0 == "file" }?.1 == true && holds.first { $0.0 == "vital" }?.1 == false)
        try await store.setConsent(.glucose, granted: true, of: user, at: file)
        #expect(try await granted(at: file) == [.glucose, .bloodPressure])
        #expect(try await store.consentHistory(of: user).map(\.destination) == ["file", "file"])
    }

    @Test("what is shown is remembered while readings come, and read anew behind each word, standard and person")
    func remembered() async throws {
        let all = try await store.consentedKinds(of: nil)
        try await harness.contact([Build.glucose(3, "2026-11-20T10:02:00")])
        #expect(store.consentsKnown.withLock { $0.kinds(of: nil, at: store.decisionCount) } == all)
        try await store.setConsent(.glucose, granted: false, of: user)
        #expect(store.consentsKnown.withLock { $0.kinds(of: nil, at: store.decisionCount) } == nil)
        #expect(try await store.consentedKinds(of: nil) == all.subtracting([.glucose]))
        #expect(try await store.consentedKinds(of: user) == all.subtracting([.glucose]))
        try await store.setConsent(.glucose, granted: true, of: user)
        #expect(try await store.consentedKinds(of: user) == all)
        try await store.setConsentStandard(granted: false)
        #expect(try await store.consentedKinds(of: user) == [.glucose])
        #expect(try await store.consentedKinds(of: nil) == [.glucose])
        try await store.setPeople([StorePerson(clientUserID: "black_bear", timeZone: "Europe/Berlin", shares: [])])
        #expect(try await store.consentedKinds(of: nil).isEmpty)
    }

    @Test("a denial wins: of everything over a grant to one, of one over a grant of everything, whichever came last")
    func denial() async throws {
        try await store.setConsent(.glucose, granted: false, of: user)
        try await store.setConsent(.glucose, granted: true, of: user, at: file)
        #expect(try await granted(at: file) == [.bloodPressure])
        #expect(try await shown() == [.bloodPressure])
        try await store.setConsent(.bloodPressure, granted: false, of: user, at: file)
        try await store.setConsent(.bloodPressure, granted: true, of: user)
        #expect(try await granted(at: file).isEmpty)
        #expect(try await granted(at: .vital) == [.bloodPressure])
    }

    @Test(
        "a denial holds under another name of the destination, and nowhere else, until somebody says something of that")
    func renamed() async throws {
        let (earlier, old) = (try await name("earlier"), try await name("old"))
        try await store.setConsent(.glucose, granted: false, of: user, at: old)
        let (elsewhere, new) = (try await name("elsewhere", at: "there"), try await name("new"))
        #expect(try await granted(at: new) == both, "the settings name both")
        try await store.removeDestination("old")
        #expect(try await granted(at: new) == [.bloodPressure])
        for place in [earlier, elsewhere, .vital] { #expect(try await granted(at: place) == both) }
        try await store.setConsent(.glucose, granted: true, of: user, at: new)
        #expect(try await granted(at: new) == both)
        // Of several former names the last word counts.
        try await store.removeDestination("new")
        let newest = try await name("newest")
        #expect(try await granted(at: newest) == both)
        // The clock says the same of all of them.
        try await store.setConsent(.glucose, granted: false, of: user, at: old)
        #expect(try await granted(at: newest) == [.bloodPressure])
    }

    @Test("a denial holds if the destination gets a former name back, and at one that comes to its address")
    func renamedBack() async throws {
        let (moving, beside) = (try await name("moving", at: "there"), try await name("beside"))
        let first = try await name("first")
        let second = try await name("second")
        try await store.removeDestination("first")
        try await store.setConsent(.glucose, granted: false, of: user, at: second)
        try await name("first")
        #expect(try await granted(at: first) == both, "the settings name both")
        try await store.removeDestination("second")
        #expect(try await granted(at: first) == [.bloodPressure])
        // Who says it once more of the name that went takes nothing back.
        try await store.setConsent(.glucose, granted: false, of: user, at: second)
        #expect(try await granted(at: first) == [.bloodPressure])
        for place in [moving, beside] { #expect(try await granted(at: place) == both) }
        try await store.setConsent(.glucose, granted: true, of: user, at: first)
        #expect(try await granted(at: first) == both)
        // What was said of a name before it went is older than what was said meanwhile.
        let third = try await name("third")
        try await store.removeDestination("first")
        try await store.setConsent(.glucose, granted: false, of: user, at: third)
        try await store.removeDestination("third")
        try await name("first")
        #expect(try await granted(at: first) == [.bloodPressure])
        try await store.acceptAddress("here", of: "moving")
        #expect(try await granted(at: moving) == [.bloodPressure])
        #expect(try await granted(at: beside) == both, "it was there all along")
    }

    @Test("where nothing is granted unasked, a grant to one destination is one to it alone")
    func standard() async throws {
        try await store.setConsentStandard(granted: false)
        #expect(try await granted(at: file).isEmpty)
        try await store.setConsent(.glucose, granted: true, of: user, at: file)
        #expect(try await granted(at: file) == [.glucose])
        #expect(try await granted(at: .vital).isEmpty)
        #expect(try await shown().isEmpty)
        try await store.setConsent(.bloodPressure, granted: true, of: user)
        #expect(try await granted(at: file) == [.glucose, .bloodPressure])
        #expect(try await granted(at: .vital) == [.bloodPressure])
        #expect(try await shown() == [.bloodPressure])
    }

    @Test("what was granted before destinations were told apart covers the first and what the gateway shows")
    func early() async throws {
        try await store.setConsentStandard(granted: false)
        for (kind, granted) in [(ReadingKind.glucose, true), (.bloodPressure, false)] {
            try await store.setConsent(kind, granted: granted, of: user)
        }
        // As the migration does with what was said before it.
        try await store.write(.setting) { db in try db.execute(sql: "UPDATE consent SET is_early = is_granted") }
        #expect(try await granted(at: .vital) == [.glucose])
        #expect(try await shown() == [.glucose])
        #expect(try await granted(at: file).isEmpty)
        try await store.setConsentStandard(granted: true)
        // Nobody has said anything about it; what was denied was denied to all.
        #expect(try await granted(at: file) == [.glucose])
        try await store.setConsent(.glucose, granted: true, of: user)
        try await store.setConsentStandard(granted: false)
        #expect(try await granted(at: file) == [.glucose])
    }
}

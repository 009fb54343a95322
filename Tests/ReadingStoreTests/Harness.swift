import Foundation
import HealthReadings

@testable import ReadingStore

/// A store in a directory of its own, which goes when the process ends.
final class Harness: Sendable {
    let directory: String
    let store: ReadingStore

    init(
        _ directory: String = Harness.newDirectory(), decoder: TestDecoder = TestDecoder(),
        encryption: StoreEncryption = .on()
    ) async throws {
        self.directory = directory
        store = try await Self.open(directory, decoder: decoder, encryption: encryption)
    }

    /// Where all stores of this process are; goes when the process ends.
    private static let root: String = {
        atexit { try? FileManager.default.removeItem(atPath: NSTemporaryDirectory() + "stores-\(getpid())") }
        return NSTemporaryDirectory() + "stores-\(getpid())"
    }()

    static func newDirectory() -> String { root + "/" + UUID().uuidString }

    static func open(
        _ directory: String, decoder: TestDecoder = TestDecoder(), zone: String = "Europe/Berlin",
        user: String = "white_bear", encryption: StoreEncryption = .on(),
        now: Instant = Build.instant("2026-11-21T12:00:00Z")
    ) async throws -> ReadingStore {
        try await ReadingStore.open(
            directory: directory, decoder: decoder, clientUserID: user, timeZone: zone, encryption: encryption,
            now: { now })
    }

    /// One contact: begins, appends each group of frames in a commit, ends.
    @discardableResult
    func contact(
        _ groups: [Frame]..., device: DeviceDescription = Build.device(), at start: String = "2026-11-21T09:59:00Z",
        clock: ClockReading? = nil, isComplete: Bool = true
    ) async throws -> [FrameOutcome] {
        let contact = try await store.beginContact(
            with: device, at: Build.instant(start), clock: clock, batteryPercent: 80)
        var outcomes: [FrameOutcome] = []
        for frames in groups { outcomes += try await store.append(frames, of: contact) }
        try await store.endContact(contact, ContactSummary(isComplete: isComplete, received: outcomes.count))
        return outcomes
    }

    func all() async throws -> [Reading] { try await store.query(ReadingQuery(limit: 10_000)).readings }
}

extension FrameOutcome {
    /// The name of the case.
    var name: String {
        switch self {
        case .new: "new"
        case .revised: "revised"
        case .clash: "clash"
        case .repeated: "repeated"
        case .waiting: "waiting"
        case .nothing: "nothing"
        case .malformed: "malformed"
        }
    }
}

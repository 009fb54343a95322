import BlueZCentral
import Foundation
import GATTClient
import GATTProfiles
import HealthDevices
import HealthReadings
import Logging
import ReadingStore
import Synchronization
import Testing

extension LabTests {
    /// The library as an embedder uses it.
    @Suite struct Library {
        @Test(
            "search by brand, pair with an agent of one's own, read with progress; a cancelled search stops discovery")
        func embedder() async throws {
            let lab = try await Lab.fresh()
            let meter = try await lab.add(Meters.accuchek(["records": ["count": 60, "seed": 111, "contexts": true]]))
            _ = try await lab.add(Meters.omron())
            try await withManager { manager, store in
                let brand = try #require(manager.brands.first { $0.name == "Accu-Chek" })
                var found: FoundDevice?
                for try await device in manager.search(for: manager.devices(for: brand)) {
                    found = device
                    break
                }
                let address = try #require(found?.advertisement.address)
                #expect(address.description == meter.address)
                let end = Lab.now + 15
                while Lab.now < end, try await lab("scanning")["scanning"]?.isTrue == true {
                    try await Task.sleep(for: .milliseconds(50))
                }
                #expect(try await lab("scanning")["scanning"] == false)

                let paired = try await manager.pair(address, agent: Typist(meter: meter))
                #expect(paired.isProven && paired.model?.id == "accuchek_guide")

                var readings: [ReadingID: Reading] = [:]
                var progress: [(Int, Int?)] = []
                var summary: ContactSummary?
                for try await event in manager.read(address) {
                    switch event {
                    case .stored(let outcomes):
                        for outcome in outcomes {
                            if case .new(let reading) = outcome { readings[reading.id] = reading }
                            if case .revised(let reading) = outcome { readings[reading.id] = reading }
                        }
                    case .progress(let received, let announced): progress.append((received, announced))
                    case .ended(let ended): summary = ended
                    case .began: break
                    }
                }
                #expect(summary?.isComplete == true && summary?.received == 60)
                #expect(progress.last?.0 == 60 && progress.last?.1 == 60)
                let printed = try readings.values.map { try Document($0.document.text) }
                Comparison.expect(printed, equal: try await meter.readings())
                let last = try await manager.read(address) { _ in }
                #expect(last.isComplete && last.error == nil)
            }
        }

        @Test("promise 1: the window between bluetoothd's confirmation and our commit, measured")
        func window() async throws {
            let meter = try await SharedMeter.cuff.borrow(
                records: ["count": 40, "seed": 112], ["deletes_confirmed": true, "leaves_when_done": true])
            let timing = CommitTimes()
            try await withManager(timing: timing) { manager, _ in
                let began = Lab.now
                let address = try #require(DeviceAddress(meter.address))
                let summary = try await manager.read(address) { _ in }
                #expect(summary.received == 40)
                let confirmed = try await meter.lab.packets(0x1E, since: began).compactMap { $0["at"]?.number }
                let committed = timing.moments.withLock(\.self)
                try #require(confirmed.count == 40 && committed.count == 40)
                let windows = zip(confirmed, committed).map { ($1 - $0) * 1000 }.sorted()
                #expect(windows.allSatisfy { $0 < 10_000 })
                print(
                    """
                    window between bluetoothd's confirmation and our commit, \(windows.count) indications: \
                    median \(text(windows[windows.count / 2])) ms, most \(text(windows[windows.count - 1])) ms \
                    (the confirmation as it leaves the guest's adapter; the guest is emulated)
                    """)
            }
        }

        private func text(_ milliseconds: Double) -> String { String(format: "%.1f", milliseconds) }

        private func withManager(
            timing: CommitTimes = CommitTimes(), _ body: (DevicesManager, ReadingStore) async throws -> Void
        ) async throws {
            let directory = FileManager.default.temporaryDirectory
                .appendingPathComponent("healthrelay-lab-\(UUID().uuidString)")
            defer { try? FileManager.default.removeItem(at: directory) }
            let logger = Logger(label: "lab") { _ in SwiftLogNoOpLogHandler() }
            let store = try await ReadingStore.open(
                directory: directory.path, decoder: ModelFrameDecoder(), clientUserID: "lab", timeZone: Lab.zone,
                logger: logger)
            let radio = BlueZRadio(logger: logger)
            let manager = DevicesManager(
                radio: radio, journal: TimedJournal(journal: store, times: timing), memory: store, pairings: store,
                logger: logger)
            do {
                try await body(manager, store)
            } catch {
                await radio.close()
                throw error
            }
            await radio.close()
            try store.close()
        }
    }
}

/// When each frame was durable, by ``Lab/now``.
private final class CommitTimes: Sendable {
    let moments = Mutex<[Double]>([])
}

/// A journal that notes when frames are durable.
private struct TimedJournal: FrameJournal {
    let journal: any FrameJournal
    let times: CommitTimes

    func append(_ frames: [Frame], of contact: Contact) async throws -> [FrameOutcome] {
        let outcomes = try await journal.append(frames, of: contact)
        let now = Lab.now
        times.moments.withLock { $0 += frames.map { _ in now } }
        return outcomes
    }
}

/// Types what the meter shows.
private struct Typist: PairingAgent {
    let meter: LabMeter

    func passkey(shownBy device: Advertisement) async throws -> UInt32 {
        try #require(UInt32(try await meter.passkey()))
    }

    func show(passkey: UInt32, typed: Int, at device: Advertisement) async {}

    func confirm(_ digits: UInt32, shownBy device: Advertisement) async throws -> Bool { true }

    func allowUnauthenticated(_ device: Advertisement) async throws -> Bool { true }
}

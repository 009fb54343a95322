import Foundation
import Testing

extension LabTests {
    /// Cuffs that delete what was confirmed: what may be lost, and what not.
    @Suite struct Cuffs {
        private static let behaviour: Document = ["deletes_confirmed": true, "leaves_when_done": true]

        @Test("a cuff is read to its end, and then has nothing left")
        func whole() async throws {
            let meter = try await SharedMeter.cuff.borrow(records: ["count": 30, "seed": 101], Self.behaviour)
            let gateway = try TestGateway()
            let read = try await gateway("read", meter.address)
            #expect(read.status == 0, "\(read.errors)")
            Comparison.expect(read.documents, equal: try await meter.readings(ever: true))
            #expect(try await meter.readings().isEmpty)
        }

        @Test(
            "the link is lost at an indication: what was confirmed is stored, the rest comes with the next read",
            arguments: ["before", "unconfirmed", "confirmed"])
        func dropped(when: String) async throws {
            let meter = try await SharedMeter.cuff.borrow(
                records: ["count": 10, "seed": 102],
                .object(
                    Self.behaviour.members.merging(["drop_at_indication": 5, "drop_when": .string(when)]) { $1 }))
            let gateway = try TestGateway()
            let first = try await gateway("read", meter.address)
            #expect(first.status == 0 || first.status == 75, "\(first.errors)")
            let kept = try await gateway.stored().count
            #expect(kept >= (when == "confirmed" ? 5 : 4), "what was confirmed is stored")
            let second = try await gateway("read", meter.address)
            #expect(second.status == 0, "\(second.errors)")
            Comparison.expect(try await gateway.stored(), equal: try await meter.readings(ever: true))
        }

        @Test(
            "promise 1: killed at every point of the window, a cuff loses no more than was confirmed and not committed",
            arguments: [
                "journal.before-commit", "journal.before-commit:4", "journal.after-commit", "journal.after-commit:4",
                "contact.before-commit", "contact.after-commit",
            ])
        func killedAtCommit(point: String) async throws {
            let meter = try await SharedMeter.cuff.borrow(
                records: ["count": 16, "seed": 103, "step": 11], Self.behaviour)
            let gateway = try TestGateway()
            let reading = try gateway.start(["read", meter.address], environment: ["HEALTHRELAY_CRASH_AT": point])
            let ended = await reading.finish()
            // What arrives together commits together: a busy machine has fewer commits.
            let isReached = ended.signal == SIGKILL || (point.hasSuffix(":4") && ended.status == 0)
            #expect(isReached, "\(point) was never reached: \(ended.errors)")
            try await expectOnlyTheWindowIsLost(meter, gateway, point)
        }

        @Test("promise 1: killed at random moments, likewise", arguments: 1...4)
        func killedAtRandom(round: Int) async throws {
            let meter = try await SharedMeter.cuff.borrow(
                records: ["count": 24, "seed": 104, "step": 11], Self.behaviour)
            let gateway = try TestGateway()
            let reading = try gateway.start(["read", meter.address])
            let sent = Int.random(in: 1...20)
            let delay = Int.random(in: 0...40)
            try await meter.wait("sent", count: sent)
            try await Task.sleep(for: .milliseconds(delay))
            reading.kill(SIGKILL)
            _ = await reading.finish()
            try await expectOnlyTheWindowIsLost(meter, gateway, "record \(sent) and \(delay) ms")
        }

        /// After the kill: what is neither stored nor with the cuff was confirmed by bluetoothd and not committed by us;
        /// nothing that was committed, or comes after it in the cuff, is lost otherwise.
        private func expectOnlyTheWindowIsLost(
            _ meter: LabMeter, _ gateway: TestGateway, _ moment: String
        ) async throws {
            // bluetoothd notices that nobody listens, and says so to the cuff; until then it confirms.
            var (events, quiet) = (-1, 0)
            while quiet < 4 {
                try await Task.sleep(for: .milliseconds(400))
                let now = try await meter.log().count
                (events, quiet) = (now, now == events ? quiet + 1 : 0)
            }
            let ever = try await meter.readings(ever: true).map { $0["base_time"]?.text ?? "" }
            let confirmed = try await meter.log().filter { $0.name == "confirmed" }.compactMap(\.record).map {
                ever[$0]
            }
            let committed = try await gateway.stored().compactMap { $0["base_time"]?.text }
            let isWithCuff = Set(try await meter.readings().compactMap { $0["base_time"]?.text })
            #expect(Set(ever) == Set(confirmed).union(isWithCuff), "the cuff deletes only what was confirmed")

            let again = try await gateway("read", meter.address)
            #expect(again.status == 0, "\(again.errors)")
            let stored = Set(try await gateway.stored().compactMap { $0["base_time"]?.text })
            #expect(stored.isSuperset(of: committed), "what was committed is there after the kill")
            #expect(stored.isSuperset(of: isWithCuff), "what the cuff still had came with the next read")
            let lost = Set(ever).subtracting(stored)
            let window = Set(confirmed).subtracting(committed)
            #expect(lost.isSubset(of: window), "lost: \(lost.count), confirmed and uncommitted: \(window.count)")
            // Confirmed in order, committed in order: the window is the end of what was confirmed.
            #expect(confirmed.prefix(committed.count).allSatisfy { committed.contains($0) })
            print("killed at \(moment): \(confirmed.count) confirmed, \(committed.count) committed, \(lost.count) lost")
        }
    }
}

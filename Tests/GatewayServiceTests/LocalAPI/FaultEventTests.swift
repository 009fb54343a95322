import EmulatedRadio
import Foundation
import GATTClient
import HealthDevices
import HealthReadings
import LocalAccess
import ReadingStore
import Testing

@testable import GatewayCommands
@testable import LocalAPI

@Suite("Faults on the stream of events", .timeLimit(.minutes(5))) struct FaultEventTests {
    private static let address = "C0:00:00:00:18:08"

    /// A bonded meter that has forgotten its bond.
    private static func forgetful() -> EmulatedMeter {
        let meter = EmulatedMeter(address, name: "meter+1808")
        meter.bondAlready()
        meter.forgetBond()
        return meter
    }

    private static func faults(_ text: String) -> [String] {
        text.matches(of: /event: fault\ndata: (\{.*\})/).map { String($0.1) }
    }

    private static func lastID(_ text: String) throws -> String {
        try #require(text.matches(of: /id: (\S+)\n/).last.map { String($0.1) })
    }

    @Test("one comes when it begins and when it ends, however many attempts meet it; who comes later gets what stands")
    func once() async throws {
        let meter = Self.forgetful()
        let bench = try await APIBench(tls: false, meters: [meter], captures: [])
        let manager = try bench.gateway.requireManager()
        @Sendable func attempt() async {
            await #expect(throws: RadioError.forgottenByDevice(meter.address)) {
                _ = try await manager.readings(of: meter.address)
            }
        }
        @Sendable func mark(_ name: String) { bench.hub.post("sync", .object(["mark": .string(name)])) }
        @Sendable func marked(_ name: String) -> @Sendable (String) -> Bool { { $0.contains("\"mark\":\"\(name)\"") } }

        let first = try await bench.events {
            for _ in 0..<3 { await attempt() }
            while bench.hub.faults(upTo: .max).isEmpty { try await Task.sleep(for: .milliseconds(5)) }
            mark("one")
        } until: {
            marked("one")($0)
        }
        let begun = try #require(Self.faults(first).first)
        #expect(Self.faults(first).count == 1)
        #expect(begun.contains(#""code":"bond_lost_by_device","name":"peerRemovedPairingInformation""#), "\(begun)")
        #expect(
            begun.contains(#""subject":"device","address":"\#(Self.address)""#) && begun.hasSuffix(#""ended_at":null}"#)
        )

        // Back with the last id: it was told of.
        let id = try Self.lastID(first)
        let again = try await bench.events(last: id) {
            await attempt()
            mark("two")
        } until: {
            marked("two")($0)
        }
        #expect(Self.faults(again).isEmpty, "\(again)")
        // Somebody new: it stands.
        let fresh = try await bench.events { !Self.faults($0).isEmpty }
        #expect(Self.faults(fresh) == [begun])

        // It ends while the first is away.
        #expect(try await manager.unpair(meter.address))
        while !bench.hub.faults(upTo: .max).isEmpty { try await Task.sleep(for: .milliseconds(5)) }
        mark("three")
        let ended = try await bench.events(last: try Self.lastID(again)) { marked("three")($0) }
        #expect(Self.faults(ended).count == 1 && Self.faults(ended)[0].contains(#""ended_at":"20"#), "\(ended)")
        let later = try await bench.events(started: { mark("four") }, until: { marked("four")($0) })
        #expect(Self.faults(later).isEmpty)
        try await bench.stop()
    }

    @Test("after a restart of the gateway, who comes back gets what stands in the new process, once")
    func restart() async throws {
        let first = try await APIBench(tls: false, meters: [], captures: ["two-meters"])
        let before = try await first.events(last: "0") { $0.contains("event: reading") }
        let id = try Self.lastID(before)
        try await first.stop(keeping: true)

        let meter = Self.forgetful()
        let second = try await APIBench(tls: false, meters: [meter], captures: [], in: first.directory)
        let manager = try second.gateway.requireManager()
        await #expect(throws: RadioError.self) { _ = try await manager.readings(of: meter.address) }
        while second.hub.faults(upTo: .max).isEmpty { try await Task.sleep(for: .milliseconds(5)) }
        let back = try await second.events(last: id) {
            second.hub.post("sync", .object(["mark": true]))
        } until: {
            $0.contains("\"mark\"")
        }
        #expect(Self.faults(back).count == 1, "\(back)")
        let again = try await second.events(last: try Self.lastID(back)) {
            second.hub.post("sync", .object(["mark": false]))
        } until: {
            $0.contains("\"mark\":false")
        }
        #expect(Self.faults(again).isEmpty)
        try await second.stop()
    }

    @Test("a client of one person gets the faults of devices that the person uses, and of no others")
    func person() async throws {
        let bench = try await APIBench(
            tls: false, captures: ["two-meters"], settings: ["user.client_user_id": "white_bear"])
        let grant = try #require(AccessGrant(.read, person: "white_bear"))
        let token = try await bench.token(for: grant)
        let devices = try await bench.gateway.store.devices()
        let used = try #require(devices.compactMap(\.description.address).first)
        let failure = ContactFailure(RadioError.forgottenByDevice(used))
        let text = try await bench.events(token: token) {
            for subject in [DeviceFault.Subject.radio, .device(DeviceAddress(bits: 7, kind: .public)), .device(used)] {
                bench.hub.post(DeviceFault(subject, failure, began: Instant(seconds: 1_795_000_000)))
            }
        } until: {
            $0.contains("event: fault")
        }
        #expect(Self.faults(text).count == 1 && text.contains(used.description), "\(text)")
        let fresh = try await bench.events(token: token) { $0.contains("event: fault") }
        #expect(Self.faults(fresh).count == 1 && fresh.contains(used.description))
        try await bench.stop()
    }
}

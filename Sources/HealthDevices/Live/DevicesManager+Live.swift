import GATTClient
import GATTProfiles
import HealthReadings
import Synchronization

extension DevicesManager {
    /// What live devices send while somebody looks: straps (heart rate, with its variability) and oximeters. Nothing is
    /// stored.
    ///
    /// Each device is connected when it is heard, again when it comes back, and left when the iteration ends. A reader
    /// that does not keep up loses the oldest values, so that memory does not grow. Several may look at once: each
    /// device is followed by one of them at a time. To pair, unpair or read it, or set its clock, goes first.
    ///
    /// A device that could not be connected or asked, or whose link ended before it sent a value, is left alone for about
    /// 5 s, and after further failures for up to about a minute, until it sends values again. The end of the iteration ends
    /// that wait, too.
    ///
    /// - Parameters:
    ///   - addresses: the devices, paired or not; all paired ones that the catalogue knows as live where this is empty.
    ///   - pace: how often devices are looked for, and over how long variability is computed.
    /// - Throws: `RadioError` where the radio cannot be used, or no longer.
    public func live(
        _ addresses: Set<DeviceAddress> = [], pace: LivePace = LivePace()
    ) -> AsyncThrowingStream<LiveReading, any Error> {
        .producing(keeping: Self.newestLive) { yield in
            let wanted = addresses.isEmpty ? try await liveDevices() : addresses
            if !wanted.isEmpty { try await follow(wanted, pace, yield) }
        }
    }

    /// What is kept for a reader that does not keep up.
    static let newestLive = AsyncThrowingStream<LiveReading, any Error>.Continuation.BufferingPolicy.bufferingNewest(
        1024)

    /// The paired devices that send live values, as far as the catalogue knows.
    ///
    /// - Throws: `RadioError` where the radio cannot be used, or the memory's error.
    public func liveDevices() async throws -> Set<DeviceAddress> {
        let paired = try await reconcilePairings()
        let known = try await pairings.pairings().byAddress
        return paired.filter { model(of: $0, among: known)?.sendsLive == true }
    }

    /// Of these devices those that have records to read: a strap is left to those who look, a scale that is never
    /// connected to those who listen, and a cuff that measures when it is told to, to those who tell it.
    func devicesWithRecords(_ addresses: Set<DeviceAddress>) async throws -> Set<DeviceAddress> {
        let known = try await pairings.pairings().byAddress
        return addresses.filter { address in
            guard let model = model(of: address, among: known) else { return true }
            return !model.isLiveOnly && !model.isOnlyHeard && !model.measuresOnCommand
        }
    }

    /// The model that a device is remembered by.
    func model(of address: DeviceAddress, among known: [DeviceAddress: DevicePairing]) -> DeviceModel? {
        known[address]?.device.model.flatMap { catalogue[$0] }
    }

    private func follow(
        _ addresses: Set<DeviceAddress>, _ pace: LivePace, _ yield: @escaping @Sendable (LiveReading) -> Void
    ) async throws {
        let busy = BusyDevices()
        let session = LiveSession(manager: self, pace: pace, busy: busy, yield: yield)
        try await withThrowingDiscardingTaskGroup { group in
            for try await peripheral in radio.peripherals(addresses) {
                guard let address = peripheral.advertisement.address, busy.take(peripheral, at: address) else {
                    continue
                }
                group.addTask {
                    var heard: (any Peripheral)? = peripheral
                    while let peripheral = heard {
                        await session.follow(peripheral, at: address)
                        heard = busy.leave(address)
                    }
                }
            }
        }
    }
}

extension DeviceModel {
    /// Whether it sends values while somebody looks.
    public var sendsLive: Bool {
        oximeterStream != nil || ServiceProfile.all.contains { !$0.live.isEmpty && services.contains($0.service) }
    }

    /// Whether it does nothing else, as far as the gateway reads it.
    public var isLiveOnly: Bool { sendsLive && memory == .none }
}

/// Devices that one caller of ``DevicesManager/live(_:pace:)`` follows.
private struct LiveSession: Sendable {
    let manager: DevicesManager
    let pace: LivePace
    let busy: BusyDevices
    let yield: @Sendable (LiveReading) -> Void
    private let failures = Failures()

    /// How often in a row each device brought nothing.
    private final class Failures: Sendable {
        let counts = Mutex<[DeviceAddress: Int]>([:])
    }

    init(
        manager: DevicesManager, pace: LivePace, busy: BusyDevices,
        yield: @escaping @Sendable (LiveReading) -> Void
    ) {
        self.manager = manager
        self.pace = pace
        self.busy = busy
        self.yield = yield
    }

    /// Follows a device that was heard, until it leaves or may be tried again when it is heard.
    func follow(_ peripheral: any Peripheral, at address: DeviceAddress) async {
        while !Task.isCancelled {
            var hasValues = false
            let end = try? await watch(peripheral, at: address) { hasValues = true }
            if hasValues { failures.counts.withLock { $0[address] = nil } }
            switch end {
            case .unworn?:
                guard (try? await manager.clock.sleep(for: LiveCourse.restUnworn)) != nil else { return }
            case .gone? where !hasValues, nil:
                // What goes wrong with a device is over when it is heard again, after this.
                try? await manager.clock.sleep(for: restAfterFailure(of: address))
                return
            case .gone?, .silent?, .wanted?: return
            }
        }
    }

    /// A rest that differs a little each time, so that two gateways, or two callers, don't try in step.
    private func restAfterFailure(of address: DeviceAddress) -> Duration {
        let count = failures.counts.withLock { counts in
            counts[address, default: 0] += 1
            return counts[address, default: 0]
        }
        return LiveCourse.rest(afterFailures: count) * Double.random(in: 0.8...1.2)
    }

    /// - Parameter note: told of each value.
    private func watch(
        _ peripheral: any Peripheral, at address: DeviceAddress, _ note: () -> Void
    ) async throws -> LiveCourse.End {
        try await manager.inTurn(address, to: .watch) {
            do {
                _ = try await peripheral.connect()
                busy.noteConnection(of: address)
                let characteristics = try await peripheral.characteristics()
                let advertisement = peripheral.advertisement
                let device = manager.describe(advertisement, offering: OfferedServices(characteristics))
                let stream = device.model.flatMap { manager.catalogue[$0] }?.oximeterStream
                var course = LiveCourse(peripheral, device, pace, stream: stream)
                course.isWanted = { [turns = manager.turns] in await turns.isWanted(address, orWatched: false) }
                let end = try await course.run(characteristics, yield) { _, _, _ in note() }
                await peripheral.disconnectSurely()
                return end
            } catch {
                await peripheral.disconnectSurely()
                throw error
            }
        }
    }
}

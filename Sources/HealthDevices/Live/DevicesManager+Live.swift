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
        let resting = RestingDevices()
        try await withThrowingDiscardingTaskGroup { group in
            for try await peripheral in radio.peripherals(addresses) {
                guard let address = peripheral.advertisement.address, !resting.contains(address) else { continue }
                group.addTask {
                    // What goes wrong with one device is over when it is heard again.
                    while (try? await follow(peripheral, pace, yield)) == .unworn {
                        guard await resting.rest(address, for: LiveCourse.restUnworn, by: clock) else { return }
                    }
                }
            }
        }
    }

    private func follow(
        _ peripheral: any Peripheral, _ pace: LivePace, _ yield: @escaping @Sendable (LiveReading) -> Void
    ) async throws -> LiveCourse.End {
        guard let address = peripheral.advertisement.address else { return .gone }
        return try await inTurn(address, to: .watch) {
            do {
                _ = try await peripheral.connect()
                let characteristics = try await peripheral.characteristics()
                let advertisement = peripheral.advertisement
                let device = describe(advertisement, offering: OfferedServices(characteristics))
                let stream = device.model.flatMap { catalogue[$0] }?.oximeterStream
                var course = LiveCourse(peripheral, device, pace, stream: stream)
                course.isWanted = { [turns] in await turns.isWanted(address, orWatched: false) }
                let end = try await course.run(characteristics, yield)
                await peripheral.disconnectSurely()
                return end
            } catch {
                await peripheral.disconnectSurely()
                throw error
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

/// Devices that answer and are not worn. They are left alone for a while, also if they are heard.
private final class RestingDevices: Sendable {
    private let addresses = Mutex<Set<DeviceAddress>>([])

    func contains(_ address: DeviceAddress) -> Bool { addresses.withLock { $0.contains(address) } }

    /// - Returns: whether the rest is over; false where the task was cancelled.
    func rest(_ address: DeviceAddress, for duration: Duration, by clock: any Clock<Duration>) async -> Bool {
        addresses.withLock { _ = $0.insert(address) }
        defer { addresses.withLock { _ = $0.remove(address) } }
        do { try await clock.sleep(for: duration) } catch { return false }
        return true
    }
}

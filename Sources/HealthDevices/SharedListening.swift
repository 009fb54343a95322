import GATTClient
import HealthReadings
import Synchronization

/// One watch of the radio for devices that are waited for at the same time.
///
/// A wait for one device alone takes match rules of its own and looks at all devices. A system bus allows a connection 512
/// rules and 128 unanswered calls, so some hundred such waits would fail, and everything else on that connection with them.
final class SharedListening: Sendable {
    private typealias Stream = AsyncThrowingStream<any Peripheral, any Error>

    /// The bonds there were when it began, or why the radio could not tell them.
    let bonds: Result<[Bond], any Error>
    private let addresses: Set<DeviceAddress>
    /// By the 48 bits of an address.
    private let continuations: [UInt64: Stream.Continuation]
    /// By the 48 bits of an address, until somebody has waited for the device.
    private let streams: Mutex<[UInt64: Stream]>

    init(for addresses: Set<DeviceAddress>, bonds: Result<[Bond], any Error>) {
        var (continuations, streams): ([UInt64: Stream.Continuation], [UInt64: Stream]) = ([:], [:])
        for address in addresses {
            let (stream, continuation) = Stream.makeStream(bufferingPolicy: .bufferingNewest(1))
            continuations[address.bits] = continuation
            streams[address.bits] = stream
        }
        self.addresses = addresses
        self.bonds = bonds
        self.continuations = continuations
        self.streams = Mutex(streams)
    }

    /// Watches until every device was heard, the time is over, or the task is cancelled.
    func watch(_ radio: any Radio, within timeout: Duration, by clock: any Clock<Duration>) async {
        do {
            guard try await clock.limit(timeout, { try await self.follow(radio) }) == nil else { return }
            for address in addresses {
                continuations[address.bits]?.finish(throwing: RadioError.notSeen(address, within: timeout))
            }
        } catch {
            for continuation in continuations.values { continuation.finish(throwing: error) }
        }
    }

    private func follow(_ radio: any Radio) async throws {
        var missing = Set(continuations.keys)
        guard !missing.isEmpty else { return }
        for try await peripheral in radio.peripherals(addresses) {
            guard let bits = peripheral.advertisement.address?.bits else { continue }
            continuations[bits]?.yield(peripheral)
            missing.remove(bits)
            if missing.isEmpty { return }
        }
        try Task.checkCancellation()
        throw RadioError.lost
    }

    /// Waits for a device to be heard, once for each device.
    ///
    /// - Returns: `nil` for a device that isn't watched for, and for one that was waited for before: it may have gone since it
    ///   was heard, so the radio has to hear it again.
    /// - Throws: `RadioError`, `CancellationError`.
    func peripheral(_ address: DeviceAddress) async throws -> (any Peripheral)? {
        guard let stream = streams.withLock({ $0.removeValue(forKey: address.bits) }) else { return nil }
        for try await peripheral in stream { return peripheral }
        try Task.checkCancellation()
        throw RadioError.lost
    }
}

extension DevicesManager {
    /// Reads several devices by a manager that waits for all of them with one watch of the radio.
    ///
    /// That manager takes turns with everyone who uses this one. Only its ``read(_:within:allRecords:report:)`` differs: it
    /// doesn't ask the radio for its device alone.
    ///
    /// - Parameters:
    ///   - addresses: the devices that `body` reads, all at the same time.
    ///   - timeout: how long the devices may take to be heard.
    ///   - body: reads them, with the manager that it is given.
    /// - Returns: what `body` returns.
    /// - Throws: what `body` throws. What keeps a device from being waited for, its `read` throws.
    package func listening<Outcome: Sendable>(
        for addresses: Set<DeviceAddress>, within timeout: Duration,
        _ body: (DevicesManager) async throws -> Outcome
    ) async throws -> Outcome {
        // Asked for once: to look for each bond at the same time would be too many calls as well.
        let bonds: Result<[Bond], any Error>
        do { bonds = .success(try await radio.bonds()) } catch { bonds = .failure(error) }
        var wanted: Set<DeviceAddress> = []
        if let known = try? bonds.get() {
            for address in addresses {
                if let bond = try? await bonded(address, among: known) { wanted.insert(bond) }
            }
        }
        let listening = SharedListening(for: wanted, bonds: bonds)
        var manager = self
        manager.sharedListening = listening
        async let _: Void = listening.watch(radio, within: timeout, by: clock)
        return try await body(manager)
    }
}

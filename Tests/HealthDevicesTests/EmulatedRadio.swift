import GATTClient
import HealthReadings
import Synchronization

@testable import HealthDevices

/// A radio with emulated devices near it.
final class EmulatedRadio: Radio {
    /// How a device is paired.
    enum PairingScript: Sendable {
        case justWorks
        case passkey(UInt32)
        case fails(PairingFailure)
    }

    private struct Entry {
        var device: EmulatedDevice
        var script: PairingScript
        /// The address it has once it is bonded, where it advertises another.
        var identity: DeviceAddress?
    }

    private struct State {
        var entries: [Entry] = []
        var adapter = AdapterState.ready(Adapter(name: "hci0", address: nil))
        var adapterFollowers: [Int: AsyncStream<AdapterState>.Continuation] = [:]
        var listeners: [Int: AsyncThrowingStream<Advertisement, any Error>.Continuation] = [:]
        var heeders: [Int: (Set<DeviceAddress>, AsyncThrowingStream<Advertisement, any Error>.Continuation)] = [:]
        var watchers: [Int: (Set<DeviceAddress>, AsyncThrowingStream<any Peripheral, any Error>.Continuation)] = [:]
        var links: [Int: (Set<DeviceAddress>, AsyncThrowingStream<ConnectionChange, any Error>.Continuation)] = [:]
        var next = 0
        var connected: Set<DeviceAddress> = []
        var mostConnected = 0
        var watchesBegun = 0
        var listens = 0
        var keptElsewhere: Set<DeviceAddress> = []
    }

    private let state = Mutex(State())
    private let clock: ManualClock

    init(_ clock: ManualClock) { self.clock = clock }

    // MARK: What a test does

    func add(_ device: EmulatedDevice, _ script: PairingScript = .justWorks, identity: DeviceAddress? = nil) {
        state.withLock { $0.entries.append(Entry(device: device, script: script, identity: identity)) }
        device.follow { [weak self, weak device] isConnected in
            guard let self, let device, let address = device.advertisement.address else { return }
            linkChanged(address, device, isConnected)
        }
        if device.behaviour.isInReach { tellOf(device) }
    }

    func script(_ script: PairingScript, for address: DeviceAddress) {
        state.withLock { state in
            for index in state.entries.indices where state.entries[index].device.behaviour.address == address {
                state.entries[index].script = script
            }
        }
    }

    /// A device comes, or is heard anew.
    func appear(_ device: EmulatedDevice) {
        device.change { $0.isInReach = true }
        tellOf(device)
    }

    func vanish(_ device: EmulatedDevice) { device.change { $0.isInReach = false } }

    /// The adapter goes or comes: what goes on fails.
    func setAdapter(_ adapter: AdapterState) {
        let (followers, ended) = state.withLock { state in
            state.adapter = adapter
            var ended: [@Sendable (any Error) -> Void] = []
            if case .unusable = adapter {
                ended += state.listeners.values.map { listener in
                    { @Sendable error in listener.finish(throwing: error) }
                }
                ended += state.watchers.values.map { watcher in { @Sendable error in watcher.1.finish(throwing: error) }
                }
                ended += state.heeders.values.map { heeder in { @Sendable error in heeder.1.finish(throwing: error) } }
                ended += state.links.values.map { link in { @Sendable error in link.1.finish(throwing: error) } }
            }
            return (Array(state.adapterFollowers.values), ended)
        }
        if case .unusable(let error) = adapter { for end in ended { end(error) } }
        for follower in followers { follower.yield(adapter) }
        if case .ready = adapter { return }
        for device in state.withLock({ $0.entries.map(\.device) }) { device.cut() }
    }

    /// Watching ends though the adapter is well.
    func failWatching(_ error: any Error) {
        for watcher in state.withLock({ Array($0.watchers.values) }) { watcher.1.finish(throwing: error) }
    }

    /// Another adapter has bonds with these devices.
    func keepElsewhere(_ addresses: Set<DeviceAddress>) { state.withLock { $0.keptElsewhere = addresses } }

    var isDiscovering: Bool { state.withLock { !$0.listeners.isEmpty } }
    var watched: Set<DeviceAddress> { state.withLock { $0.watchers.values.reduce(into: []) { $0.formUnion($1.0) } } }
    /// The devices that are listened to without being connected.
    var heeded: Set<DeviceAddress> { state.withLock { $0.heeders.values.reduce(into: []) { $0.formUnion($1.0) } } }
    var watchesBegun: Int { state.withLock { $0.watchesBegun } }
    /// How often a device was waited for by its address.
    var listens: Int { state.withLock { $0.listens } }
    var mostConnected: Int { state.withLock { $0.mostConnected } }

    private func tellOf(_ device: EmulatedDevice) {
        let advertisement = device.advertisement
        guard let address = advertisement.address else { return }
        let (listeners, watchers) = state.withLock { state in
            (Array(state.listeners.values), state.watchers.values.filter { $0.0.contains(address) }.map(\.1))
        }
        if !advertisement.serviceData.isEmpty {
            let heeders = state.withLock { state in
                state.heeders.values.filter { $0.0.contains(address) }.map(\.1)
            }
            for heeder in heeders { heeder.yield(advertisement) }
        }
        for listener in listeners { listener.yield(advertisement) }
        for watcher in watchers { watcher.yield(device) }
    }

    private func linkChanged(_ address: DeviceAddress, _ device: EmulatedDevice, _ isConnected: Bool) {
        let (links, changed) = state.withLock { state in
            let changed =
                isConnected ? state.connected.insert(address).inserted : state.connected.remove(address) != nil
            state.mostConnected = max(state.mostConnected, state.connected.count)
            return (state.links.values.filter { $0.0.contains(address) }.map(\.1), changed)
        }
        guard changed else { return }
        for link in links {
            link.yield(ConnectionChange(address: address, isConnected: isConnected, at: Instant(seconds: 1)))
        }
        if !isConnected, device.behaviour.isInReach { tellOf(device) }
    }

    private func entry(_ address: DeviceAddress) -> Entry? {
        state.withLock { state in state.entries.first { $0.device.behaviour.address.bits == address.bits } }
    }

    private func requireReady() throws {
        if case .unusable(let error) = state.withLock({ $0.adapter }) { throw error }
    }

    // MARK: Radio

    func adapterStates() -> AsyncStream<AdapterState> {
        let (stream, continuation) = AsyncStream.makeStream(of: AdapterState.self)
        let number = state.withLock { state in
            state.next += 1
            state.adapterFollowers[state.next] = continuation
            continuation.yield(state.adapter)
            return state.next
        }
        continuation.onTermination = { [weak self] _ in
            self?.state.withLock { _ = $0.adapterFollowers.removeValue(forKey: number) }
        }
        return stream
    }

    func advertisements() -> AsyncThrowingStream<Advertisement, any Error> {
        let (stream, continuation) = AsyncThrowingStream.makeStream(of: Advertisement.self)
        if case .unusable(let error) = state.withLock({ $0.adapter }) { continuation.finish(throwing: error) }
        let (number, devices) = state.withLock { state in
            state.next += 1
            state.listeners[state.next] = continuation
            return (state.next, state.entries.map(\.device))
        }
        for device in devices where device.behaviour.isInReach { continuation.yield(device.advertisement) }
        continuation.onTermination = { [weak self] _ in
            self?.state.withLock { _ = $0.listeners.removeValue(forKey: number) }
        }
        return stream
    }

    func advertisements(of addresses: Set<DeviceAddress>) -> AsyncThrowingStream<Advertisement, any Error> {
        let (stream, continuation) = AsyncThrowingStream.makeStream(of: Advertisement.self)
        if case .unusable(let error) = state.withLock({ $0.adapter }) { continuation.finish(throwing: error) }
        let (number, devices) = state.withLock { state in
            state.next += 1
            state.heeders[state.next] = (addresses, continuation)
            return (state.next, state.entries.map(\.device))
        }
        for device in devices where device.behaviour.isInReach && addresses.contains(device.behaviour.address) {
            if !device.advertisement.serviceData.isEmpty { continuation.yield(device.advertisement) }
        }
        continuation.onTermination = { [weak self] _ in
            self?.state.withLock { _ = $0.heeders.removeValue(forKey: number) }
        }
        return stream
    }

    func peripherals() -> AsyncThrowingStream<any Peripheral, any Error> {
        peripherals(state.withLock { Set($0.entries.map(\.device.behaviour.address)) })
    }

    func peripherals(_ addresses: Set<DeviceAddress>) -> AsyncThrowingStream<any Peripheral, any Error> {
        let (stream, continuation) = AsyncThrowingStream.makeStream(of: (any Peripheral).self)
        if case .unusable(let error) = state.withLock({ $0.adapter }) { continuation.finish(throwing: error) }
        let (number, devices) = state.withLock { state in
            state.next += 1
            state.watchesBegun += 1
            state.watchers[state.next] = (addresses, continuation)
            return (state.next, state.entries.map(\.device))
        }
        for device in devices where device.behaviour.isInReach && !device.isConnected {
            if addresses.contains(device.behaviour.address) { continuation.yield(device) }
        }
        continuation.onTermination = { [weak self] _ in
            self?.state.withLock { _ = $0.watchers.removeValue(forKey: number) }
        }
        return stream
    }

    func peripheral(_ address: DeviceAddress, within timeout: Duration) async throws -> any Peripheral {
        state.withLock { $0.listens += 1 }
        let end = clock.now.advanced(by: timeout)
        // Asleep on the clock, so that a test sees that somebody waits.
        let sleeping = Task { try? await clock.sleep(until: end, tolerance: nil) }
        defer { sleeping.cancel() }
        while true {
            try requireReady()
            try Task.checkCancellation()
            if let device = entry(address)?.device, device.behaviour.isInReach { return device }
            guard clock.now < end else { throw RadioError.notSeen(address, within: timeout) }
            try await Task.sleep(for: .milliseconds(1))
        }
    }

    func pair(_ address: DeviceAddress, within timeout: Duration, agent: any PairingAgent) async throws -> Bond {
        guard let device = try await peripheral(address, within: timeout) as? EmulatedDevice, let entry = entry(address)
        else { throw RadioError.notSeen(address, within: timeout) }
        switch entry.script {
        case .justWorks:
            guard try await agent.allowUnauthenticated(device.advertisement) else {
                throw RadioError.pairing(.rejectedHere)
            }
        case .passkey(let passkey):
            guard try await agent.passkey(shownBy: device.advertisement) == passkey else {
                throw RadioError.pairing(.wrongPasskey)
            }
        case .fails(let failure): throw RadioError.pairing(failure)
        }
        device.change { behaviour in
            behaviour.isPaired = true
            behaviour.knowsBond = true
            behaviour.address = entry.identity ?? behaviour.address
            if behaviour.sleepsAfterBonding { behaviour.isInReach = false }
        }
        return Bond(address: device.behaviour.address, name: device.behaviour.name)
    }

    func unpair(_ address: DeviceAddress) async throws -> Bool {
        try requireReady()
        guard let device = entry(address)?.device, device.behaviour.isPaired else { return false }
        device.change { $0.isPaired = false }
        return true
    }

    func bonds() async throws -> [Bond] {
        try requireReady()
        return state.withLock { $0.entries.map(\.device.behaviour) }.filter(\.isPaired).map { behaviour in
            Bond(address: behaviour.address, name: behaviour.name)
        }
    }

    func bondedElsewhere(among addresses: Set<DeviceAddress>) async throws -> Set<DeviceAddress> {
        state.withLock { $0.keptElsewhere.intersection(addresses) }
    }

    func connectionChanges(_ addresses: Set<DeviceAddress>) -> AsyncThrowingStream<ConnectionChange, any Error> {
        let (stream, continuation) = AsyncThrowingStream.makeStream(of: ConnectionChange.self)
        if case .unusable(let error) = state.withLock({ $0.adapter }) { continuation.finish(throwing: error) }
        let (number, connected) = state.withLock { state in
            state.next += 1
            state.links[state.next] = (addresses, continuation)
            return (state.next, state.connected)
        }
        for address in addresses.sorted(by: { $0.bits < $1.bits }) {
            continuation.yield(
                ConnectionChange(
                    address: address, isConnected: connected.contains(address), at: Instant(seconds: 0)))
        }
        continuation.onTermination = { [weak self] _ in
            self?.state.withLock { _ = $0.links.removeValue(forKey: number) }
        }
        return stream
    }
}

/// An agent with one answer to each question.
struct TestAgent: PairingAgent {
    var passkey: UInt32 = 123_456
    var confirms = true

    func passkey(shownBy device: Advertisement) async throws -> UInt32 { passkey }
    func show(passkey: UInt32, typed: Int, at device: Advertisement) async {}
    func confirm(_ digits: UInt32, shownBy device: Advertisement) async throws -> Bool { confirms }
    func allowUnauthenticated(_ device: Advertisement) async throws -> Bool { confirms }
}

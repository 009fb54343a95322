import Foundation
import GATTClient
import HealthReadings
import Synchronization

/// A radio with meters in reach, at the seam that BlueZ stands behind.
package final class EmulatedRadio: Radio {
    private struct State {
        var adapter: AdapterState
        var meters: [EmulatedMeter]
        var listeners: [Int: AsyncStream<Void>.Continuation] = [:]
        var next = 0
        var discoveries = 0
        var waits = 0
    }

    private let state: Mutex<State>

    /// A radio with these meters in reach.
    package init(_ meters: [EmulatedMeter] = [], adapter: AdapterState = .emulated) {
        state = Mutex(State(adapter: adapter, meters: meters))
        for meter in meters { meter.onChange { [weak self] in self?.tell() } }
    }

    // MARK: For tests

    /// How many look for devices now.
    package var discoveries: Int { state.withLock(\.discoveries) }
    /// How often a meter was waited for by itself.
    package var waits: Int { state.withLock(\.waits) }

    package func setAdapter(_ adapter: AdapterState) {
        state.withLock { $0.adapter = adapter }
        tell()
    }

    package func add(_ meter: EmulatedMeter) {
        state.withLock { $0.meters.append(meter) }
        meter.onChange { [weak self] in self?.tell() }
        tell()
    }

    private func tell() {
        for listener in state.withLock({ Array($0.listeners.values) }) { listener.yield() }
    }

    /// An element now and at each change.
    private func changes() -> AsyncStream<Void> {
        AsyncStream(bufferingPolicy: .bufferingNewest(1)) { continuation in
            let number = state.withLock { state in
                state.next += 1
                state.listeners[state.next] = continuation
                return state.next
            }
            continuation.onTermination = { [weak self] _ in
                _ = self?.state.withLock { $0.listeners.removeValue(forKey: number) }
            }
            continuation.yield()
        }
    }

    private func reachable(_ address: DeviceAddress) -> EmulatedMeter? {
        meters.first { $0.address.bits == address.bits && $0.isAwake && !$0.isConnected }
    }

    private var meters: [EmulatedMeter] { state.withLock(\.meters) }
    private func checkAdapter() throws(RadioError) {
        if case .unusable(let error) = state.withLock(\.adapter) { throw error }
    }

    /// A stream fed by a task of its own that ends with it.
    ///
    /// - Parameter first: what the stream has from the beginning.
    private func stream<Element: Sendable>(
        discovering: Bool = false, first: [Element] = [],
        _ body: @escaping @Sendable (AsyncThrowingStream<Element, any Error>.Continuation) async throws -> Void
    ) -> AsyncThrowingStream<Element, any Error> {
        AsyncThrowingStream { continuation in
            if discovering { state.withLock { $0.discoveries += 1 } }
            for element in first { continuation.yield(element) }
            let task = Task {
                do {
                    try await body(continuation)
                    continuation.finish()
                } catch {
                    continuation.finish(throwing: error)
                }
            }
            continuation.onTermination = { [weak self] _ in
                task.cancel()
                if discovering { self?.state.withLock { $0.discoveries -= 1 } }
            }
        }
    }

    // MARK: Radio

    package func adapterStates() -> AsyncStream<AdapterState> {
        let changes = changes()
        return AsyncStream { continuation in
            let task = Task {
                var last: AdapterState?
                for await _ in changes {
                    let now = self.state.withLock(\.adapter)
                    if now != last { continuation.yield(now) }
                    last = now
                }
                continuation.finish()
            }
            continuation.onTermination = { _ in task.cancel() }
        }
    }

    package func advertisements() -> AsyncThrowingStream<Advertisement, any Error> {
        stream(discovering: true) { continuation in
            var told: [DeviceAddress: Advertisement] = [:]
            for await _ in self.changes() {
                try self.checkAdapter()
                for meter in self.meters where meter.isAwake {
                    var now = meter.advertisement
                    if let last = told[meter.address] { now.seenAt = last.seenAt }
                    if told[meter.address] != now { continuation.yield(now) }
                    told[meter.address] = now
                }
            }
        }
    }

    package func peripherals() -> AsyncThrowingStream<any Peripheral, any Error> {
        peripherals(Set(meters.map(\.address)))
    }

    package func peripherals(_ addresses: Set<DeviceAddress>) -> AsyncThrowingStream<any Peripheral, any Error> {
        // However busy the machine is, those that are there have been heard in time.
        let isUsable = (try? checkAdapter()) != nil
        let there = meters.filter { isUsable && addresses.contains($0.address) && $0.isAwake && !$0.isConnected }
        return stream(first: there) { continuation in
            var wasThere = Set(there.map(\.address))
            for await _ in self.changes() {
                try self.checkAdapter()
                for meter in self.meters where addresses.contains(meter.address) {
                    let isThere = meter.isAwake && !meter.isConnected
                    if isThere, wasThere.insert(meter.address).inserted { continuation.yield(meter) }
                    if !isThere { wasThere.remove(meter.address) }
                }
            }
        }
    }

    package func peripheral(_ address: DeviceAddress, within timeout: Duration) async throws -> any Peripheral {
        state.withLock { $0.waits += 1 }
        try checkAdapter()
        // However busy the machine is, one that is there has been heard in time.
        if let meter = reachable(address) { return meter }
        return try await withThrowingTaskGroup(of: (any Peripheral)?.self) { group in
            defer { group.cancelAll() }
            group.addTask {
                for await _ in self.changes() {
                    try self.checkAdapter()
                    if let meter = self.reachable(address) { return meter }
                }
                return nil
            }
            group.addTask {
                try await Task.sleep(for: timeout)
                return nil
            }
            guard let found = try await group.next() ?? nil else {
                try Task.checkCancellation()
                throw RadioError.notSeen(address, within: timeout)
            }
            return found
        }
    }

    package func pair(
        _ address: DeviceAddress, within timeout: Duration, agent: any PairingAgent
    ) async throws -> Bond {
        guard let meter = try await peripheral(address, within: timeout) as? EmulatedMeter else {
            throw RadioError.notSeen(address, within: timeout)
        }
        try await meter.pair(agent)
        return Bond(address: meter.address, name: meter.advertisement.name, isConnected: true)
    }

    @discardableResult package func unpair(_ address: DeviceAddress) async throws -> Bool {
        try checkAdapter()
        guard let meter = meters.first(where: { $0.address == address && $0.isBonded }) else { return false }
        meter.cut()
        meter.bond(false)
        return true
    }

    package func bonds() async throws -> [Bond] {
        try checkAdapter()
        return meters.filter(\.isBonded).map {
            Bond(address: $0.address, name: $0.advertisement.name, isConnected: $0.isConnected)
        }
    }

    package func connectionChanges(
        _ addresses: Set<DeviceAddress>
    ) -> AsyncThrowingStream<ConnectionChange, any Error> {
        stream { continuation in
            var told: [DeviceAddress: Bool] = [:]
            for await _ in self.changes() {
                try self.checkAdapter()
                for meter in self.meters where addresses.contains(meter.address) {
                    let now = meter.isConnected
                    if told.updateValue(now, forKey: meter.address) != now {
                        continuation.yield(ConnectionChange(address: meter.address, isConnected: now, at: .now))
                    }
                }
            }
        }
    }
}

extension AdapterState {
    /// An adapter that can be used.
    package static let emulated = AdapterState.ready(Adapter(name: "hci0", address: DeviceAddress("02:00:00:00:00:01")))
}

extension Instant {
    static var now: Instant { .systemClock }
}

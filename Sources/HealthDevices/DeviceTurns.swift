import GATTClient
import HealthReadings

/// Who does something with which device: one at a time, so that nothing is asked of a device that someone else talks
/// to.
actor DeviceTurns {
    /// What became of a wish to read a device.
    enum Entry {
        /// It is the caller's turn.
        case entered
        /// It is being read already, and this is how to follow.
        case joins(SharedTransfer)
        /// Something else is done with it.
        case occupied
    }

    /// What somebody who waits for a device wants with it.
    enum Wish: Hashable {
        /// Nothing for which anything else has to end.
        case whenFree
        /// To watch it for as long as it sends: a transfer that has no end of its own is to end for that.
        case watch
        /// Something that comes to an end: whoever watches it is to end for that, too.
        case use
    }

    private var occupied: [DeviceAddress: SharedTransfer?] = [:]
    private var waiting: [DeviceAddress: [AsyncStream<Never>.Continuation]] = [:]
    /// How many wait for a device, and for what.
    private var wishes: [DeviceAddress: [Wish: Int]] = [:]

    /// Takes the turn to read, where the device is free.
    func enter(_ address: DeviceAddress, reading transfer: SharedTransfer) -> Entry {
        switch occupied[address] {
        case nil:
            occupied[address] = transfer
            return .entered
        case .some(let current?) where !transfer.wantsAll || current.wantsAll: return .joins(current)
        case .some: return .occupied
        }
    }

    /// Does something with a device when it is its turn.
    nonisolated func inTurn<Result: Sendable>(
        _ address: DeviceAddress, to wish: Wish = .use, _ body: () async throws -> Result
    ) async throws -> Result {
        while await !take(address) { try await waitForTurn(address, to: wish) }
        do {
            let result = try await body()
            await leave(address)
            return result
        } catch {
            await leave(address)
            throw error
        }
    }

    private func take(_ address: DeviceAddress) -> Bool {
        guard occupied[address] == nil else { return false }
        occupied[address] = .some(nil)
        return true
    }

    /// Waits until whoever has the device now lets go of it; somebody else may have been faster then.
    func waitForTurn(_ address: DeviceAddress, to wish: Wish = .use) async throws {
        try Task.checkCancellation()
        guard occupied[address] != nil else { return }
        let (stream, continuation) = AsyncStream.makeStream(of: Never.self)
        waiting[address, default: []].append(continuation)
        wishes[address, default: [:]][wish, default: 0] += 1
        for await _ in stream {}
        let left = (wishes[address]?[wish] ?? 1) - 1
        wishes[address]?[wish] = left > 0 ? left : nil
        if wishes[address]?.isEmpty == true { wishes[address] = nil }
        try Task.checkCancellation()
    }

    /// Whether somebody waits for a device to do something else with it.
    ///
    /// - Parameter orWatched: whether to watch it counts.
    func isWanted(_ address: DeviceAddress, orWatched: Bool = true) -> Bool {
        let wishes = wishes[address] ?? [:]
        return wishes[.use] != nil || (orWatched && wishes[.watch] != nil)
    }

    /// Lets go of a device.
    func leave(_ address: DeviceAddress) {
        occupied[address] = nil
        for continuation in waiting.removeValue(forKey: address) ?? [] { continuation.finish() }
    }
}

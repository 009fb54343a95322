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

    private var occupied: [DeviceAddress: SharedTransfer?] = [:]
    private var waiting: [DeviceAddress: [AsyncStream<Never>.Continuation]] = [:]
    /// How many wait for a device to do something else with it.
    private var wanting: [DeviceAddress: Int] = [:]

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
        _ address: DeviceAddress, _ body: () async throws -> Result
    ) async throws -> Result {
        while await !take(address) { try await waitForTurn(address) }
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
    ///
    /// - Parameter isUrgent: whether a transfer that has no end of its own is to end for that.
    func waitForTurn(_ address: DeviceAddress, isUrgent: Bool = true) async throws {
        try Task.checkCancellation()
        guard occupied[address] != nil else { return }
        let (stream, continuation) = AsyncStream.makeStream(of: Never.self)
        waiting[address, default: []].append(continuation)
        if isUrgent { wanting[address, default: 0] += 1 }
        for await _ in stream {}
        if isUrgent {
            let left = (wanting[address] ?? 1) - 1
            wanting[address] = left > 0 ? left : nil
        }
        try Task.checkCancellation()
    }

    /// Whether somebody waits for a device to do something else with it.
    func isWanted(_ address: DeviceAddress) -> Bool { wanting[address] != nil }

    /// Lets go of a device.
    func leave(_ address: DeviceAddress) {
        occupied[address] = nil
        for continuation in waiting.removeValue(forKey: address) ?? [] { continuation.finish() }
    }
}

import GATTClient
import HealthReadings

extension Peripheral {
    /// Does something while these characteristics notify or indicate, and stops them again whatever comes of it.
    ///
    /// Notifications stop before every disconnect: a cuff still subscribed sends, and deletes, on its next connection.
    /// That also holds where the task was cancelled, or enabling one of them failed half-way.
    ///
    /// - Parameters:
    ///   - characteristics: enabled in this order, stopped in the reverse one.
    ///   - optional: those among them that the device may refuse.
    ///   - farewell: how long the device may take to hang up when all is done, where it is not to be told to stop; then
    ///     whoever disconnects does so first. Where it is not given, notifications are stopped.
    ///   - whenRefused: told of each of these that it does refuse; may end it all.
    func whileNotifying<Result>(
        _ characteristics: [Characteristic], optional: [BluetoothUUID] = [], farewell: Duration? = nil,
        whenRefused: (Characteristic, GATTError) throws -> Void = { _, _ in }, _ body: () async throws -> Result
    ) async throws -> Result {
        var notifying: [Characteristic] = []
        if farewell != nil { await keepNotifying() }
        do {
            for characteristic in characteristics {
                try Task.checkCancellation()
                notifying.append(characteristic)
                do {
                    try await startNotifying(characteristic)
                } catch GATTError.attribute(let code) where optional.contains(characteristic.uuid) {
                    notifying.removeLast()
                    try whenRefused(characteristic, .attribute(code))
                }
            }
            let result = try await body()
            if let farewell { try? await drain(until: farewell) } else { await stop(notifying) }
            return result
        } catch {
            if farewell == nil { await stop(notifying) }
            throw error
        }
    }

    /// Disconnects, also where the task was cancelled.
    func disconnectSurely() async { await shieldedFromCancellation { await disconnect() } }

    /// Takes what still comes until the device hangs up, or falls silent for so long. The rest of an answer that was none
    /// would spoil the next one, too.
    func drain(until silence: Duration, most: Int = 64) async throws {
        for _ in 0..<most {
            guard case .values = try await nextValues(within: silence) else { return }
        }
    }

    private func stop(_ characteristics: [Characteristic]) async {
        await shieldedFromCancellation {
            for characteristic in characteristics.reversed() { try? await stopNotifying(characteristic) }
        }
    }
}

import GATTClient
import HealthReadings
import Logging

extension DevicesManager {
    /// After how long a reading on request leaves a device that goes on sending what it measures. No measurement takes longer.
    static let longestRead: Duration = .seconds(300)
    /// For how long a device that has not measured yet is kept from others who wait.
    static let unsharedTime: Duration = .seconds(15)
    /// For how long a device that sends is kept from them: by then a scale has sent all that it has stored.
    static let sendingTime: Duration = .seconds(60)

    /// Waits for a paired device and takes what is new on it, as a stream of what happens; it ends with
    /// ``TransferEvent/ended(_:)``. Ending the iteration ends the transfer: what came is kept.
    ///
    /// See ``read(_:within:allRecords:report:)`` for the parameters and errors.
    public func read(
        _ address: DeviceAddress, within timeout: Duration = .seconds(60), allRecords: Bool = false
    ) -> AsyncThrowingStream<TransferEvent, any Error> {
        .producing { yield in
            try await read(address, within: timeout, allRecords: allRecords) { yield($0) }
        }
    }

    /// Waits for a paired device and takes what is new on it.
    ///
    /// Where the device is being read already, that transfer is joined: what it has brought so far is told first. Of a transfer
    /// that has gone on for hours, that is its beginning and the newest events.
    /// A device that sends what it measures for as long as it is worn, as some thermometers do, is left after five minutes; if
    /// its transfer was joined and is older than that, this returns once it has told what came so far.
    /// Cancelling ends a transfer that was begun here, and keeps what came. Of a device that is never connected
    /// (``DeviceModel/isOnlyHeard``) the next measurement is waited for.
    ///
    /// - Parameters:
    ///   - address: the device's address; it has to be paired.
    ///   - timeout: how long the device may take to be heard and connected.
    ///   - allRecords: asks a glucose meter for all its records, also those that were read before; reading a record
    ///     again changes nothing. Other devices send what they choose.
    ///   - report: told what happens, in order; the transfer goes on when it returns.
    /// - Returns: how the contact ended. A partial transfer is not an error here but in the summary.
    /// - Throws: `RadioError` (`RadioError.notBonded(_:)`, `RadioError.notSeen(_:within:)`,
    ///   `RadioError.forgottenByDevice(_:)`, …), ``ContactFailure/barred(_:)``, `nothing_to_read` for a
    ///   device that measures when it is told to, `GATTError` where the contact could not begin, an error of the
    ///   journal or the memory, and `CancellationError`.
    @discardableResult public func read(
        _ address: DeviceAddress, within timeout: Duration = .seconds(60), allRecords: Bool = false,
        report: @escaping @Sendable (TransferEvent) async -> Void
    ) async throws -> ContactSummary {
        let known: DeviceAddress?
        do {
            known = try await bonded(address)
        } catch {
            faultBoard.note(error, of: address)
            throw error
        }
        guard let bond = known else { throw RadioError.notBonded(address) }
        guard try await !isBarred(bond) else { throw ContactFailure.barred(bond) }
        guard try await !measuresOnCommand(bond) else { throw ContactFailure.measuresOnCommand(bond) }
        var listening = sharedListening
        while true {
            let transfer = SharedTransfer(wantsAll: allRecords)
            switch await turns.enter(bond, reading: transfer) {
            case .entered:
                return try await perform(transfer, of: bond) {
                    if try await isOnlyHeard(bond) {
                        return try await hearMeasurement(of: bond, within: timeout, transfer, report)
                    }
                    return try await readWhenHeard(bond, within: timeout, listening, transfer, report)
                }
            case .occupied: try await turns.waitForTurn(bond)
            case .joins(let current):
                do {
                    return try await follow(current, report)
                } catch is CancellationError where !Task.isCancelled {
                    // Whoever had begun it gave up; we have not.
                    try await turns.waitForTurn(bond)
                }
            }
            // Others had the device meanwhile: that it was heard before says nothing of now.
            listening = nil
        }
    }

    /// Reads a device that has just been heard, where nobody else is at it.
    ///
    /// - Returns: whether it was read, however that ended.
    func readUnlessOccupied(
        _ peripheral: any Peripheral, at address: DeviceAddress,
        report: @escaping @Sendable (TransferEvent) async -> Void
    ) async -> Bool {
        let transfer = SharedTransfer(wantsAll: false)
        guard case .entered = await turns.enter(address, reading: transfer) else { return false }
        _ = try? await perform(transfer, of: address) {
            let isOver = end(of: transfer, with: address, isRequested: false)
            return try await reader.read(peripheral, allRecords: false, until: isOver) { event in
                transfer.note(event)
                await report(event)
            }
        }
        return true
    }

    /// Whether to leave a device that has not measured yet, or sends for as long as it is worn. Its time begins now.
    ///
    /// - Parameter isRequested: whether somebody has asked for the transfer, and waits for its end.
    private func end(
        of transfer: SharedTransfer, with address: DeviceAddress, isRequested: Bool
    ) -> @Sendable () async -> Bool {
        let elapsed = clock.stopwatch()
        return { [turns] in
            let time = elapsed()
            if time >= Self.longestRead, !isRequested { transfer.letFollowersGo() }
            var isOver = time >= Self.longestRead && isRequested
            let patience = transfer.hasSent ? Self.sendingTime : Self.unsharedTime
            if !isOver, time >= patience { isOver = await turns.isWanted(address) }
            if isOver { transfer.noteLeft() }
            return isOver
        }
    }

    private func readWhenHeard(
        _ address: DeviceAddress, within timeout: Duration, _ listening: SharedListening?, _ transfer: SharedTransfer,
        _ report: @escaping @Sendable (TransferEvent) async -> Void
    ) async throws -> ContactSummary {
        let elapsed = clock.stopwatch()
        while true {
            let peripheral: any Peripheral
            if let heard = try await listening?.peripheral(address) {
                peripheral = heard
            } else {
                peripheral = try await radio.peripheral(address, within: max(timeout - elapsed(), .zero))
            }
            // Whoever had the turn before may have removed the bond.
            guard try await isPaired(peripheral.advertisement) else { throw RadioError.notBonded(address) }
            guard catalogue.model(for: peripheral.advertisement)?.measuresOnCommand != true else {
                throw ContactFailure.measuresOnCommand(address)
            }
            do {
                let isOver = end(of: transfer, with: address, isRequested: true)
                return try await reader.read(peripheral, allRecords: transfer.wantsAll, until: isOver) { event in
                    transfer.note(event)
                    await report(event)
                }
            } catch let error where Self.mayConnectLater(error) && !transfer.hasBegun && elapsed() < timeout {
                logger.debug("a device could not be connected; it is waited for: \(error)")
                try await clock.sleep(for: Self.reconnectPause)
            }
        }
    }

    static func mayConnectLater(_ error: any Error) -> Bool {
        switch error {
        case GATTError.disconnected, GATTError.timedOut, RadioError.notConnected: true
        default: false
        }
    }

    /// Performs a reading whose turn it is, and tells everyone how it ended.
    private func perform(
        _ transfer: SharedTransfer, of address: DeviceAddress, _ body: () async throws -> ContactSummary
    ) async throws -> ContactSummary {
        let result: Result<ContactSummary, any Error>
        do { result = .success(try await body()) } catch { result = .failure(error) }
        let course = transfer.course
        let mayBeMeasuring = course.model.flatMap { catalogue[$0] }?.mayBeMeasuring == true
        faultBoard.note(result, of: address)
        // Told before the device is free, so that nobody takes it for one that has just come.
        changes.post(.ended(address, ReadingOutcome(result, course, mayBeMeasuring: mayBeMeasuring)))
        await turns.leave(address)
        transfer.finish(result)
        return try result.get()
    }

    private func follow(
        _ transfer: SharedTransfer, _ report: @Sendable (TransferEvent) async -> Void
    ) async throws -> ContactSummary {
        var summary: ContactSummary?
        for try await event in transfer.events() {
            if case .ended(let ended) = event { summary = ended }
            await report(event)
        }
        if let summary { return summary }
        guard let soFar = transfer.summarySoFar else { throw CancellationError() }
        await report(.ended(soFar))
        return soFar
    }
}

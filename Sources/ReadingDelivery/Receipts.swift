import HealthReadings
import Logging
import ReadingStore

extension OutboxWorker {
    /// Keeps the destination's connection for as long as the worker runs: begun again, after a growing wait, each time it is
    /// lost.
    func keepConnection() async {
        await restoreDelay()
        var (failures, pauses) = (0, 0)
        if let refusal = circuit.server, refusal.failure.needsPerson {
            pauses = refusal.pauses
            connectionPause = refusal
            await waitToConnect(refusal.due - clock.uptime())
        }
        while !Task.isCancelled {
            let begun = clock.uptime()
            do {
                try await destination.run(
                    DestinationContext(store: store, place: place(), wakes: { Task { await self.connected() } }))
                state.connectionFailure = nil
                connectionPause = nil
                return
            } catch {
                let failure = DeliveryFailure(error)
                guard !failure.isCancellation, !Task.isCancelled else { return }
                // One that lived for long was a good one.
                failures = clock.uptime() - begun > options.backoff.longest ? 1 : failures + 1
                state.connectionFailure = failure
                pauses = failure.isRetryable ? 0 : pauses + 1
                connectionPause =
                    failure.isRetryable
                    ? nil
                    : Circuit.Failure(failure, count: failures, pauses: pauses, at: clock.uptime(), options.backoff)
                // A wrong password is not sent again and again: some servers lock out whoever does.
                let wait =
                    connectionPause.map { $0.due - clock.uptime() }
                    ?? options.backoff.delay(failures: failures, retryAfter: failure.retryAfter)
                logger.notice(
                    "the destination's connection was lost",
                    metadata: ["code": "\(failure.code)", "again_in": "\(wait)"])
                await noteDelay()
                await waitToConnect(wait)
            }
        }
    }

    /// Waits before the connection is made again; ends early if a person has settled what was wrong, or a delivery got
    /// through.
    private func waitToConnect(_ wait: Duration) async {
        guard wait > .zero else { return }
        isWaitingToConnect = true
        await connectionSignal.wait(atMost: wait, endedBy: .soft, sleep: clock.sleep)
        isWaitingToConnect = false
    }

    /// Ends the wait before the connection is made again, if that is waited for.
    func connectSooner() {
        guard isWaitingToConnect else { return }
        isWaitingToConnect = false
        connectionSignal.signal(.soft)
    }

    /// Notes receipts as they come.
    func takeReceipts() async {
        for await receipt in destination.acknowledgements {
            do {
                try await take(receipt)
            } catch {
                // The readings are sent again when their time is over.
                logger.warning("a receipt could not be noted", metadata: ["code": "\(DeliveryFailure(error).code)"])
            }
        }
    }

    /// Notes a receipt. One for readings that were sent again, changed or erased meanwhile changes nothing.
    func take(_ receipt: Acknowledgement) async throws {
        switch receipt.result {
        case .delivered:
            try await store.acknowledge(receipt.ids, at: clock.now())
            state.lastSuccess = clock.now()
        case .refused(let words):
            for id in receipt.ids { try await store.reject(id, serverSaid: words) }
        case .handedOver, .failed: break
        }
    }

    /// How long readings wait for their receipts now.
    var receiptTimeout: Duration { grownReceiptTimeout ?? options.receiptTimeout }

    /// Has readings wait again whose receipt has not come in time.
    func requeueOverdue(at place: DestinationKey) async throws {
        let (timeout, now) = (receiptTimeout, clock.now())
        let count = try await store.requeueHandedOver(
            at: place, before: now.advanced(by: .zero - timeout), now: now)
        if count > 0 {
            logger.notice(
                "readings are sent again: no receipt came",
                metadata: ["readings": "\(count)"])
            if let longest = options.longestReceiptTimeout { grownReceiptTimeout = min(timeout * 2, longest) }
        }
        if try await store.handedOverCount(at: place) == 0 {
            receiptDue = nil
            if count == 0 { grownReceiptTimeout = nil }
        } else if receiptDue.map({ $0 <= clock.uptime() }) ?? true {
            receiptDue = clock.uptime() + receiptTimeout
        }
    }
}

import HealthReadings
import Logging
import ReadingStore

/// A process that is started again and again must not ask each time what has asked to be left alone, or has refused a key.
extension OutboxWorker {
    /// Refusals of a key: some servers count them, delay the sender's address, or tell the owner of each.
    private static let refusals: Set<String> = ["authentication_failed", "forbidden", "token_expired"]

    /// Goes on where an earlier process ended, once.
    func restoreDelay() async {
        // A store without its key cannot say so yet.
        guard !isDelayRestored, let place = try? await place(), let delay = try? await store.delay(of: place),
            !isDelayRestored
        else { return }
        isDelayRestored = true
        let restored = Circuit.Failure(delay, at: clock.uptime(), wall: clock.now())
        noted = restored
        isNotedForLater = delay.outlivesProcess
        guard delay.outlivesProcess, delay.settings == options.settingsMark, circuit.server == nil else { return }
        circuit.restore(restored)
        showNext()
    }

    /// Notes in the store what failed and how long that is waited for, or that nothing failed.
    func noteDelay() async {
        guard let place = known else { return }
        let server = circuit.server ?? connectionPause
        let failure = server ?? circuit.next
        let outlives = server.map { server in
            server.failure.needsPerson
                ? Self.refusals.contains(server.failure.code) : server.failure.retryAfter != nil
        }
        // Of a wait that ends with the process only its reason is told, and that none of earlier outlives it.
        guard
            failure?.failure.code != noted?.failure.code || (outlives == true) != isNotedForLater
                || outlives == true && failure?.due != noted?.due
        else { return }
        let delay = failure.map { failure in
            let wait = max(.zero, failure.due - clock.uptime())
            return DeliveryDelay(
                due: clock.now().advanced(by: wait), seconds: wait.wholeSeconds, outlivesProcess: outlives == true,
                needsPerson: failure.failure.needsPerson, failures: failure.count, pauses: failure.pauses,
                settings: options.settingsMark, code: failure.failure.code, message: failure.failure.message)
        }
        do {
            // A process that is told to end has to leave this behind.
            try await shieldedFromCancellation { [store] in try await store.setDelay(delay, of: place) }
            noted = failure
            isNotedForLater = outlives == true
        } catch {
            // The next failure is noted again; until then only this process knows.
            logger.debug("a delay could not be noted", metadata: ["code": "\(DeliveryFailure(error).code)"])
        }
    }

    /// Forgets every failure and begins a pass at once: whoever asks has settled what caused them.
    public func forgetFailures() async {
        await restoreDelay()
        circuit.forget()
        connectionPause = nil
        showNext()
        await noteDelay()
        connectSooner()
        retryNow()
    }
}

extension Duration {
    /// Seconds, rounded up.
    var wholeSeconds: Int64 { components.attoseconds > 0 ? components.seconds + 1 : components.seconds }
}

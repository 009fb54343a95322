import HealthReadings
import MQTTLink
import ReadingDelivery
import ReadingFormats
import ReadingStore

extension MQTTDestination {
    /// Publishes a message by itself, on a new connection each time that one ends right behind it.
    ///
    /// MQTT 3.1.1 has no word for a message that is too large: the broker ends the connection. So does one that is just bad. It
    /// is the message's fault if connections that have carried others, for twice as long as they then lasted, end right behind
    /// it, one after the other, and the next one still carries others.
    ///
    /// - Returns: the connection; and why the broker does not take the message, `nil` if it has it.
    /// - Throws: what went wrong with a connection otherwise.
    func publishAlone(
        _ message: MQTTMessage
    ) async throws(DeliveryFailure) -> (link: Link, refusal: DeliveryFailure?) {
        let isKnown = cutSize.map { message.payload.count >= $0 } ?? false
        let before = try await holds()
        var (cuts, pause, lost) = (0, pace.steady, DeliveryFailure?.none)
        while cuts < (isKnown ? 1 : pace.cuts) {
            let link = try await linked()
            if isKnown || cuts > 0 { try await requireSteady(link, for: pause) }
            // All this takes its time: what was denied since must not go, for example. The next pass sends what still may.
            if let lost, try await holds() != before { throw lost }
            let begun = ContinuousClock.now
            do throws(MQTTError) {
                try await link.connection.publish(message)
                if isKnown { cutSize = nil }
                return (link, nil)
            } catch {
                let lasted = ContinuousClock.now - begun
                guard error.kind == .lost, lasted < pace.soon else { throw DeliveryFailure(error) }
                lost = DeliveryFailure(error)
                cuts += 1
                pause = max(pause, lasted * 2)
            }
        }
        let link = try await linked()
        try await requireSteady(link, for: pause)
        cutSize = min(cutSize ?? .max, message.payload.count)
        var refusal = DeliveryFailure(
            .items, code: "payload_too_large",
            message: "the broker ends the connection whenever it gets this recording of "
                + "\(message.payload.count >> 10) KiB, and takes other messages: raise the size of messages that it takes",
            needsPerson: true)
        refusal.isOfTargetAlone = true
        return (link, refusal)
    }

    /// What keeps readings from the destination now.
    private func holds() async throws(DeliveryFailure) -> DeliveryHolds {
        do { return try await store.deliveryHolds(at: try await key()) } catch { throw DeliveryFailure(error) }
    }

    /// Has a connection carry two messages, some time apart, which say what the broker keeps already.
    ///
    /// - Throws: why it ended.
    private func requireSteady(_ link: Link, for pause: Duration) async throws(DeliveryFailure) {
        let status = MQTTMessage(
            topic: link.naming.topics.status, text: link.hasWill ? "online" : "offline", isRetained: true)
        for wait in [Duration.zero, pause] {
            do { try await Task.sleep(for: wait) } catch { throw DeliveryFailure(error) }
            do throws(MQTTError) {
                try await link.connection.publish(status)
            } catch {
                // A refusal has come over it, too.
                guard link.connection.isOpen else { throw DeliveryFailure(error) }
            }
        }
    }
}

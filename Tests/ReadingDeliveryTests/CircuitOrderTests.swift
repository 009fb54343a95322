import HealthReadings
import ReadingStore
import Testing

@testable import ReadingDelivery

@Suite("Circuit")
struct CircuitOrderTests {
    @Test("a group that failed is tried after those that did not, and one whose readings are gone has not failed")
    func ordered() {
        func target(_ name: String) -> DeliveryTarget {
            DeliveryTarget(user: UserKey(rawValue: 1), resource: .glucose, provider: name)
        }
        var circuit = Circuit()
        let failure = DeliveryFailure(.target, code: "server_error", message: "it failed")
        let goesOn = circuit.failed(
            target("a"), failure, at: .seconds(10), Backoff(jitter: { 1 }))
        #expect(goesOn && circuit.isWaiting(target("a"), at: .seconds(11.9)))
        #expect(!circuit.isWaiting(target("a"), at: .seconds(12)) && circuit.next?.due == .seconds(12))
        #expect(circuit.ordered(["a", "b", "c"], by: target) == ["b", "c", "a"])
        circuit.keep(only: [target("b")])
        #expect(circuit.next == nil)
    }

    @Test("targets that fail for want of what others do not need are no sign that the server fails")
    func alone() {
        var circuit = Circuit()
        var failure = DeliveryFailure(.target, code: "forbidden", message: "no notes", needsPerson: true)
        failure.isOfTargetAlone = true
        for number in 0..<(2 * Circuit.tolerance) {
            let target = DeliveryTarget(
                user: UserKey(rawValue: 1), resource: .bloodPressure, provider: "cuff \(number)")
            let isNew = circuit.failed(target, failure, at: .zero, Backoff(jitter: { 1 }))
            #expect(isNew)
            #expect(circuit.isWaiting(target, at: .zero))
        }
        #expect(circuit.server == nil)
    }
}

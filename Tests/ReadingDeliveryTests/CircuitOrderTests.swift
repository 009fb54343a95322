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

    @Test("a store that fails is not waited for by a receiver's list, and is no failure of the receiver")
    func ofStore() {
        var backoff = Backoff(schedule: [.seconds(5), .seconds(300), .seconds(86_400)])
        backoff.jitter = { 1 }
        var circuit = Circuit()
        for _ in 0..<20 {
            let goesOn = circuit.failed(nil, DeliveryFailure(StoreError.diskFull), at: .zero, backoff)
            #expect(!goesOn)
        }
        let due = circuit.next?.due ?? .zero
        #expect(due > .seconds(800) && due <= .seconds(900), "\(due)")
        let failure = DeliveryFailure(.destination, code: "server_error", message: "it failed")
        for wait in [6, 331] {
            let goesOn = circuit.failed(nil, failure, at: .zero, backoff)
            let due = circuit.next?.due ?? .zero
            #expect(!goesOn && due > .zero && due < .seconds(wait), "\(due)")
        }
        for (now, due) in [(0, 330), (400, 404)] as [(Int64, Int64)] {
            let goesOn = circuit.failed(nil, DeliveryFailure(StoreError.diskFull), at: .seconds(now), backoff)
            // What the receiver is still waited for stays.
            #expect(!goesOn && circuit.next?.due == .seconds(due), "\(String(describing: circuit.next?.due))")
        }
    }
}

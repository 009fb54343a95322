import HealthReadings
import Testing

@testable import HealthDevices

/// The plan by itself: whatever happens in whatever order, it stays sound.
@Suite struct SchedulePlanTests {
    private static let failure = ContactFailure(code: "x", description: "x")

    private func plan() -> SchedulePlan {
        var pace = SchedulePace()
        pace.jitter = { $0 }
        return SchedulePlan(pace: pace) { _ in .seconds(300) }
    }

    @Test("no more than two at a time, no device twice, no timer for what is away, whatever happens")
    func property() {
        var generator = SystemRandomNumberGenerator()
        for _ in 0..<200 {
            var plan = plan()
            let all = (1...5).map { DeviceAddress.device(UInt64($0)) }
            var (now, reading, timers, listening) = (
                Duration.zero, Set<DeviceAddress>(), [DeviceAddress: Int](), Set<DeviceAddress>()
            )
            func follow(_ steps: [SchedulePlan.Step]) {
                for step in steps {
                    switch step {
                    case .read(let address):
                        #expect(reading.insert(address).inserted)
                        #expect(reading.count <= 2)
                    case .listen(let address): listening.insert(address)
                    case .wake(let address, let delay, let ticket):
                        #expect(delay >= .zero)
                        timers[address] = ticket
                    case .letSleep(let address): #expect(timers.removeValue(forKey: address) != nil)
                    case .tell: break
                    }
                }
            }
            follow(plan.watch(Set(all), at: now))
            for _ in 0..<200 {
                guard let address = all.randomElement(using: &generator) else { continue }
                now += .seconds(Int.random(in: 0...60, using: &generator))
                switch Int.random(in: 0..<8, using: &generator) {
                case 0...2: follow(plan.heard(address, at: now).steps)
                case 3...4:
                    guard let one = reading.randomElement(using: &generator) else { continue }
                    reading.remove(one)
                    let outcomes: [ReadingOutcome] = [
                        .complete(model: nil), .cut(Self.failure), .failed(Self.failure, isLasting: false),
                        .failed(Self.failure, isLasting: true), .withdrawn,
                    ]
                    follow(plan.ended(one, outcomes.randomElement(using: &generator) ?? .withdrawn, at: now))
                case 5:
                    guard let (one, ticket) = timers.randomElement(using: &generator) else { continue }
                    timers[one] = nil
                    follow(plan.woke(one, ticket: ticket))
                case 6:
                    guard let one = listening.randomElement(using: &generator) else { continue }
                    listening.remove(one)
                    follow(plan.listened(one, isInReach: Bool.random(using: &generator)))
                default:
                    if Bool.random(using: &generator) {
                        follow(plan.radioLost())
                        #expect(timers.isEmpty)
                    } else if let one = reading.randomElement(using: &generator) {
                        reading.remove(one)
                        follow(plan.wasOccupied(one, at: now))
                        follow(plan.freed(one))
                    }
                }
            }
        }
    }

    @Test("a wait is never shorter than nothing, whatever the pace")
    func pace() {
        var pace = SchedulePace()
        pace.backOff = []
        #expect(pace.delay(afterFailures: 3) == .zero)
        pace = SchedulePace()
        for failures in 1...10 {
            let usual = pace.backOff[min(failures, 4) - 1]
            let delay = pace.delay(afterFailures: failures)
            #expect(delay >= usual * 0.8 && delay <= usual * 1.2)
        }
    }
}

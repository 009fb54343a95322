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
                switch Int.random(in: 0..<9, using: &generator) {
                case 0...2: follow(plan.heard(address, at: now).steps)
                case 3...4:
                    guard let one = reading.randomElement(using: &generator) else { continue }
                    reading.remove(one)
                    let outcomes: [ReadingOutcome] = [
                        .complete(model: nil, news: 1), .cut(Self.failure), .failed(Self.failure, isLasting: false),
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
                    follow(
                        plan.listened(
                            one, [.nobody, .nothingNew, .meter].randomElement(using: &generator) ?? .meter, at: now))
                case 8: follow(plan.heardNothingNew(address, at: now))
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

    @Test("a monitor that comes while it is listened for, and says nothing new, is looked at once more")
    func listening() throws {
        let monitor = DeviceAddress.device(1)
        /// The plan of a monitor that was read and is due.
        func due() throws -> SchedulePlan {
            var plan = self.plan()
            _ = plan.watch([monitor], at: .zero)
            #expect(plan.heard(monitor, at: .zero).steps == [.read(monitor)])
            _ = plan.ended(monitor, .complete(model: nil, news: 1), at: .seconds(1))
            #expect(listens(try wake(plan.heard(monitor, at: .seconds(2)).steps, &plan)))
            return plan
        }
        func listens(_ steps: [SchedulePlan.Step]) -> Bool { steps == [.listen(monitor)] }
        func wake(_ steps: [SchedulePlan.Step], _ plan: inout SchedulePlan) throws -> [SchedulePlan.Step] {
            guard case .wake(monitor, _, let ticket)? = steps.first else {
                Issue.record("no timer: \(steps)")
                return []
            }
            return plan.woke(monitor, ticket: ticket)
        }
        // What it said first was old.
        var plan = try due()
        #expect(plan.heardNothingNew(monitor, at: .seconds(305)).isEmpty)
        #expect(listens(try wake(plan.listened(monitor, .nothingNew, at: .seconds(305)), &plan)))
        #expect(plan.listened(monitor, .meter, at: .seconds(309)) == [.read(monitor)])
        // It came, and was not heard: it is looked for once more, and is left alone until it comes again.
        plan = try due()
        #expect(plan.heardNothingNew(monitor, at: .seconds(305)).isEmpty)
        #expect(listens(try wake(plan.listened(monitor, .nobody, at: .seconds(305)), &plan)))
        #expect(plan.listened(monitor, .nobody, at: .seconds(309)).isEmpty)
        #expect(plan.heard(monitor, at: .seconds(400)).steps == [.read(monitor)])
        // It says something new while it is still listened for.
        plan = try due()
        #expect(plan.heardNothingNew(monitor, at: .seconds(305)).isEmpty)
        #expect(plan.heard(monitor, at: .seconds(306)).steps == [.read(monitor)])
        #expect(plan.listened(monitor, .nothingNew, at: .seconds(309)).isEmpty)
    }

    @Test("a monitor that stays in reach and says nothing new is looked at more and more seldom, for five minutes")
    func looking() {
        var (plan, now, waits) = (self.plan(), Duration.zero, [Duration]())
        let monitor = DeviceAddress.device(1)
        _ = plan.watch([monitor], at: now)
        var steps = plan.heardNothingNew(monitor, at: now)
        while case .wake(monitor, let delay, let ticket)? = steps.first {
            waits.append(delay)
            now += delay
            #expect(plan.woke(monitor, ticket: ticket) == [.listen(monitor)])
            steps = plan.listened(monitor, .nothingNew, at: now)
        }
        #expect(waits.prefix(4) == [.seconds(3), .seconds(6), .seconds(12), .seconds(20)])
        #expect(waits.allSatisfy { $0 <= .seconds(20) } && now >= .seconds(300) && now < .seconds(321))
        // Whenever it comes again it begins anew.
        #expect(plan.heardNothingNew(monitor, at: now).count == 1)
        #expect(plan.heard(monitor, at: now + .seconds(30)).steps.contains(.read(monitor)))
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

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

    @Test("two at a time and three that go on for long, no device twice, no timer for what is away, whatever happens")
    func property() {
        var generator = SystemRandomNumberGenerator()
        for _ in 0..<200 {
            var plan = plan()
            let all = (1...9).map { DeviceAddress.device(UInt64($0)) }
            var (now, reading, timers, listening) = (
                Duration.zero, Set<DeviceAddress>(), [DeviceAddress: Int](), Set<DeviceAddress>()
            )
            // Of those that are read.
            var long: Set<DeviceAddress> = []
            func follow(_ steps: [SchedulePlan.Step]) {
                for step in steps {
                    switch step {
                    case .read(let address):
                        #expect(reading.insert(address).inserted)
                        #expect(reading.count - min(long.count, 3) <= 2)
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
                    long.remove(one)
                    let outcomes: [ReadingOutcome] = [
                        .complete(model: nil, news: 1), .cut(Self.failure), .failed(Self.failure, isLasting: false),
                        .failed(Self.failure, isLasting: true), .withdrawn,
                        .unfinished(model: nil, hasSent: false), .unfinished(model: nil, hasSent: true),
                    ]
                    follow(plan.ended(one, outcomes.randomElement(using: &generator) ?? .withdrawn, at: now))
                case 5:
                    guard let (one, ticket) = timers.randomElement(using: &generator) else { continue }
                    timers[one] = nil
                    if reading.contains(one) { long.insert(one) }
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
                        #expect(reading.isSuperset(of: timers.keys))
                    } else if let one = reading.randomElement(using: &generator) {
                        reading.remove(one)
                        long.remove(one)
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
            #expect(plan.heard(monitor, at: .zero).steps.first == .read(monitor))
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
        #expect(plan.listened(monitor, .meter, at: .seconds(309)).first == .read(monitor))
        // It came, and was not heard: it is looked for once more, and is left alone until it comes again.
        plan = try due()
        #expect(plan.heardNothingNew(monitor, at: .seconds(305)).isEmpty)
        #expect(listens(try wake(plan.listened(monitor, .nobody, at: .seconds(305)), &plan)))
        #expect(plan.listened(monitor, .nobody, at: .seconds(309)).isEmpty)
        #expect(plan.heard(monitor, at: .seconds(400)).steps.first == .read(monitor))
        // It says something new while it is still listened for.
        plan = try due()
        #expect(plan.heardNothingNew(monitor, at: .seconds(305)).isEmpty)
        #expect(plan.heard(monitor, at: .seconds(306)).steps.first == .read(monitor))
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

    @Test("transfers that go on for long keep no others from being read, three of them at most")
    func longTransfers() throws {
        var (plan, reading, tickets) = (self.plan(), [DeviceAddress](), [DeviceAddress: Int]())
        let all = (1...7).map { DeviceAddress.device(UInt64($0)) }
        func follow(_ steps: [SchedulePlan.Step]) {
            for step in steps {
                switch step {
                case .read(let address): reading.append(address)
                case .wake(let address, let delay, let ticket):
                    #expect(delay == .seconds(30))
                    tickets[address] = ticket
                case .letSleep(let address): tickets[address] = nil
                case .listen, .tell: Issue.record("\(step)")
                }
            }
        }
        _ = plan.watch(Set(all), at: .zero)
        for address in all { follow(plan.heard(address, at: .zero).steps) }
        #expect(reading == Array(all[..<2]))
        for (long, count) in [3, 4, 5, 5, 5].enumerated() {
            let held = tickets.removeValue(forKey: all[long])
            let ticket = try #require(held)
            follow(plan.woke(all[long], ticket: ticket))
            #expect(reading == Array(all[..<count]))
        }
        // Each that ends leaves its place to one of those that had gone on for as long and counted.
        for (ended, count) in [6, 7].enumerated() {
            follow(plan.ended(all[ended], .withdrawn, at: .seconds(3600)))
            #expect(reading == Array(all[..<count]))
        }
    }

    @Test("an oximeter that has sent nothing is connected again soon, for five minutes, and anew whenever it comes")
    func measuring() {
        var (plan, now, waits) = (self.plan(), Duration.zero, [Duration]())
        let oximeter = DeviceAddress.device(1)
        _ = plan.watch([oximeter], at: now)
        /// A minute's contact, at the end of which it is heard.
        func contact(hasSent: Bool = false) {
            now += .seconds(60)
            _ = plan.ended(oximeter, .unfinished(model: nil, hasSent: hasSent), at: now)
            guard case .wake(oximeter, let delay, let ticket)? = plan.heard(oximeter, at: now).steps.first else {
                Issue.record("no timer")
                return
            }
            waits.append(delay)
            now += delay
            #expect(plan.woke(oximeter, ticket: ticket) == [.listen(oximeter)])
            #expect(plan.listened(oximeter, .meter, at: now).first == .read(oximeter))
        }
        #expect(plan.heard(oximeter, at: now).steps.first == .read(oximeter))
        for _ in 0..<7 { contact() }
        #expect(waits == [3, 6, 12, 20, 20, 300, 300].map { .seconds($0) })
        // It was left while it sent.
        contact(hasSent: true)
        contact()
        #expect(waits.suffix(2) == [.seconds(3), .seconds(6)])
        // It has gone and come again.
        now += .seconds(60)
        _ = plan.ended(oximeter, .unfinished(model: nil, hasSent: false), at: now)
        now += .seconds(40)
        let (steps, hasCome) = plan.heard(oximeter, at: now)
        #expect(steps.first == .read(oximeter) && hasCome)
        contact()
        #expect(waits.last == .seconds(3))
    }

    @Test("a reading of others that is given up does not keep a meter that stays in reach from being read")
    func givenUpByOthers() {
        let meter = DeviceAddress.device(1)
        /// A plan that knows the meter, and has heard it.
        func heard() -> SchedulePlan {
            var plan = self.plan()
            _ = plan.watch([meter], at: .zero)
            let steps = plan.heard(meter, at: .zero).steps
            #expect(steps.first == .read(meter))
            return plan
        }
        func tickets(_ steps: [SchedulePlan.Step]) -> [Int] {
            steps.compactMap { step -> Int? in
                if case .wake(meter, _, let ticket) = step { ticket } else { nil }
            }
        }
        // Others have it; they give up before or after that is told.
        for isTold in [true, false] {
            var plan = heard()
            if isTold { _ = plan.wasOccupied(meter, at: .seconds(1)) }
            _ = plan.ended(meter, .withdrawn, at: .seconds(2))
            if !isTold { _ = plan.wasOccupied(meter, at: .seconds(3)) }
            let freed = plan.freed(meter)
            #expect(freed == [.listen(meter)])
            let listened = plan.listened(meter, .meter, at: .seconds(4))
            #expect(listened.first == .read(meter))
        }
        // It is to be looked at again, soon or after a failure: that stays so.
        for outcome in [
            ReadingOutcome.unfinished(model: nil, hasSent: false), .failed(Self.failure, isLasting: false),
        ] {
            var plan = heard()
            var steps = plan.ended(meter, outcome, at: .seconds(1))
            if tickets(steps).isEmpty { steps = plan.heard(meter, at: .seconds(2)).steps }
            let timers = tickets(steps)
            #expect(timers.count == 1)
            let left = plan.ended(meter, .withdrawn, at: .seconds(3))
            #expect(left.isEmpty)
            let woken = plan.woke(meter, ticket: timers.first ?? 0)
            #expect(woken == [.listen(meter)])
        }
        // It waits for its turn, and keeps it.
        var plan = self.plan()
        let others = [DeviceAddress.device(2), .device(3)]
        _ = plan.watch(Set(others + [meter]), at: .zero)
        for address in others + [meter] { _ = plan.heard(address, at: .zero) }
        _ = plan.ended(meter, .withdrawn, at: .seconds(1))
        let next = plan.ended(others[0], .complete(model: nil, news: 1), at: .seconds(2))
        #expect(next.contains(.read(meter)))
        // Our own reading that is given up: it is away, and is read when it is heard again.
        let own = plan.ended(meter, .withdrawn, at: .seconds(3))
        #expect(own.count == 1)
        let again = plan.heard(meter, at: .seconds(4)).steps
        #expect(again.contains(.read(meter)))
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

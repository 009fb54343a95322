import DeliveryFixture
import Foundation
import HealthReadings
import MQTTLink
import ReadingFormats
import ReadingStore
import TestBroker
import TestSupport
import Testing

@testable import MQTTDestinations
@testable import ReadingDelivery

extension MQTTDestination {
    /// Whether there is a connection, ready or not.
    fileprivate var isLinked: Bool { link != nil }
}

@Suite(
    "What an MQTT broker keeps", .timeLimit(.minutes(3)), .enabled(if: TestBroker.isInstalled, "\(TestBroker.needs)"))
struct StateTests {
    @Test("the broker keeps what each meter measured last, and what Home Assistant is told of it")
    func newest() async throws {
        let broker = try await TestBroker.start()
        try await Fixture.with { fixture in
            try await fixture.read(12, model: "accuchek_guide", battery: 87)
            try await fixture.read(3, kind: .bloodPressure, device: 2)
            let worker = fixture.worker(fixture.destination(broker.port), batchLimit: 5)
            #expect(await worker.syncOnce().delivered == 15)
            let kept = try await kept(broker)
            let (meter, cuff) = (try await fixture.id(), try await fixture.id(device: 2))
            let topics = try await fixture.naming.topics
            #expect(
                Set(kept.keys) == [
                    topics.gateway, topics.discovery(of: meter), topics.discovery(of: cuff),
                    topics.state(of: meter, .glucose), topics.state(of: cuff, .bloodPressure),
                    topics.battery(of: meter),
                ])
            #expect(kept[topics.state(of: meter, .glucose)]?.document?["glucose"] as? Int == 92)
            #expect(kept[topics.battery(of: meter)]?.text == #"{"battery":87,"gateway":"\#(topics.node)"}"#)
            let state = try #require(kept[topics.state(of: cuff, .bloodPressure)]?.document)
            #expect(state["systolic"] as? Int == 83 && state["mean"] is NSNull)
            let device = try #require(kept[topics.discovery(of: meter)]?.document?["device"] as? [String: Any])
            #expect(device["name"] as? String == "Accu-Chek Guide" && device["via_device"] as? String == topics.node)
            // No address, no person.
            let all = kept.values.map { $0.topic + $0.text }.joined()
            #expect(!all.contains("C0:00") && !all.lowercased().contains("c00000000001") && !all.contains(Fixture.user))
        }
    }

    @Test("a backlog is not shown reading by reading")
    func backlog() async throws {
        let broker = try await TestBroker.start()
        try await Fixture.with { fixture in
            let listener = try await Listener(broker, "healthrelay/devices/#")
            try await fixture.read(60)
            #expect(await fixture.worker(fixture.destination(broker.port), batchLimit: 7).syncOnce().delivered == 60)
            try await until { !listener.messages.isEmpty }
            try await listener.publish("healthrelay/devices/end/end", "end")
            try await until { listener.messages.last?.text == "end" }
            #expect(listener.messages.count == 2)
        }
    }

    @Test("a backlog that fills its batches exactly ends, too")
    func wholeBatches() async throws {
        let broker = try await TestBroker.start()
        try await Fixture.with { fixture in
            try await fixture.read(10)
            let worker = fixture.worker(fixture.destination(broker.port), batchLimit: 5)
            #expect(await worker.syncOnce().delivered == 10)
            let (topics, id) = (try await fixture.naming.topics, try await fixture.id())
            #expect(try await kept(broker)[topics.state(of: id, .glucose)]?.document?["glucose"] as? Int == 90)
        }
    }

    @Test("an older reading never takes the place of a newer one, after a restart either")
    func older() async throws {
        let broker = try await TestBroker.start()
        try await Fixture.with { fixture in
            let topic = try await fixture.naming.topics.state(of: fixture.id(), .glucose)
            func shown() async throws -> Int? { try await kept(broker)[topic]?.document?["glucose"] as? Int }
            let worker = fixture.worker(fixture.destination(broker.port))
            try await fixture.read(3, from: 10)
            _ = await worker.syncOnce()
            #expect(try await shown() == 92)
            try await fixture.read(5)
            #expect(await worker.syncOnce().delivered == 5)
            #expect(try await shown() == 92)
            try await fixture.read(2, from: 6)
            let restarted = fixture.worker(fixture.destination(broker.port))
            #expect(await restarted.syncOnce().delivered == 2)
            #expect(try await shown() == 92)
            // A broker that has forgotten everything is told the newest, not what comes next.
            try await broker.restart()
            try await fixture.read(1, from: 8)
            let again = fixture.worker(fixture.destination(broker.port))
            #expect(await again.syncOnce().delivered == 1)
            #expect(try await shown() == 92)
        }
    }

    @Test("what was pruned here stays at the broker, and is not overwritten by what is older")
    func pruned() async throws {
        let broker = try await TestBroker.start()
        try await Fixture.with { fixture in
            let (topics, id) = (try await fixture.naming.topics, try await fixture.id())
            try await fixture.read(3)
            _ = await fixture.worker(fixture.destination(broker.port)).syncOnce()
            let before = try await kept(broker)
            // Nothing else waits for them.
            try await fixture.store.removeDestination("vital")
            _ = try await fixture.store.prune(olderThan: .seconds(10_000_000))
            #expect(try await fixture.store.query(ReadingQuery()).readings.isEmpty)
            let worker = fixture.worker(fixture.destination(broker.port))
            try await fixture.read(1, kind: .bloodPressure, device: 2)
            #expect(await worker.syncOnce().delivered == 1)
            let after = try await kept(broker)
            #expect(after[topics.state(of: id, .glucose)] == before[topics.state(of: id, .glucose)])
            #expect(after[topics.discovery(of: id)] == before[topics.discovery(of: id)])
            #expect(after.count > before.count)
        }
    }

    @Test("a delivery that begins while the connection is made ready overwrites nothing newer that was pruned here")
    func prunedAndConnecting() async throws {
        let broker = try await TestBroker.start()
        try await Fixture.with { fixture in
            let topic = try await fixture.naming.topics.state(of: fixture.id(), .glucose)
            func shown() async throws -> Int? { try await kept(broker)[topic]?.document?["glucose"] as? Int }
            try await fixture.read(3, from: 10)
            #expect(await fixture.worker(fixture.destination(broker.port)).syncOnce().delivered == 3)
            // Nothing else waits for them.
            try await fixture.store.removeDestination("vital")
            _ = try await fixture.store.prune(olderThan: .seconds(10_000_000))
            #expect(try await fixture.store.query(ReadingQuery()).readings.isEmpty)
            try await fixture.read(1, from: 5)
            let destination = fixture.destination(broker.port)
            let worker = fixture.worker(destination)
            let opening = Task { try await destination.retract([]) }
            try await until { await destination.isLinked }
            #expect(await worker.syncOnce().delivered == 1)
            _ = try await opening.value
            #expect(try await shown() == 92)
        }
    }

    @Test(
        "no weight is at a broker that may have compositions alone, after a restart either", arguments: [true, false])
    func weightWithheld(_ mayWeigh: Bool) async throws {
        let broker = try await TestBroker.start()
        try await Fixture.with { fixture in
            try await fixture.store.setConsent(.weight, granted: mayWeigh, of: fixture.person.key)
            try await fixture.read(1, kind: .bodyComposition) { _ in 5_470_706_225 }
            #expect(await fixture.worker(fixture.destination(broker.port)).syncOnce().delivered == 1)
            let topic = try await fixture.naming.topics.state(of: fixture.id(), .bodyComposition)
            func check() async throws {
                let state = try #require(try await kept(broker)[topic]?.document)
                #expect(state["body_fat"] as? Double == 22.5)
                // Of both the weight could be computed.
                #expect(state["fat_free_mass"] as? Double == (mayWeigh ? 54.7 : nil))
            }
            try await check()
            // A broker that has forgotten everything is told what the store knows.
            try await broker.restart()
            try await fixture.read(1, kind: .bloodPressure, device: 2)
            #expect(await fixture.worker(fixture.destination(broker.port)).syncOnce().delivered == 1)
            try await check()
        }
    }

    @Test(
        "what a person no longer consents to goes off the broker though it was pruned here", arguments: [false, true])
    func prunedAndDenied(_ isRestarted: Bool) async throws {
        let broker = try await TestBroker.start()
        try await Fixture.with { fixture in
            let (topics, id) = (try await fixture.naming.topics, try await fixture.id())
            try await fixture.read(1)
            try await fixture.read(1, kind: .bodyComposition, device: 3) { _ in 5_470_706_225 }
            var worker = fixture.worker(fixture.destination(broker.port))
            #expect(await worker.syncOnce().delivered == 2)
            try await fixture.store.removeDestination("vital")
            _ = try await fixture.store.prune(olderThan: .seconds(10_000_000))
            #expect(try await fixture.store.query(ReadingQuery()).readings.isEmpty)
            let person = try await fixture.person.key
            try await fixture.store.setConsents([.glucose, .weight], granted: false, of: person)
            if isRestarted { worker = fixture.worker(fixture.destination(broker.port)) }
            try await fixture.read(1, kind: .bloodPressure, device: 2)
            #expect(await worker.syncOnce().delivered == 1)
            let after = try await kept(broker)
            #expect(after[topics.state(of: id, .glucose)] == nil && after[topics.discovery(of: id)] == nil)
            let scale = try await fixture.id(device: 3)
            let mass = after[topics.state(of: scale, .bodyComposition)]?.document?["fat_free_mass"]
            #expect(mass == nil || mass is NSNull)
            let other = try await fixture.id(device: 2)
            #expect(after[topics.state(of: other, .bloodPressure)] != nil)
        }
    }

    @Test(
        "what is ignored or no longer selected goes off the broker though it was pruned here",
        arguments: ["ignored", "kind", "device"], [false, true])
    func prunedAndHeld(_ why: String, _ isRestarted: Bool) async throws {
        let broker = try await TestBroker.start()
        try await Fixture.with { fixture in
            let (topics, id) = (try await fixture.naming.topics, try await fixture.id())
            let own = [topics.state(of: id, .glucose), topics.discovery(of: id)]
            try await fixture.read(1)
            var worker = fixture.worker(fixture.destination(broker.port))
            #expect(await worker.syncOnce().delivered == 1)
            try await fixture.store.removeDestination("vital")
            _ = try await fixture.store.prune(olderThan: .seconds(10_000_000))
            #expect(try await fixture.store.query(ReadingQuery()).readings.isEmpty)
            let before = try await kept(broker)
            #expect(own.allSatisfy { before[$0] != nil })
            let selection: DestinationSelection =
                switch why {
                case "kind": DestinationSelection(kinds: [.bloodPressure])
                case "device": DestinationSelection(devices: .init(addresses: [0xC000_0000_0002], models: []))
                default: DestinationSelection()
                }
            try await fixture.store.setRule(DestinationRule(selection: selection), of: "home")
            if why == "ignored" {
                try await fixture.store.setIgnored(IgnoredOrigins(providers: ["accuchek_ble"]))
            }
            if isRestarted { worker = fixture.worker(fixture.destination(broker.port)) }
            try await fixture.read(1, kind: .bloodPressure, device: 2, provider: "omron_ble")
            #expect(await worker.syncOnce().delivered == 1)
            let after = try await kept(broker)
            #expect(own.allSatisfy { after[$0] == nil })
            let cuff = try await fixture.id(device: 2)
            #expect(after[topics.state(of: cuff, .bloodPressure)] != nil)
        }
    }

    @Test("a reading that is taken back is told, and the one before takes its place")
    func takenBack() async throws {
        let broker = try await TestBroker.start()
        try await Fixture.with { fixture in
            let listener = try await Listener(broker)
            let topic = try await fixture.naming.topics.state(of: fixture.id(), .glucose)
            try await fixture.read(2)
            _ = await fixture.worker(fixture.destination(broker.port)).syncOnce()
            let ids = try await fixture.store.query(ReadingQuery()).readings.map(\.id.description)
            for (round, id) in ids.enumerated() {
                // Each time a process that knows nothing of before.
                try await fixture.read(1, from: 2 - round, isFailed: true)
                #expect(await fixture.worker(fixture.destination(broker.port)).syncOnce().retracted == 1)
                let last = try await kept(broker)[topic]
                #expect(last?.document?["reading_id"] as? String == (round == 0 ? ids[1] : nil))
                let expected = #"{"id":"\#(id)","person":"white_bear","retracted":true}"#
                try await until { listener.messages("healthrelay/readings/glucose").contains { $0.text == expected } }
            }
            // A sensor that shows the value is told that there is none.
            try await until { listener.messages(topic).last?.payload.isEmpty == true }
            let nothing = try #require(listener.messages(topic).dropLast().last?.document)
            #expect(nothing["glucose"] is NSNull && nothing["measured_at"] is NSNull)
        }
    }

    @Test("nothing is left at the broker of a person who is removed")
    func erased() async throws {
        let broker = try await TestBroker.start()
        try await Fixture.with { fixture in
            try await fixture.read(3, battery: 50)
            try await fixture.read(1, kind: .bloodPressure, device: 2)
            let worker = fixture.worker(fixture.destination(broker.port))
            _ = await worker.syncOnce()
            #expect(try await kept(broker).count == 6)
            let person = try #require(try await fixture.store.users().first)
            try await fixture.store.eraseUser(person.key, retracts: true)
            #expect(await worker.syncOnce().retracted == 4)
            let topics = try await fixture.naming.topics
            #expect(Set(try await kept(broker).keys) == [topics.gateway])
        }
    }

    @Test("a sensor whose unit changes shows nothing before it shows a value with the new unit")
    func otherUnit() async throws {
        let broker = try await TestBroker.start()
        try await Fixture.with { fixture in
            try await fixture.read(1)
            _ = await fixture.worker(fixture.destination(broker.port)).syncOnce()
            let (topics, id) = (try await fixture.naming.topics, try await fixture.id())
            let (discovery, state) = (topics.discovery(of: id), topics.state(of: id, .glucose))
            let listener = try await Listener(broker)
            // As if the meter had shown another unit before.
            let former = try #require(try await kept(broker)[discovery]).text.replacing("mg/dL", with: "mmol/L")
            try await listener.publish(discovery, former, isRetained: true)
            try await until { listener.messages(discovery).last?.text == former }
            let count = listener.messages.count
            try await fixture.read(1, from: 2)
            _ = await fixture.worker(fixture.destination(broker.port)).syncOnce()
            try await until { listener.messages.dropFirst(count).count { $0.topic == state } >= 2 }
            let news = listener.messages.dropFirst(count).filter { [discovery, state].contains($0.topic) }
            let place = try #require(news.firstIndex { $0.topic == discovery })
            #expect(news[..<place].last?.document?["glucose"] is NSNull)
            #expect(news.last?.document?["glucose"] as? Int == 82)
        }
    }

    @Test("two gateways under one topic leave each other's meters alone")
    func twoGateways() async throws {
        let broker = try await TestBroker.start()
        try await Fixture.with { first in
            try await Fixture.with { second in
                try await first.read(1, battery: 50)
                _ = await first.worker(first.destination(broker.port)).syncOnce()
                try await second.read(1, device: 2, battery: 60)
                _ = await second.worker(second.destination(broker.port)).syncOnce()
                #expect(try await kept(broker, "healthrelay/devices/#").count == 4)
                try await first.read(1, from: 2)
                _ = await first.worker(first.destination(broker.port)).syncOnce()
                #expect(try await kept(broker, "healthrelay/devices/#").count == 4)
            }
        }
    }

    @Test("of a meter that is barred since a person was removed, the broker keeps what others measured")
    func othersOfTheMeter() async throws {
        let broker = try await TestBroker.start()
        try await Fixture.with { fixture in
            let person = try await fixture.store.currentUser()
            try await fixture.store.setCurrentUser("brown_bear", timeZone: person.timeZone)
            try await fixture.read(1)
            try await fixture.store.setCurrentUser(person.clientUserID, timeZone: person.timeZone)
            try await fixture.read(1, from: 2)
            let worker = fixture.worker(fixture.destination(broker.port))
            _ = await worker.syncOnce()
            #expect(try await kept(broker).count == 5)
            try await fixture.store.eraseUser(person.key, retracts: true)
            #expect(try await fixture.store.devices().map(\.isBarred) == [true])
            #expect(await worker.syncOnce().retracted == 1)
            let (topics, id) = (try await fixture.naming.topics, try await fixture.id(person: "brown_bear"))
            #expect(
                Set(try await kept(broker).keys)
                    == [topics.gateway, topics.discovery(of: id), topics.state(of: id, .glucose)])
        }
    }

    @Test("discovery goes when Home Assistant is no longer wanted")
    func withoutHomeAssistant() async throws {
        let broker = try await TestBroker.start()
        try await Fixture.with { fixture in
            try await fixture.read(1)
            _ = await fixture.worker(fixture.destination(broker.port)).syncOnce()
            #expect(try await kept(broker, "homeassistant/#").count == 2)
            try await fixture.read(1, from: 2)
            _ = await fixture.worker(fixture.destination(broker.port, isForHomeAssistant: false)).syncOnce()
            #expect(try await kept(broker, "homeassistant/#").isEmpty)
            #expect(try await kept(broker, "healthrelay/devices/#").count == 1)
        }
    }

    @Test("a discovery that says something new is published once more: Home Assistant may have dropped a part of it")
    func discoveryOnceMore() async throws {
        let broker = try await TestBroker.start()
        try await Fixture.with { fixture in
            let listener = try await Listener(broker)
            let (topics, id) = (try await fixture.naming.topics, try await fixture.id())
            var pace = MQTTPace()
            pace.again = .zero
            let worker = fixture.worker(
                MQTTDestination(
                    name: "home", store: fixture.store,
                    place: MQTTPlace(broker: MQTTBroker(host: "127.0.0.1", port: broker.port)),
                    sender: MQTTSender(version: "1.0"), birthDelay: 0...50, pace: pace, logger: Fixture.quiet))
            try await fixture.read(1)
            try await fixture.read(1, kind: .heartRate)
            for number in 2...4 {
                try await fixture.read(1, from: number)
                _ = await worker.syncOnce()
                try await until {
                    listener.messages(topics.state(of: id, .glucose)).contains {
                        $0.document?["glucose"] as? Int == 80 + number
                    }
                }
            }
            // One as each kind came, and one behind them.
            let texts = listener.messages(topics.discovery(of: id)).map(\.text)
            #expect(texts.count == 3, "\(texts)")
            #expect(texts.first != texts.last && texts.dropFirst().first == texts.last)
            #expect(texts.last?.contains("heart_rate") == true && texts.last?.contains("glucose") == true)
        }
    }

    @Test("everything is published again when Home Assistant has started")
    func birth() async throws {
        let broker = try await TestBroker.start()
        try await Fixture.with { fixture in
            try await fixture.read(2, battery: 50)
            let worker = fixture.worker(fixture.destination(broker.port))
            let running = Task { try await worker.run() }
            try await until { try await fixture.delivered() == 2 }
            try await until { try await kept(broker).count == 5 }
            let listener = try await Listener(broker, "+/device/#")
            let states = try await Listener(broker, "healthrelay/devices/#")
            try await until { listener.messages.count == 2 && states.messages.count == 2 }
            try await listener.publish("homeassistant/status", "offline")
            try await listener.publish("homeassistant/status", "online")
            try await until { listener.messages.count == 4 && states.messages.count == 4 }
            #expect(listener.messages[2...].allSatisfy { !$0.isRetained && !$0.payload.isEmpty })
            running.cancel()
            try await running.value
        }
    }

    @Test("the gateway is online while it runs, and offline when it is gone")
    func status() async throws {
        let broker = try await TestBroker.start()
        let proxy = try CuttingProxy(to: broker.port)
        try await Fixture.with { fixture in
            let listener = try await Listener(broker, try await fixture.naming.topics.status)
            let worker = fixture.worker(fixture.destination(proxy.port))
            let running = Task { try await worker.run() }
            try await until { listener.messages.map(\.text) == ["online"] }
            proxy.cutAll()
            try await until { listener.messages.map(\.text) == ["online", "offline", "online"] }
            let began = ContinuousClock.now
            running.cancel()
            try await running.value
            #expect(ContinuousClock.now - began < .seconds(5))
            try await until { listener.messages.last?.text == "offline" }
        }
    }

    @Test("a gateway that dies says nothing of another under the same topic")
    func ownStatus() async throws {
        let broker = try await TestBroker.start()
        let proxy = try CuttingProxy(to: broker.port)
        try await Fixture.with { first in
            try await Fixture.with { second in
                let (one, other) = (try await first.naming.topics, try await second.naming.topics)
                #expect(one.status != other.status && one.status.hasPrefix("healthrelay/status/"))
                try await first.read(1)
                let worker = first.worker(first.destination(broker.port))
                let running = Task { try await worker.run() }
                try await until { try await kept(broker)[one.status]?.text == "online" }
                let discovery = one.discovery(of: try await first.id())
                try await until { try await kept(broker)[discovery] != nil }
                #expect(
                    try await kept(broker)[discovery]?.document?["availability_topic"] as? String == one.status)
                let dying = second.worker(second.destination(proxy.port))
                let task = Task { try await dying.run() }
                try await until { try await kept(broker)[other.status]?.text == "online" }
                task.cancel()
                try await task.value
                try await until { try await kept(broker)[other.status]?.text == "offline" }
                #expect(try await kept(broker)[one.status]?.text == "online")
                running.cancel()
                try await running.value
            }
        }
    }

    @Test(
        "the status that earlier versions shared goes once, unless another gateway's meters depend on it",
        arguments: [true, false])
    func formerStatus(isAlone: Bool) async throws {
        let broker = try await TestBroker.start()
        try await Fixture.with { fixture in
            let topics = try await fixture.naming.topics
            let listener = try await Listener(broker)
            func discovery(_ node: String) -> String { "homeassistant/device/\(node)_gateway/config" }
            try await listener.publish(
                discovery(topics.node), #"{"components":{"status":{"state_topic":"healthrelay/status"}}}"#,
                isRetained: true)
            if !isAlone {
                try await listener.publish(
                    discovery("healthrelay_00000000"), #"{"components":{"a":{"state_topic":"healthrelay/status"}}}"#,
                    isRetained: true)
            }
            try await listener.publish("healthrelay/status", "offline", isRetained: true)
            try await fixture.read(1)
            let worker = fixture.worker(fixture.destination(broker.port))
            #expect(await worker.syncOnce().delivered == 1)
            #expect((try await kept(broker)["healthrelay/status"] == nil) == isAlone)
            // What somebody else publishes there later is left alone.
            try await listener.publish("healthrelay/status", "online", isRetained: true)
            try await fixture.read(1, from: 2)
            #expect(await fixture.worker(fixture.destination(broker.port)).syncOnce().delivered == 1)
            #expect(try await kept(broker)["healthrelay/status"]?.text == "online")
        }
    }

    @Test("what others have the broker keep under the gateway's topics is left alone, and keeps nothing waiting")
    func othersKeep() async throws {
        let broker = try await TestBroker.start()
        try await Fixture.with { fixture in
            let listener = try await Listener(broker)
            let large = String(repeating: "x", count: 300_000)
            for number in 0..<20 {
                try await listener.publish("healthrelay/devices/\(number)/glucose", large, isRetained: true)
            }
            try await listener.publish("healthrelay/status", "offline", isRetained: true)
            try await fixture.read(1)
            #expect(await fixture.worker(fixture.destination(broker.port)).syncOnce().delivered == 1)
            let kept = try await kept(broker)
            #expect(kept["healthrelay/status"]?.text == "offline")
            let sizes = (0..<20).map { kept["healthrelay/devices/\($0)/glucose"]?.payload.count }
            #expect(sizes.allSatisfy { $0 == large.utf8.count })
        }
    }

    @Test("a battery that was read anew is told")
    func battery() async throws {
        let broker = try await TestBroker.start()
        try await Fixture.with { fixture in
            let listener = try await Listener(broker, "healthrelay/devices/+/battery")
            try await fixture.read(1, battery: 80)
            let worker = fixture.worker(fixture.destination(broker.port))
            let running = Task { try await worker.run() }
            try await until { listener.messages.last?.document?["battery"] as? Int == 80 }
            try await fixture.read(1, from: 2, battery: 79)
            try await until { listener.messages.last?.document?["battery"] as? Int == 79 }
            running.cancel()
            try await running.value
        }
    }
}

@Suite(
    "Who may be shown at an MQTT broker", .timeLimit(.minutes(2)),
    .enabled(if: TestBroker.isInstalled, "\(TestBroker.needs)"))
struct ConsentTests {
    @Test("what somebody no longer consents to is taken off, and comes back with the consent")
    func consent() async throws {
        let broker = try await TestBroker.start()
        try await Fixture.with { fixture in
            let topic = try await fixture.naming.topics.state(of: fixture.id(), .glucose)
            let person = try await fixture.person
            try await fixture.read(2)
            _ = await fixture.worker(fixture.destination(broker.port)).syncOnce()
            #expect(try await kept(broker)[topic] != nil)
            try await fixture.store.setConsent(.glucose, granted: false, of: person.key)
            try await fixture.read(1, kind: .bloodPressure, device: 2)
            #expect(await fixture.worker(fixture.destination(broker.port)).syncOnce().delivered == 1)
            #expect(try await kept(broker)[topic] == nil)
            try await fixture.store.setConsent(.glucose, granted: true, of: person.key)
            try await fixture.read(1, from: 2, kind: .bloodPressure, device: 2)
            #expect(await fixture.worker(fixture.destination(broker.port)).syncOnce().delivered == 1)
            #expect(try await kept(broker)[topic] != nil)
        }
    }

    @Test("what is ignored by its provider is taken off, and comes back when it no longer is")
    func ignored() async throws {
        let broker = try await TestBroker.start()
        try await Fixture.with { fixture in
            let (topics, meter) = (try await fixture.naming.topics, try await fixture.id())
            let own = [topics.discovery(of: meter), topics.state(of: meter, .glucose), topics.battery(of: meter)]
            func shown() async throws -> [String] {
                let kept = try await kept(broker)
                return own.filter { kept[$0] != nil }
            }
            try await fixture.read(2, battery: 50)
            _ = await fixture.worker(fixture.destination(broker.port)).syncOnce()
            #expect(try await shown() == own)
            try await fixture.store.setIgnored(IgnoredOrigins(providers: ["accuchek_ble"]))
            try await fixture.read(1, kind: .bloodPressure, device: 2, provider: "omron_ble")
            #expect(await fixture.worker(fixture.destination(broker.port)).syncOnce().delivered == 1)
            #expect(try await shown().isEmpty)
            try await fixture.store.setIgnored(IgnoredOrigins())
            try await fixture.read(1, from: 2, kind: .bloodPressure, device: 2, provider: "omron_ble")
            #expect(await fixture.worker(fixture.destination(broker.port)).syncOnce().delivered == 1)
            #expect(try await shown() == own)
        }
    }

    @Test("a state that the broker refuses to have removed is tried again, and the warning stays until then")
    func refusedRemoval() async throws {
        try await Fixture.with { fixture in
            let (topics, meter, cuff) = (
                try await fixture.naming.topics, try await fixture.id(), try await fixture.id(device: 2)
            )
            // Only what is kept of the meter may not be written by the gateway's user.
            let broker = try await TestBroker.start(rules: [
                "topic readwrite #", "user gateway", "topic readwrite healthrelay/readings/#",
                "topic readwrite healthrelay/status/#", "topic readwrite homeassistant/device/#",
                "topic readwrite healthrelay/devices/\(cuff)/#", "topic read healthrelay/devices/\(meter)/#",
            ])
            let state = topics.state(of: meter, .glucose)
            try await fixture.read(2)
            #expect(await fixture.worker(fixture.destination(broker.port)).syncOnce().delivered == 2)
            try await fixture.store.setConsent(.glucose, granted: false, of: fixture.person.key)
            // One connection for both.
            let worker = fixture.worker(fixture.destination(broker.port, user: "gateway"))
            for number in 1...2 {
                try await fixture.read(1, from: number, kind: .bloodPressure, device: 2)
                #expect(await worker.syncOnce().delivered == 1)
                let warnings = try await fixture.store.warnings(of: worker.place())
                #expect(warnings.count == 1, "after delivery \(number)")
                #expect(warnings.first?.contains("healthrelay/devices/#") == true)
            }
            let kept = try await kept(broker)
            #expect(kept[state] != nil && kept[topics.discovery(of: meter)] == nil)
            #expect(kept[topics.state(of: cuff, .bloodPressure)] != nil)
        }
    }

    @Test(
        "a meter that is no longer selected is gone from Home Assistant too, and comes back", arguments: [true, false])
    func deselected(byKind: Bool) async throws {
        let broker = try await TestBroker.start()
        try await Fixture.with { fixture in
            try await fixture.read(2, battery: 50)
            try await fixture.read(1, kind: .bloodPressure, device: 2, battery: 60)
            _ = await fixture.worker(fixture.destination(broker.port)).syncOnce()
            let before = Set(try await kept(broker).keys)
            // What others keep there is left alone.
            let listener = try await Listener(broker)
            let others = ["homeassistant/device/other_1/config", "healthrelay/devices/0123456789ab/glucose"]
            for topic in others { try await listener.publish(topic, "{}", isRetained: true) }
            let selection =
                byKind
                ? DestinationSelection(kinds: [.bloodPressure])
                : DestinationSelection(devices: .init(addresses: [0xC000_0000_0002], models: []))
            try await fixture.store.setRule(DestinationRule(selection: selection), of: "home")
            try await fixture.read(1, from: 2, kind: .bloodPressure, device: 2)
            // A process that knows nothing of before.
            #expect(await fixture.worker(fixture.destination(broker.port)).syncOnce().delivered == 1)
            let (topics, cuff) = (try await fixture.naming.topics, try await fixture.id(device: 2))
            #expect(
                Set(try await kept(broker).keys)
                    == Set(
                        others + [
                            topics.gateway, topics.discovery(of: cuff), topics.state(of: cuff, .bloodPressure),
                            topics.battery(of: cuff),
                        ]))
            try await fixture.store.setRule(DestinationRule(), of: "home")
            try await fixture.read(1, from: 3, kind: .bloodPressure, device: 2)
            #expect(await fixture.worker(fixture.destination(broker.port)).syncOnce().delivered == 1)
            #expect(Set(try await kept(broker).keys) == before.union(others))
        }
    }

    @Test("a broker that forbids states and discovery gets the readings, and the store knows what it refuses")
    func forbidden() async throws {
        let guarded = try await TestBroker.start(
            users: ["gateway": "right"],
            rules: ["user gateway", "topic write healthrelay/readings/#", "topic write healthrelay/status/#"])
        let open = try await TestBroker.start()
        try await Fixture.with { fixture in
            try await fixture.read(2)
            let worker = fixture.worker(fixture.destination(guarded.port, user: "gateway", password: "right"))
            #expect(await worker.syncOnce() == SyncReport(delivered: 2))
            let place = try await worker.place()
            let warnings = try await fixture.store.warnings(of: place)
            #expect(warnings.count == 2)
            #expect(warnings.first?.contains("healthrelay/devices/#") == true)
            #expect(warnings.last?.contains("homeassistant/device/#") == true)
            try await fixture.read(1, from: 3)
            let other = fixture.worker(fixture.destination(open.port))
            #expect(await other.syncOnce() == SyncReport(delivered: 1))
            #expect(try await fixture.store.warnings(of: place).isEmpty)
        }
    }

    @Test("what is delivered again overwrites nothing newer, at a broker that lets the gateway only write either")
    func deliveredAgain() async throws {
        let broker = try await TestBroker.start(rules: ["topic readwrite #", "user gateway", "topic write #"])
        try await Fixture.with { fixture in
            let topic = try await fixture.naming.topics.state(of: fixture.id(), .glucose)
            func shown() async throws -> Int? { try await kept(broker)[topic]?.document?["glucose"] as? Int }
            try await fixture.read(3)
            #expect(await fixture.worker(fixture.destination(broker.port, user: "gateway")).syncOnce().delivered == 3)
            #expect(try await shown() == 83)
            #expect(try await fixture.store.redeliver(to: "home") == 3)
            // The newest still waits.
            let restarted = fixture.worker(fixture.destination(broker.port, user: "gateway"))
            let first = Instant(seconds: Fixture.start + 60)
            #expect(await restarted.syncOnce(in: first...first).delivered == 1)
            #expect(try await shown() == 83)
            #expect(await restarted.syncOnce().delivered == 2)
            #expect(try await shown() == 83)
        }
    }

    @Test("a broker whose address nobody has accepted is told nothing, and one that is switched off is left")
    func held() async throws {
        let (first, second) = (try await TestBroker.start(), try await TestBroker.start())
        try await Fixture.with { fixture in
            let rules = MQTTDestination.rules
            func name(_ address: String) async throws {
                _ = try await fixture.store.setDestination(
                    "home", kind: "mqtt", kinds: rules.kinds, hasUniqueSeconds: false, needsSource: false,
                    canRetract: true, address: address)
            }
            try await name("first")
            try await fixture.read(2)
            let worker = fixture.worker(fixture.destination(first.port))
            let running = Task { try await worker.run() }
            try await until { try await kept(first).count == 4 }
            running.cancel()
            try await running.value
            try await name("second")
            let moved = fixture.worker(fixture.destination(second.port))
            let waiting = Task { try await moved.run() }
            try await Task.sleep(for: .seconds(1))
            #expect(!second.log.contains("New client connected from 127.0.0.1:") || !second.log.contains(" as hr"))
            try await fixture.store.acceptAddress("second", of: "home")
            try await until { try await kept(second).count == 4 }
            waiting.cancel()
            try await waiting.value
        }
    }
}

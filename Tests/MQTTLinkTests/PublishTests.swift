import MQTTLink
import TestBroker
import TestSupport
import Testing

@Suite("MQTT: messages", .timeLimit(.minutes(2)), .enabled(if: TestBroker.isInstalled, "\(TestBroker.needs)"))
struct PublishTests {
    @Test("a message arrives and is acknowledged", arguments: MQTTVersion.allCases)
    func arrives(version: MQTTVersion) async throws {
        let broker = try await TestBroker.start()
        let reader = try await broker.connect("reader", versions: [version])
        let writer = try await broker.connect("writer", versions: [version])
        #expect(writer.version == version)
        let granted = try await reader.subscribe(to: "home/#")
        #expect(granted == .atLeastOnce)
        let alone = try await writer.publish(MQTTMessage(topic: "elsewhere", text: "nobody hears this"))
        #expect(alone.hasSubscribers == (version == .v5 ? false : nil))
        let heard = try await writer.publish(
            MQTTMessage(topic: "home/greeting", text: "grüß dich", contentType: "text/plain"))
        #expect(heard.hasSubscribers == nil)
        var messages = reader.messages.makeAsyncIterator()
        let message = try #require(await messages.next())
        #expect(message.topic == "home/greeting" && message.text == "grüß dich" && !message.isRetained)
        #expect(message.contentType == (version == .v5 ? "text/plain" : nil))
        await reader.close()
        #expect(await messages.next() == nil)
        #expect(await reader.ended().kind == .closed)
        await writer.close()
    }

    @Test("a retained message is there for who comes later, until an empty one removes it")
    func retained() async throws {
        let broker = try await TestBroker.start()
        let writer = try await broker.connect("writer")
        try await writer.publish(MQTTMessage(topic: "state/a", text: "1", isRetained: true))
        try await writer.publish(MQTTMessage(topic: "state/b", text: "2", isRetained: true))
        try await writer.publish(MQTTMessage(topic: "state/a", payload: [], isRetained: true))
        let reader = try await broker.connect("reader")
        try await reader.subscribe(to: "state/+")
        var messages = reader.messages.makeAsyncIterator()
        let message = try #require(await messages.next())
        #expect(message.topic == "state/b" && message.text == "2" && message.isRetained)
    }

    @Test("what one task begins to publish arrives in that order")
    func order() async throws {
        let broker = try await TestBroker.start()
        let connection = try await broker.connect()
        try await connection.subscribe(to: "n")
        let publications = (0..<100).map { connection.begin(MQTTMessage(topic: "n", text: "\($0)")) }
        for publication in publications { try await publication.receipt() }
        var messages = connection.messages.makeAsyncIterator()
        for number in 0..<100 { #expect(await messages.next()?.text == "\(number)") }
    }

    @Test("nothing comes once a subscription has ended")
    func unsubscribe() async throws {
        let broker = try await TestBroker.start()
        let connection = try await broker.connect()
        try await connection.subscribe(to: "a")
        try await connection.subscribe(to: "b")
        try await connection.unsubscribe(from: "a")
        try await connection.publish(MQTTMessage(topic: "a", text: "unheard"))
        try await connection.publish(MQTTMessage(topic: "b", text: "heard"))
        var messages = connection.messages.makeAsyncIterator()
        #expect(await messages.next()?.text == "heard")
    }

    @Test("a large message arrives whole")
    func large() async throws {
        let broker = try await TestBroker.start()
        let (reader, writer) = (try await broker.connect("reader"), try await broker.connect("writer"))
        try await reader.subscribe(to: "large")
        let payload = (0..<900_000).map { UInt8(truncatingIfNeeded: $0 &* 31) }
        try await writer.publish(MQTTMessage(topic: "large", payload: payload))
        var messages = reader.messages.makeAsyncIterator()
        #expect(await messages.next()?.payload == payload)
    }

    @Test("a message without acknowledgement is sent")
    func atMostOnce() async throws {
        let broker = try await TestBroker.start()
        let connection = try await broker.connect()
        try await connection.subscribe(to: "a", quality: .atMostOnce)
        try await connection.publish(MQTTMessage(topic: "a", text: "b", quality: .atMostOnce))
        var messages = connection.messages.makeAsyncIterator()
        #expect(await messages.next()?.quality == .atMostOnce)
    }

    @Test("a slow consumer loses the oldest messages beyond its buffer")
    func buffer() async throws {
        let broker = try await TestBroker.start()
        var options = MQTTOptions(clientID: "reader")
        options.buffer = 3
        let reader = try await MQTTConnection.open(broker.address(), options)
        try await reader.subscribe(to: "n")
        let writer = try await broker.connect("writer")
        for number in 1...10 { try await writer.publish(MQTTMessage(topic: "n", text: "\(number)")) }
        try await until { broker.log.split(separator: "Received PUBACK from reader").count > 10 }
        await reader.close()
        var texts: [String] = []
        for await message in reader.messages { texts.append(message.text) }
        #expect(texts.count == 3 && texts.last == "10")
    }

    @Test("what waits for a slow consumer has a bound in bytes too", arguments: MQTTVersion.allCases)
    func bufferBytes(version: MQTTVersion) async throws {
        let broker = try await TestBroker.start()
        var options = MQTTOptions(clientID: "reader")
        (options.versions, options.bufferBytes) = ([version], 2500)
        let reader = try await MQTTConnection.open(broker.address(), options)
        try await reader.subscribe(to: "n")
        let writer = try await broker.connect("writer")
        func publish(_ numbers: ClosedRange<UInt8>, bytes: Int = 1000) async throws {
            for number in numbers {
                let payload = [UInt8](repeating: number, count: bytes)
                try await writer.publish(MQTTMessage(topic: "n", payload: payload))
            }
        }
        try await publish(1...4)
        try await publish(5...5, bytes: 3000)
        try await until { broker.log.split(separator: "Received PUBACK from reader").count > 5 }
        var messages = reader.messages.makeAsyncIterator()
        #expect(await messages.next()?.payload.first == 1)
        #expect(await messages.next()?.payload.first == 2)
        // There is room again.
        try await publish(6...6)
        #expect(await messages.next()?.payload.first == 6)
    }

    @Test("the broker is never ahead of what it acknowledges by more than the window")
    func window() async throws {
        var script = ScriptedBroker.Script()
        script.gathers = 4
        let broker = try ScriptedBroker(script)
        var options = MQTTOptions(clientID: "test")
        options.window = 4
        let connection = try await MQTTConnection.open(MQTTBroker(host: "127.0.0.1", port: broker.port), options)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<40 {
                group.addTask { try await connection.publish(MQTTMessage(topic: "t", text: "\(number)")) }
            }
            try await group.waitForAll()
        }
        #expect(broker.publishes.count == 40)
        #expect(broker.mostUnanswered == 4)
    }

    @Test("a broker may ask for a smaller window")
    func receiveMaximum() async throws {
        var script = ScriptedBroker.Script()
        script.connackFive = [0x20, 0x06, 0x00, 0x00, 0x03, 0x21, 0x00, 0x02]
        script.gathers = 2
        let broker = try ScriptedBroker(script)
        let connection = try await MQTTConnection.open(
            MQTTBroker(host: "127.0.0.1", port: broker.port), MQTTOptions(clientID: "test"))
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<10 { group.addTask { try await connection.publish(MQTTMessage(topic: "t", text: "x")) } }
            try await group.waitForAll()
        }
        #expect(broker.mostUnanswered == 2)
    }

    @Test(
        "what a broker says of a message becomes an error",
        arguments: [
            (128, .refused), (131, .refused), (135, .notAuthorized), (144, .topic), (149, .tooLarge),
            (151, .quotaExceeded), (153, .payload),
        ] as [(UInt8, MQTTError.Kind)])
    func reasons(reason: UInt8, kind: MQTTError.Kind) async throws {
        var script = ScriptedBroker.Script()
        script.reasons = [reason, 0]
        let broker = try ScriptedBroker(script)
        let connection = try await MQTTConnection.open(
            MQTTBroker(host: "127.0.0.1", port: broker.port), MQTTOptions(clientID: "test"))
        let message = MQTTMessage(topic: "secret/topic", text: "secret")
        let error = try #require(await failure { () throws(MQTTError) in try await connection.publish(message) })
        #expect(error.kind == kind && error.code == reason)
        #expect(!error.message.contains("secret"))
        // The connection lives.
        try await connection.publish(message)
    }

    @Test("a broker says that a topic is not permitted; one of MQTT 3.1.1 acknowledges the message and drops it")
    func accessList() async throws {
        let broker = try await TestBroker.start(
            users: ["gateway": "right"], rules: ["user gateway", "topic readwrite home/#"])
        let five = try await broker.connect("five", user: "gateway", password: "right")
        try await five.publish(MQTTMessage(topic: "home/a", text: "x"))
        let refused = await failure { () throws(MQTTError) in
            try await five.publish(MQTTMessage(topic: "elsewhere", text: "x"))
        }
        #expect(refused?.kind == .notAuthorized)
        let three = try await broker.connect("three", versions: [.v311], user: "gateway", password: "right")
        try await three.publish(MQTTMessage(topic: "elsewhere", text: "x", isRetained: true))
        try await five.subscribe(to: "#")
        try await five.publish(MQTTMessage(topic: "home/last", text: "x"))
        var messages = five.messages.makeAsyncIterator()
        #expect(await messages.next()?.topic == "home/last")
    }

    @Test("a message is larger than the broker takes")
    func tooLarge() async throws {
        let broker = try await TestBroker.start(lines: ["max_packet_size 2000"])
        let connection = try await broker.connect()
        let error = await failure { () throws(MQTTError) in
            try await connection.publish(MQTTMessage(topic: "t", payload: [UInt8](repeating: 65, count: 3000)))
        }
        #expect(error?.kind == .tooLarge)
        try await connection.publish(MQTTMessage(topic: "t", text: "small"))
    }

    @Test("a topic that is none is refused here", arguments: ["", "a/#", "a/+", "a\0b"])
    func topics(topic: String) async throws {
        let broker = try await TestBroker.start()
        let connection = try await broker.connect()
        let error = await failure { () throws(MQTTError) in
            try await connection.publish(MQTTMessage(topic: topic, text: "x"))
        }
        #expect(error?.kind == .invalidArgument)
        let filter = await failure { () throws(MQTTError) in try await connection.subscribe(to: "a\0") }
        #expect(filter?.kind == .invalidArgument)
    }

    @Test("a cancelled publish waits no longer")
    func cancelled() async throws {
        var script = ScriptedBroker.Script()
        script.gathers = 1000
        let broker = try ScriptedBroker(script)
        let connection = try await MQTTConnection.open(
            MQTTBroker(host: "127.0.0.1", port: broker.port), MQTTOptions(clientID: "test"))
        let task = Task {
            await failure { () throws(MQTTError) in try await connection.publish(MQTTMessage(topic: "t", text: "x")) }
        }
        try await until { !broker.publishes.isEmpty }
        task.cancel()
        #expect(await task.value?.kind == .cancelled)
    }
}

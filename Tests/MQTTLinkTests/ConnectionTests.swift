import Foundation
import MQTTLink
import TestBroker
import TestSupport
import Testing

@Suite("MQTT: connections", .timeLimit(.minutes(2)), .enabled(if: TestBroker.isInstalled, "\(TestBroker.needs)"))
struct ConnectionTests {
    @Test(
        "an older version is taken if the broker refuses the newer one or closes the connection",
        arguments: [
            [0x20, 0x02, 0x00, 0x01], [0x20, 0x03, 0x00, 0x84, 0x00], nil,
        ] as [[UInt8]?])
    func fallsBack(answer: [UInt8]?) async throws {
        var script = ScriptedBroker.Script()
        script.connackFive = answer
        let broker = try ScriptedBroker(script)
        let connection = try await MQTTConnection.open(
            MQTTBroker(host: "127.0.0.1", port: broker.port), MQTTOptions(clientID: "test"))
        #expect(connection.version == .v311)
        #expect(broker.connects == [5, 4])
        try await connection.publish(MQTTMessage(topic: "t", text: "x"))
    }

    @Test(
        "a broker that refuses the user is not asked again in another version", arguments: [134, 135, 138] as [UInt8])
    func refusal(reason: UInt8) async throws {
        var script = ScriptedBroker.Script()
        script.connackFive = [0x20, 0x03, 0x00, reason, 0x00]
        let broker = try ScriptedBroker(script)
        let error = await failure { () throws(MQTTError) in
            try await MQTTConnection.open(
                MQTTBroker(host: "127.0.0.1", port: broker.port), MQTTOptions(clientID: "test"))
        }
        #expect(error?.kind == .credentials && error?.code == reason)
        #expect(broker.connects == [5])
    }

    @Test("a wrong password is refused", arguments: MQTTVersion.allCases)
    func password(version: MQTTVersion) async throws {
        let broker = try await TestBroker.start(users: ["gateway": "right"])
        for (user, password) in [("gateway", "wrong"), ("other", "right"), (nil, nil)] {
            await #expect { try await broker.connect(versions: [version], user: user, password: password) } throws: {
                let error = $0 as? MQTTError
                return error?.kind == .credentials && !"\($0)".contains("wrong")
            }
        }
        _ = try await broker.connect(versions: [version], user: "gateway", password: "right")
    }

    @Test("a password is never shown")
    func secret() {
        let broker = MQTTBroker(host: "h", credentials: MQTTCredentials(username: "gateway", password: "hidden"))
        var dumped = ""
        dump(broker, to: &dumped)
        #expect(!"\(broker) \(String(reflecting: broker)) \(dumped)".contains("hidden"))
    }

    @Test("nothing listens there")
    func unreachable() async throws {
        let port = try TCPPort.free()
        let error = await failure { () throws(MQTTError) in
            try await MQTTConnection.open(MQTTBroker(host: "127.0.0.1", port: port), MQTTOptions(clientID: "test"))
        }
        #expect(error?.kind == .unreachable)
        #expect(error?.message.contains("Connection refused") == true)
    }

    @Test("a name that no host has")
    func noHost() async {
        let error = await failure { () throws(MQTTError) in
            try await MQTTConnection.open(MQTTBroker(host: "no.such.host.invalid"), MQTTOptions(clientID: "test"))
        }
        #expect(error?.kind == .hostNotFound)
    }

    @Test("a broker that never answers is given up")
    func neverAnswers() async throws {
        let listener = try ListeningSocket(on: 0)
        var options = MQTTOptions(clientID: "test")
        options.openTimeout = .milliseconds(300)
        let began = ContinuousClock.now
        let error = await failure { () throws(MQTTError) in
            try await MQTTConnection.open(MQTTBroker(host: "127.0.0.1", port: listener.port), options)
        }
        #expect(error?.kind == .timedOut)
        #expect(ContinuousClock.now - began < .seconds(10))
    }

    @Test("connecting is given up when the task is cancelled")
    func cancelled() async throws {
        let listener = try ListeningSocket(on: 0)
        let task = Task {
            await failure { () throws(MQTTError) in
                try await MQTTConnection.open(
                    MQTTBroker(host: "127.0.0.1", port: listener.port), MQTTOptions(clientID: "test"))
            }
        }
        try await Task.sleep(for: .milliseconds(50))
        task.cancel()
        #expect(await task.value?.kind == .cancelled)
    }

    @Test("a killed broker ends the connection, and what it has not acknowledged fails")
    func killed() async throws {
        let broker = try await TestBroker.start()
        let proxy = try CuttingProxy(to: broker.port)
        let connection = try await MQTTConnection.open(
            broker.address(through: proxy), MQTTOptions(clientID: "test"))
        proxy.cut(.silence)
        let task = Task {
            await failure { () throws(MQTTError) in try await connection.publish(MQTTMessage(topic: "t", text: "x")) }
        }
        try await Task.sleep(for: .milliseconds(50))
        broker.kill()
        #expect(await task.value?.kind == .lost)
        #expect(await connection.ended().kind == .lost)
        let late = await failure { () throws(MQTTError) in
            try await connection.publish(MQTTMessage(topic: "t", text: "x"))
        }
        #expect(late?.kind == .lost)
    }

    @Test("a broker that goes away with a word", arguments: MQTTVersion.allCases)
    func stopped(version: MQTTVersion) async throws {
        let broker = try await TestBroker.start()
        let connection = try await broker.connect(versions: [version])
        broker.stop()
        #expect([.lost, .unavailable].contains(await connection.ended().kind))
    }

    @Test("a message whose acknowledgement is lost has failed, although the broker has it")
    func acknowledgementLost() async throws {
        let broker = try await TestBroker.start()
        let reader = try await broker.connect("reader")
        try await reader.subscribe(to: "t")
        let proxy = try CuttingProxy(to: broker.port)
        let writer = try await MQTTConnection.open(broker.address(through: proxy), MQTTOptions(clientID: "writer"))
        proxy.cut(.beforeAcknowledgement)
        let error = await failure { () throws(MQTTError) in
            try await writer.publish(MQTTMessage(topic: "t", text: "sent"))
        }
        #expect(error?.kind == .lost && proxy.cuts == 1)
        var messages = reader.messages.makeAsyncIterator()
        #expect(await messages.next()?.text == "sent")
    }

    @Test("a connection that is cut behind an acknowledgement has published")
    func cutAfterwards() async throws {
        let broker = try await TestBroker.start()
        let proxy = try CuttingProxy(to: broker.port)
        let writer = try await MQTTConnection.open(broker.address(through: proxy), MQTTOptions(clientID: "writer"))
        proxy.cut(.afterAcknowledgement)
        try await writer.publish(MQTTMessage(topic: "t", text: "sent"))
        #expect(await writer.ended().kind == .lost)
    }

    @Test("an acknowledgement that does not come ends the connection")
    func noAcknowledgement() async throws {
        let broker = try await TestBroker.start()
        let proxy = try CuttingProxy(to: broker.port)
        var options = MQTTOptions(clientID: "test")
        options.answerTimeout = .milliseconds(500)
        let connection = try await MQTTConnection.open(broker.address(through: proxy), options)
        proxy.cut(.silence)
        let error = await failure { () throws(MQTTError) in
            try await connection.publish(MQTTMessage(topic: "t", text: "x"))
        }
        #expect(error?.kind == .timedOut)
    }

    @Test("a broker that is gone without a word is noticed")
    func keepAlive() async throws {
        let broker = try await TestBroker.start()
        let proxy = try CuttingProxy(to: broker.port)
        var options = MQTTOptions(clientID: "test")
        options.keepAlive = 5
        let connection = try await MQTTConnection.open(broker.address(through: proxy), options)
        proxy.cut(.silence)
        let began = ContinuousClock.now
        #expect(await connection.ended().kind == .lost)
        #expect(ContinuousClock.now - began < .seconds(40))
    }

    @Test("an idle connection lives on past its keep-alive")
    func idle() async throws {
        let broker = try await TestBroker.start()
        var options = MQTTOptions(clientID: "test")
        options.keepAlive = 5
        let connection = try await MQTTConnection.open(broker.address(), options)
        try await Task.sleep(for: .seconds(9))
        try await connection.publish(MQTTMessage(topic: "t", text: "x"))
    }

    @Test("the will is published when the connection is lost, and not when it is closed")
    func will() async throws {
        let broker = try await TestBroker.start()
        let reader = try await broker.connect("reader")
        try await reader.subscribe(to: "status/#")
        let proxy = try CuttingProxy(to: broker.port)
        func open(_ id: String, _ address: MQTTBroker) async throws -> MQTTConnection {
            try await MQTTConnection.open(
                address,
                MQTTOptions(clientID: id, will: MQTTMessage(topic: "status/\(id)", text: "offline", isRetained: true)))
        }
        // Not through the proxy, which might cut off the word that it is closed.
        let closed = try await open("closed", broker.address())
        await closed.close()
        let lost = try await open("lost", broker.address(through: proxy))
        proxy.cutAll()
        #expect(await lost.ended().kind == .lost)
        var messages = reader.messages.makeAsyncIterator()
        let message = await messages.next()
        #expect(message?.topic == "status/lost" && message?.text == "offline")
    }

    @Test("closing can publish the will", arguments: MQTTVersion.allCases)
    func willOnClose(version: MQTTVersion) async throws {
        let broker = try await TestBroker.start()
        let reader = try await broker.connect("reader")
        try await reader.subscribe(to: "status")
        var options = MQTTOptions(clientID: "leaver", will: MQTTMessage(topic: "status", text: "offline"))
        options.versions = [version]
        let connection = try await MQTTConnection.open(broker.address(), options)
        await connection.close(publishesWill: true)
        var messages = reader.messages.makeAsyncIterator()
        #expect(await messages.next()?.text == "offline")
    }

    @Test("a connection that is let go of is closed")
    func letGo() async throws {
        let broker = try await TestBroker.start()
        var connection: MQTTConnection? = try await broker.connect("leaver")
        #expect(connection?.version == .v5)
        connection = nil
        try await until { broker.log.contains("Client leaver disconnected") }
    }

    @Test("another client with our name ends the connection")
    func takenOver() async throws {
        let broker = try await TestBroker.start()
        let first = try await broker.connect("same")
        let second = try await broker.connect("same")
        // This broker closes the connection without a word.
        #expect([.takenOver, .lost].contains(await first.ended().kind))
        try await second.publish(MQTTMessage(topic: "t", text: "x"))
    }

    @Test(
        "what a broker says as it ends the connection",
        arguments: [
            (142, .takenOver), (139, .unavailable), (151, .quotaExceeded), (149, .tooLarge), (141, .lost),
        ] as [(UInt8, MQTTError.Kind)])
    func farewell(reason: UInt8, kind: MQTTError.Kind) async throws {
        var script = ScriptedBroker.Script()
        script.farewell = [0xE0, 0x02, reason, 0x00]
        let broker = try ScriptedBroker(script)
        let connection = try await MQTTConnection.open(
            MQTTBroker(host: "127.0.0.1", port: broker.port), MQTTOptions(clientID: "test"))
        let error = await failure { () throws(MQTTError) in
            try await connection.publish(MQTTMessage(topic: "t", text: "x"))
        }
        #expect(error?.kind == kind && error?.code == reason, "\(error?.message ?? "")")
        #expect(await connection.ended() == error)
    }

    @Test("whoever is told that a message is lost with its connection finds the connection closed")
    func closedOnceTold() async throws {
        var script = ScriptedBroker.Script()
        script.ends = { _ in true }
        let broker = try ScriptedBroker(script)
        for _ in 0..<50 {
            let connection = try await MQTTConnection.open(
                MQTTBroker(host: "127.0.0.1", port: broker.port), MQTTOptions(clientID: "test"))
            let error = await failure { () throws(MQTTError) in
                try await connection.publish(MQTTMessage(topic: "t", text: "x"))
            }
            #expect(!connection.isOpen)
            #expect(error?.kind == .lost)
        }
    }

    @Test("closing takes a second at most, whatever the broker does, also in a cancelled task")
    func closing() async throws {
        let broker = try await TestBroker.start()
        let proxy = try CuttingProxy(to: broker.port)
        let connection = try await MQTTConnection.open(broker.address(through: proxy), MQTTOptions(clientID: "test"))
        proxy.cut(.silence)
        let waiting = Task {
            await failure { () throws(MQTTError) in try await connection.publish(MQTTMessage(topic: "t", text: "x")) }
        }
        try await Task.sleep(for: .milliseconds(50))
        let began = ContinuousClock.now
        let closing = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            await connection.close()
        }
        await closing.value
        #expect(ContinuousClock.now - began < .seconds(5))
        #expect(await waiting.value?.kind == .closed)
        #expect(await connection.ended().kind == .closed)
        await connection.close()
    }

    @Test("waiting for the end is given up when the task is cancelled")
    func endedCancelled() async throws {
        let broker = try await TestBroker.start()
        let connection = try await broker.connect()
        let task = Task { await connection.ended() }
        task.cancel()
        #expect(await task.value.kind == .cancelled)
        try await connection.publish(MQTTMessage(topic: "t", text: "x"))
    }

    @Test("many connections at a time, opened, used and closed")
    func many() async throws {
        let broker = try await TestBroker.start()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<30 {
                group.addTask {
                    let connection = try await broker.connect("c\(number)")
                    for _ in 0..<20 { try await connection.publish(MQTTMessage(topic: "t", text: "x")) }
                    if number.isMultiple(of: 2) { await connection.close() }
                }
            }
            try await group.waitForAll()
        }
    }
}

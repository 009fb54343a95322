/// A connection to a broker, for as long as it lives. A new one is to be opened when it has ended.
///
/// It has a thread of its own, so that no call holds one of Swift's: looking up a name and connecting may take minutes.
/// Nothing is queued for a later connection: a message that was not acknowledged when the connection ends has failed, and
/// whoever published it decides what becomes of it. A connection that is let go of is closed.
///
/// ```swift
/// let broker = MQTTBroker(host: "broker.example", tls: MQTTCertificates())
/// let connection = try await MQTTConnection.open(broker, MQTTOptions(clientID: "gateway"))
/// try await connection.publish(MQTTMessage(topic: "home/greeting", text: "hello"))
/// await connection.close()
/// ```
public final class MQTTConnection: Sendable {
    /// The version that the broker speaks.
    public let version: MQTTVersion
    /// What was subscribed to, as it comes; for one consumer. It ends with the connection.
    public let messages: AsyncStream<MQTTMessage>
    private let thread: LinkThread

    private init(_ version: MQTTVersion, _ messages: AsyncStream<MQTTMessage>, _ thread: LinkThread) {
        self.version = version
        self.messages = messages
        self.thread = thread
    }

    deinit { thread.post(.close(publishesWill: false)) }

    /// Connects to a broker, with the first of the versions that it takes.
    ///
    /// - Throws: ``MQTTError``: the last version's.
    public static func open(_ broker: MQTTBroker, _ options: MQTTOptions) async throws(MQTTError) -> MQTTConnection {
        var failure = MQTTError(.invalidArgument, "cannot connect: no version of the protocol is given")
        for version in options.versions {
            var tries = 3
            repeat {
                do {
                    return try await open(broker, options, version)
                } catch {
                    failure = error
                    tries -= 1
                }
            } while failure.isResetInTLS && tries > 0
            guard failure.suggestsOlderVersion else { throw failure }
        }
        throw failure
    }

    private static func open(
        _ broker: MQTTBroker, _ options: MQTTOptions, _ version: MQTTVersion
    ) async throws(MQTTError) -> MQTTConnection {
        let thread = try LinkThread()
        let (stream, continuation) = AsyncStream<MQTTMessage>.makeStream(
            bufferingPolicy: .bufferingNewest(max(1, options.buffer)))
        let room = MessageRoom(options.bufferBytes)
        let messages = AsyncStream<MQTTMessage>(unfolding: {
            var iterator = stream.makeAsyncIterator()
            let message = await iterator.next()
            if let message { room.leave(message.payload.count) }
            return message
        })
        let opened = Answer<Void>()
        let connection = MQTTConnection(version, messages, thread)
        thread.start(
            LinkPlan(
                broker: broker, options: options, version: version, opened: opened, messages: continuation, room: room))
        let timer = Task {
            try await Task.sleep(for: options.openTimeout)
            opened.settle(
                .failure(MQTTError(.timedOut, "the broker \(broker.host):\(broker.port) does not answer")))
        }
        defer { timer.cancel() }
        try await opened.value()
        return connection
    }

    /// Whether the connection lives.
    public var isOpen: Bool { thread.isOpen }

    /// Begins to publish a message. What one task begins goes to the broker in that order.
    ///
    /// - Returns: what tells when the broker has it. Nobody has to wait for it.
    public func begin(_ message: MQTTMessage) -> MQTTPublication {
        let answer = Answer<MQTTReceipt>()
        thread.post(.publish(message, answer))
        return MQTTPublication(answer: answer)
    }

    /// Publishes a message.
    ///
    /// - Returns: what the broker said; for ``MQTTMessage/Quality/atMostOnce`` at once, without its answer.
    /// - Throws: ``MQTTError`` if the broker refuses the message or the connection ends before it has acknowledged it.
    @discardableResult
    public func publish(_ message: MQTTMessage) async throws(MQTTError) -> MQTTReceipt {
        try await begin(message).receipt()
    }

    /// Subscribes to the topics that match a filter; ``messages`` brings what is published there.
    ///
    /// - Returns: the quality that the broker grants, which may be a lower one.
    /// - Throws: ``MQTTError`` if the broker refuses or the connection ends.
    @discardableResult
    public func subscribe(
        to filter: String, quality: MQTTMessage.Quality = .atLeastOnce
    ) async throws(MQTTError) -> MQTTMessage.Quality {
        let answer = Answer<MQTTMessage.Quality>()
        thread.post(.subscribe(filter, quality, answer))
        return try await answer.value()
    }

    /// Ends a subscription.
    ///
    /// - Throws: ``MQTTError`` if the broker refuses or the connection ends.
    public func unsubscribe(from filter: String) async throws(MQTTError) {
        let answer = Answer<Void>()
        thread.post(.unsubscribe(filter, answer))
        try await answer.value()
    }

    /// Waits until the connection has ended.
    ///
    /// - Returns: why it has; ``MQTTError/Kind/cancelled`` if the task was cancelled while it lives.
    public func ended() async -> MQTTError {
        do throws(MQTTError) { return try await thread.ending().value() } catch { return error }
    }

    /// Closes the connection. What is not acknowledged yet fails.
    ///
    /// It takes a second at most, whatever the broker does, and is finished in a cancelled task, too.
    ///
    /// - Parameter publishesWill: whether the broker publishes the will, as if the connection had been lost, or drops it.
    public func close(publishesWill: Bool = false) async {
        let ending = thread.ending()
        thread.post(.close(publishesWill: publishesWill))
        let timer = Task {
            try await Task.sleep(for: .seconds(1))
            ending.settle(.failure(.closed))
        }
        // In a task of its own, which nobody cancels.
        await Task { _ = try? await ending.value() }.value
        timer.cancel()
    }
}

/// A message on its way to the broker.
public struct MQTTPublication: Sendable {
    let answer: Answer<MQTTReceipt>

    /// Waits for the broker's acknowledgement; for one caller.
    ///
    /// - Throws: ``MQTTError`` if the broker refuses the message or the connection ends before it has acknowledged it.
    @discardableResult
    public func receipt() async throws(MQTTError) -> MQTTReceipt { try await answer.value() }
}

import AMQPLink
import FleetDocuments
import Logging
import Synchronization

/// Publishes what gateways are told, on a connection of its own.
///
/// A broker whose disk or memory is short reads nothing more from a connection that has published something,
/// acknowledgements included. The queue is therefore read on another connection, and is acknowledged while answers wait here.
actor AnswerPublisher {
    private let logger: Logger
    private var broker: AMQPBroker?
    private var connection: AMQPConnection?
    private var waiting: [FleetAnswer] = []
    private var isPublishing = false
    /// Not before then is a connection made again.
    private var pause = ContinuousClock.now
    private let blocked = Mutex(false)

    /// How many answers wait at most. A gateway whose receipt is dropped sends its batch again.
    private static let mostWaiting = 2000
    /// How long no connection is made after one was lost.
    private static let delay = Duration.seconds(5)

    init(logger: Logger) { self.logger = logger }

    /// Whether the broker takes nothing now.
    nonisolated var isBlocked: Bool { blocked.withLock(\.self) }

    /// Publishes at this node from now on.
    func use(_ broker: AMQPBroker) async {
        await close()
        (self.broker, pause) = (broker, .now)
    }

    /// Publishes answers, behind those that wait. They wait too if the broker takes nothing, or can't be reached.
    func publish(_ answers: [FleetAnswer] = []) async {
        waiting += answers
        if waiting.count > Self.mostWaiting {
            logger.warning(
                "receipts were dropped: the broker takes none. Gateways send those batches again",
                metadata: ["answers": "\(waiting.count - Self.mostWaiting)"])
            waiting.removeFirst(waiting.count - Self.mostWaiting)
        }
        guard !isPublishing else { return }
        isPublishing = true
        defer { isPublishing = false }
        do {
            try await publishWaiting()
        } catch {
            logger.warning("receipts can't be published; trying again", metadata: ["error": "\(error)"])
            await close()
            pause = .now + Self.delay
        }
    }

    private func publishWaiting() async throws {
        if connection == nil {
            guard !waiting.isEmpty, let broker, ContinuousClock.now >= pause else { return }
            let made = AMQPConnection(to: broker, hearsBlocking: true)
            try await made.open()
            connection = made
        }
        guard let connection else { return }
        note(try await connection.isBlocked())
        while !isBlocked, let answer = waiting.first {
            try await QueueReader.publish(answer, on: connection)
            waiting.removeFirst()
            note(try await connection.isBlocked())
        }
    }

    private func note(_ isBlocked: Bool) {
        let was = blocked.withLock { blocked in
            defer { blocked = isBlocked }
            return blocked
        }
        guard was != isBlocked else { return }
        if isBlocked {
            logger.error("the broker takes no receipts: its disk or its memory is short. Make room there")
        } else {
            logger.info("the broker takes receipts again")
        }
    }

    /// Proves that the connection lives.
    func beat() async { try? await connection?.beat() }

    /// Ends the connection; answers that wait stay.
    func close() async {
        let (former, wasBlocked) = (connection, isBlocked)
        connection = nil
        blocked.withLock { $0 = false }
        // A goodbye that the broker doesn't read would wait for its answer.
        if wasBlocked { await former?.breakOff() } else { await former?.close() }
    }
}

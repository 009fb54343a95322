import Foundation
import ReadingDelivery
import ReadingStore
import Synchronization

/// Deliveries of a store's readings to several sinks at the same time, each by a worker of its own, as in the gateway.
public final class Deliveries: Sendable {
    private let store: ReadingStore
    private let workers: [OutboxWorker]
    private let counts: Mutex<[Int]>
    private let tasks = Mutex<[Task<Void, Never>]>([])

    /// Opens the store of a directory. Nothing is sent before ``start()``.
    public init(_ directory: String, to sinks: [Sink]) async throws {
        let store = try await Backlog.open(directory)
        self.store = store
        workers = try sinks.map { try Backlog.worker(store, to: $0) }
        counts = Mutex(Array(repeating: 0, count: sinks.count))
    }

    /// How many readings each sink has acknowledged.
    public var delivered: [Int] { counts.withLock(\.self) }

    /// Begins to deliver to all sinks.
    public func start() {
        let started = workers.enumerated().flatMap { index, worker in
            let events = worker.events()
            return [
                Task {
                    for await event in events {
                        guard case .readings(let ids, .acknowledged) = event else { continue }
                        self.counts.withLock { $0[index] += ids.count }
                    }
                },
                Task {
                    if let failure = await worker.syncOnce().failure {
                        FileHandle.standardError.write(Data("\(failure.message)\n".utf8))
                    }
                },
            ]
        }
        tasks.withLock { $0 = started }
    }

    /// Waits until the program is ended: the tasks that count never finish.
    public func finished() async {
        for task in tasks.withLock(\.self) { await task.value }
    }
}

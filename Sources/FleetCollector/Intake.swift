import FleetStore
import Synchronization

/// Commits batches that come at the same time in one transaction.
///
/// A commit waits for the disk, or for a standby. Batches that come meanwhile wait for the next one, so that many
/// gateways cost hardly more commits than one.
package actor Intake {
    private struct Waiting {
        let batch: ArrivedBatch
        let answer: CheckedContinuation<Result<BatchOutcome, CentralStoreError>, Never>
    }

    private let store: any CentralStore
    private var waiting: [Waiting] = []
    private var isCommitting = false

    /// How many batches one transaction takes.
    private static let mostTogether = 100

    package init(store: any CentralStore) { self.store = store }

    /// Keeps a batch.
    ///
    /// - Returns: what became of its readings, after they are durable. Cancelling the task that waits changes nothing.
    package func keep(_ batch: ArrivedBatch) async throws(CentralStoreError) -> BatchOutcome {
        let result = await withCheckedContinuation { answer in
            waiting.append(Waiting(batch: batch, answer: answer))
            if !isCommitting {
                isCommitting = true
                Task { await commitAll() }
            }
        }
        return try result.get()
    }

    private func commitAll() async {
        while !waiting.isEmpty {
            let together = Array(waiting.prefix(Self.mostTogether))
            waiting.removeFirst(together.count)
            await commit(together)
        }
        isCommitting = false
    }

    private func commit(_ together: [Waiting]) async {
        do {
            let outcomes = try await store.keep(together.map(\.batch))
            for (waiting, outcome) in zip(together, outcomes) { waiting.answer.resume(returning: .success(outcome)) }
        } catch {
            // What the store refuses of one batch fails the whole transaction: find the batch that has it.
            guard !error.isTemporary, together.count > 1 else {
                for waiting in together { waiting.answer.resume(returning: .failure(error)) }
                return
            }
            for waiting in together { await commit([waiting]) }
        }
    }
}

/// How much of what gateways post the ingest holds at a time. A gateway that isn't in order must not take the room of the
/// others, or the collector's memory.
///
/// What comes from the queue needs no such limit: it is read when there is room.
package final class IngestRoom: Sendable {
    private struct State {
        var held: [String: Int] = [:]
        var total = 0
    }

    private let most: Int
    private let mostOfGateway: Int
    private let state = Mutex(State())

    /// - Parameters:
    ///   - most: how many bytes of documents there are at a time.
    ///   - mostOfGateway: how many of one gateway. It waits for each answer before it posts the next document.
    package init(most: Int = 64 << 20, mostOfGateway: Int = 4 << 20) {
        self.most = most
        self.mostOfGateway = mostOfGateway
    }

    /// Counts a document until ``leave(_:of:)``.
    ///
    /// - Returns: whether there is room for it.
    package func enter(_ bytes: Int, of gateway: String) -> Bool {
        state.withLock { state in
            let held = state.held[gateway, default: 0] + bytes
            guard held <= mostOfGateway, state.total + bytes <= most else { return false }
            state.held[gateway] = held
            state.total += bytes
            return true
        }
    }

    /// Counts a document no more.
    package func leave(_ bytes: Int, of gateway: String) {
        state.withLock { state in
            let rest = state.held[gateway, default: bytes] - bytes
            state.held[gateway] = rest > 0 ? rest : nil
            state.total -= bytes
        }
    }
}

import FleetStore

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
    /// How many batches may wait: some 64 MiB of the largest.
    private static let mostWaiting = 1000

    package init(store: any CentralStore) { self.store = store }

    /// Keeps a batch.
    ///
    /// - Returns: what became of its readings, after they are durable. Cancelling the task that waits changes nothing.
    package func keep(_ batch: ArrivedBatch) async throws(CentralStoreError) -> BatchOutcome {
        guard waiting.count < Self.mostWaiting else { throw .unavailable("too many batches wait for it") }
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

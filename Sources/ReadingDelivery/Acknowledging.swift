import HealthReadings
import ReadingStore

/// What a destination has taken and the store does not know yet.
struct TakenReadings {
    var ids: [OutboxID] = []
    /// What is told once the store knows, in order.
    var events: [SyncEvent] = []
}

extension OutboxWorker {
    /// How long the store may not know what the destination has taken. A process that is killed meanwhile sends it again.
    private static let longestUnwritten: Duration = .seconds(1)

    /// Notes that the destination has readings.
    ///
    /// They are written together with what is taken soon after: each commit costs a write to the disk, and its wear.
    func acknowledge(_ ids: [OutboxID], _ readings: [ReadingID]) async throws {
        taken.ids += ids
        taken.events.append(.readings(readings, .acknowledged))
        if taken.ids.count >= options.unwrittenLimit { return try await writeAcknowledged() }
        guard writing == nil else { return }
        // A send that hangs does not keep it waiting.
        writing = Task {
            try? await Task.sleep(for: Self.longestUnwritten)
            // What cannot be written now is tried again, and told, by the pass.
            if !Task.isCancelled { try? await self.writeAcknowledged() }
        }
    }

    /// Writes what the destination has taken. Where that fails it is kept, and written by the next call.
    func writeAcknowledged() async throws {
        writing?.cancel()
        writing = nil
        while let present = acknowledging { _ = await present.result }
        guard !taken.events.isEmpty else { return }
        let (now, written) = (clock.now(), taken)
        taken = TakenReadings()
        // Whoever stops waiting for it undoes nothing.
        let task = Task { [store] in try await store.acknowledge(written.ids, at: now) }
        acknowledging = task
        let result = await task.result
        acknowledging = nil
        switch result {
        case .success: for event in written.events { hub.emit(event) }
        case .failure(let error):
            taken.ids.insert(contentsOf: written.ids, at: 0)
            taken.events.insert(contentsOf: written.events, at: 0)
            throw error
        }
    }

    /// Tells an event of a pass, behind everything that was to be told before it.
    func tell(_ event: SyncEvent) {
        guard taken.events.isEmpty, acknowledging == nil else { return taken.events.append(event) }
        hub.emit(event)
    }
}

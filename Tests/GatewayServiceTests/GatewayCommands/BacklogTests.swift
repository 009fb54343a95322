import Testing

@testable import GatewayCommands

@Suite("What waits for a slow reader")
struct BacklogTests {
    @Test("there is room again when it has read, and nobody waits for one that has gone or is not waited for")
    func room() async throws {
        let backlog = Backlog()
        try await backlog.room()
        backlog.add(2 << 20)
        let waiting = Task { try await backlog.room() }
        backlog.remove(1 << 20)
        try await waiting.value
        backlog.add(1 << 20)
        let cancelled = Task { try await backlog.room() }
        cancelled.cancel()
        await #expect(throws: CancellationError.self) { try await cancelled.value }
        let other = Backlog()
        other.add(2 << 20)
        let left = Task { try await other.room() }
        other.clear()
        try await left.value
    }
}

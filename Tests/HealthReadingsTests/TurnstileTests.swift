import Synchronization
import Testing

@testable import HealthReadings

@Suite("Tasks in turn", .timeLimit(.minutes(5))) struct TurnstileTests {
    @Test("those who wait go in the order in which they came; who is cancelled meanwhile is passed over")
    func order() async throws {
        let turnstile = Turnstile(width: 1)
        let course = PassingCourse()
        let (holds, hold) = AsyncStream<Void>.makeStream()
        let first = Task { () async throws -> Void in
            try await turnstile.pass {
                course.begin()
                for await _ in holds { break }
            }
        }
        while !course.hasBegun { try await Task.sleep(for: .milliseconds(1)) }
        var waiting: [Task<Void, any Error>] = []
        for number in 0..<5 {
            waiting.append(Task { () async throws -> Void in try await turnstile.pass { course.note(number) } })
            try await Task.sleep(for: .milliseconds(20))
        }
        waiting[2].cancel()
        let passedOver = await waiting[2].result
        #expect(throws: CancellationError.self) { try passedOver.get() }
        hold.yield()
        try await first.value
        for (number, task) in waiting.enumerated() where number != 2 { try await task.value }
        #expect(course.order == [0, 1, 3, 4])
    }

    @Test("few get in at a time, the others in turn, and too many are told so")
    func full() async throws {
        let turnstile = Turnstile(width: 1, mostWaiting: 1)
        let course = PassingCourse()
        let (gate, open) = AsyncStream<Void>.makeStream()
        let first = Task {
            try await turnstile.pass {
                course.begin()
                for await _ in gate { break }
                return 1
            }
        }
        while !course.hasBegun { await Task.yield() }
        let second = Task { try await turnstile.pass { 2 } }
        while turnstile.queue == 0 { await Task.yield() }
        await #expect(throws: Turnstile.Full.self) { try await turnstile.pass { 3 } }
        open.yield()
        #expect(try await first.value == 1)
        #expect(try await second.value == 2)
        #expect(try await turnstile.pass { 4 } == 4)
    }
}

/// Who passed a turnstile, in order.
private final class PassingCourse: Sendable {
    private let state = Mutex<(hasBegun: Bool, order: [Int])>((false, []))
    var hasBegun: Bool { state.withLock(\.hasBegun) }
    var order: [Int] { state.withLock(\.order) }
    func begin() { state.withLock { $0.hasBegun = true } }
    func note(_ number: Int) { state.withLock { $0.order.append(number) } }
}

import Foundation
import GatewaySettings
import Synchronization
import Testing

@testable import GatewayCommands

@Suite("Looks at a directory on a network") struct DirectoryLookTests {
    /// A directory whose server is gone: a call in it waits until it is there again.
    private final class HangingDirectory: Sendable {
        let path = "/hangs-\(UUID().uuidString)"
        private let begun = Mutex(0)
        private let (reading, writing): (Int32, Int32)

        init() throws {
            var ends: [Int32] = [0, 0]
            let made = pipe(&ends)
            try #require(made == 0)
            (reading, writing) = (ends[0], ends[1])
        }

        deinit { for end in [reading, writing] { close(end) } }

        /// How many calls wait, as soon as these many do.
        func waiting(_ count: Int) async throws -> Int {
            for _ in 0..<1000 where begun.withLock({ $0 }) < count { try await Task.sleep(for: .milliseconds(10)) }
            return begun.withLock { $0 }
        }

        func call() {
            begun.withLock { $0 += 1 }
            var octet: UInt8 = 0
            _ = read(reading, &octet, 1)
        }

        /// The server is there again, for so many calls.
        func answer(_ count: Int) {
            let written = write(writing, [UInt8](repeating: 0, count: count), count)
            #expect(written == count)
        }
    }

    @Test("one that answers says what it has")
    func answers() async throws {
        let answer = try await DirectoryLook.at("/a") { 7 }
        #expect(answer == 7)
    }

    @Test("one that hangs keeps nobody waiting, takes two threads at most, and is asked again once it has answered")
    func hangs() async throws {
        let hanging = try HangingDirectory()
        let directory = hanging.path
        for _ in 0..<4 {
            let problem = await #expect(throws: Problem.self) {
                try await DirectoryLook.at(directory, patience: 0.05) { hanging.call() }
            }
            #expect(problem?.code == "backup_unreadable" && problem?.message.contains(directory) == true)
        }
        // The threads that hang are few, however often somebody asks.
        let count = try await hanging.waiting(2)
        #expect(count == 2)
        // Another directory has nothing to do with it.
        let other = try await DirectoryLook.at(directory + "/other") { true }
        #expect(other)
        hanging.answer(2)
        var isAnswered = false
        for _ in 0..<500 where !isAnswered {
            isAnswered = (try? await DirectoryLook.at(directory) { true }) ?? false
            try await Task.sleep(for: .milliseconds(10))
        }
        #expect(isAnswered)
    }

    @Test("work in a directory that hangs takes no thread that all tasks share, and is given up once it is cancelled")
    func work() async throws {
        let place = try HangingDirectory()
        let directory = place.path
        let done = try await DirectoryLook.working(in: directory) {
            await Task.yield()
            return 7
        }
        #expect(done == 7)
        await #expect(throws: POSIXError.self) {
            try await DirectoryLook.working(in: directory) { () async throws -> Int in throw POSIXError(.ENOSPC) }
        }
        // One more than there are threads for all tasks.
        let count = ProcessInfo.processInfo.activeProcessorCount + 1
        let hanging = (0..<count).map { _ in
            Task {
                try await DirectoryLook.working(in: directory, patience: 0.05) {
                    // Still on its own thread after it has waited for something else.
                    await Task.yield()
                    place.call()
                }
            }
        }
        let running = try await place.waiting(count)
        #expect(running == count)
        for task in hanging {
            task.cancel()
            let problem = await #expect(throws: Problem.self) { try await task.value }
            #expect(problem?.code == "backup_unreadable")
        }
        await #expect(throws: Problem.self) { try await DirectoryLook.working(in: directory) {} }
        place.answer(count)
        var isAnswered = false
        for _ in 0..<500 where !isAnswered {
            isAnswered = (try? await DirectoryLook.working(in: directory) { true }) ?? false
            try await Task.sleep(for: .milliseconds(10))
        }
        #expect(isAnswered)
    }
}

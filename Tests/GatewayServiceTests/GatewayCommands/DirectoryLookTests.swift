import Foundation
import GatewaySettings
import Synchronization
import Testing

@testable import GatewayCommands

@Suite("Looks at a directory on a network") struct DirectoryLookTests {
    private final class Count: Sendable {
        let value = Mutex(0)
    }

    @Test("one that answers says what it has")
    func answers() async throws {
        let answer = try await DirectoryLook.at("/a") { 7 }
        #expect(answer == 7)
    }

    @Test("one that hangs keeps nobody waiting, takes two threads at most, and is asked again once it has answered")
    func hangs() async throws {
        let directory = "/hangs-\(UUID().uuidString)"
        var ends: [Int32] = [0, 0]
        let made = pipe(&ends)
        try #require(made == 0)
        let (reading, writing) = (ends[0], ends[1])
        defer { for end in [reading, writing] { close(end) } }
        let begun = Count()
        @Sendable func look() {
            begun.value.withLock { $0 += 1 }
            var octet: UInt8 = 0
            _ = read(reading, &octet, 1)
        }
        for _ in 0..<4 {
            let problem = await #expect(throws: Problem.self) {
                try await DirectoryLook.at(directory, patience: 0.05, look)
            }
            #expect(problem?.code == "backup_unreadable" && problem?.message.contains(directory) == true)
        }
        for _ in 0..<500 where begun.value.withLock({ $0 }) < 2 { try await Task.sleep(for: .milliseconds(10)) }
        // The threads that hang are few, however often somebody asks.
        let count = begun.value.withLock { $0 }
        #expect(count == 2)
        // Another directory has nothing to do with it.
        let other = try await DirectoryLook.at(directory + "/other") { true }
        #expect(other)
        let written = write(writing, "ab", 2)
        #expect(written == 2)
        var isAnswered = false
        for _ in 0..<500 where !isAnswered {
            isAnswered = (try? await DirectoryLook.at(directory) { true }) ?? false
            try await Task.sleep(for: .milliseconds(10))
        }
        #expect(isAnswered)
    }

    @Test("work in a directory that hangs takes no thread that all tasks share, and is given up once it is cancelled")
    func work() async throws {
        let directory = "/hangs-\(UUID().uuidString)"
        let done = try await DirectoryLook.working(in: directory) {
            await Task.yield()
            return 7
        }
        #expect(done == 7)
        await #expect(throws: POSIXError.self) {
            try await DirectoryLook.working(in: directory) { () async throws -> Int in throw POSIXError(.ENOSPC) }
        }
        var ends: [Int32] = [0, 0]
        let made = pipe(&ends)
        try #require(made == 0)
        let (reading, writing) = (ends[0], ends[1])
        defer { for end in [reading, writing] { close(end) } }
        let begun = Count()
        // One more than there are threads for all tasks.
        let count = ProcessInfo.processInfo.activeProcessorCount + 1
        let hanging = (0..<count).map { _ in
            Task {
                try await DirectoryLook.working(in: directory, patience: 0.05) {
                    // Still on its own thread after it has waited for something else.
                    await Task.yield()
                    begun.value.withLock { $0 += 1 }
                    var octet: UInt8 = 0
                    _ = read(reading, &octet, 1)
                }
            }
        }
        for _ in 0..<1000 where begun.value.withLock({ $0 }) < count { try await Task.sleep(for: .milliseconds(10)) }
        let running = begun.value.withLock { $0 }
        #expect(running == count)
        for task in hanging {
            task.cancel()
            let problem = await #expect(throws: Problem.self) { try await task.value }
            #expect(problem?.code == "backup_unreadable")
        }
        await #expect(throws: Problem.self) { try await DirectoryLook.working(in: directory) {} }
        let written = write(writing, [UInt8](repeating: 0, count: count), count)
        #expect(written == count)
        var isAnswered = false
        for _ in 0..<500 where !isAnswered {
            isAnswered = (try? await DirectoryLook.working(in: directory) { true }) ?? false
            try await Task.sleep(for: .milliseconds(10))
        }
        #expect(isAnswered)
    }
}

import Foundation
import HelperProcesses
import Testing

@Suite struct MemoryServiceTests {
    /// The process's own memory, in kB.
    private static func ownMemory() throws -> Int {
        let status = try String(contentsOfFile: "/proc/self/status", encoding: .utf8)
        let line = try #require(status.split(separator: "\n").first { $0.hasPrefix("RssAnon:") })
        return try #require(Int(line.split(separator: " ")[1]))
    }

    @Test("memory that was freed between what is in use is given back")
    func givesBack() throws {
        let (size, count) = (1024, 100_000)
        let pieces = (0..<count).map { _ in
            let piece = UnsafeMutableRawPointer.allocate(byteCount: size, alignment: 16)
            piece.initializeMemory(as: UInt8.self, repeating: 1, count: size)
            return piece
        }
        // One in a hundred stays.
        for (number, piece) in pieces.enumerated() where number % 100 != 99 { piece.deallocate() }
        let before = try Self.ownMemory()
        ProcessMemory.giveBack()
        let after = try Self.ownMemory()
        #expect(before - after > size * count / 1024 / 2, "\(before) kB, then \(after) kB")
        for (number, piece) in pieces.enumerated() where number % 100 == 99 { piece.deallocate() }
    }
}

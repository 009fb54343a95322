import Foundation
import Testing

@testable import GatewayCommands

@Suite("Files that have their names only when they are whole") struct WholeFileTests {
    private static func place() throws -> String { try GatewayBench.scratch().appendingPathComponent("export").path }

    private static func octets(_ path: String) -> [UInt8]? {
        FileManager.default.contents(atPath: path).map { Array($0) }
    }

    @Test("of two writers of one file the second is refused, and the name is never that of an unfinished file")
    func two() throws {
        let path = try Self.place()
        let whole = [UInt8](repeating: 1, count: 100)
        var first = try WholeFile(path)
        try first.write(whole)
        let refused = #expect(throws: POSIXError.self) {
            var second = try WholeFile(path)
            try second.write([UInt8](repeating: 2, count: 10))
        }
        #expect(refused?.code == .EBUSY)
        #expect(Self.octets(path) == nil && Self.octets(path + ".part") == whole)
        try first.finish()
        #expect(Self.octets(path) == whole && Self.octets(path + ".part") == nil)
        // The next one is not refused.
        var third = try WholeFile(path)
        try third.write([3])
        try third.finish()
        #expect(Self.octets(path) == [3])
    }

    @Test("a part that somebody else has put in the place of a writer's own does not get the name, and stays")
    func replaced() throws {
        let path = try Self.place()
        let refused = #expect(throws: POSIXError.self) {
            var file = try WholeFile(path)
            try file.write([1])
            unlink(path + ".part")
            try Data([2]).write(to: URL(fileURLWithPath: path + ".part"))
            try file.finish()
        }
        #expect(refused?.code == .EBUSY)
        #expect(Self.octets(path) == nil && Self.octets(path + ".part") == [2])
    }

    @Test("what a killed writer has left goes, whatever it leads to stays, and one that gives up leaves nothing")
    func leftovers() throws {
        let path = try Self.place()
        try Data("left".utf8).write(to: URL(fileURLWithPath: path + ".part"))
        var file = try WholeFile(path)
        try file.write([7])
        try file.check { part in
            let checked = Self.octets(part)
            #expect(checked == [7])
        }
        try file.finish()
        #expect(Self.octets(path) == [7] && Self.octets(path + ".part") == nil)

        try Data([9]).write(to: URL(fileURLWithPath: path + ".other"))
        try FileManager.default.createSymbolicLink(atPath: path + ".part", withDestinationPath: path + ".other")
        do {
            var given = try WholeFile(path)
            try given.write([8])
        }
        #expect(Self.octets(path) == [7] && Self.octets(path + ".part") == nil)
        #expect(Self.octets(path + ".other") == [9])
    }

    @Test("a part that was left is cleared away; one that somebody is writing is not")
    func cleared() throws {
        let path = try Self.place()
        try Data("left".utf8).write(to: URL(fileURLWithPath: path + ".part"))
        WholeFile.clear(path + ".part")
        #expect(Self.octets(path + ".part") == nil)
        WholeFile.clear(path + ".part")
        var file = try WholeFile(path)
        try file.write([1])
        WholeFile.clear(path + ".part")
        try file.finish()
        #expect(Self.octets(path) == [1])
    }
}

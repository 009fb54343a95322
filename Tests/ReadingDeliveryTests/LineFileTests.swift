import Foundation
import HealthReadings
import TestSupport
import Testing

@testable import ReadingDelivery

/// A file of JSON lines that has grown for years.
@Suite struct LineFileTests {
    private static func line(_ number: Int, length: Int = 60) -> String {
        let id = ReadingID(high: UInt64(number), low: UInt64(number)).description
        return #"{"id":"\#(id)","person":"\#(String(repeating: "x", count: length))"}"#
    }

    private func with<Value>(_ text: String, _ body: (LineFile) throws -> Value) throws -> Value {
        let path = FileManager.default.temporaryDirectory
            .appending(path: "lines-\(ProcessInfo.processInfo.globallyUniqueString)").path
        try text.write(toFile: path, atomically: true, encoding: .utf8)
        defer { try? FileManager.default.removeItem(atPath: path) }
        let file = open(path, O_RDONLY | O_CLOEXEC)
        defer { close(file) }
        return try body(try #require(LineFile(file)))
    }

    @Test("every whole line is read once, and a last one that is not whole is left, whatever the lengths")
    func lines() throws {
        var generator = SeededGenerator(seed: 7)
        for count in [0, 1, 2, 1200] {
            // Shorter and longer than the piece that is read at once.
            let lines = (0..<count).map { number in
                let longest = number % 1000 == 77 ? 1_500_000 : 800
                return Self.line(number, length: Int.random(in: 0...longest, using: &generator))
            }
            let whole = lines.map { $0 + "\n" }.joined()
            for rest in ["", #"{"i"#, Self.line(9, length: 3_000_000)] {
                var found: [String] = []
                try with(whole + rest) { file in
                    #expect(try file.end() == whole.utf8.count)
                    try file.forEach { found.append(String(decoding: $0, as: UTF8.self)) }
                }
                #expect(found == lines)
            }
        }
    }

    @Test("a line that is none of these is found in the first and in the last megabyte")
    func foreign() throws {
        let many = (0..<40_000).map { Self.line($0) + "\n" }.joined()
        try #require(many.utf8.count > 3 << 20)
        for text in ["mine\n" + many, many + "mine\n", many + "mine", "{}\n", "a"] {
            #expect(try with(text) { try $0.end() == nil && $0.isForeign })
        }
        #expect(try with(many) { !$0.isForeign })
    }

    @Test("of the lines that came, the newest are known, and not more than twice as many")
    func bounded() {
        let (begin, fewest) = (1_795_000_000 as Int64, LastLines.fewest)
        var lines = LastLines(since: Instant(seconds: begin))
        let ids = (0..<(5 * fewest + 100)).map { ReadingID(high: UInt64($0), low: 0) }
        for (number, id) in ids.enumerated() {
            lines.note([id: number], now: Instant(seconds: begin + Int64(number)))
        }
        #expect(ids.suffix(fewest).allSatisfy { lines[$0] == Int($0.high) })
        #expect(ids.count { lines[$0] != nil } <= 2 * fewest)
        // A reading that was received when the first line of those came, or later, has its lines among them.
        let first = ids.firstIndex { lines[$0] != nil } ?? 0
        #expect(lines.covers(Instant(seconds: begin + Int64(first))) && !lines.covers(Instant(seconds: begin)))
    }

    @Test("all lines are known as long as they are needed, and what came meanwhile with them")
    func all() {
        let begin = Instant(seconds: 1_795_000_000)
        func later(_ minutes: Int64) -> Instant { Instant(seconds: begin.seconds + 60 * minutes) }
        var lines = LastLines(since: begin)
        let (old, new) = (ReadingID(high: 1, low: 1), ReadingID(high: 2, low: 2))
        #expect(!lines.wantsAll(false, now: begin) && lines.wantsAll(true, now: begin))
        lines.all = [1: 10]
        lines.note([new: 20], now: begin)
        lines.note([old: 11], now: begin)
        #expect(lines[old] == 11 && lines[new] == 20)
        #expect(!lines.wantsAll(true, now: later(9)) && !lines.wantsAll(false, now: later(18)) && lines.all != nil)
        #expect(!lines.wantsAll(false, now: later(20)) && lines.all == nil)
        #expect(lines[old] == 11 && lines[new] == 20 && lines.wantsAll(true, now: later(21)))
    }
}

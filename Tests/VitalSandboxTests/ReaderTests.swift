import Foundation
import TestSupport
import Testing

@testable import VitalSandbox

@Suite("Readers of outside octets")
struct ReaderTests {
    @Test("a document is written as it was read, and Foundation agrees on what it says")
    func roundTrip() throws {
        let seed = UInt64.random(in: 0...UInt64.max)
        var random = SeededGenerator(seed: seed)
        for _ in 0..<500 {
            let value = Self.random(&random, depth: 0)
            let text = value.text
            let again = try JSONTextParser.parse(Array(text.utf8))
            #expect(again == value, "seed \(seed): \(text)")
            let foreign = try JSONSerialization.jsonObject(with: Data(text.utf8), options: .fragmentsAllowed)
            let back = try JSONSerialization.data(withJSONObject: [foreign], options: .sortedKeys)
            let ours = try JSONSerialization.jsonObject(with: Data(again.text.utf8), options: .fragmentsAllowed)
            #expect(try JSONSerialization.data(withJSONObject: [ours], options: .sortedKeys) == back, "seed \(seed)")
        }
    }

    private static func random(_ random: inout SeededGenerator, depth: Int) -> JSONValue {
        switch Int.random(in: 0..<(depth > 3 ? 4 : 6), using: &random) {
        case 0: return .null
        case 1: return .bool(Bool.random(using: &random))
        case 2:
            let whole = Int.random(in: -9999...9999, using: &random)
            return .number(["\(whole)", "\(whole).50", "\(whole)e-2"].randomElement(using: &random) ?? "0")
        case 3: return .string(text(&random))
        case 4:
            return .array(
                (0..<Int.random(in: 0...4, using: &random)).map { _ in
                    Self.random(&random, depth: depth + 1)
                })
        default:
            let names = Set((0..<Int.random(in: 0...4, using: &random)).map { _ in text(&random) })
            return .object(names.map { JSONValue.Member(name: $0, value: Self.random(&random, depth: depth + 1)) })
        }
    }

    private static func text(_ random: inout SeededGenerator) -> String {
        let pieces = ["a", "\"", "\\", "\n", "\u{1}", "é", "😀", "/", "\u{2028}", "0"]
        return (0..<Int.random(in: 0...6, using: &random)).map { _ in
            pieces.randomElement(using: &random) ?? ""
        }.joined()
    }

    @Test("no octets trap a reader")
    func mutations() async throws {
        let seed = UInt64.random(in: 0...UInt64.max)
        var random = SeededGenerator(seed: seed)
        let body = Array(Bodies.glucose("5.5").utf8)
        let packed = try await shell("printf '%s' '\(Bodies.glucose("5.5"))' | gzip")
        for round in 0..<3000 {
            var octets = round % 2 == 0 ? body : packed
            for _ in 0..<Int.random(in: 1...8, using: &random) {
                octets[Int.random(in: 0..<octets.count, using: &random)] = UInt8.random(in: 0...255, using: &random)
            }
            fuzzSandboxBody(Array(octets.prefix(Int.random(in: 0...octets.count, using: &random))))
            fuzzSandboxBody(octets)
        }
    }

    @Test("deep and wide documents are refused, escapes are read")
    func limits() throws {
        #expect(throws: JSONTextError.self) { try JSONTextParser.parse([UInt8](repeating: 0x5B, count: 100_000)) }
        let long = Array(String(repeating: "1", count: 65).utf8)
        #expect(throws: JSONTextError.self) { try JSONTextParser.parse(long) }
        let wide = Array(("[" + String(repeating: "0,", count: 1_000_001) + "0]").utf8)
        #expect(throws: JSONTextError.self) { try JSONTextParser.parse(wide) }
        let text = try JSONTextParser.parse(Array(#""\u00e9\ud83d\ude00\/\b""#.utf8))
        #expect(text == .string("é😀/\u{8}"))
        for wrong in [#""\ud83d""#, #""\ude00""#, #""\ud83dA""#, #""\x""#, "\"\u{1}\"", "1.", "-", "+1", ".5", "1e"] {
            #expect(throws: JSONTextError.self, "\(wrong)") { try JSONTextParser.parse(Array(wrong.utf8)) }
        }
        #expect(throws: JSONTextError.self) { try JSONTextParser.parse([0x22, 0xC3, 0x28, 0x22]) }
    }

    @Test("instants agree with Foundation from year 1 to 9999")
    func instants() throws {
        let seed = UInt64.random(in: 0...UInt64.max)
        var random = SeededGenerator(seed: seed)
        let style = Date.ISO8601FormatStyle()
        for _ in 0..<2000 {
            let seconds = Int64.random(in: -62_135_596_800...253_402_300_799, using: &random)
            let stamp = Timestamp(microseconds: seconds * 1_000_000)
            #expect(try Timestamp.parse(stamp.text) == stamp, "seed \(seed)")
            if seconds > -12_000_000_000 {  // Foundation's calendar is Julian before 1582
                let foreign = Date(timeIntervalSince1970: Double(seconds)).formatted(style)
                #expect(stamp.text == foreign, "seed \(seed)")
            }
        }
        #expect(try Timestamp.parse("2026-11-20T12:30:00.25+01:30").text == "2026-11-20T11:00:00.250000Z")
        for wrong in ["2025-02-29T00:00:00Z", "2026-11-20T24:00:00Z", "2026-11-20T12:30:60Z", "2026-11-20", "x", ""] {
            #expect(throws: Timestamp.Failure.self) { try Timestamp.parse(wrong) }
        }
    }

    @Test("time zones are IANA identifiers")
    func zones() {
        for right in ["Europe/Berlin", "UTC", "America/Argentina/Buenos_Aires", "Etc/GMT+3", "Asia/Kolkata", "CET"] {
            #expect(IANAZone.find(right) != nil, "\(right)")
        }
        for wrong in ["PST", "CEST", "GMT+1", "+01:00", "europe/berlin", "Mars/Olympus", "", "../etc/passwd"] {
            #expect(IANAZone.find(wrong) == nil, "\(wrong)")
        }
    }
}

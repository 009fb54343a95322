import Testing

@testable import WebDestinations

@Suite("JSON that servers answer")
struct WebAnswerTests {
    @Test("values are read as what they are, also behind a byte order mark")
    func values() {
        let text = "\u{FEFF} {\"a\": [1, -2.5, \"x\\u00e9\", true, null, {}], \"b\": {\"c\": 1e3}}\n"
        #expect(
            AnswerJSON(Array(text.utf8))
                == .object([
                    "a": .array([.number(1), .number(-2.5), .text("x\u{E9}"), .bool(true), .null, .object([:])]),
                    "b": .object(["c": .number(1000)]),
                ]))
        for text in ["", "x", "{", "[1,]", "{\"a\":1}x"] { #expect(AnswerJSON(Array(text.utf8)) == nil) }
    }

    @Test("an answer takes no longer to be read the deeper it is", .timeLimit(.minutes(1)))
    func deep() {
        func nested(_ depth: Int) -> String {
            String(repeating: "[", count: depth) + String(repeating: "]", count: depth)
        }
        func list(_ depth: Int, count: Int) -> [UInt8] {
            Array(("[" + Array(repeating: nested(depth), count: count).joined(separator: ",") + "]").utf8)
        }
        #expect(AnswerJSON(list(60, count: 8000))?.elements.count == 8000)
        #expect(AnswerJSON(list(450, count: 1000)) == nil)
    }
}

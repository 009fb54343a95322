import HealthReadings
import Testing

/// Text from outside on a terminal and in a log.
@Suite struct PrintableTextTests {
    @Test(
        "a character that a terminal obeys is escaped as JSON does it",
        arguments: [
            ("meter\u{1B}]0;owned\u{7}", #"meter\u001b]0;owned\u0007"#), ("a\u{9B}2Jb", #"a\u009b2Jb"#),
            ("\u{202E}gpj.exe", #"\u202egpj.exe"#), ("a\u{2066}b\u{2069}", #"a\u2066b\u2069"#),
            ("one\nerror: two", #"one\u000aerror: two"#), ("a\u{7F}\r\u{8}", #"a\u007f\u000d\u0008"#),
            ("a\u{2028}b\u{61C}\u{0}", #"a\u2028b\u061c\u0000"#),
        ])
    func escapes(_ text: String, _ wanted: String) {
        #expect(PrintableText.escaped(text) == wanted)
        #expect(PrintableText.escaped(wanted) == wanted, "escaping twice changes nothing")
        #expect(PrintableText.escaped(Array(text.utf8)) == Array(PrintableText.escaped(text, keepsLines: true).utf8))
    }

    @Test("other text stays as it is", arguments: ["mg/dL\t95 → 5,3 mmol/L", "Große Äpfel “…” µ 血圧 🙂", ""])
    func plain(_ text: String) {
        #expect(PrintableText.escaped(text) == text)
        #expect(PrintableText.escaped(Array((text + "\n").utf8)) == Array((text + "\n").utf8))
    }

    @Test("a document of JSON stays the document it was")
    func json() throws {
        let value = JSONValue.object(["name": .string("a\u{1B}\u{9B}\u{202E}\n\"b\\")])
        let escaped = PrintableText.escaped(value.text)
        #expect(!escaped.unicodeScalars.contains { $0.value < 0x20 || (0x7F..<0xA0).contains($0.value) })
        #expect(escaped.contains(#"\u009b\u202e"#) && escaped.hasPrefix("{") && escaped.hasSuffix("}"))
    }
}

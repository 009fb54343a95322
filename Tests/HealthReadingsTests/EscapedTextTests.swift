import HealthReadings
import Testing

@Suite struct EscapedTextTests {
    @Test(
        "a character is escaped also where it makes one letter with its neighbour",
        arguments: [
            ("a\"b", #"a\"b"#), ("\"", #"\""#), ("a\"\u{301}", "a\\\"\u{301}"), ("\"\u{200D}\"", "\\\"\u{200D}\\\""),
            ("a\r\nb", "a\r\\nb"), (#"\"#, #"\\"#), ("e\u{301}", "e\u{301}"), ("", ""),
        ])
    func everywhere(_ text: String, _ wanted: String) {
        let escaped = text.escaping(["\"": #"\""#, "\n": #"\n"#, "\\": #"\\"#])
        #expect(Array(escaped.utf8) == Array(wanted.utf8))
    }

    @Test("a text is cut between scalars, and is no longer than asked for")
    func cuts() {
        let text = "aé\u{301}\u{301}血🙂b"
        for most in 0...(text.utf8.count + 1) {
            let cut = text.cut(toOctets: most)
            #expect(cut.utf8.count <= most && text.utf8.starts(with: cut.utf8))
            #expect(most >= text.utf8.count || cut.utf8.count > most - 4)
        }
        #expect("".cut(toOctets: 0) == "" && text.cut(toOctets: 100) == text)
    }
}

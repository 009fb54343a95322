import OutgoingHTTP
import Testing

@Suite("A server's words") struct ServerTextTests {
    @Test(
        "a secret is masked wherever a server echoes it",
        arguments: [
            ("key sk_eu_1 is wrong", "key **** is wrong"), ("sk_eu_1sk_eu_1", "********"),
            ("\"sk_eu_1\u{301}\"", "\"****\u{301}\""), ("sk_eu_", "sk_eu_"),
        ])
    func masked(_ text: String, _ wanted: String) {
        #expect(Array(ServerText.masked(text, ["sk_eu_1"]).utf8) == Array(wanted.utf8))
    }

    @Test("what is kept of a server's words has a limit in octets, too")
    func bounded() throws {
        let words = try #require(ServerText.oneLine("e" + String(repeating: "\u{301}", count: 100_000), masking: []))
        #expect(words.utf8.count <= 1200 && words.unicodeScalars.first == "e")
        #expect(ServerText.oneLine(String(repeating: "x", count: 301), masking: [])?.count == 300)
        #expect(ServerText.oneLine(String(repeating: "x", count: 300), masking: [])?.last == "x")
    }
}

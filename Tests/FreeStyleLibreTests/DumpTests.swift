import EncodedSensor
import FreeStyleLibre
import Testing

@Suite("A dump of a memory")
struct DumpTests {
    private static let octets = EncodedSensor(age: 5021).memory

    private static func pairs(_ separator: String, uppercase: Bool = true) -> [[String]] {
        stride(from: 0, to: octets.count, by: 8).map { start in
            octets[start..<(start + 8)].map { octet in
                (octet < 16 ? "0" : "") + String(octet, radix: 16, uppercase: uppercase)
            }
        }
    }

    /// The dump with each block on a line of its own.
    private static func blocks(_ separator: String = " ", _ head: (Int) -> String = { _ in "" }, tail: Bool = false)
        -> String
    {
        pairs(separator).enumerated().map { number, pairs in
            let characters = octets[(8 * number)..<(8 * number + 8)].map {
                (0x20..<0x7F).contains($0) ? String(UnicodeScalar($0)) : "."
            }
            return head(number) + pairs.joined(separator: separator) + (tail ? " |" + characters.joined() + "|" : "")
        }.joined(separator: "\n")
    }

    private static func number(_ value: Int, _ radix: Int, _ width: Int, uppercase: Bool = false) -> String {
        let digits = String(value, radix: radix, uppercase: uppercase)
        return String(repeating: "0", count: max(0, width - digits.count)) + digits
    }

    /// Lines of 16 octets with their address, as hexdump, xxd and od write them.
    private static func lines(_ head: (Int) -> String, _ row: ([String], String) -> String, end: String = "") -> String
    {
        let all = octets.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }
        return stride(from: 0, to: octets.count, by: 16).map { start in
            let range = start..<min(start + 16, octets.count)
            let characters = octets[range].map { (0x20..<0x7F).contains($0) ? String(UnicodeScalar($0)) : "." }
            return head(start) + row(Array(all[range]), characters.joined())
        }.joined(separator: "\n") + "\n" + end
    }

    private static func grouped(_ pairs: [String], _ size: Int) -> String {
        stride(from: 0, to: pairs.count, by: size).map { pairs[$0..<min($0 + size, pairs.count)].joined() }
            .joined(separator: " ")
    }

    static let dumps: [(String, String)] = [
        ("one line", pairs("").joined().joined()), ("lower case", pairs("", uppercase: false).joined().joined()),
        ("spaces", pairs("").joined().joined(separator: " ")), ("colons", pairs("").joined().joined(separator: ":")),
        ("hyphens", pairs("").joined().joined(separator: "-")),
        ("an array", pairs("").joined().map { "0x" + $0 }.joined(separator: ", ")),
        ("0x before all", "0x" + pairs("").joined().joined()), ("blocks", blocks()),
        ("blocks with CR LF", blocks().replacing("\n", with: "\r\n")),
        ("blocks with CR", blocks().replacing("\n", with: "\r")), ("tabs", blocks("\t")),
        ("blocks without blanks", blocks("")),
        ("words of four", pairs("").map { $0[..<4].joined() + " " + $0[4...].joined() }.joined(separator: "\n")),
        ("a byte order mark", "\u{FEFF}" + blocks()),
        ("empty lines", "\n\n" + blocks().replacing("\n", with: "\n\n") + "\n \n"),
        ("remarks", "# a dump\n; of no one\n// at all\n" + blocks() + "\n#\n#end"),
        ("blocks by #", blocks(" ") { "#" + number($0, 16, 2) + "  " }),
        ("blocks by decimal #", blocks(" ") { "#\($0) " }),
        ("blocks in brackets", blocks(" ") { "[" + number($0, 16, 2, uppercase: true) + "] " }),
        ("TagInfo", blocks(" ", { "[" + number($0, 16, 2, uppercase: true) + "] . " }, tail: true)),
        ("a table", blocks(" ", { " \($0) | " }, tail: true)),
        ("blocks with a colon", blocks(" ") { number($0, 16, 2) + ": " }),
        ("blocks with a colon, colons between", blocks(":") { number($0, 16, 2) + ": " }),
        ("0x and a colon", blocks(" ") { "0x" + number($0, 16, 2) + ": " }),
        ("addresses with a colon", blocks(" ") { number(8 * $0, 16, 4) + ": " }),
        ("addresses alone", blocks(" ") { number(8 * $0, 16, 4) + "  " }),
        (
            "hexdump -C",
            lines(
                { number($0, 16, 8) + "  " },
                { $0.prefix(8).joined(separator: " ") + "  " + $0.dropFirst(8).joined(separator: " ") + "  |\($1)|" },
                end: "00000158\n")
        ), ("xxd", lines({ number($0, 16, 8) + ": " }, { grouped($0, 2) + "  " + $1 })),
        ("xxd -c 8", blocks(" ") { number(8 * $0, 16, 8) + ": " }),
        (
            "od -A x",
            lines({ number($0, 16, 6) + " " }, { octets, _ in octets.joined(separator: " ") }, end: "000158\n")
        ),
        ("od", lines({ number($0, 8, 7) + " " }, { octets, _ in octets.joined(separator: " ") }, end: "0000530\n")),
    ]

    @Test("octets, and hexadecimal as public programs write it, are the same memory", arguments: dumps.map(\.0))
    func forms(_ name: String) throws {
        let text = try #require(Self.dumps.first { $0.0 == name }).1
        #expect(try MemoryDump.memory(Array(text.utf8)).octets == Self.octets, "\(text)")
    }

    @Test("a file of 344 octets is a memory as it is")
    func binary() throws { #expect(try MemoryDump.memory(Self.octets).octets == Self.octets) }

    private func error(_ text: String) -> String? { error(Array(text.utf8)) }

    private func error(_ octets: [UInt8]) -> String? {
        do {
            _ = try MemoryDump.memory(octets)
            return nil
        } catch {
            return error.description
        }
    }

    @Test("what is no memory is refused: what was expected, in which line, and what was found")
    func refused() {
        #expect(error("") == "memory dump: expected 344 octets, found 0 in hexadecimal")
        #expect(error("00 11 22") == "memory dump: expected 344 octets, found 3 in hexadecimal")
        #expect(
            error(Self.octets + [0])
                == "memory dump: expected 344 octets, or hexadecimal text, found 345 octets that are not text")
        #expect(error("00 11\n22 3\n") == "memory dump, line 2: expected two hexadecimal digits an octet, found “3”")
        #expect(error("00 11\n22 3x\n") == "memory dump, line 2: expected hexadecimal digits, found “x”")
        #expect(error("hello, sensor") == "memory dump, line 1: expected hexadecimal digits, found “hello, sensor”")
        #expect(error(Self.blocks() + "\n00") == "memory dump, line 44: expected 344 octets, found more")
        #expect(
            error(String(repeating: "00 ", count: 100_000)) == "memory dump, line 1: expected 344 octets, found more")
    }

    @Test("a line that is missing, or there twice, is found by the numbers of the others")
    func missingLines() {
        var lines = Self.blocks(" ") { "#" + Self.number($0, 16, 2) + " " }.split(separator: "\n").map(String.init)
        lines.remove(at: 5)
        #expect(
            error(lines.joined(separator: "\n"))
                == "memory dump, line 6: expected block 5, or the address 28, found “06”")
        lines.insert(lines[4], at: 5)
        #expect(
            error(lines.joined(separator: "\n"))
                == "memory dump, line 6: expected block 5, or the address 28, found “04”")
    }

    @Test("promise 5: no text traps, and what is read is what stands there")
    func hostile() {
        let words = [
            "00", "1F", "#05", "[05]", "|", ":", "0x", "\n", "\r\n", "  ", " ", "abcdef", "-", "x", "~", "0000",
            "00000008", ";", "//", "\t",
        ]
        forAll(3000) { generator in
            let text = (0..<generator.number(0...60)).map { _ in words[generator.number(0...(words.count - 1))] }
                .joined()
            _ = error(text)
            return error(generator.octets(generator.number(0...400))) != nil || true
        }
    }
}

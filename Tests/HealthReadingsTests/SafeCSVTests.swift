import HealthReadings
import Testing

@Suite("Cells of CSV") struct SafeCSVTests {
    @Test(
        "what a spreadsheet could compute is text to it",
        arguments: [
            "=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", " =1", "\u{FEFF}=1", "\u{200B}=1", "\u{202E}=1",
            "\u{A0}+1",
            "\u{FF1D}1", "\u{FF0B}1", "\u{FF0D}1", "\u{FF20}A", "\u{FEFF}\u{FF1D}1", "\u{2212}1", "'=1", "''=1",
            "'\u{FEFF}=1",
        ])
    func formulas(_ text: String) {
        let cell = SafeCSV.harmless(text)
        #expect(cell == "'" + text && SafeCSV.plain(cell) == text)
    }

    @Test(
        "other texts stay as they are",
        arguments: ["", "a=1", "Dr. Sommer", "'", "'quoted'", "''", "5-a", "\u{202E}name"])
    func others(_ text: String) { #expect(SafeCSV.harmless(text) == text && SafeCSV.plain(text) == text) }

    @Test("every text comes back, whatever it is made of")
    func roundTrip() {
        var generator = SystemRandomNumberGenerator()
        let pieces = [
            "'", "=", "+", "-", "@", "\t", "\r", "\n", " ", "\u{FEFF}", "\u{202E}", "\u{FF1D}", "a", "1", "\"", ",",
            ";", "\u{301}",
        ]
        for _ in 0..<20_000 {
            let text = (0..<Int.random(in: 0...6, using: &generator)).compactMap { _ in
                pieces.randomElement(using: &generator)
            }.joined()
            let cell = SafeCSV.harmless(text)
            #expect(Array(SafeCSV.plain(cell).utf8) == Array(text.utf8))
            #expect(cell.unicodeScalars.first.map { !"=+-@\u{FF1D}".unicodeScalars.contains($0) } ?? true)
        }
    }

    @Test("a reader of RFC 4180 gets every cell back as it was written")
    func rows() {
        var generator = SystemRandomNumberGenerator()
        let pieces = ["\"", ",", ";", "\r", "\n", " ", "a", "\u{301}", "\u{200D}", "\u{FE0F}"]
        for _ in 0..<20_000 {
            let cells = (0..<3).map { _ in
                (0..<Int.random(in: 0...5, using: &generator)).compactMap { _ in
                    pieces.randomElement(using: &generator)
                }.joined()
            }
            let row = cells.map(SafeCSV.quoted).joined(separator: ",")
            #expect(Self.cells(of: row).map { Array($0.utf8) } == cells.map { Array($0.utf8) }, "\(cells)")
        }
    }

    /// The cells of a row by RFC 4180, octet by octet.
    private static func cells(of row: String) -> [String] {
        var (cells, cell, isQuoted): ([[UInt8]], [UInt8], Bool) = ([], [], false)
        var octets = row.utf8.makeIterator()
        var next = octets.next()
        while let octet = next {
            next = octets.next()
            if octet == UInt8(ascii: "\""), isQuoted, next == octet {
                cell.append(octet)
                next = octets.next()
            } else if octet == UInt8(ascii: "\"") {
                isQuoted.toggle()
            } else if octet == UInt8(ascii: ","), !isQuoted {
                cells.append(cell)
                cell = []
            } else {
                cell.append(octet)
            }
        }
        return (cells + [cell]).map { String(decoding: $0, as: UTF8.self) }
    }

    @Test("cells have quotes where they need them, numbers the comma of their style")
    func cells() {
        #expect(SafeCSV.text("a,b") == "\"a,b\"" && SafeCSV.text("a\"b") == "\"a\"\"b\"" && SafeCSV.text("a") == "a")
        #expect(SafeCSV.text("=1,2") == "\"'=1,2\"")
        #expect(SafeCSV.number("5.6", .semicolon) == "5,6" && SafeCSV.number("5.6") == "5.6")
    }
}

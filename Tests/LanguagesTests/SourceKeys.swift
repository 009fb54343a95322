import Foundation

/// The keys of sentences as they stand in the sources: each `words("…")`.
struct SourceKeys {
    /// The keys, with the places where each is used.
    private(set) var places: [String: [String]] = [:]
    /// Calls whose first argument is no literal.
    private(set) var strays: [String] = []

    /// Reads every Swift file of a folder of `Sources`.
    init(module: String, file: String = #filePath) throws {
        let root = URL(filePath: file).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        let folder = root.appending(path: "Sources/\(module)")
        let names = try FileManager.default.contentsOfDirectory(atPath: folder.path).filter { $0.hasSuffix(".swift") }
        for name in names.sorted() { read(try String(contentsOf: folder.appending(path: name), encoding: .utf8), name) }
    }

    /// Reads a source.
    init(source: String) { read(source, "source") }

    private mutating func read(_ source: String, _ name: String) {
        var scanner = LiteralScanner(source)
        while scanner.skip(past: "words(") {
            scanner.skipSpace()
            let line = scanner.line
            guard let key = scanner.literal() else {
                strays.append("\(name):\(line)")
                continue
            }
            let context = scanner.context().map { " [\($0)]" } ?? ""
            places[key + context, default: []].append("\(name):\(line)")
        }
    }
}

/// Reads string literals of Swift, with their interpolations as places.
private struct LiteralScanner {
    private let text: [Character]
    private var position = 0

    init(_ source: String) { text = Array(source) }

    var line: Int { text[..<position].count { $0 == "\n" } + 1 }

    private func has(_ word: String) -> Bool { text[position...].starts(with: word) }

    /// Goes behind the next use of a word that isn't the end of a longer one, and in no comment.
    mutating func skip(past word: String) -> Bool {
        while position < text.count {
            if has("//") {
                while position < text.count, text[position] != "\n" { position += 1 }
                continue
            }
            let before = position > 0 ? text[position - 1] : " "
            if has(word), !before.isLetter, !before.isNumber, before != "_" {
                position += word.count
                return true
            }
            position += 1
        }
        return false
    }

    mutating func skipSpace() {
        while position < text.count, text[position].isWhitespace { position += 1 }
    }

    /// `, in: "…"` behind the literal.
    mutating func context() -> String? {
        guard has(", in: \"") else { return nil }
        position += 6
        return literal()
    }

    /// The key of the literal here; `nil` where none is.
    mutating func literal() -> String? {
        guard position < text.count, text[position] == "\"" else { return nil }
        let quotes = has("\"\"\"") ? "\"\"\"" : "\""
        position += quotes.count
        var (parts, place) = ("", 0)
        while position < text.count, !has(quotes) {
            guard text[position] == "\\", position + 1 < text.count else {
                parts.append(text[position])
                position += 1
                continue
            }
            position += 2
            switch text[position - 1] {
            case "(":
                parts += "{\(place)\(interpolation())}"
                place += 1
            case "u":
                let close = text[position...].firstIndex(of: "}") ?? position
                let digits = String(text[position + 1..<close])
                UInt32(digits, radix: 16).flatMap(Unicode.Scalar.init).map { parts.unicodeScalars.append($0) }
                position = close + 1
            // A line that goes on in the next.
            case "\n": parts.append("\u{0}")
            case let other: parts.append(other == "n" ? "\n" : other)
            }
        }
        let indentation = quotes.count == 3 ? column : 0
        position += quotes.count
        return quotes.count == 3 ? Self.joined(parts, indentation) : parts
    }

    private var column: Int { position - 1 - (text[..<position].lastIndex(of: "\n") ?? -1) }

    /// Goes behind an interpolation, and gives the forms of a count.
    private mutating func interpolation() -> String {
        let isCount = has("count:")
        var (depth, forms) = (1, "")
        while position < text.count, depth > 0 {
            if text[position] == "\"" {
                let inner = literal() ?? ""
                if isCount, depth == 1 { forms += "|# \(inner)" }
                continue
            }
            if text[position] == "(" { depth += 1 }
            if text[position] == ")" { depth -= 1 }
            position += 1
        }
        return forms
    }

    /// The text of a literal of several lines.
    private static func joined(_ parts: String, _ indentation: Int) -> String {
        var (text, isStart) = ("", true)
        for line in parts.dropFirst().split(separator: "\n", omittingEmptySubsequences: false).dropLast() {
            if !isStart { text += "\n" }
            isStart = false
            text += line.split(separator: "\u{0}", omittingEmptySubsequences: false)
                .map { String($0.dropFirst(indentation)) }.joined()
        }
        return text
    }
}

import HealthReadings

/// A dump that holds no memory: what was expected, in which line, and what was found.
public struct MalformedDump: Error, Sendable, Hashable, CustomStringConvertible {
    /// What was expected.
    public let expected: String
    /// The line, from 1; nil for the whole file.
    public let line: Int?
    /// What was found.
    public let found: String

    /// Makes an error.
    public init(expected: String, line: Int?, found: String) {
        self.expected = expected
        self.line = line
        self.found = found
    }

    /// One line for people.
    public var description: String {
        "memory dump\(line.map { ", line \($0)" } ?? ""): expected \(expected), found \(found)"
    }
}

/// Reads a memory out of a file: 344 octets as they are, or in hexadecimal text.
///
/// Between octets may stand blanks, commas, colons, semicolons, hyphens or nothing, before them `0x`. A line may begin with
/// its block's number or its first octet's address, as in `#0A`, `[0A]`, `0A |`, `0050:` and what od, hexdump and xxd
/// write; it is compared with what was read before, so that a missing line is found. The same octets as characters, after
/// `|` or two blanks, are passed over, as are lines that begin with `#`, `;` or `//` and are no octets.
public enum MemoryDump {
    /// The memory in a file's octets.
    /// - Throws: ``MalformedDump``.
    public static func memory(_ file: [UInt8]) throws(MalformedDump) -> LibreMemory {
        let isMarked = file.starts(with: [0xEF, 0xBB, 0xBF])
        let text = isMarked ? file[3...] : file[...]
        let isText = text.allSatisfy { (0x20..<0x7F).contains($0) || (0x09...0x0D).contains($0) }
        let octets: [UInt8]
        if isText || isMarked {
            octets = try octetsOfText(text)
            guard octets.count == LibreMemory.size else {
                throw MalformedDump(
                    expected: "\(LibreMemory.size) octets", line: nil, found: "\(octets.count) in hexadecimal")
            }
        } else {
            octets = file
        }
        do {
            return try LibreMemory(octets)
        } catch {
            throw MalformedDump(
                expected: "\(LibreMemory.size) octets, or hexadecimal text", line: nil,
                found: "\(file.count) octets that are not text")
        }
    }

    private static func octetsOfText(_ text: ArraySlice<UInt8>) throws(MalformedDump) -> [UInt8] {
        var octets: [UInt8] = []
        // A file may end its lines with CR LF, LF or CR; an empty line between the first two counts as none.
        var (number, start) = (0, text.startIndex)
        while start < text.endIndex {
            number += 1
            let end = text[start...].firstIndex { $0 == 0x0A || $0 == 0x0D } ?? text.endIndex
            var line = DumpLine(text[start..<end], number: number, octetsBefore: octets.count)
            try line.read(into: &octets)
            // A file that goes on and on is refused before it is read.
            guard octets.count <= LibreMemory.size else {
                throw MalformedDump(
                    expected: "\(LibreMemory.size) octets", line: number, found: "more")
            }
            start = end < text.endIndex ? end + 1 : end
            if end < text.endIndex, text[end] == 0x0D, start < text.endIndex, text[start] == 0x0A { start += 1 }
        }
        return octets
    }
}

/// One line of a dump in text.
private struct DumpLine {
    private var rest: ArraySlice<UInt8>
    /// The line's number, from 1.
    private let number: Int
    /// How many octets the lines before it hold.
    private let octetsBefore: Int

    init(_ text: ArraySlice<UInt8>, number: Int, octetsBefore: Int) {
        rest = text
        (self.number, self.octetsBefore) = (number, octetsBefore)
    }

    mutating func read(into octets: inout [UInt8]) throws(MalformedDump) {
        skipBlanks()
        if isRemark { return }
        let isNumbered = try takeNumber()
        while true {
            if isNumbered, isCharacters(after: octets.count - octetsBefore) { return }
            rest = rest.drop { $0.isSeparator }
            guard let first = rest.first, first != UInt8(ascii: "|") else { return }
            try takeDigits(into: &octets)
        }
    }

    private var isRemark: Bool {
        guard let first = rest.first else { return true }
        switch first {
        case UInt8(ascii: ";"): return true
        case UInt8(ascii: "/"): return rest.dropFirst().first == first
        case UInt8(ascii: "#"):
            let word = rest.dropFirst().prefix { !$0.isSeparator }
            return word.isEmpty || !word.allSatisfy { $0.hexadecimalValue != nil }
        default: return false
        }
    }

    /// Takes the number a line begins with, where it does, and sees that it is the right one.
    private mutating func takeNumber() throws(MalformedDump) -> Bool {
        let opening = rest.first
        var text = opening == UInt8(ascii: "#") || opening == UInt8(ascii: "[") ? rest.dropFirst() : rest
        if text.starts(with: "0x".utf8) || text.starts(with: "0X".utf8) { text = text.dropFirst(2) }
        let digits = text.prefix { $0.hexadecimalValue != nil }
        text = text[digits.endIndex...]
        let blanks = text.prefix { $0.isBlank }.count
        let next = text.dropFirst(blanks)
        switch opening {
        case UInt8(ascii: "#"): break
        case UInt8(ascii: "["):
            guard text.first == UInt8(ascii: "]") else { throw error("] after a block's number", found: text) }
            text = text.dropFirst().drop { $0.isBlank }
            // NXP TagInfo notes here whether the block is locked.
            if text.first.map({ ".x*+?".utf8.contains($0) }) ?? false { text = text.dropFirst() }
        case _ where next.first == UInt8(ascii: "|"): text = next.dropFirst()
        case _ where next.first == UInt8(ascii: ":") && next.dropFirst().first?.isBlank ?? true: text = next.dropFirst()
        default: return takeAddress(digits, blanks: blanks, before: next)
        }
        guard (1...8).contains(digits.count) else { throw error("a block's number or an address", found: rest) }
        let value = Self.value(digits, radix: 16)
        let block = octetsBefore.isMultiple(of: LibreMemory.blockSize) ? octetsBefore / LibreMemory.blockSize : nil
        guard value == octetsBefore || block != nil && (value == block || Self.value(digits, radix: 10) == block) else {
            let address = (octetsBefore < 16 ? "0" : "") + String(octetsBefore, radix: 16, uppercase: true)
            throw error("\(block.map { "block \($0), or " } ?? "")the address \(address)", found: digits)
        }
        rest = text
        return true
    }

    /// Takes an address without a mark, as od and hexdump write it: in eight or six digits, or seven octal ones, before
    /// single octets or two blanks, or alone at the end. What is not the right one is taken for octets.
    private mutating func takeAddress(_ digits: ArraySlice<UInt8>, blanks: Int, before next: ArraySlice<UInt8>) -> Bool
    {
        guard (4...8).contains(digits.count) else { return false }
        guard Self.value(digits, radix: digits.count == 7 ? 8 : 16) == octetsBefore else { return false }
        if next.isEmpty {
            guard octetsBefore == LibreMemory.size else { return false }
        } else {
            guard blanks >= 2 || blanks == 1 && next.prefix(while: { !$0.isSeparator }).count == 2 else { return false }
        }
        rest = next
        return true
    }

    private static func value(_ digits: ArraySlice<UInt8>, radix: Int) -> Int? {
        Int(String(decoding: digits, as: UTF8.self), radix: radix)
    }

    /// Whether the rest of a numbered line is its octets as characters: two blanks, then as many characters as there were
    /// octets, or fewer where blanks at the end were lost.
    private func isCharacters(after count: Int) -> Bool {
        let characters = rest.drop { $0.isBlank }
        guard count > 0, rest.count >= characters.count + 2, characters.count <= count else { return false }
        return characters.count == count
            || characters.contains { $0.hexadecimalValue == nil && !$0.isSeparator && $0 != UInt8(ascii: "|") }
    }

    private mutating func takeDigits(into octets: inout [UInt8]) throws(MalformedDump) {
        if rest.starts(with: "0x".utf8) || rest.starts(with: "0X".utf8) { rest = rest.dropFirst(2) }
        let digits = rest.prefix { $0.hexadecimalValue != nil }
        let after = rest[digits.endIndex...].first
        guard !digits.isEmpty, after == nil || after?.isSeparator == true || after == UInt8(ascii: "|") else {
            throw error("hexadecimal digits", found: rest[digits.endIndex...])
        }
        guard digits.count.isMultiple(of: 2) else { throw error("two hexadecimal digits an octet", found: digits) }
        var high: UInt8?
        for digit in digits {
            let value = digit.hexadecimalValue ?? 0
            if let first = high {
                octets.append(first << 4 | value)
                high = nil
            } else {
                high = value
            }
        }
        rest = rest[digits.endIndex...]
    }

    private mutating func skipBlanks() { rest = rest.drop { $0.isBlank } }

    private func error(_ expected: String, found: ArraySlice<UInt8>) -> MalformedDump {
        let shown = String(decoding: found.prefix(16), as: UTF8.self)
        return MalformedDump(
            expected: expected, line: number, found: found.isEmpty ? "the end of the line" : "“\(shown)”")
    }
}

extension UInt8 {
    /// The value of a hexadecimal digit; nil for another character.
    fileprivate var hexadecimalValue: UInt8? {
        switch self {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): self - UInt8(ascii: "0")
        case UInt8(ascii: "A")...UInt8(ascii: "F"): self - UInt8(ascii: "A") + 10
        case UInt8(ascii: "a")...UInt8(ascii: "f"): self - UInt8(ascii: "a") + 10
        default: nil
        }
    }

    fileprivate var isBlank: Bool { self == 0x20 || self == 0x09 }

    /// Whether it may stand between octets.
    fileprivate var isSeparator: Bool { " \t\u{0B}\u{0C},:;-".utf8.contains(self) }
}

/// A line that is not of its form.
public struct NFCLineError: Error, Sendable, Hashable, CustomStringConvertible {
    /// What belongs there.
    public var expected: String
    /// Which of the line's fields, from 0.
    public var field: Int
    /// What is there: at most 60 characters of it.
    public var found: String

    init(expected: String, field: Int, found: String) {
        (self.expected, self.field, self.found) = (expected, field, String(found.prefix(60)))
    }

    /// One line for people.
    public var description: String { "expected \(expected) in field \(field), found '\(found)'" }
}

/// The fields of a line.
enum NFCLine {
    /// By octets, not by characters: a mark may combine with a tab to one that is none.
    static func join(_ fields: [String]) -> String {
        String(decoding: Array(fields.map(Self.printable).joined(separator: [0x09])), as: UTF8.self)
    }

    static func split(_ line: String) -> [String] {
        line.utf8.split(separator: 0x09, omittingEmptySubsequences: false).map { field in
            String(decoding: printable(String(Substring(field))), as: UTF8.self)
        }
    }

    /// Control characters become spaces: names are shown to people.
    private static func printable(_ field: String) -> [UInt8] {
        field.utf8.map { $0 < 0x20 || $0 == 0x7F ? 0x20 : $0 }
    }

    static func hex(_ octets: [UInt8]) -> String {
        let digits = Array("0123456789ABCDEF")
        return String(octets.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] })
    }

    static func octets(_ fields: [String], _ index: Int) throws(NFCLineError) -> [UInt8] {
        let text = Array(fields[index].utf8)
        var octets: [UInt8] = []
        octets.reserveCapacity(text.count / 2)
        var place = 0
        while place + 1 < text.count, let high = nibble(text[place]), let low = nibble(text[place + 1]) {
            octets.append(high << 4 | low)
            place += 2
        }
        guard place == text.count else {
            throw NFCLineError(expected: "octets in hexadecimal", field: index, found: fields[index])
        }
        return octets
    }

    private static func nibble(_ digit: UInt8) -> UInt8? {
        switch digit {
        case 0x30...0x39: digit - 0x30
        case 0x41...0x46: digit - 0x37
        case 0x61...0x66: digit - 0x57
        default: nil
        }
    }
}

/// Cuts what a pipe brings into lines.
public struct NFCLineBuffer: Sendable {
    /// The longest line, in octets: one that is longer is nobody's.
    public static let longest = 32 * 1024

    private var octets: [UInt8] = []
    private var scanned = 0

    /// An empty buffer.
    public init() {}

    /// Takes what has come.
    public mutating func append(_ more: some Sequence<UInt8>) { octets.append(contentsOf: more) }

    /// The next whole line, without its end; nil where there is none yet.
    /// - Throws: ``NFCLineError`` where what has come is too long to become one.
    public mutating func next() throws(NFCLineError) -> String? {
        guard let end = octets[scanned...].firstIndex(of: 0x0A) else {
            scanned = octets.count
            guard scanned <= Self.longest else {
                throw NFCLineError(
                    expected: "the end of a line within \(Self.longest) octets", field: 0,
                    found: String(decoding: octets.prefix(60), as: UTF8.self))
            }
            return nil
        }
        defer {
            octets.removeFirst(end + 1)
            scanned = 0
        }
        return String(decoding: octets[..<end], as: UTF8.self)
    }
}

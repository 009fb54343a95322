import HealthReadings
import Languages

/// Text as XML and HTML carry it.
enum Markup {
    /// A text with everything escaped that would be markup. Characters that XML can't have at all, and those that turn the direction
    /// of the text around them, become U+FFFD.
    ///
    /// - Parameters:
    ///   - text: what it says.
    ///   - keepsIsolates: whether it keeps the marks of isolates, each of which ends within the text.
    static func escaped(_ text: some StringProtocol, keepsIsolates: Bool = false) -> String {
        if text.utf8.allSatisfy(isPlain) { return String(text) }
        // Octets are put together in a tenth of the time of characters.
        var octets: [UInt8] = []
        octets.reserveCapacity(text.utf8.count + text.utf8.count / 4)
        for scalar in text.unicodeScalars {
            switch scalar {
            case "&": octets.append(contentsOf: "&amp;".utf8)
            case "<": octets.append(contentsOf: "&lt;".utf8)
            case ">": octets.append(contentsOf: "&gt;".utf8)
            case "\"": octets.append(contentsOf: "&quot;".utf8)
            case "'": octets.append(contentsOf: "&#39;".utf8)
            case "\t", "\n", "\r": octets.append(UInt8(ascii: " "))
            case " "..."~": octets.append(UInt8(truncatingIfNeeded: scalar.value))
            case "\u{2066}"..."\u{2069}" where keepsIsolates: octets.append(contentsOf: UTF8.encode(scalar) ?? .init())
            case "\u{0}"..."\u{1F}", "\u{7F}"..."\u{9F}", "\u{FFFE}", "\u{FFFF}", "\u{202A}"..."\u{202E}",
                "\u{2066}"..."\u{2069}":
                octets.append(contentsOf: "\u{FFFD}".utf8)
            default: octets.append(contentsOf: UTF8.encode(scalar) ?? .init())
            }
        }
        return String(decoding: octets, as: UTF8.self)
    }

    /// Whether an octet is a character of its own that means nothing in markup: most texts have no other.
    private static func isPlain(_ octet: UInt8) -> Bool {
        switch octet {
        case UInt8(ascii: "&"), UInt8(ascii: "<"), UInt8(ascii: ">"), UInt8(ascii: "\""), UInt8(ascii: "'"): false
        default: (0x20..<0x7F).contains(octet)
        }
    }

    /// A text of a language in HTML, where `<bdi>` keeps names from turning the words around them.
    static func html(_ text: String, _ words: Language) -> String {
        guard words.isRightToLeft else { return escaped(text) }
        // Numbers and names that stand alone begin on the left.
        let isolated = isArabic(text) ? Isolation.balanced(text) : Isolation.isolated(text)
        return escaped(isolated, keepsIsolates: true).replacing("\u{2068}", with: "<bdi>")
            .replacing("\u{2067}", with: "<bdi dir=\"rtl\">")
            .replacing("\u{2066}", with: "<bdi dir=\"ltr\">").replacing("\u{2069}", with: "</bdi>")
    }

    /// A text of a language where no element can be: in an attribute, or in a title.
    static func plain(_ text: String, _ words: Language) -> String {
        words.isRightToLeft ? escaped(Isolation.balanced(text), keepsIsolates: true) : escaped(text)
    }

    /// A text of a language in SVG, in its own direction wherever it is anchored: renderers don't agree on the property `direction`.
    static func svg(_ text: some StringProtocol, _ words: Language) -> String {
        guard words.isRightToLeft else { return escaped(text) }
        let begin = isArabic(text) ? Isolation.rightToLeft : Isolation.first
        return escaped("\(begin)\(Isolation.balanced(String(text)))\(Isolation.end)", keepsIsolates: true)
    }

    private static func isArabic(_ text: some StringProtocol) -> Bool {
        text.unicodeScalars.contains { ("\u{590}"..."\u{8FF}").contains($0) }
    }

    /// A coordinate: at most two decimal places, the same digits on every machine.
    static func number(_ value: Double) -> String {
        var text = ""
        write(value, to: &text)
        return text
    }

    /// Writes a coordinate behind a text: a chart of a year has thousands.
    static func write(_ value: Double, to text: inout String) {
        guard value.isFinite else { return text.append("0") }
        let hundredths = Int64((min(max(value, -1e9), 1e9) * 100).rounded(.toNearestOrEven))
        let (whole, part) = (hundredths.magnitude / 100, hundredths.magnitude % 100)
        if hundredths < 0 { text.append("-") }
        text.append(whole.description)
        guard part != 0 else { return }
        text.append(part < 10 ? ".0" : ".")
        text.append((part % 10 == 0 ? part / 10 : part).description)
    }
}

/// The light palette, for paper and screen, with the shape and the word that go with each colour.
///
/// The five colours are 31 apart (CIE76) for anybody with protanopia, deuteranopia or tritanopia, and have 3.6 : 1 and more to
/// white. Grey tells none of five colours apart: shape and word do.
enum Palette {
    static let text = "#1f2933"
    static let muted = "#52606d"
    static let grid = "#d5dbe1"
    static let edge = "#7b8794"
    static let systolic = "#3B1F7A"
    static let diastolic = "#2A8C82"
    static let line = "#7A2500"
    static let tint = "#f3f5f7"
}

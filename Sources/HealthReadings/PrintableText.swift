/// Text for terminals and logs, without the characters that a terminal or an editor obeys.
///
/// Names of devices, the server's words and a person's id come from outside. An escape sequence among them could retitle
/// or clear the terminal, a line break could forge a line of the log, and a bidirectional override could show a line in
/// another order than it is stored in.
public enum PrintableText {
    /// A text with such characters escaped as JSON does it: ESC becomes `\u001b`.
    ///
    /// - Parameters:
    ///   - text: text from outside.
    ///   - keepsLines: whether line feeds stay; a text of several lines of our own needs them.
    public static func escaped(_ text: String, keepsLines: Bool = false) -> String {
        guard mayNeedEscapes(text.utf8, keepsLines: keepsLines) else { return text }
        var escaped = String.UnicodeScalarView()
        for scalar in text.unicodeScalars {
            if needsEscape(scalar), !(keepsLines && scalar == "\n") {
                escaped.append(contentsOf: "\\u\(String(scalar.value, digits: 4, radix: 16))".unicodeScalars)
            } else {
                escaped.append(scalar)
            }
        }
        return String(escaped)
    }

    /// Lines of UTF-8 with such characters escaped; line feeds stay.
    public static func escaped(_ lines: [UInt8]) -> [UInt8] {
        guard mayNeedEscapes(lines, keepsLines: true) else { return lines }
        return Array(escaped(String(decoding: lines, as: UTF8.self), keepsLines: true).utf8)
    }

    private static func needsEscape(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case 0x09: false
        // C0, DEL and C1.
        case 0x00..<0x20, 0x7F..<0xA0: true
        // The Arabic letter mark, marks of direction, line and paragraph separators, embeddings, overrides, isolates.
        case 0x061C, 0x200E, 0x200F, 0x2028...0x202E, 0x2066...0x2069: true
        default: false
        }
    }

    /// Whether any of the octets begins what needs an escape; nearly no text has one.
    private static func mayNeedEscapes(_ octets: some Sequence<UInt8>, keepsLines: Bool) -> Bool {
        octets.contains { octet in
            switch octet {
            case 0x09: false
            case 0x0A: !keepsLines
            case 0x00..<0x20, 0x7F, 0xC2, 0xD8, 0xE2: true
            default: false
            }
        }
    }
}

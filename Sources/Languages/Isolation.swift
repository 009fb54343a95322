/// Marks that keep a text from changing the direction of what stands around it (Unicode Standard Annex #9, isolates).
public enum Isolation {
    /// Begins a text whose first letter decides its direction.
    public static let first: Unicode.Scalar = "\u{2068}"
    /// Begins a text from right to left.
    public static let rightToLeft: Unicode.Scalar = "\u{2067}"
    /// Ends either.
    public static let end: Unicode.Scalar = "\u{2069}"

    private static let begins: ClosedRange<Unicode.Scalar> = "\u{2066}"..."\u{2068}"

    /// The text between marks, without any that would reach beyond them.
    ///
    /// The first letter decides the direction, but letters of isolates don't count: a sentence with values is Arabic if any of it is.
    public static func isolated(_ text: String) -> String {
        guard !text.isEmpty else { return text }
        let inner = balanced(text)
        let isSentence = inner.unicodeScalars.contains(end) && inner.unicodeScalars.contains(where: isArabic)
        return "\(isSentence ? rightToLeft : first)\(inner)\(end)"
    }

    private static func isArabic(_ scalar: Unicode.Scalar) -> Bool { ("\u{620}"..."\u{64A}").contains(scalar) }

    /// The text with only such isolates as begin and end within it. Other marks that turn the direction become U+FFFD.
    public static func balanced(_ text: String) -> String {
        guard text.unicodeScalars.contains(where: isMark) else { return text }
        var (scalars, open) = (Array(text.unicodeScalars), [Int]())
        for (place, scalar) in scalars.enumerated() where isMark(scalar) {
            if begins.contains(scalar) {
                open.append(place)
            } else if scalar != end || open.popLast() == nil {
                scalars[place] = "\u{FFFD}"
            }
        }
        for place in open { scalars[place] = "\u{FFFD}" }
        return String(String.UnicodeScalarView(scalars))
    }

    /// A text that was cut, with the ends that it lost.
    public static func closed(_ text: String) -> String {
        var open = 0
        for scalar in text.unicodeScalars {
            if begins.contains(scalar) { open += 1 } else if scalar == end, open > 0 { open -= 1 }
        }
        return text + String(repeating: "\(end)", count: open)
    }

    /// Whether a character turns the direction of others.
    public static func isMark(_ scalar: Unicode.Scalar) -> Bool {
        ("\u{2066}"..."\u{2069}").contains(scalar) || ("\u{202A}"..."\u{202E}").contains(scalar)
    }
}

extension Language {
    /// A text of somebody else, such as a name, as it stands alone in this language.
    public func isolated(_ text: String) -> String { isRightToLeft ? Isolation.isolated(text) : text }
}

import Languages

/// How wide text is, for a page whose fonts aren't known: no common sans-serif font is wider.
enum TextWidth {
    /// The width of a text in a size.
    static func of(_ text: some StringProtocol, size: Double) -> Double {
        var (units, before): (Double, Unicode.Scalar?) = (0, nil)
        for scalar in text.unicodeScalars {
            // A letter that goes on in the next one is narrower.
            if let before { units += Self.units(before, isJoined: isArabic(scalar)) }
            before = scalar
        }
        if let before { units += Self.units(before, isJoined: false) }
        return units * size / 1000
    }

    /// The text, shortened with an ellipsis where it is wider.
    static func fitted(_ text: String, width: Double, size: Double) -> String {
        guard of(text, size: size) > width else { return text }
        var kept = ""
        var used = of("…", size: size)
        for character in text {
            used += of(String(character), size: size)
            if used > width { break }
            kept.append(character)
        }
        return Isolation.closed(kept) + "…"
    }

    /// The text in lines; a word that is wider than a line is broken.
    static func lines(_ text: String, width: Double, size: Double) -> [String] {
        var (lines, line): ([String], String) = ([], "")
        for word in text.split(separator: " ") {
            let longer = line.isEmpty ? String(word) : line + " " + word
            if of(longer, size: size) <= width {
                line = longer
                continue
            }
            if !line.isEmpty { lines.append(line) }
            line = ""
            for character in word {
                if !line.isEmpty, of(line + String(character), size: size) > width {
                    lines.append(line)
                    line = ""
                }
                line.append(character)
            }
        }
        if !line.isEmpty { lines.append(line) }
        return lines.isEmpty ? [""] : isolating(lines)
    }

    /// The lines, where an isolate that goes on in the next line ends and begins again.
    private static func isolating(_ lines: [String]) -> [String] {
        var open: [Unicode.Scalar] = []
        return lines.map { line in
            let begun = String(String.UnicodeScalarView(open)) + line
            for scalar in line.unicodeScalars where Isolation.isMark(scalar) {
                if scalar == Isolation.end { _ = open.popLast() } else { open.append(scalar) }
            }
            return Isolation.closed(begun)
        }
    }

    private static func isArabic(_ scalar: Unicode.Scalar) -> Bool { ("\u{620}"..."\u{64A}").contains(scalar) }

    private static func units(_ scalar: Unicode.Scalar, isJoined: Bool) -> Double {
        if isArabic(scalar) { return isJoined ? joinedUnits(scalar) : finalUnits(scalar) }
        switch scalar {
        case "\u{60C}", "\u{61B}": return 330
        case "\u{64B}"..."\u{652}", "\u{2066}"..."\u{2069}": return 0
        default: return units(scalar)
        }
    }

    /// An Arabic letter that stands alone or ends a word, as wide as DejaVu Sans has it: no common font is wider.
    private static func finalUnits(_ scalar: Unicode.Scalar) -> Double {
        switch scalar {
        case "آ", "أ", "إ", "ا", "ـ": 300
        case "د", "ذ", "ؤ", "و", "ة", "ه", "ر", "ز", "ء": 550
        case "ج", "ح", "خ", "ع", "غ", "م": 670
        case "ل", "ن", "ق", "ك", "ى", "ي", "ئ": 840
        case "ب", "ت", "ث", "ط", "ظ", "ف": 1040
        case "س", "ش", "ص", "ض": 1270
        default: 1000
        }
    }

    /// An Arabic letter with another behind it.
    private static func joinedUnits(_ scalar: Unicode.Scalar) -> Double {
        switch scalar {
        case "آ", "أ", "إ", "ا", "ـ", "ئ", "ب", "ت", "ث", "ل", "ن", "ى", "ي": 330
        case "د", "ذ", "ؤ", "و", "ة", "ه", "ر", "ز", "ء", "ف", "ق", "ك", "غ": 550
        case "ج", "ح", "خ", "ع", "م": 650
        case "س", "ش", "ص", "ض", "ط", "ظ": 890
        default: 1000
        }
    }

    private static func units(_ scalar: Unicode.Scalar) -> Double {
        switch scalar {
        case " ", "i", "j", "l", "I", ".", ",", ":", ";", "'", "|", "!": 330
        case "f", "t", "r", "/", "(", ")", "[", "]", "-": 420
        case "m", "M", "w", "W", "%", "@": 980
        case "A"..."Z": 720
        case "0"..."9": 640
        case "\u{20}"..."\u{24F}": 630
        case "\u{300}"..."\u{36F}": 0
        case "\u{2010}"..."\u{2015}": 640
        default: 1000
        }
    }
}

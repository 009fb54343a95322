extension Language {
    /// Between the whole and the part of a number.
    public var decimalMark: String { self == .english || self == .arabic ? "." : "," }

    /// A number, or numbers such as `17.5/10.9`, with the decimal mark of the language.
    ///
    /// - Parameter digits: as programs write them, with a point.
    public func number(_ digits: String) -> String {
        decimalMark == "." ? digits : digits.replacing(".", with: decimalMark)
    }

    /// A date: `2026-11-20`, `20.11.2026`, `20/11/2026`.
    ///
    /// - Parameter date: `2026-11-20`; anything else is left as it is.
    public func date(_ date: String) -> String {
        if self == .english { return date }
        let parts = date.split(separator: "-", omittingEmptySubsequences: false)
        guard parts.count == 3 else { return date }
        switch self {
        case .english: return date
        case .german: return "\(parts[2]).\(parts[1]).\(parts[0])"
        case .french, .spanish, .arabic: return "\(parts[2])/\(parts[1])/\(parts[0])"
        }
    }

    /// A date without its year: `11-20`, `20.11.`, `20/11`.
    ///
    /// - Parameter date: `2026-11-20`; anything else is left as it is.
    public func dayAndMonth(_ date: String) -> String {
        let parts = date.split(separator: "-", omittingEmptySubsequences: false)
        guard parts.count == 3 else { return date }
        switch self {
        case .english: return "\(parts[1])-\(parts[2])"
        case .german: return "\(parts[2]).\(parts[1])."
        case .french, .spanish, .arabic: return "\(parts[2])/\(parts[1])"
        }
    }

    /// The short name of a day of the week.
    ///
    /// - Parameter day: 0 Monday … 6 Sunday.
    public func weekday(_ day: Int) -> String {
        let names = weekdays
        return names.indices.contains(day) ? names[day] : ""
    }

    private var weekdays: [String] {
        switch self {
        case .english: ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
        case .german: ["Mo", "Di", "Mi", "Do", "Fr", "Sa", "So"]
        case .french: ["lun.", "mar.", "mer.", "jeu.", "ven.", "sam.", "dim."]
        case .spanish: ["lun", "mar", "mié", "jue", "vie", "sáb", "dom"]
        case .arabic: ["الاثنين", "الثلاثاء", "الأربعاء", "الخميس", "الجمعة", "السبت", "الأحد"]
        }
    }

    /// Several things, with commas between them.
    public func list(_ parts: [String]) -> String { joined(parts, self == .arabic ? "، " : ", ") }

    /// Several things that have commas within them, with semicolons between them.
    public func series(_ parts: [String]) -> String {
        switch self {
        case .english, .german, .spanish: joined(parts, "; ")
        case .french: joined(parts, "\u{A0}; ")
        case .arabic: joined(parts, "؛ ")
        }
    }

    private func joined(_ parts: [String], _ separator: String) -> String {
        (isRightToLeft && parts.count > 1 ? parts.map(Isolation.isolated) : parts).joined(separator: separator)
    }
}

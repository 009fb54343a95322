import HealthReadings
import Synchronization

/// A translation with its places, as a catalogue has it: `Page {0} of {1}`, `{0|# reading|# readings}`.
struct Template: Sendable, Hashable {
    enum Part: Sendable, Hashable {
        case words(String)
        case place(Int)
        /// A count with a noun, whose form depends on it; `#` is the number.
        case forms(Int, [String])
    }

    let parts: [Part]

    /// Reads a template; braces without the number of a place are words.
    init(_ text: String) {
        var (parts, words, rest): ([Part], String, Substring) = ([], "", text[...])
        while let open = rest.firstIndex(of: "{") {
            let after = rest.index(after: open)
            guard let close = rest[after...].firstIndex(of: "}") else { break }
            let inner = rest[after..<close].split(separator: "|", omittingEmptySubsequences: false).map(String.init)
            words += rest[..<open]
            if let place = inner.first.flatMap({ Int($0) }), place >= 0 {
                if !words.isEmpty { parts.append(.words(words)) }
                words = ""
                parts.append(inner.count == 1 ? .place(place) : .forms(place, Array(inner.dropFirst())))
            } else {
                words += rest[open...close]
            }
            rest = rest[rest.index(after: close)...]
        }
        words += rest
        if !words.isEmpty { parts.append(.words(words)) }
        self.parts = parts
    }

    /// The English sentences that were filled in: they stand in the code, and a page fills in some of them thousands of times.
    private static let english = Mutex<[String: Template]>([:])

    /// The template of an English sentence, read once.
    static func english(_ key: String) -> Template {
        english.withLock { known in
            if let template = known[key] { return template }
            let template = Template(key)
            known[key] = template
            return template
        }
    }

    /// The template with its values, which are not read again.
    ///
    /// - Parameters:
    ///   - values: one for each place.
    ///   - language: whose plural rule and decimal mark are taken.
    ///   - isolating: whether each value is kept from changing the direction of the words around it.
    func filled(with values: [Sentence.Value], in language: Language, isolating: Bool) -> String {
        var text = ""
        for part in parts {
            switch part {
            case .words(let words): text += words
            case .place(let place):
                guard values.indices.contains(place) else { continue }
                let value = Self.text(values[place], language)
                text += isolating ? Isolation.isolated(value) : value
            case .forms(let place, let forms):
                guard values.indices.contains(place), case .count(let count) = values[place] else { continue }
                let index = min(language.pluralForm(of: count), forms.count - 1)
                text += forms[index].replacing("#", with: String(count))
            }
        }
        return text
    }

    private static func text(_ value: Sentence.Value, _ language: Language) -> String {
        switch value {
        case .text(let text): text
        case .number(let number): language.number(number.description)
        case .count(let count): String(count)
        }
    }
}

import Testing

/// Readings as they were printed, beside what the meter holds.
enum Comparison {
    /// Expects the same readings, to the digit. A reading that was printed again because it changed counts as it was
    /// last; readings of a meter without a clock have the time of their reception, which the definition does not know.
    static func expect(
        _ printed: [Document], equal held: [Document], sourceLocation: SourceLocation = #_sourceLocation
    ) {
        var last: [String: Document] = [:]
        for reading in printed { last[reading["id"]?.text ?? reading.json] = reading }
        let found = last.values.map { fields($0, like: held) }.sorted()
        let wanted = held.map { fields($0, like: held) }.sorted()
        guard found != wanted else { return }
        let missing = difference(wanted, found)
        let surplus = difference(found, wanted)
        Issue.record(
            """
            \(found.count) readings printed, \(wanted.count) held; missing \(missing.count): \
            \(missing.prefix(3).joined(separator: "\n  ")); not held \(surplus.count): \
            \(surplus.prefix(3).joined(separator: "\n  "))
            """, sourceLocation: sourceLocation)
    }

    /// The fields that a definition knows, as text.
    private static func fields(_ reading: Document, like held: [Document]) -> String {
        var fields = reading.members
        let known = Set(held.first?.members.keys.map(\.self) ?? [])
        for key in fields.keys where !known.contains(key) { fields[key] = nil }
        let basis = fields["time_basis"]?.text
        if basis == "reception" || (basis == "unknown" && fields["device_time"]?.isNull == true) {
            fields["time"] = nil
            fields["time_basis"] = nil
        }
        return Document.object(fields).json
    }

    private static func difference(_ some: [String], _ others: [String]) -> [String] {
        var counts: [String: Int] = [:]
        for other in others { counts[other, default: 0] += 1 }
        return some.filter { text in
            guard let count = counts[text], count > 0 else { return true }
            counts[text] = count - 1
            return false
        }
    }
}

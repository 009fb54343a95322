import Foundation

/// A time zone by its IANA identifier.
struct IANAZone: Sendable {
    let identifier: String
    private let zone: TimeZone

    /// Abbreviations that Foundation would accept (PST) are no identifiers; these few are both.
    private static let bothAbbreviationAndIdentifier: Set<String> = [
        "UTC", "GMT", "CET", "EET", "MET", "WET", "EST", "MST", "HST",
    ]

    /// The zone of that identifier, nil when the IANA database has none.
    static func find(_ identifier: String) -> IANAZone? {
        let plain = identifier.utf8.allSatisfy { octet in
            octet < 0x80
                && (Character(UnicodeScalar(octet)).isLetter || (0x30...0x39).contains(octet)
                    || octet == UInt8(ascii: "/") || octet == UInt8(ascii: "_") || octet == UInt8(ascii: "-")
                    || octet == UInt8(ascii: "+"))
        }
        // Foundation makes a zone of any "GMT+hhmm"; the database has those names under Etc/ only.
        guard plain, !identifier.hasPrefix("GMT+"), !identifier.hasPrefix("GMT-") else { return nil }
        if !bothAbbreviationAndIdentifier.contains(identifier), TimeZone.abbreviationDictionary[identifier] != nil {
            return nil
        }
        return TimeZone(identifier: identifier).map { IANAZone(identifier: identifier, zone: $0) }
    }

    /// Seconds east of UTC at an instant.
    func offset(at instant: Timestamp) -> Int {
        zone.secondsFromGMT(for: Date(timeIntervalSince1970: Double(instant.microseconds) / 1e6))
    }
}

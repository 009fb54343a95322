import HealthReadings

/// What an O2Ring says of itself: a JSON object of texts, with zeros behind it.
///
/// `{"CurTIME":"2020-08-17,23:29:30","FileList":"20200817095111,20200817225251,", …}`, as owners have logged it: o2r and
/// viatom-o2ring-ble.
struct O2RingInformation: Sendable, Hashable {
    /// How many recordings are believed: rings have room for four or ten.
    static let mostRecordings = 64

    /// What its clock shows; `nil` if that is no time.
    let time: WallTime?
    /// What it has recorded.
    let recordings: [O2RingRecordingName]
    /// How many names of its list are none.
    let unusableNames: Int

    /// - Parameter payload: the answer's.
    /// - Throws: `MalformedFrame` where it is no such object, or names no recordings.
    init(_ payload: [UInt8]) throws(MalformedFrame) {
        let members = try FlatObject(payload).members
        guard let list = members["FileList"] else {
            throw MalformedFrame(
                subject: "O2Ring information", expected: "a list of recordings (FileList)", octet: payload.count,
                found: "none")
        }
        time = members["CurTIME"].flatMap { WallTime($0.replacing(",", with: "T")) }
        let names = list.utf8.split(separator: UInt8(ascii: ","))
        let usable = names.compactMap { name in O2RingRecordingName(name.drop { $0 == UInt8(ascii: " ") }) }
        var known: Set<O2RingRecordingName> = []
        let different = usable.filter { known.insert($0).inserted }
        // The newest stand last.
        recordings = Array(different.suffix(Self.mostRecordings))
        unusableNames = names.count - usable.count + different.count - recordings.count
    }
}

/// An object of JSON whose members are texts, or words without quotes.
private struct FlatObject {
    private(set) var members: [String: String] = [:]
    private let octets: [UInt8]
    private var place = 0

    init(_ octets: [UInt8]) throws(MalformedFrame) {
        self.octets = octets
        try take("{")
        if next == UInt8(ascii: "}") { return }
        while true {
            let key = try text()
            try take(":")
            members[key] = next == UInt8(ascii: "\"") ? try text() : try word()
            guard next == UInt8(ascii: ",") else { break }
            place += 1
        }
        try take("}")
    }

    private func failure(_ expected: String) -> MalformedFrame {
        MalformedFrame(subject: "O2Ring information", expected: expected, octet: place, in: octets)
    }

    /// The next octet that is no space.
    private var next: UInt8? {
        mutating get {
            while place < octets.count, [0x20, 0x09, 0x0A, 0x0D].contains(octets[place]) { place += 1 }
            return place < octets.count ? octets[place] : nil
        }
    }

    private mutating func take(_ character: Unicode.Scalar) throws(MalformedFrame) {
        guard next == UInt8(ascii: character) else { throw failure("'\(character)'") }
        place += 1
    }

    private mutating func text() throws(MalformedFrame) -> String {
        try take("\"")
        var characters: [UInt8] = []
        while place < octets.count, octets[place] != UInt8(ascii: "\"") {
            // No oximeter is known to send an escape: what stands behind it is taken as it is, and makes at most one name unusable.
            if octets[place] == UInt8(ascii: "\\") { place += 1 }
            guard place < octets.count, octets[place] >= 0x20 else { throw failure("a text") }
            characters.append(octets[place])
            place += 1
        }
        let text = String(decoding: characters, as: UTF8.self)
        try take("\"")
        return text
    }

    private mutating func word() throws(MalformedFrame) -> String {
        let start = place
        while place < octets.count, ![UInt8(ascii: ","), UInt8(ascii: "}")].contains(octets[place]) { place += 1 }
        guard place > start else { throw failure("a value") }
        return String(decoding: octets[start..<place], as: UTF8.self)
    }
}

import HealthReadings

/// A record of a vendor's cloud, as it came.
///
/// It is stored as frames: one for each reading that it makes, each with the whole record. What a frame says is found by
/// decoding it, so that a later version can read it anew.
public struct CloudRecord: Sendable, Hashable {
    /// Whose cloud.
    public let vendor: CloudVendor
    /// The collection.
    public let collection: String
    /// The client's id of the person whose record it is.
    public let person: String
    /// Its JSON, as it came.
    public let json: [UInt8]

    /// Takes a record.
    ///
    /// - Parameters:
    ///   - vendor: whose cloud.
    ///   - collection: the collection.
    ///   - json: its JSON, as it came.
    ///   - person: the client's id of the person whose record it is.
    public init(_ vendor: CloudVendor, _ collection: String, _ json: [UInt8], person: String) {
        self.vendor = vendor
        self.collection = collection
        self.json = json
        self.person = person
    }

    /// The part that stands for a record which can't be read.
    private static let unreadable = "unreadable"
    /// What stands before the name of a part that is not there any more.
    private static let retracted = "retracted "
    private static let header = "cloud record 1"
    private static let longest = CloudClient.longestAnswer + 4096

    /// The frames of the record: one for each reading that it makes.
    ///
    /// A record that can't be read has one frame without a reading. A record that says nothing yet has none: a recovery that is not
    /// scored, a day that is not over.
    public func frames(receivedAt: Instant) -> [Frame] {
        let names: [String]
        do throws(CloudParts.Unreadable) {
            let parts = try CloudParts(of: self)
            names = parts.readings.map(\.part) + (parts.unreadable == nil ? [] : [Self.unreadable])
        } catch {
            names = [Self.unreadable]
        }
        return names.map { frame(of: $0, receivedAt: receivedAt) }
    }

    /// The id of the account that it is of, where WHOOP's API says so.
    var owner: String? {
        guard let node = try? JSONReader.read(json, mostMembers: CloudAnswerReader.mostMembers) else { return nil }
        return node["user_id"].flatMap(CloudParts.id)
    }

    /// What its reading of a part is known by.
    func recordName(_ id: String, _ part: String) -> String { "\(collection)/\(id)/\(part)" }

    private func frame(of part: String, receivedAt: Instant) -> Frame {
        let lines = [
            Self.header, "person \(person)", "vendor \(vendor.rawValue)", "collection \(collection)", "part \(part)",
        ]
        return Frame(
            format: .cloudRecord, payload: Array((lines.joined(separator: "\n") + "\n\n").utf8) + json,
            receivedAt: receivedAt, ordinal: 0)
    }

    /// The readings that an earlier version of the record may have made and this one doesn't make any more: a score that the vendor
    /// has taken back. Each with the frame that withdraws it.
    public func retractions(receivedAt: Instant) -> [(reading: ReadingID, frame: Frame)] {
        guard let parts = try? CloudParts(of: self) else { return [] }
        return parts.absent(from: self).map { name, id in
            (id, frame(of: "\(Self.retracted)\(name.part) \(name.kind.rawValue)", receivedAt: receivedAt))
        }
    }

    /// Reads a frame's payload.
    fileprivate static func read(_ payload: [UInt8]) throws(MalformedFrame) -> DecodedFrame {
        func failure(_ expected: String, _ octet: Int, _ found: String) -> MalformedFrame {
            MalformedFrame(subject: "cloud record", expected: expected, octet: octet, found: found)
        }
        guard payload.count <= longest else { throw failure("at most \(longest) octets", longest, "more") }
        var rest = payload[...]
        var fields: [String] = []
        for name in ["", "person ", "vendor ", "collection ", "part ", ""] {
            guard let end = rest.firstIndex(of: UInt8(ascii: "\n")),
                rest[..<end].starts(with: name.utf8),
                let field = String(validating: rest[..<end].dropFirst(name.utf8.count), as: UTF8.self)
            else { throw failure("a line of the head", rest.startIndex, "something else") }
            fields.append(field)
            rest = rest[(end + 1)...]
        }
        guard fields[0] == header, fields[5].isEmpty else { throw failure("\"\(header)\"", 0, "something else") }
        guard let vendor = CloudVendor(rawValue: fields[2]) else { throw failure("a vendor", 0, "another one") }
        let record = CloudRecord(vendor, fields[3], Array(rest), person: fields[1])
        let parts: CloudParts
        do throws(CloudParts.Unreadable) {
            parts = try CloudParts(of: record)
        } catch {
            throw failure(error.expected, rest.startIndex, "something else")
        }
        if fields[4] == unreadable, let unreadable = parts.unreadable {
            throw failure(unreadable.expected, rest.startIndex, "something else")
        }
        if fields[4].hasPrefix(retracted) {
            guard
                let id = parts.absent(from: record).first(where: { name, _ in
                    fields[4] == "\(retracted)\(name.part) \(name.kind.rawValue)"
                })?.id
            else { throw failure("a part that the record lacks", 0, "another one") }
            return .withdrawal(
                EntryWithdrawal(person: record.person, reading: id, by: .source(updatedAt: parts.updatedAt)))
        }
        guard let reading = parts.readings.first(where: { $0.part == fields[4] }) else {
            throw failure("a part of the record", 0, "none of that name")
        }
        return .imported(reading.sample(of: record, parts))
    }
}

extension DecodedFrame {
    /// Decodes the payload of a frame of the format `cloudRecord`.
    ///
    /// - Parameter payload: the frame's octets.
    public init(cloudRecord payload: [UInt8]) {
        do throws(MalformedFrame) {
            self = try CloudRecord.read(payload)
        } catch {
            self = .malformed(error)
        }
    }
}

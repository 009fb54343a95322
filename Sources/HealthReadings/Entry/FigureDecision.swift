import Foundation

extension FrameFormat {
    /// That a person leaves a reading out of figures, or takes it back in: ``FigureDecision/document`` in UTF-8.
    public static let figureDecision = FrameFormat(rawValue: 0x1_0070)
}

/// That a reading counts in no figure, because a person said so. The reading stays stored, shown and delivered.
public struct FigureOmission: Sendable, Hashable {
    /// Why, in the person's words.
    public var reason: String?
    /// Who said it: the name of a client of the local API, or `command`.
    public var by: String
    /// When it was said.
    public var at: Instant

    /// Makes an omission.
    public init(reason: String?, by: String, at: Instant) { (self.reason, self.by, self.at) = (reason, by, at) }

    /// What a reading shows besides while it is left out: `left_out`.
    var members: [JSONValue.Member] {
        [
            .init(
                "left_out",
                .object([
                    "reason": .optional(reason), "by": .string(by), "at": .string(at.description),
                ]))
        ]
    }
}

/// A person's decision that a reading counts in no figure, or that it counts again.
///
/// A decision takes the same way as an entry by hand: its ``document`` is the payload of a frame, which is stored before the
/// reading changes.
public struct FigureDecision: Sendable, Hashable {
    /// The client's id of the person whose reading it is.
    public var person: String
    /// The reading.
    public var reading: ReadingID
    /// Whether it is left out from now on.
    public var isLeftOut: Bool
    /// Why, in the person's words.
    public var reason: String?
    /// Who decides.
    public var by: String
    /// When, in whole seconds.
    public var at: Instant

    /// How the documents are written. A number once given is never given again.
    private static let format: Int64 = 1
    /// The most characters of a reason.
    public static let longestReason = 200
    /// The most characters of a name in ``by``.
    public static let longestName = 200
    /// More octets than any decision has.
    private static let longestDocument = 8192

    /// Makes a decision.
    ///
    /// - Parameters:
    ///   - person: the client's id of the person whose reading it is.
    ///   - reading: the reading.
    ///   - isLeftOut: whether it is left out from now on.
    ///   - reason: one line of at most ``longestReason`` characters; an empty one is none.
    ///   - by: who decides; longer names are cut.
    ///   - at: when.
    /// - Throws: `EntryError` for a reason that is too long or has several lines.
    public init(
        person: String, reading: ReadingID, isLeftOut: Bool, reason: String?, by: String, at: Instant
    ) throws(EntryError) {
        (self.person, self.reading, self.isLeftOut) = (person, reading, isLeftOut)
        self.reason = try Self.checked(reason)
        let name = String(by.prefix(Self.longestName)).cut(toOctets: 4 * Self.longestName)
        (self.by, self.at) = (name, at.flooredToSecond)
    }

    /// A reason as it is stored.
    ///
    /// - Throws: `EntryError` for one that is too long or has several lines.
    public static func checked(_ reason: String?) throws(EntryError) -> String? {
        try ManualEntry.line(reason, named: "reason", atMost: longestReason)
    }

    private init(
        _ person: String, _ reading: ReadingID, _ isLeftOut: Bool, _ reason: String?, _ by: String, _ at: Instant
    ) {
        (self.person, self.reading, self.isLeftOut) = (person, reading, isLeftOut)
        (self.reason, self.by, self.at) = (reason, by, at)
    }

    /// What the reading has while the decision holds; `nil` if it counts.
    public var omission: FigureOmission? { isLeftOut ? FigureOmission(reason: reason, by: by, at: at) : nil }

    /// The decision's canonical document: the same decision has the same octets.
    public var document: JSONValue {
        .object([
            "format": .integer(Self.format), "person": .string(person), "reading": .string(reading.description),
            "left_out": .bool(isLeftOut), "reason": .optional(reason), "by": .string(by),
            "at": .string(at.description),
        ])
    }

    /// The frame of the decision.
    public func frame(receivedAt: Instant) -> Frame {
        Frame(format: .figureDecision, payload: Array(document.text.utf8), receivedAt: receivedAt, ordinal: 0)
    }

    private struct Document: Decodable {
        var format: Int64
        var person: String
        var reading: String
        var left_out: Bool
        var reason: String?
        var by: String
        var at: String
    }

    static func read(_ payload: [UInt8]) throws(MalformedFrame) -> FigureDecision {
        guard payload.count <= longestDocument else {
            throw failure("at most \(longestDocument) octets", longestDocument, "more")
        }
        guard let document = try? JSONDecoder().decode(Document.self, from: Data(payload)) else {
            throw failure("a JSON object of a decision on figures", 0, "something else")
        }
        guard document.format == format else { throw failure("format \(format)", 0, "format \(document.format)") }
        guard let id = ReadingID(document.reading) else {
            throw failure("the id of a reading", 0, "another text")
        }
        guard let at = Instant(rfc3339: document.at) else { throw failure("an instant", 0, "another text") }
        let decision = FigureDecision(
            document.person, id, document.left_out, document.reason, document.by, at)
        let expected = Array(decision.document.text.utf8)
        guard expected == payload else {
            let octet = zip(expected, payload).prefix { $0 == $1 }.count
            throw failure("the canonical document", octet, octet == payload.count ? "the end" : "another octet")
        }
        return decision
    }

    private static func failure(_ expected: String, _ octet: Int, _ found: String) -> MalformedFrame {
        MalformedFrame(subject: "decision on figures", expected: expected, octet: octet, found: found)
    }
}

extension DecodedFrame {
    /// Decodes the payload of a ``FrameFormat/figureDecision``; anything but a canonical document is malformed.
    public init(figureDecision payload: [UInt8]) {
        do throws(MalformedFrame) {
            self = .figures(try FigureDecision.read(payload))
        } catch {
            self = .malformed(error)
        }
    }
}

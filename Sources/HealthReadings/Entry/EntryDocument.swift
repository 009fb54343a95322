import Foundation

extension FrameFormat {
    /// What a person entered: ``ManualEntry/document`` or ``EntryWithdrawal/document`` in UTF-8.
    public static let manualEntry = FrameFormat(rawValue: 0x1_0009)
}

extension ManualEntry {
    /// How the documents are written. A number once given is never given again.
    fileprivate static let format: Int64 = 1
    /// More octets than any entry has.
    fileprivate static let longestDocument = 8192

    /// The entry's canonical document: the same entry has the same octets.
    public var document: JSONValue {
        .object([
            "format": .integer(Self.format), "person": .string(person), "kind": .string(kind.rawValue),
            "time": .optional(time.instant?.description), "time_basis": .string(time.basis.rawValue),
            "time_uncertainty_minutes": .optional(time.uncertaintyMinutes),
            "local_time": .optional(localTime?.description), "values": .array(quantities.map(Self.document)),
            "meal": .optional(meal), "note": .optional(note), "corrects": .optional(corrects?.description),
        ])
    }

    /// The frame of the entry.
    public func frame(receivedAt: Instant) -> Frame {
        Frame(format: .manualEntry, payload: Array(document.text.utf8), receivedAt: receivedAt, ordinal: 0)
    }

    /// The quantities by name. Numbers are texts in the document, so that no parser changes their digits.
    private var quantities: [(name: String, quantity: Quantity)] {
        switch value {
        case .glucose(let glucose): glucose.concentration.map { [("glucose", $0)] } ?? []
        case .bloodPressure(let pressure):
            [("systolic", pressure.systolic), ("diastolic", pressure.diastolic)]
                + (pressure.pulse.map { [("pulse", $0)] } ?? [])
        case .vital(let vital): vital.quantities.map { ($0.part.name, $0.quantity) }
        case .kept: []
        }
    }

    private static func document(_ name: String, _ quantity: Quantity) -> JSONValue {
        .object([
            "name": .string(name), "value": .string(quantity.number.digits?.description ?? ""),
            "unit": .string(quantity.unit.symbol),
        ])
    }
}

extension EntryWithdrawal {
    /// The withdrawal's canonical document.
    public var document: JSONValue {
        .object([
            "format": .integer(ManualEntry.format), "person": .string(person),
            "withdraws": .string(reading.description),
        ])
    }

    /// The frame of the withdrawal.
    public func frame(receivedAt: Instant) -> Frame {
        Frame(format: .manualEntry, payload: Array(document.text.utf8), receivedAt: receivedAt, ordinal: 0)
    }
}

extension DecodedFrame {
    /// Decodes the payload of a ``FrameFormat/manualEntry``; anything but a canonical document is malformed.
    public init(manualEntry payload: [UInt8]) {
        do throws(MalformedFrame) {
            self = try EntryDocument.read(payload)
        } catch {
            self = .malformed(error)
        }
    }
}

/// What stands in a document, before it is known to make sense.
private struct EntryDocument: Decodable {
    struct Value: Decodable {
        var name: String
        var value: String
        var unit: String
    }

    var format: Int64
    var person: String
    var withdraws: String?
    var kind: String?
    var time: String?
    var time_basis: String?
    var time_uncertainty_minutes: Int?
    var local_time: String?
    var values: [Value]?
    var meal: String?
    var note: String?
    var corrects: String?

    static func read(_ payload: [UInt8]) throws(MalformedFrame) -> DecodedFrame {
        guard payload.count <= ManualEntry.longestDocument else {
            throw failure("at most \(ManualEntry.longestDocument) octets", ManualEntry.longestDocument, "more")
        }
        guard let document = try? JSONDecoder().decode(EntryDocument.self, from: Data(payload)) else {
            throw failure("a JSON object of an entry", 0, "something else")
        }
        guard document.format == ManualEntry.format else {
            throw failure("format \(ManualEntry.format)", 0, "format \(document.format)")
        }
        let (decoded, canonical) = try document.decoded()
        let expected = Array(canonical.text.utf8)
        guard expected == payload else {
            let octet = zip(expected, payload).prefix { $0 == $1 }.count
            throw failure("the canonical document", octet, octet == payload.count ? "the end" : "another octet")
        }
        return decoded
    }

    private static func failure(_ expected: String, _ octet: Int, _ found: String) -> MalformedFrame {
        MalformedFrame(subject: "entry by hand", expected: expected, octet: octet, found: found)
    }

    private func decoded() throws(MalformedFrame) -> (DecodedFrame, JSONValue) {
        if let withdraws {
            guard let id = ReadingID(withdraws) else { throw Self.failure("the id of a reading", 0, "another text") }
            let withdrawal = EntryWithdrawal(person: person, reading: id)
            return (.withdrawal(withdrawal), withdrawal.document)
        }
        guard let kind = kind.flatMap(ReadingKind.init), let value = recordValue(kind) else {
            throw Self.failure("the values of a kind that can be entered", 0, "others")
        }
        guard let instant = time.flatMap(Instant.init(rfc3339:)), instant == instant.flooredToSecond,
            let basis = time_basis.flatMap(TimeBasis.init), [.assumedZone, .reception, .corrected].contains(basis),
            (local_time == nil) == (basis != .assumedZone)
        else { throw Self.failure("the time of an entry", 0, "another") }
        guard meal == nil || kind == .glucose else { throw Self.failure("no meal beside \(kind)", 0, "one") }
        let entry = ManualEntry(
            person: person, value: value,
            time: ResolvedTime(instant: instant, basis: basis, uncertaintyMinutes: time_uncertainty_minutes),
            localTime: local_time.flatMap { WallTime($0) }, meal: meal, note: note,
            corrects: corrects.flatMap { ReadingID($0) })
        return (.entry(entry), entry.document)
    }

    private func recordValue(_ kind: ReadingKind) -> RecordValue? {
        guard let values, values.count <= 3 else { return nil }
        var quantities: [String: Quantity] = [:]
        for value in values {
            guard let number = ExactDecimal(value.value),
                let unit = MeasurementUnit.allCases.first(where: { $0.symbol == value.unit })
            else { return nil }
            quantities[value.name] = Quantity(number, unit)
        }
        return EntryValues(
            main: quantities[EntryValues.mainName(kind)], diastolic: quantities["diastolic"],
            pulse: quantities["pulse"]
        ).recordValue(kind)
    }
}

/// The quantities of an entry before they are a value.
struct EntryValues {
    var main: Quantity?
    var diastolic: Quantity?
    var pulse: Quantity?

    static func mainName(_ kind: ReadingKind) -> String { kind == .bloodPressure ? "systolic" : kind.rawValue }

    /// The value; `nil` for a kind that cannot be entered, or if a quantity is missing.
    func recordValue(_ kind: ReadingKind) -> RecordValue? {
        guard let main else { return nil }
        switch kind {
        case .glucose: return .glucose(GlucoseValue(concentration: main))
        case .bloodPressure:
            guard let diastolic else { return nil }
            return .bloodPressure(
                BloodPressureValue(
                    systolic: main, diastolic: diastolic, meanArterial: Quantity(.notANumber, main.unit), pulse: pulse))
        case .spo2:
            let beside = pulse.map { [VitalValue.Measured(.pulse, $0)] } ?? []
            return .vital(VitalValue(kind: .spo2, [.init(.saturation, main)] + beside))
        case .temperature: return .vital(VitalValue(kind: .temperature, [.init(.temperature, main)]))
        case .weight: return .vital(VitalValue(kind: .weight, [.init(.weight, main)]))
        case .heartRate, .hrv, .bodyComposition, .activity, .sleep, .other: return nil
        }
    }
}

extension MeasuredNumber {
    /// The digits of a value, plausible or not.
    var digits: ExactDecimal? {
        switch self {
        case .value(let number), .implausible(let number): number
        case .notANumber, .notAtThisResolution, .positiveInfinity, .negativeInfinity, .reserved: nil
        }
    }
}

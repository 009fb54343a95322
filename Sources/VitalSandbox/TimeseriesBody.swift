/// A validated time-series post.
struct TimeseriesBody: Sendable {
    /// One sample, as it will be kept.
    struct Item: Sendable {
        /// The source type, part of the key.
        var type: String
        /// When, part of the key.
        var at: Timestamp
        var unit: String
        /// The characters of the numbers sent.
        var value: String?
        var systolic: String?
        var diastolic: String?
        var pulse: String?
        /// Seconds east of UTC in the post's zone at that time.
        var offset: Int
        /// The whole item as sent.
        var text: String
    }

    var envelope: PostEnvelope
    var items: [Item]
    var unknownFields: [String]

    private typealias Step = FieldReader.Step

    /// Reads and checks a body whole; every finding is in the error.
    init(_ body: JSONValue, resource: SampleResource, maximumItems: Int) throws(APIError) {
        var reader = FieldReader()
        guard let object = reader.object(body, at: [.name("body")], known: PostEnvelope.fields) else {
            throw .invalid(reader.problems)
        }
        let envelope = PostEnvelope(object, reader: &reader)
        items = Self.items(
            reader.required("data", of: object, at: [.name("body")]), resource: resource, zone: envelope?.zone,
            maximum: maximumItems, reader: &reader)
        guard let envelope, reader.problems.isEmpty else { throw .invalid(reader.problems) }
        self.envelope = envelope
        unknownFields = reader.unknownFields
    }

    private static func items(
        _ data: JSONValue?, resource: SampleResource, zone: IANAZone?, maximum: Int, reader: inout FieldReader
    ) -> [Item] {
        let at: [Step] = [.name("body"), .name("data")]
        return reader.elements(data, at: at, maximum: maximum).compactMap { element, place in
            resource == .bloodPressure
                ? pressure(element, at: place, zone: zone, reader: &reader)
                : single(element, unit: resource.unit, at: place, zone: zone, reader: &reader)
        }
    }

    private struct Measured {
        var value: String
        var start: Timestamp
        var type: String
    }

    private static let quantityFields: Set = [
        "id", "value", "unit", "start_date", "end_date", "type", "source_bundle", "product_type", "metadata",
    ]

    private static func quantity(
        _ value: JSONValue?, units: [String], at: [Step], reader: inout FieldReader
    ) -> Measured? {
        guard let value, let object = reader.object(value, at: at, known: quantityFields) else { return nil }
        for name in ["id", "source_bundle", "product_type"] {
            _ = reader.string(reader.optional(name, of: object), at: at + [.name(name)])
        }
        let number = reader.number(reader.required("value", of: object, at: at), at: at + [.name("value")])
        _ = reader.choice(reader.required("unit", of: object, at: at), among: units, at: at + [.name("unit")])
        let start = reader.instant(
            reader.required("start_date", of: object, at: at), at: at + [.name("start_date")])
        let end = reader.instant(reader.required("end_date", of: object, at: at), at: at + [.name("end_date")])
        if let start, let end, end < start {
            reader.note(at + [.name("end_date")], "Value error, ends before it starts", "value_error")
        }
        let type = reader.choice(
            reader.required("type", of: object, at: at), among: Vocabulary.sourceTypes, at: at + [.name("type")])
        _ = reader.strings(reader.optional("metadata", of: object), at: at + [.name("metadata")])
        guard let number, let start, let type else { return nil }
        return Measured(value: number, start: start, type: type)
    }

    /// Checks a sample of a summary, whose unit is one of these.
    static func check(_ element: JSONValue, units: [String], at: [FieldReader.Step], reader: inout FieldReader) {
        _ = quantity(element, units: units, at: at, reader: &reader)
    }

    /// Reads a sample that has one value.
    static func single(
        _ element: JSONValue, unit: String, at: [FieldReader.Step], zone: IANAZone?, reader: inout FieldReader
    ) -> Item? {
        guard let measured = quantity(element, units: [unit], at: at, reader: &reader) else { return nil }
        return Item(
            type: measured.type, at: measured.start, unit: unit, value: measured.value,
            offset: zone?.offset(at: measured.start) ?? 0, text: element.text)
    }

    private static func pressure(
        _ element: JSONValue, at: [Step], zone: IANAZone?, reader: inout FieldReader
    ) -> Item? {
        guard let object = reader.object(element, at: at, known: ["systolic", "diastolic", "pulse"]) else { return nil }
        let systolic = quantity(
            reader.required("systolic", of: object, at: at), units: ["mmHg"], at: at + [.name("systolic")],
            reader: &reader)
        let diastolic = quantity(
            reader.required("diastolic", of: object, at: at), units: ["mmHg"], at: at + [.name("diastolic")],
            reader: &reader)
        let pulse = quantity(
            reader.optional("pulse", of: object), units: ["bpm"], at: at + [.name("pulse")], reader: &reader)
        guard let systolic, let diastolic else { return nil }
        // One measurement has one time and one source; keeping the systolic's would lose the others' silently.
        for (name, part) in [("diastolic", diastolic), ("pulse", pulse ?? systolic)] {
            if part.start != systolic.start {
                reader.note(
                    at + [.name(name), .name("start_date")], "Value error, not that of systolic", "value_error")
            }
            if part.type != systolic.type {
                reader.note(at + [.name(name), .name("type")], "Value error, not that of systolic", "value_error")
            }
        }
        return Item(
            type: systolic.type, at: systolic.start, unit: "mmHg", systolic: systolic.value,
            diastolic: diastolic.value, pulse: pulse?.value, offset: zone?.offset(at: systolic.start) ?? 0,
            text: element.text)
    }
}

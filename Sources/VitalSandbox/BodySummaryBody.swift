/// A validated post of the body summary: five lists of samples, and the zones of their days.
struct BodySummaryBody: Sendable {
    let post: SamplePost

    private typealias Step = FieldReader.Step

    /// Reads and checks a body whole; every finding is in the error.
    init(_ body: JSONValue, maximumItems: Int) throws(APIError) {
        var reader = FieldReader()
        guard let object = reader.object(body, at: [.name("body")], known: PostEnvelope.fields) else {
            throw .invalid(reader.problems)
        }
        let envelope = PostEnvelope(object, reader: &reader)
        let at: [Step] = [.name("body"), .name("data")]
        let names = Set(SampleResource.ofBody.map(\.rawValue) + ["time_zones"])
        var samples: [(resource: SampleResource, item: TimeseriesBody.Item)] = []
        let data = reader.required("data", of: object, at: [.name("body")])
            .flatMap { reader.object($0, at: at, known: names) }
        if let data {
            for resource in SampleResource.ofBody {
                let name = resource.rawValue
                let list = reader.required(name, of: data, at: at)
                for (element, place) in reader.elements(list, at: at + [.name(name)], maximum: maximumItems) {
                    let item = TimeseriesBody.single(
                        element, unit: resource.unit, at: place, zone: envelope?.zone, reader: &reader)
                    if let item { samples.append((resource, item)) }
                }
            }
            let zones = reader.required("time_zones", of: data, at: at)
            Self.check(zones: zones, at: at + [.name("time_zones")], maximumItems, &reader)
        }
        guard let envelope, let data, reader.problems.isEmpty else { throw .invalid(reader.problems) }
        post = SamplePost(
            resource: "body", envelope: envelope, samples: samples, unknownFields: reader.unknownFields, summary: data)
    }

    /// `[["2026-11-22", "Europe/Berlin"], …]`.
    private static func check(zones: JSONValue?, at: [Step], _ maximum: Int, _ reader: inout FieldReader) {
        for (pair, place) in reader.elements(zones, at: at, maximum: maximum) {
            guard case .array(let parts) = pair, parts.count == 2 else {
                reader.note(place, "Input should be a valid tuple of a date and a time zone", "tuple_type")
                continue
            }
            _ = reader.day(parts[0], at: place + [.index(0)])
            _ = reader.zone(parts[1], at: place + [.index(1)])
        }
    }
}

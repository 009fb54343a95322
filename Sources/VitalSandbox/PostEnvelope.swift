/// What every post of data says besides the data.
struct PostEnvelope: Sendable {
    static let fields: Set = ["stage", "provider", "start_date", "end_date", "time_zone", "is_final_chunk", "data"]

    var stage: String
    var provider: String
    var start: Timestamp?
    var end: Timestamp?
    var zone: IANAZone
    var isFinalChunk: Bool

    /// Reads the fields; nil where one was noted as wrong.
    init?(_ object: JSONValue, reader: inout FieldReader) {
        let at: [FieldReader.Step] = [.name("body")]
        let stage = reader.choice(
            reader.required("stage", of: object, at: at), among: Vocabulary.stages, at: at + [.name("stage")])
        let provider = reader.choice(
            reader.required("provider", of: object, at: at), among: Vocabulary.providerSlugs,
            at: at + [.name("provider")])
        let historical = stage == "historical"
        start = reader.instant(
            historical
                ? reader.required("start_date", of: object, at: at) : reader.optional("start_date", of: object),
            at: at + [.name("start_date")])
        end = reader.instant(
            historical ? reader.required("end_date", of: object, at: at) : reader.optional("end_date", of: object),
            at: at + [.name("end_date")])
        if let start, let end, end < start {
            reader.note(at + [.name("end_date")], "Value error, ends before it starts", "value_error")
        }
        let zone = reader.zone(reader.required("time_zone", of: object, at: at), at: at + [.name("time_zone")])
        let isFinalChunk = reader.bool(
            reader.required("is_final_chunk", of: object, at: at), at: at + [.name("is_final_chunk")])
        guard let stage, let provider, let zone, let isFinalChunk else { return nil }
        self.stage = stage
        self.provider = provider
        self.zone = zone
        self.isFinalChunk = isFinalChunk
    }
}

import GatewaySettings
import HealthReadings
import ReadingStore

extension ReadingPage {
    /// `{readings, more, cursor}`.
    public var document: JSONValue {
        .object([
            "readings": .array(readings.map(\.document)), "more": .bool(more), "cursor": .optional(more ? cursor : nil),
        ])
    }
}

/// `query`: readings, newest first.
struct QueryRunner {
    let gateway: Gateway
    let output: any OperationOutput

    func run(_ operation: QueryOperation) async throws {
        let person = try await gateway.store.personOrCurrent(named: operation.person)
        guard let zone = ZoneRules.named(person.timeZone) else { throw StoreError.unknownTimeZone(person.timeZone) }
        var query = ReadingQuery(limit: operation.limit, cursor: operation.cursor, latest: operation.latest)
        if !operation.types.isEmpty { query.kinds = try Set(operation.types.map(ReadingKind.argument)) }
        query.from = try operation.from.map { try InstantArgument.instant($0, "--from", end: .start, zone: zone) }
        query.to = try operation.to.map { try InstantArgument.instant($0, "--to", end: .end, zone: zone) }
        if let offset = operation.offset {
            guard operation.cursor == nil else {
                throw Problem.usage("--offset and --cursor cannot be used together")
            }
            query.offset = offset
        }
        if operation.person != nil { query.user = person.key }
        let page = try await gateway.store.query(query)
        switch operation.format {
        case .json: try await output.data(page.document.text)
        case .ndjson:
            for reading in page.readings { try await output.data(reading.document.text) }
        case .csv:
            let style = try Self.style(operation.csvStyle)
            // A file takes names as they are, marks of direction among them, so that they can be read in again.
            let mark = operation.csvMark ? SafeCSV.byteOrderMark : ""
            try await output.octets(Array("\(mark)\(Reading.csvHeader(style))\n".utf8))
            for reading in page.readings { try await output.octets(Array("\(reading.csv(style))\n".utf8)) }
        case .fhir, .openMHealth, .terra, .rook, .libreview:
            let documents = try await QueryDocuments(gateway, page, of: query).written(as: operation.format)
            for line in documents.lines { try await output.data(line) }
            for note in documents.notes { try await output.note(note) }
        case .text:
            for reading in page.readings { try await output.data(reading.line) }
            if page.readings.isEmpty { try await output.note("no readings") }
        }
        if page.more, operation.format != .json {
            try await output.note("more: continue with --cursor \(page.cursor ?? "")")
        }
    }
}

extension QueryRunner {
    fileprivate static func style(_ name: String) throws(Problem) -> SafeCSV.Style {
        guard let style = SafeCSV.Style(rawValue: name) else {
            throw Problem.usage("--csv-style: expected comma or semicolon, found '\(name.prefix(64))'")
        }
        return style
    }
}

extension ReadingKind {
    /// The kind of this name.
    ///
    /// - Throws: `Problem` with status 64.
    package static func argument(_ name: String) throws -> ReadingKind {
        guard let kind = ReadingKind(rawValue: name) else {
            throw Problem.usage(
                "--types: expected \(ReadingKind.allCases.map(\.rawValue).joined(separator: " or ")), found '\(name)'")
        }
        return kind
    }
}

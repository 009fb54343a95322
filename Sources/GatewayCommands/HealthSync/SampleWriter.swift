import HealthReadings
import HealthSyncClient

/// Where a phone's samples go.
protocol SampleReceiver: Actor {
    /// How many have come.
    var count: Int { get }
    func begin(_ phone: String, _ types: [String], _ start: Instant, _ end: Instant) async throws
    /// Takes samples, newest first; returns when they are where they belong.
    func take(_ samples: [HealthSyncSample]) async throws
    /// Ends it, when all have come.
    func end() async throws
}

/// Prints samples as they come.
actor SampleWriter: SampleReceiver {
    private let format: SampleRequest.Format
    private let output: any OperationOutput
    /// How many there were.
    private(set) var count = 0
    private var types: [String: Int] = [:]
    /// The last sample of a document, without the comma that follows if another comes.
    private var last: String?

    init(_ format: SampleRequest.Format, _ output: any OperationOutput) {
        self.format = format
        self.output = output
    }

    func begin(_ phone: String, _ types: [String], _ start: Instant, _ end: Instant) async throws {
        switch format {
        case .csv: try await output.data(Self.header)
        case .json:
            let head: [JSONValue.Member] = [
                .init("phone", .string(phone)), .init("from", .string(start.description)),
                .init("to", .string(end.description)), .init("types", .array(types.map(JSONValue.string))),
            ]
            try await output.data(String(JSONValue.object(head).text.dropLast()) + #","samples":["#)
        case .ndjson: break
        }
    }

    func take(_ samples: [HealthSyncSample]) async throws {
        for sample in samples {
            count += 1
            types[sample.type, default: 0] += 1
            switch format {
            case .csv: try await output.data(sample.csv)
            case .ndjson: try await output.data(sample.document.text)
            case .json:
                if let last { try await output.data(last + ",") }
                last = sample.document.text
            }
        }
    }

    /// Ends the document: one that ends before is no JSON, so nobody takes a part for the whole.
    func end() async throws {
        guard format == .json else { return }
        if let last { try await output.data(last) }
        let counts = JSONValue.object(
            types.sorted { $0.key < $1.key }.map { .init($0.key, .integer(Int64($0.value))) })
        try await output.data(#"],"count":\#(count),"counts":\#(counts.text)}"#)
    }

    private static let header = "id,type,value,unit,start,end,source,metadata"
}

extension HealthSyncSample {
    /// `{id, type, value, unit, start, end, source, metadata}`.
    var document: JSONValue {
        .object([
            "id": .string(id), "type": .string(type), "value": .number(value), "unit": .string(unit),
            "start": .string(start.description), "end": .string(end.description), "source": .string(sourceName),
            "metadata": metadata.isEmpty ? .null : metadataDocument,
        ])
    }

    private var metadataDocument: JSONValue { .object(metadata.map { .init($0.key, .string($0.value)) }) }

    /// A record of RFC 4180.
    var csv: String {
        [
            Self.field(id), Self.field(type), value.description, Self.field(unit), start.description, end.description,
            Self.field(sourceName), Self.field(metadata.isEmpty ? "" : metadataDocument.text),
        ].joined(separator: ",")
    }

    private static func field(_ text: String) -> String {
        // A line break in a field would be a second line for whoever reads lines.
        let line = String(text.map { $0.isNewline ? " " : $0 })
        return SafeCSV.text(line)
    }
}

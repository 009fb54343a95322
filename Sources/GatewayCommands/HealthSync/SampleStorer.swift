import GatewaySettings
import HealthReadings
import HealthSyncClient
import ReadingStore

/// Stores samples as they come: each page is durable before the next one is asked for.
///
/// A sample that is stored already changes nothing, so a fetch that was cut off begins anew.
actor SampleStorer: SampleReceiver {
    /// How many samples go into one commit.
    private static let batch = 1000

    private let gateway: Gateway
    private let json: Bool
    private let output: any OperationOutput
    private var phone = ""
    private var (types, start, end): ([String], Instant, Instant) = ([], Instant(seconds: 0), Instant(seconds: 0))
    private var samples: PhoneSampleImport
    private(set) var count = 0
    private var (stored, present) = (0, 0)
    private var excluded: [Exclusion: Int] = [:]
    private var kinds: [ReadingKind: Int] = [:]

    /// - Throws: `Problem` while the clock is untrusted, and for a person that the store doesn't know, or who has no name.
    init(_ gateway: Gateway, person: String?, json: Bool, _ output: any OperationOutput) async throws {
        self.gateway = gateway
        self.json = json
        self.output = output
        // Before the phone is asked: while the clock is untrusted nothing is stored.
        if let problem = await gateway.clockProblem() { throw problem }
        // As for a file: samples of somebody without a name would be stored twice once there is one.
        let user = try await gateway.requireNamedUser(person)
        samples = PhoneSampleImport(person: user.clientUserID)
    }

    func begin(_ phone: String, _ types: [String], _ start: Instant, _ end: Instant) {
        self.phone = phone
        (self.types, self.start, self.end) = (types, start, end)
    }

    func take(_ samples: [HealthSyncSample]) async throws {
        count += samples.count
        try await store(self.samples.take(samples))
    }

    func end() async throws {
        try await store(samples.finish())
        if samples.unpaired > 0 {
            try await output.note(
                "\(samples.unpaired) samples of blood pressures are kept as they came: what belongs to them can't be told"
            )
        }
        guard !json else { return try await output.data(document.text) }
        let reasons = excluded.sorted { $0.key.rawValue < $1.key.rawValue }.map { ", \($0.value) \($0.key.words)" }
        try await output.data(
            "\(phone): \(count) samples; \(stored) readings stored, \(present) were stored before"
                + (reasons.isEmpty ? "" : "; never sent:" + reasons.joined().dropFirst()))
        for kind in ReadingKind.allCases {
            if let number = kinds[kind] { try await output.data("  \(kind.rawValue): \(number)") }
        }
    }

    private func store(_ imported: [ImportedSample]) async throws {
        for part in imported.pieces(of: Self.batch) {
            for (sample, outcome) in zip(part, try await gateway.add(part)) {
                switch outcome {
                case .stored(_, let exclusion):
                    stored += 1
                    kinds[sample.kind, default: 0] += 1
                    if let exclusion { excluded[exclusion, default: 0] += 1 }
                case .present, .presentOfAnother, .conflict: present += 1
                }
            }
        }
    }

    /// `{"phone","person","from","to","types","samples","joined","unpaired","stored","present","excluded","kinds"}`.
    private var document: JSONValue {
        .object([
            "phone": .string(phone), "person": .string(samples.person), "from": .string(start.description),
            "to": .string(end.description), "types": .array(types.map(JSONValue.string)),
            "samples": .integer(Int64(count)), "joined": .integer(Int64(samples.joined)),
            "unpaired": .integer(Int64(samples.unpaired)), "stored": .integer(Int64(stored)),
            "present": .integer(Int64(present)),
            "excluded": .object(
                excluded.sorted { $0.key.rawValue < $1.key.rawValue }.map {
                    .init($0.key.rawValue, .integer(Int64($0.value)))
                }),
            "kinds": .object(
                ReadingKind.allCases.compactMap { kind in
                    kinds[kind].map { .init(kind.rawValue, .integer(Int64($0))) }
                }),
        ])
    }
}

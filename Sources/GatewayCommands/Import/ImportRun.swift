import GatewaySettings
import HealthReadings
import ReadingImport

/// Reads files of other programs and hands their samples to a sink, batch by batch.
///
/// A batch is durable before the next is read. An import that was interrupted is run again: what is stored changes nothing.
public struct ImportRun: Sendable {
    /// What is taken of the files.
    public struct Options: Sendable {
        /// How the files are written; `nil`: what their first octets say.
        public var format: ImportFormat?
        /// The client's id of the person whose the samples are; `nil`: the current user, or whoever our own CSV names.
        public var person: String?
        /// The kinds to take; empty for all.
        public var kinds: Set<ReadingKind> = []
        /// The earliest time: RFC 3339 or a date.
        public var from: String?
        /// The latest time: RFC 3339 or a date.
        public var to: String?
        /// The zone of times without an offset; `nil`: the person's.
        public var zone: ZoneRules?
        /// The order of day and month; `nil`: what the file proves.
        public var dateOrder: DateOrder?
        /// Whether the sink stores nothing.
        public var isDry = false

        /// Takes everything.
        public init() {}
    }

    /// How many samples are stored in one commit.
    private static let batch = 2000

    private let files: [String]
    private let options: Options

    /// Makes a run.
    public init(_ files: [String], _ options: Options) {
        self.files = files
        self.options = options
    }

    /// Runs it.
    ///
    /// - Parameters:
    ///   - sink: stores the samples.
    ///   - refused: is told each row that can be no sample, with its file.
    ///   - progress: is told how far a file has been read.
    ///   - finished: is told what came of it, also if it ends with an error.
    /// - Throws: what the sink throws, and `CancellationError`; what was handed over before is stored. Otherwise the report's
    ///   problem, if there is one.
    public func run(
        into sink: any ImportSink, refused: @Sendable (String, ImportRefusal) async throws -> Void,
        progress: @Sendable (TransferProgress) async throws -> Void,
        finished: @Sendable (ImportReport) async throws -> Void
    ) async throws {
        let context = try await sink.begin(person: options.person)
        var report = ImportReport(isDry: options.isDry, person: context.person)
        let taking = try Taking(options, context)
        for file in files {
            report.files.append(ImportReport.File(file))
            let place = report.files.count - 1
            do {
                try await read(file, taking, into: sink, refused, progress) { report.files[place] = $0 }
            } catch let damage as ImportDamage {
                report.files[place].damage = damage
            } catch {
                try await finished(report)
                throw error
            }
        }
        try await finished(report)
        if let problem = report.problem { throw problem }
    }

    /// What of a file is taken.
    private struct Taking {
        let rules: ImportRules
        let people: Set<String>
        let kinds: Set<ReadingKind>
        var from: Instant?
        var to: Instant?

        init(_ options: Options, _ context: ImportContext) throws {
            var zones: [(begins: Instant, zone: ZoneRules)] = []
            if let zone = options.zone {
                zones = [(Instant(microseconds: .min), zone)]
            } else {
                for each in context.zones {
                    guard let zone = ZoneRules.named(each.name) else { continue }
                    zones.append((Instant(microseconds: each.begins), zone))
                }
            }
            rules = ImportRules(
                person: context.person, zones: zones, dateOrder: options.dateOrder, takesPeople: options.person == nil)
            people = Set(context.people)
            kinds = options.kinds
            guard options.from != nil || options.to != nil else { return }
            guard let zone = zones.last?.zone else {
                throw Problem.usage("--from and --to: the zone of the dates is unknown")
            }
            from = try options.from.map { try InstantArgument.instant($0, "--from", end: .start, zone: zone) }
            to = try options.to.map { try InstantArgument.instant($0, "--to", end: .end, zone: zone) }
            if let from, let to, from > to {
                throw Problem.usage("--from \(from) is later than --to \(to)")
            }
        }

        func takes(_ sample: ImportedSample) -> Bool {
            guard kinds.isEmpty || kinds.contains(sample.kind) else { return false }
            if let from, sample.time.instant < from { return false }
            if let to, sample.time.instant > to { return false }
            return true
        }
    }

    private func read(
        _ path: String, _ taking: Taking, into sink: any ImportSink,
        _ refused: @Sendable (String, ImportRefusal) async throws -> Void,
        _ progress: @Sendable (TransferProgress) async throws -> Void, update: (ImportReport.File) -> Void
    ) async throws {
        var report = ImportReport.File(path)
        defer { update(report) }
        let file = try ImportFile(path: path, format: options.format)
        report.format = file.format
        let reader = try file.reader(taking.rules)
        defer { report.counts = reader.counts }
        var batch: [ImportedSample] = []
        batch.reserveCapacity(Self.batch)
        var lines: [Int] = []
        var omissions: [Int: ImportedOmission] = [:]
        var damage: ImportDamage?
        var isAtEnd = false
        while !isAtEnd {
            var item: ImportItem?
            do throws(ImportDamage) { item = try reader.next() } catch { damage = error }
            switch item {
            case .sample(var sample):
                // A name may be spelled in other octets than the store has it in: é, or e and an accent.
                let known = taking.people.firstIndex(of: sample.person)
                if let known { sample.person = taking.people[known] }
                if !taking.takes(sample) {
                    report.leftOut += 1
                } else if !taking.people.isEmpty, known == nil {
                    let refusal = ImportRefusal(
                        line: reader.line, field: "person", expected: "somebody the store knows",
                        found: "'\(sample.person)'")
                    report.refuse(refusal)
                    try await refused(path, refusal)
                } else {
                    omissions[batch.count] = reader.omission
                    batch.append(sample)
                    lines.append(reader.line)
                }
            case .refused(let refusal):
                report.refuse(refusal)
                try await refused(path, refusal)
            case nil: isAtEnd = true
            }
            guard batch.count >= Self.batch || isAtEnd else { continue }
            try Task.checkCancellation()
            if !batch.isEmpty { try await store(batch, of: lines, omissions, in: sink, &report, refused) }
            batch.removeAll(keepingCapacity: true)
            lines.removeAll(keepingCapacity: true)
            omissions.removeAll()
            try await progress(Self.progress(path, reader.octetsRead, file.size))
        }
        if let damage { throw damage }
    }

    private func store(
        _ batch: [ImportedSample], of lines: [Int], _ omissions: [Int: ImportedOmission], in sink: any ImportSink,
        _ report: inout ImportReport.File, _ refused: @Sendable (String, ImportRefusal) async throws -> Void
    ) async throws {
        var leftOut: [LeftOutSample] = []
        for (place, result) in try await sink.add(batch).enumerated() {
            // A reading that was stored before may be one of an import that was interrupted: the store knows whether somebody
            // has decided on it since.
            if let omission = omissions[place], ![.presentOfAnother, .conflict].contains(result) {
                leftOut.append(LeftOutSample(id: batch[place].id.description, reason: omission.reason))
            }
            switch result {
            case .stored: report.stored += 1
            case .excluded(let exclusion):
                report.stored += 1
                report.excluded[exclusion, default: 0] += 1
            case .present: report.present += 1
            case .presentOfAnother:
                report.present += 1
                report.ofAnother += 1
            case .conflict:
                let refusal = ImportRefusal(
                    line: lines[place], field: "id", expected: "the time and value that the store has under this id",
                    found: batch[place].id.description)
                report.refuse(refusal)
                try await refused(report.file, refusal)
            }
        }
        if !leftOut.isEmpty { report.leftOutOfFigures += try await sink.leaveOut(leftOut) }
    }

    private static func progress(_ path: String, _ octets: Int64, _ size: Int64?) -> TransferProgress {
        let name = path.split(separator: "/").last.map(String.init) ?? path
        return TransferProgress(
            device: name, received: Int(octets >> 10), announced: size.map { Int($0 >> 10) }, unit: "kilobyte")
    }
}

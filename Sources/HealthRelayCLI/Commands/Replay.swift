import ArgumentParser
import Foundation
import GATTProfiles
import GatewayCommands
import GatewaySettings
import HCICapture
import HealthDevices
import HealthReadings
import ReadingStore
import Synchronization

struct Replay: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "replay", abstract: "Replay captures of meters through the live path into the store.",
        discussion: "btsnoop, pcap and pcapng. A damaged capture yields its readings, then exit status 65.")

    @Argument(help: "Capture files.", completion: .file())
    var files: [String]
    @Option(
        help: ArgumentHelp(
            "A JSON object that maps handles to characteristics, for captures without discovery.", valueName: "file"))
    var handles: String?
    @Option(help: ArgumentHelp("The catalogue id to read every device as.", valueName: "id"))
    var model: String?
    @Option(
        help: ArgumentHelp(
            "The address to use for devices whose address the capture does not show, or only a private one.",
            valueName: "address"))
    var address: String?
    @Option(help: ArgumentHelp("The user's zone, for --dry-run or a new store.", valueName: "zone"))
    var timeZone: String?
    @Flag(help: "Print readings and store nothing.")
    var dryRun = false
    @Flag(help: "Also record what straps and oximeters sent, as `record` does.")
    var record = false
    @Flag(help: "Print totals only and store nothing.")
    var count = false
    @OptionGroup var global: GlobalOptions

    func run() async throws {
        let settings = try global.settings(timeZone.map { ["user.time_zone": $0] } ?? [:])
        global.startLogging(settings)
        if let model, Catalogue()[model] == nil { throw Problem.unknownModel(model) }
        let peer = try address.map { text in
            guard let address = DeviceAddress(text) else {
                throw Problem.usage("--address: expected an address such as C0:00:00:00:18:08, found '\(text)'")
            }
            // An identity address is public, or random and static: then its two highest bits are set.
            return address.bits >> 46 == 0b11 ? address : DeviceAddress(bits: address.bits, kind: .public)
        }
        let handleMap = try handles.map(Self.handleMap)
        let replay = try CaptureReplay(files, handles: handleMap, address: peer)
        if !count, !dryRun { try CaptureReplay.refuseReports(among: files) }
        let report =
            if count {
                try await tally(replay)
            } else if dryRun {
                try await pass(replay, settings)
            } else {
                try await store(settings) { [timeZone] gateway in
                    if let timeZone { try await Self.requireZone(timeZone, of: gateway) }
                    guard let peer else { return replay }
                    let known = try await gateway.known(peer)
                    return known == peer ? replay : replay.with(address: known)
                }
            }
        for warning in report.warnings { TerminalOutput.note("warning: \(warning)", asJSON: global.json) }
        for line in report.incomplete { TerminalOutput.note("incomplete: \(line)", asJSON: global.json) }
        if let damage = report.damage { throw damage }
        guard report.records > 0 || !report.warnings.contains(where: \.leavesUnidentified) else {
            throw Problem(
                "capture_unidentified", .badData,
                "the captures hold values and none could be read, since nothing says which characteristics they are of",
                hint: "replay them together with a capture that contains the device's discovery, or pass --handles")
        }
    }

    /// The reader, which also records where that is wanted.
    private func reading(_ reader: MeterReader) -> MeterReader { record ? reader.recording() : reader }

    private static func handleMap(_ path: String) throws -> HandleMap {
        guard let octets = FileManager.default.contents(atPath: path) else {
            throw Problem("handle_map_unreadable", .noInput, "cannot read the handle map \(path)")
        }
        return try HandleMap(json: Array(octets))
    }

    private func tally(_ replay: CaptureReplay) async throws -> CaptureReplay.Report {
        let journal = TallyJournal(decoder: ModelFrameDecoder())
        let report = try await replay.run(
            with: reading(MeterReader(journal: journal, memory: journal, model: model)))
        let totals = journal.totals
        let document = JSONValue.object([
            "contacts": .integer(Int64(totals.contacts)), "frames": .integer(Int64(totals.frames)),
            "readings": .object(
                ReadingKind.counts(totals.records).map { .init($0.key.rawValue, .integer(Int64($0.value))) }),
            "excluded": .integer(Int64(totals.excluded)), "contexts": .integer(Int64(totals.contexts)),
            "malformed": .integer(Int64(totals.malformed)),
        ])
        if global.json {
            Terminal.data(document.text)
        } else {
            let kinds = ReadingKind.counts(totals.records).map { "\($0.value) \($0.key.rawValue)" }.joined(
                separator: ", ")
            Terminal.data(
                "\(totals.contacts) contacts, \(totals.frames) frames: \(kinds) (\(totals.excluded) excluded), "
                    + "\(totals.contexts) contexts, \(totals.malformed) malformed")
        }
        return report
    }

    private func pass(_ replay: CaptureReplay, _ settings: Settings) async throws -> CaptureReplay.Report {
        let name = settings["user.time_zone"] ?? TimeZone.current.identifier
        guard let zone = ZoneRules.named(name) else { throw Problem.unknownZone(name) }
        let json = global.json
        let journal = PassingJournal(decoder: ModelFrameDecoder(), zone: zone) { outputs in
            var lines: [UInt8] = []
            for output in outputs {
                switch output {
                case .reading(let reading): Self.write(reading, json: json, into: &lines)
                case .malformed(let error, _): TerminalOutput.note("malformed: \(error)", asJSON: json)
                }
            }
            Terminal.data(lines)
        }
        let map = settings.map("sources.map")
        let reader = MeterReader(
            journal: journal, memory: journal, provider: { map[$0.id] ?? $0.provider }, model: model)
        return try await replay.run(with: reading(reader))
    }

    /// Appends a reading's line.
    fileprivate static func write(_ reading: Reading, json: Bool, into lines: inout [UInt8]) {
        if json {
            reading.document.write(into: &lines)
        } else {
            lines.append(contentsOf: reading.line.utf8)
        }
        lines.append(UInt8(ascii: "\n"))
    }

    /// Refuses a zone that isn't the store's: what is stored gets times of that one.
    private static func requireZone(_ zone: String, of gateway: Gateway) async throws {
        let own = try await gateway.store.currentUser().timeZone
        guard zone == own else {
            throw Problem.usage(
                "--time-zone: expected the store's zone, \(own), found '\(zone)'",
                hint: "leave it out, or print the readings with --dry-run")
        }
    }

    private func store(
        _ settings: Settings, _ replay: @escaping @Sendable (Gateway) async throws -> CaptureReplay
    ) async throws -> CaptureReplay.Report {
        try StateDirectory.requireNoOwner(flag: global.stateDir)
        let (state, model, record) = (StateDirectory(flag: global.stateDir), model, record)
        // A store that is there would take the flag's zone for its person's from now on.
        let settings = try ReadingStore.databaseFiles(in: state.path).isEmpty ? settings : global.settings()
        let stored = StoredReadings(json: global.json)
        return try await Interruption.endingBySignal {
            try await StoreOwner.acting(at: state.path) { () -> CaptureReplay.Report in
                let gateway = try await Gateway.open(settings, state: state)
                let reader = gateway.reader(model: model)
                let result = await Result {
                    try await replay(gateway).run(with: record ? reader.recording() : reader) { event in
                        switch event {
                        case .stored(let outcomes): stored.take(outcomes)
                        case .ended: stored.flush()
                        case .began, .progress: break
                        }
                    }
                }
                if case .failure = result { try? await gateway.close() } else { try await gateway.close() }
                return try result.get()
            }
        }
    }
}

/// Prints what was stored, each reading once. Everything is stored, whoever reads what is printed.
private final class StoredReadings: Sendable {
    private let json: Bool
    private let window = Mutex(ReadingWindow())

    init(json: Bool) { self.json = json }

    func take(_ outcomes: [FrameOutcome]) {
        print(window.withLock { $0.take(outcomes.compactMap(\.changedReading)) })
        for case .malformed(let error) in outcomes { TerminalOutput.note("malformed: \(error)", asJSON: json) }
    }

    func flush() { print(window.withLock { $0.flush() }) }

    private func print(_ readings: [Reading]) {
        var lines: [UInt8] = []
        for reading in readings { Replay.write(reading, json: json, into: &lines) }
        _ = Terminal.offer(lines: lines)
        for reading in readings where reading.time.basis == .reception {
            TerminalOutput.note(
                "warning: a reading without any time: if its session was also read live, it is now here twice",
                asJSON: json)
        }
    }
}

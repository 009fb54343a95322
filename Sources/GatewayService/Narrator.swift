import GATTClient
import GatewayCommands
import HealthDevices
import HealthReadings
import LibreReader
import ReadingDelivery
import ReadingStore

/// Tells each reading's way: stored, source checked, posted, acknowledged; and what becomes of meters and the radio.
///
/// In front of a person it tells values and names. Where what it says may end up in a log, it tells numbers of readings
/// and aliases of devices instead.
public actor Narrator {
    /// How many readings are remembered at most, since some are never acknowledged: nothing may take them.
    static let mostRemembered = 10_000

    private struct UnderWay {
        var provider: String
        /// `nil` where values are not told.
        var line: String?
    }

    private let showsValues: Bool
    private let print: @Sendable (String) -> Void
    /// The readings that were stored last and that no destination has acknowledged.
    private var underWay = NewestReadings<UnderWay>(limit: Narrator.mostRemembered)
    /// How many readings were new in the contacts that go on.
    private var news: [DeviceAddress: Int] = [:]
    /// The models of the meters that were met.
    private var models: [DeviceAddress: String] = [:]

    /// A narrator that says its lines through `print`.
    ///
    /// - Parameters:
    ///   - showsValues: whether readings and names of devices may be told.
    ///   - print: takes each line.
    public init(showsValues: Bool = true, print: @escaping @Sendable (String) -> Void) {
        self.showsValues = showsValues
        self.print = print
    }

    /// A frame became durable.
    public func stored(_ outcome: FrameOutcome) {
        switch outcome {
        case .new(let reading):
            if showsValues { print("stored        \(reading.line)") }
            guard reading.excluded == nil else { return }
            let line = showsValues ? "\(reading.time.instant?.description ?? "")  \(reading.record.words)" : nil
            underWay.keep(UnderWay(provider: reading.device.provider, line: line), of: reading.id)
        case .clash(let reading, with: let other):
            print(
                showsValues
                    ? "clash         \(reading.line), kept beside \(other)"
                    : "clash         two readings with the same key; both are kept")
        case .malformed(let error):
            print("malformed     \(showsValues ? "\(error)" : "a frame is not a record"); its octets are kept")
        case .revised, .repeated, .waiting, .nothing: break
        }
    }

    /// A recording went a step on.
    public func recording(_ event: RecordingEvent) {
        func name(_ device: DeviceDescription) -> String {
            (showsValues ? device.name : nil) ?? DeviceAlias(device).description
        }
        func alias(_ address: DeviceAddress) -> String {
            showsValues ? address.description : DeviceAlias(address, model: models[address]).description
        }
        switch event {
        case .began(let contact):
            if let address = contact.device.address { models[address] = contact.device.model }
            print("recording     \(name(contact.device))")
        case .stored(let outcomes): for outcome in outcomes { stored(outcome) }
        case .notStored(let failure): print("not stored    \(failure.code); what is recorded waits in memory")
        case .ended(let contact, let summary):
            print(
                "recorded      \(name(contact.device)): \(summary.received)"
                    + (summary.error.map { ", \($0.replacing("_", with: " "))" } ?? ""))
        case .notConsented(let address): print("not recorded  \(alias(address)): its person does not consent")
        case .failed(let address, let failure): print("not recorded  \(alias(address)): \(failure.code)")
        case .live: break
        }
    }

    /// Delivery went a step on.
    public func delivery(_ event: SyncEvent) {
        switch event {
        case .readings(let ids, .sourceChecked):
            let connected = Set(ids.compactMap { underWay[$0]?.provider }).sorted().joined(separator: ", ")
            let source = connected.isEmpty ? "the source" : connected
            print("source        \(source) is connected: \(Self.readings(ids.count)) may be sent")
        case .readings(let ids, .posted):
            guard showsValues else { return print("posted        \(Self.readings(ids.count))") }
            for line in ids.compactMap({ underWay[$0]?.line }) { print("posted        \(line)") }
        case .readings(let ids, .acknowledged):
            for id in ids {
                guard let line = underWay.remove(id)?.line else { continue }
                print("acknowledged  \(line)")
            }
            if !showsValues { print("acknowledged  \(Self.readings(ids.count))") }
        case .readings(let ids, .setAside(let words)):
            guard showsValues else {
                return print("refused       \(Self.readings(ids.count)): see `healthrelay sync status`")
            }
            for id in ids { print("refused       \(underWay[id]?.line ?? id.description): \(words)") }
        case .held(let target, let hold, let count, let reason):
            print(
                "held          \(count) for \(target.provider): \(hold.words)"
                    + (reason.map { showsValues ? " (\($0))" : "" } ?? ""))
        case .failedSyncing(_, let failure, _), .paused(let failure):
            // The server's words may repeat what was sent.
            print("delivery      \(showsValues ? failure.message : failure.code.replacing("_", with: " "))")
        case .retracted(let count): print("taken back    \(Self.readings(count))")
        case .leftBehind(let count): print("left there    \(Self.readings(count)) that cannot be taken back")
        case .readings(_, .handedOver), .syncing, .successSyncing, .nothingToSync, .syncingCompleted: break
        }
    }

    /// The radio and the meters it reaches went a step on.
    public func bluetooth(_ event: ScheduleEvent) {
        switch event {
        case .adapter: break
        case .appeared(let address, let model):
            models[address] = model?.id ?? models[address]
            print("near          \(title(address))")
        case .transfer(let address, .began(let contact)):
            models[address] = contact.device.model ?? models[address]
            news[address] = 0
        case .transfer(let address, .stored(let outcomes)):
            for outcome in outcomes {
                stored(outcome)
                if case .new = outcome { news[address, default: 0] += 1 }
            }
        case .transfer(_, .progress): break
        case .transfer(let address, .ended(let summary)):
            let count = news.removeValue(forKey: address) ?? 0
            guard summary.error == nil else { return }
            print("read          \(title(address)): \(count == 0 ? "nothing" : "\(count)") new")
        case .failed(let address, let failure, let nextTry):
            let next = nextTry.map { "again in \($0.components.seconds) s" } ?? "again when it comes into range"
            let words = showsValues ? failure.description : failure.code.replacing("_", with: " ")
            print("not read      \(title(address)): \(words); \(next)")
        }
    }

    /// A sensor was read.
    func sensor(_ stored: StoredScan) {
        for outcome in stored.outcomes { self.stored(outcome) }
        let name = showsValues ? stored.scan.line : "a sensor"
        print("read          \(name): \(stored.new == 0 ? "nothing" : "\(stored.new)") new")
        if let warning = stored.scan.warning { print("sensor        \(warning)") }
        if let note = stored.wearerNote(showsName: showsValues) { print("sensor        \(note)") }
    }

    /// A sensor could not be read.
    func sensorFailed(_ error: LibreReadError) {
        print("not read      \(showsValues ? error.description : error.code.replacing("_", with: " "))")
    }

    private static func readings(_ count: Int) -> String { count == 1 ? "1 reading" : "\(count) readings" }

    private func title(_ address: DeviceAddress) -> String {
        let model = models[address]
        return showsValues
            ? [model, address.description].compactMap(\.self).joined(separator: " ")
            : DeviceAlias(address, model: model).description
    }
}

/// What is remembered of the newest readings: of at least half as many as the limit, and of no more than it.
private struct NewestReadings<Value> {
    private let limit: Int
    private var newer: [ReadingID: Value] = [:]
    private var older: [ReadingID: Value] = [:]

    init(limit: Int) { self.limit = limit }

    subscript(id: ReadingID) -> Value? { newer[id] ?? older[id] }

    mutating func keep(_ value: Value, of id: ReadingID) {
        if newer.count >= limit / 2 { (older, newer) = (newer, [:]) }
        newer[id] = value
    }

    mutating func remove(_ id: ReadingID) -> Value? {
        let (new, old) = (newer.removeValue(forKey: id), older.removeValue(forKey: id))
        return new ?? old
    }
}

import GATTClient
import GatewaySettings
import HealthDevices
import HealthReadings
import ReadingStore
import Synchronization

/// The commands that reach for devices: `scan`, `pair`, `unpair`, `devices`, `read`, `measure`, `record`,
/// `monitor` and `watch`.
struct DeviceRunner {
    let gateway: Gateway
    let json: Bool
    let output: any OperationOutput

    /// How long the radio may take to say which bonds there are.
    private static let bondPatience: Duration = .seconds(5)

    func run(_ operation: DeviceOperation) async throws {
        switch operation {
        case .scan(let scan): try await self.scan(scan)
        case .pair(let pairing): try await PairRunner(gateway: gateway, json: json, output: output).run(pairing)
        case .unpair(let address): try await unpair(address)
        case .list: try await list()
        case .setClock(let setting): try await ClockRunner(gateway: gateway, json: json, output: output).run(setting)
        case .probe(let probe): try await self.probe(probe)
        case .report(let report):
            try await DeviceReportRunner(gateway: gateway, output: output).run(report)
        case .read(let reading): try await ReadRunner(gateway, reading, json: json, output).run()
        case .measure(let measurement):
            try await MeasureRunner(gateway: gateway, json: json, output: output).run(measurement)
        case .record(let recording):
            try await RecordRunner(gateway: gateway, json: json, output: output).run(recording)
        case .monitor(let addresses): try await monitor(addresses)
        case .watch(let types, let window, let faults):
            try await WatchRunner(gateway: gateway, json: json, output: output).run(types, window, faults: faults)
        }
    }

    private func scan(_ scan: ScanOperation) async throws {
        let found = try finds(scan)
        // Switching the adapter on is no scanning yet: where the radio is missing, its time begins at once.
        if scan.seconds != nil {
            for await _ in try gateway.radioSource.requireRadio().adapterStates() { break }
        }
        let end = scan.seconds.map { ContinuousClock.now + .seconds($0) }
        let heard = Atomic(false)
        let advised = Mutex<Set<String>>([])
        try await withDeadline(end) {
            for try await device in found {
                heard.store(true, ordering: .relaxed)
                try await output.data(json ? device.document.text : device.line)
                guard !json, let advice = device.advice, advised.withLock({ $0.insert(advice).inserted }) else {
                    continue
                }
                try await output.note(advice)
            }
        }
        guard !heard.load(ordering: .relaxed) else { return }
        // A short scan is over before a radio that is still waited for has been found missing.
        for await state in try gateway.radioSource.requireRadio().adapterStates() {
            if case .unusable(let error) = state { throw error }
            return
        }
    }

    private func finds(_ scan: ScanOperation) throws -> AsyncThrowingStream<FoundDevice, any Error> {
        let manager = try gateway.requireManager()
        if scan.all {
            let (catalogue, radio) = (gateway.catalogue, try gateway.radioSource.requireRadio())
            return .producing { yield in
                for try await advertisement in radio.advertisements() {
                    yield(
                        FoundDevice(
                            advertisement: advertisement, model: catalogue.model(for: advertisement),
                            choices: catalogue.choices(for: advertisement)))
                }
            }
        }
        guard scan.brand != nil || scan.model != nil else { return manager.search() }
        var models = gateway.catalogue.models
        if let name = scan.brand {
            guard let brand = manager.brands.first(where: { $0.name.lowercased() == name.lowercased() }) else {
                throw Problem(
                    "unknown_brand", .usage, "the catalogue has no brand '\(name)'",
                    hint: "it has " + manager.brands.map(\.name).joined(separator: ", "))
            }
            models = manager.devices(for: brand)
        }
        if let id = scan.model {
            guard gateway.catalogue[id] != nil else {
                throw Problem(
                    "unknown_model", .usage, "the catalogue has no model '\(id)'", hint: "see `healthrelay catalog`")
            }
            models = models.filter { $0.id == id }
        }
        return manager.search(for: models)
    }

    private func unpair(_ text: String) async throws {
        let address = try DeviceAddress.argument(text)
        let existed = try await gateway.requireManager().unpair(address)
        guard existed else { throw RadioError.notBonded(address) }
        guard !json else {
            return try await output.data(
                JSONValue.object(["address": .string(address.description), "paired": .bool(false)]).text)
        }
        try await output.data("\(address) is no longer paired; its readings stay")
        try await output.note("The device keeps its own bond until you make it forget this machine.")
    }

    private func list() async throws {
        // What the radio knows of bonds is newer than what is remembered; without a radio, that is what is known.
        if let manager = try? gateway.requireManager() {
            try? await withDeadline(.now + Self.bondPatience) { _ = try await manager.reconcilePairings() }
        }
        let devices = try await KnownDevice.all(in: gateway.store)
        guard !json else {
            return try await output.data(JSONValue.object(["devices": .array(devices.map(\.document))]).text)
        }
        for device in devices { try await output.data(device.line) }
        if devices.isEmpty { try await output.note("no devices yet: find one with `scan`, then `pair ADDRESS`") }
    }

    private func probe(_ operation: ProbeOperation) async throws {
        let address = try DeviceAddress.argument(operation.address)
        let manager = try gateway.requireManager()
        try await output.note("Waiting for \(address) …")
        let (output, name) = (output, address.description)
        let report = try await manager.probe(address, within: .seconds(operation.seconds)) { done, all in
            try? await output.progress(TransferProgress(device: name, received: done, announced: all))
        }
        if json {
            try await output.data(report.document.text)
        } else {
            for line in report.lines { try await output.data(line) }
            try await output.note("--json prints the report that a model can be made of.")
        }
        if let failure = report.failure { throw Problem(failure) }
    }

    private func monitor(_ texts: [String]) async throws {
        let manager = try gateway.requireManager()
        let addresses = try Set(texts.map { try DeviceAddress.argument($0) })
        if addresses.isEmpty { _ = try await gateway.requirePairedDevices(manager) }
        for try await change in manager.monitorConnection(addresses) {
            let at = change.at.flooredToSecond.description
            try await output.data(
                json
                    ? JSONValue.object([
                        "address": .string(change.address.description), "connected": .bool(change.isConnected),
                        "at": .string(at),
                    ]).text
                    : "\(at)  \(change.address) \(change.isConnected ? "connected" : "disconnected")")
        }
    }
}

/// Does something until it is done or the time has come, which is no error.
func withDeadline(
    _ deadline: ContinuousClock.Instant?, _ body: @escaping @Sendable () async throws -> Void
) async throws {
    guard let deadline else { return try await body() }
    try await withThrowingTaskGroup(of: Bool.self) { group in
        group.addTask {
            try await body()
            return true
        }
        group.addTask {
            try await Task.sleep(until: deadline, clock: .continuous)
            return false
        }
        let isDone = try await group.next() ?? true
        group.cancelAll()
        guard !isDone else { return }
        do { while try await group.next() != nil {} } catch is CancellationError {}
        try Task.checkCancellation()
    }
}

import GATTClient
import GatewaySettings
import HealthDevices
import HealthReadings
import Logging
import ReadingStore
import VitalClient

/// `doctor`: looks at everything a reading's way depends on, and says what is wrong and how to mend it.
///
/// It changes nothing: no store, user or source is made, and no reading is sent; destinations are asked as
/// `destination test` asks them.
public struct Doctor: Sendable {
    /// How long the radio may take to say how it stands.
    static let radioPatience: Duration = .seconds(5)

    let settings: Settings
    let stateDirectory: String
    /// The store, or why there is none.
    let store: Result<ReadingStore?, Problem>
    /// The Vital-compatible servers of the settings, by the destination's name.
    let servers: [(name: String, connection: Result<VitalConnection?, Problem>)]
    /// The other destinations of the settings; none where there is no store to deliver from.
    let others: [DestinationLink]
    let radio: (any Radio)?
    let clock: GatewayClock
    let logger: Logger

    /// Looks at everything, in the order of the list.
    func examine() async -> [DoctorCheck] {
        async let server = serverCheck()
        let bluetooth = await bluetoothChecks()
        return [
            bluetooth.adapter, bluetooth.bus, await readerCheck(), permissionsCheck(),
            await clockCheck(), await zoneCheck(), await server,
        ] + (await destinationChecks()) + (await fleetChecks()) + [await sourceCheck(), await storeCheck()]
            + [await backupCheck(), settingsCheck()].compactMap(\.self)
    }

    /// Prints what was found.
    ///
    /// - Throws: `Problem` with the highest status of the checks that failed.
    static func report(_ checks: [DoctorCheck], json: Bool, to output: any OperationOutput) async throws {
        if json {
            try await output.data(JSONValue.object(["checks": .array(checks.map(\.document))]).text)
        } else {
            for line in checks.flatMap(\.lines) { try await output.data(line) }
        }
        let failed = checks.filter { !$0.ok }
        guard let worst = failed.compactMap(\.status).max(by: { $0.rawValue < $1.rawValue }) else { return }
        var names: [String] = []
        for check in failed where !names.contains(check.name) { names.append(check.name) }
        throw Problem(
            "checks_failed", worst,
            "\(failed.count) of \(checks.count) checks found a problem: \(names.joined(separator: ", "))",
            hint: failed.first { $0.status == worst }?.mend)
    }
}

extension Doctor {
    /// `doctor` where no gateway owns the store: opens it where there is one, and makes none.
    ///
    /// - Parameters:
    ///   - settings: the gateway's settings.
    ///   - state: where the store is.
    ///   - absence: why the store that is meant cannot be looked at: that of a service which does not answer.
    ///   - json: whether the answer is a document.
    ///   - radio: makes the radio.
    ///   - logger: where what happens meanwhile is logged.
    ///   - output: where the answer is printed.
    /// - Throws: `Problem` with the highest status of the checks that failed.
    public static func examine(
        _ settings: Settings, state: StateDirectory, absence: Problem? = nil, json: Bool,
        radio: @escaping RadioSource.Factory = RadioSource.system, logger: Logger = Logger(label: "healthrelay"),
        output: any OperationOutput
    ) async throws {
        let servers = settings.destinations.filter { $0.kind == .vital }.map { setting in
            let connection = Result { try VitalConnection(setting, state: state.path) }
            return (name: setting.name, connection: connection.mapError(Problem.init(telling:)))
        }
        var opened: ReadingStore?
        let store = await Result<ReadingStore?, any Error> {
            if let absence { throw absence }
            guard !ReadingStore.databaseFiles(in: state.path).isEmpty else { return nil }
            opened = try await output.following { progress in
                try await ReadingStore.open(
                    directory: state.path, decoder: Gateway.decoder, clientUserID: settings["user.client_user_id"],
                    timeZone: settings["user.time_zone"], encryption: settings.storeEncryption, logger: logger,
                    progress: progress)
            }
            return opened
        }.mapError(Problem.init(telling:))
        defer { try? opened?.close() }
        let memory = GatewayClock.Memory(newestContact: { [opened] in try? await opened?.newestContact() })
        let clock = GatewayClock(
            requiresSynchronization: settings.requiresSynchronizedClock, file: ClockFile(directory: state.path),
            keepsRecord: false, memory: memory)
        let others = opened.map { store in
            let workshop = DestinationWorkshop(
                settings: settings, state: state.path, store: store, catalogue: Catalogue(), logger: logger)
            return settings.destinations.filter { $0.kind != .vital }.map { workshop.link($0) }
        }
        let doctor = Doctor(
            settings: settings, stateDirectory: state.path, store: store, servers: servers, others: others ?? [],
            radio: radio(settings, logger), clock: clock, logger: logger)
        try await Doctor.report(await doctor.examine(), json: json, to: output)
    }
}

extension Doctor {
    /// Examines a gateway that is open.
    init(_ gateway: Gateway) {
        self.init(
            settings: gateway.settings, stateDirectory: gateway.store.directory, store: .success(gateway.store),
            servers: gateway.destinations.links.filter(\.isServer).map { link in
                (link.name, link.refusal.map(Result.failure) ?? .success(link.open?.vital?.connection))
            }, others: gateway.destinations.links.filter { !$0.isServer }, radio: gateway.radioSource.radio,
            clock: gateway.clock, logger: gateway.logger)
    }
}

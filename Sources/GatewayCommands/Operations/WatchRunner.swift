import GATTClient
import GatewaySettings
import HealthDevices
import HealthReadings
import ReadingStore

/// `watch`: readings as they come into the store, and what devices send while somebody looks.
struct WatchRunner {
    let gateway: Gateway
    let json: Bool
    let output: any OperationOutput

    /// How many values of a device that is recorded wait for a terminal that does not keep up.
    private static let newestRecorded = 1024
    /// The pause before live devices are looked for again, where there were none or the radio had gone.
    private static let livePause: Duration = .seconds(5)

    /// `watch`: readings as they come into the store, and what devices send while somebody looks.
    ///
    /// Where no gateway runs, nothing would come into the store: the paired meters are then read here, as `run` does.
    ///
    /// - Parameters:
    ///   - types: kinds; none: all.
    ///   - window: how many seconds a heart-rate variability covers.
    ///   - faults: whether faults are shown that stand, begin and end.
    func run(_ types: [String], _ window: Int?, faults: Bool = false) async throws {
        let kinds = try types.isEmpty ? Set(ReadingKind.allCases) : Set(types.map(ReadingKind.argument))
        let readings = gateway.store.committedReadings()
        let watched = faults ? try gateway.requireManager().faults() : nil
        try await withThrowingTaskGroup(of: Void.self) { group in
            defer { group.cancelAll() }
            if let watched {
                group.addTask {
                    for await fault in watched {
                        try await output.data(
                            json ? JSONValue.object(["fault": fault.document]).text : fault.line)
                    }
                }
            }
            if !gateway.isService, faults || kinds.contains(where: { !$0.isLive }) {
                let manager = try gateway.requireManager()
                try await tellThatItReads()
                group.addTask { try await read(manager) }
            }
            if !kinds.isDisjoint(with: [.heartRate, .hrv, .spo2]) {
                group.addTask { try await self.watchLive(kinds, window) }
                let recorded = gateway.recorded.listen(buffering: Self.newestRecorded)
                group.addTask {
                    for await reading in recorded where kinds.contains(reading.kind) {
                        try await output.data(json ? reading.document.text : reading.line)
                    }
                }
            }
            group.addTask {
                for await batch in readings {
                    for reading in batch where kinds.contains(reading.kind) {
                        try await output.data(json ? reading.document.text : reading.line)
                    }
                }
            }
            try await group.next()
        }
    }

    /// Reads paired meters where no gateway runs; waits for ever where one does, or there is no radio.
    func readMeters() async throws {
        guard !gateway.isService, let manager = try? gateway.requireManager() else {
            return try await Task.sleep(for: .seconds(1e9))
        }
        try await tellThatItReads()
        try await read(manager)
    }

    private func tellThatItReads() async throws {
        if let problem = await gateway.clockProblem() { throw problem }
        try await output.note("No gateway is running; this command reads the paired meters until it is stopped.")
    }

    /// Follows the paired devices that send live values, for as long as somebody looks.
    private func watchLive(
        _ kinds: Set<ReadingKind>, _ window: Int?
    ) async throws {
        // Without a radio there is nothing to follow; the readings of the store still come.
        guard let manager = try? gateway.requireManager() else { return try await Task.sleep(for: .seconds(1e9)) }
        var pace = LivePace()
        pace.variabilityWindowSeconds = window ?? pace.variabilityWindowSeconds
        while true {
            do {
                for try await reading in manager.live(pace: pace) where kinds.contains(reading.kind) {
                    try await output.data(json ? reading.document.text : reading.line)
                }
            } catch is RadioError {
                // It is waited for, as the schedule does.
            }
            try await Task.sleep(for: Self.livePause)
        }
    }

    /// Reads paired meters as they show up, until the task is cancelled, and tells of the radio alone.
    private func read(_ manager: DevicesManager) async throws {
        await MeterSchedule(manager).run { event in
            switch event {
            case .adapter(let state): try? await output.note(state.line)
            case .failed(let address, let failure, _): try? await output.note("\(address): \(failure.description)")
            case .appeared, .transfer: break
            }
        }
    }
}

import GatewaySettings
import HealthDevices
import HealthReadings
import ReadingStore

extension Settings {
    /// The devices that the gateway records by itself.
    package var recordedDevices: Set<DeviceAddress> { Set(list("heart_rate.keep").compactMap { DeviceAddress($0) }) }

    /// How it records them.
    package var recordingOptions: RecordingOptions {
        RecordingOptions(variabilityWindowSeconds: self["heart_rate.hrv_window"].flatMap(Int.init) ?? 300)
    }
}

extension Gateway {
    /// How often the machine's clock is looked at while something is recorded.
    private static let clockEvery: Duration = .seconds(60)

    /// Records devices until the task is cancelled; what they send now is shown live too, to whoever looks.
    ///
    /// Nothing is recorded while this machine's clock is untrusted: the samples have no other time.
    ///
    /// - Throws: `RadioError`, `CancellationError`, and the problem that the clock is not trusted any more.
    package func record(
        _ addresses: Set<DeviceAddress>, _ options: RecordingOptions,
        report: @escaping @Sendable (RecordingEvent) async -> Void
    ) async throws {
        let manager = try requireManager()
        if let problem = await clockProblem() { throw problem }
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { [self] in
                try await manager.record(addresses, options: options) { [recorded] event in
                    if case .live(let reading) = event { recorded.send(reading) }
                    await report(event)
                } permitted: { [store] address in
                    try await store.recordableKinds(of: address)
                }
            }
            group.addTask { [self] in
                while true {
                    try await Task.sleep(for: Self.clockEvery)
                    if let problem = await clockProblem() { throw problem }
                }
            }
            defer { group.cancelAll() }
            try await group.next()
        }
    }
}

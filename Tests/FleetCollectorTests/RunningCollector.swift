import FleetCollector
import FleetStore
import GatewaySettings
import Logging
import TestSupport

/// A collector has ended before it listened.
struct NeverListened: Error {}

/// A real collector that a test starts and stops.
struct RunningCollector: Sendable {
    let port: Int
    private let work: Task<Void, any Error>

    /// Starts one.
    ///
    /// - Parameter port: 0: any that is free.
    static func start(
        in directory: String, port: Int = 0, _ settings: CollectorSettings = CollectorSettings(),
        logger: Logger = Logger(label: "tests") { _ in SwiftLogNoOpLogHandler() }
    ) async throws -> RunningCollector {
        var settings = settings
        settings.listen = ListenAddress(host: "127.0.0.1", port: port)
        let runner = CollectorRunner(settings, directory: directory, logger: logger)
        let (ports, listening) = AsyncStream.makeStream(of: Int.self)
        let work = Task {
            defer { listening.finish() }
            try await runner.run(isStoppedBySignals: false) { listening.yield($0) }
        }
        guard let number = await ports.first(where: { _ in true }) else {
            try await work.value
            throw NeverListened()
        }
        return RunningCollector(port: number, work: work)
    }

    var url: String { "https://localhost:\(port)" }

    func stop() async {
        work.cancel()
        _ = try? await work.value
    }
}

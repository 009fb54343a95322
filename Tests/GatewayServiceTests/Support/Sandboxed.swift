import Foundation
import Logging
import ServiceLifecycle
import VitalSandbox

/// A sandbox server in this process, and the settings that deliver to it.
final class Sandboxed: Sendable {
    let settings: [String: String]
    private let group: ServiceGroup
    private let running: Task<Void, any Error>

    init() async throws {
        let logger = Logger(label: "sandbox") { _ in SwiftLogNoOpLogHandler() }
        let server = try SandboxServer(
            configuration: SandboxConfiguration(apiKeys: [SandboxConfiguration.fixedKey]), logger: logger)
        let group = ServiceGroup(services: [server], logger: logger)
        self.group = group
        running = Task { try await group.run() }
        settings = [
            "server.base_url": try await server.address().baseURL, "user.client_user_id": "white_bear",
            "server.api_key_file": try DoctorTests.file(SandboxConfiguration.fixedKey),
            "user.time_zone": "Europe/Berlin",
        ]
    }

    func stop() async throws {
        await group.triggerGracefulShutdown()
        try await running.value
    }
}

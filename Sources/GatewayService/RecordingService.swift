import GATTClient
import GatewayCommands
import GatewaySettings
import HealthDevices
import HealthReadings
import ServiceLifecycle

/// Records the devices of `heart_rate.keep` as they show up, for as long as the gateway runs.
struct RecordingService: Service {
    /// The pause before it begins again, where the radio had gone or the clock is untrusted.
    private static let pause: Duration = .seconds(10)

    let gateway: Gateway
    let addresses: Set<DeviceAddress>
    let narrator: Narrator

    func run() async throws {
        // What has come is stored before this ends; notifications are stopped, and the devices disconnected.
        await cancelWhenGracefulShutdown {
            while !Task.isCancelled {
                do {
                    try await gateway.record(addresses, gateway.settings.recordingOptions) {
                        await narrator.recording($0)
                    }
                } catch {
                    // The radio's state and the clock's are told by those who read meters.
                }
                guard (try? await Task.sleep(for: Self.pause)) != nil else { return }
            }
        }
    }
}

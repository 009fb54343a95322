import GATTClient
import GatewayCommands
import HealthDevices
import HealthReadings
import ServiceLifecycle

/// Reads paired meters as they show up, for as long as the gateway runs. A gateway without a radio goes on without.
struct MeterService: Service {
    /// How often the machine's clock is looked at.
    private static let lookEvery: Duration = .seconds(60)

    let manager: DevicesManager
    let clock: GatewayClock
    let narrator: Narrator
    let announce: @Sendable (GatewayRunner.Announcement) -> Void
    /// Told of what happens besides.
    var watch: @Sendable (ScheduleEvent) -> Void = { _ in }

    func run() async throws {
        // What a meter has sent is stored before this ends; its notifications are stopped, and it is disconnected.
        await cancelWhenGracefulShutdown {
            while !Task.isCancelled {
                guard (try? await waitForClock()) != nil else { return }
                await withTaskGroup(of: Void.self) { group in
                    group.addTask { await readMeters() }
                    group.addTask { await waitForDoubt() }
                    await group.next()
                    group.cancelAll()
                }
            }
        }
    }

    private func readMeters() async {
        await MeterSchedule(manager).run { event in
            if case .adapter(let state) = event { announce(.bluetooth(state)) }
            watch(event)
            await narrator.bluetooth(event)
        }
    }

    private func waitForClock() async throws {
        try await clock.waitUntilTrusted { doubt in
            let state = doubt.map { "\($0), so no meter is read" } ?? "is trusted again"
            announce(.way("clock         this machine's clock \(state)"))
        }
    }

    private func waitForDoubt() async {
        while await clock.doubt() == nil {
            do { try await Task.sleep(for: Self.lookEvery) } catch { return }
        }
    }
}

import Foundation
import GatewayCommands
import GuardedServer
import HTTPTypes
import HealthReadings
import Hummingbird
import ReadingStore

/// `/health` for who watches the process, and `/metrics` for Prometheus.
struct HealthRoutes {
    let gateway: Gateway
    let door: AccessPoint
    let counters: RequestCounters
    let started: Instant
    let isLocked: @Sendable () -> Bool

    func add(to routes: GuardedRoutes) {
        // It says nothing of anybody.
        routes.get("/health", .open) { _, _, _ in
            let canRead = await Result { _ = try await gateway.store.newestContact() }.isSuccess
            let disk = Doctor.diskLevel(at: gateway.store.directory)
            let canWrite = gateway.store.writingFault == nil
            let isWell = canRead && canWrite && disk != .full
            return Response.json(
                .object([
                    "status": .string(isWell ? (isLocked() ? "locked" : "ok") : "failing"),
                    "store": .string(canRead ? canWrite ? "ok" : "unwritable" : "unreadable"),
                    "disk": .string(disk.name),
                ]), status: isWell ? .ok : .serviceUnavailable)
        }
        routes.get("/metrics", .metrics) { _, _, _ in
            let metrics = GatewayMetrics(
                gateway: gateway, door: door, counters: counters, started: started, isLocked: isLocked())
            return Response.octetsResponse(
                Array(try await metrics.text().utf8), "text/plain; version=0.0.4; charset=utf-8")
        }
    }
}

import GATTClient
import GatewaySettings
import HealthDevices
import HealthReadings
import ReadingStore

/// `devices set-clock`: the one way a device's clock is set, apart from `clock.set`.
struct ClockRunner {
    let gateway: Gateway
    let json: Bool
    let output: any OperationOutput

    /// `devices set-clock`: the one way a device's clock is set, apart from `clock.set`.
    func run(_ operation: SetClockOperation) async throws {
        let address = try DeviceAddress.argument(operation.address)
        let user = try await gateway.store.currentUser()
        guard let zone = ZoneRules.named(user.timeZone) else {
            throw Problem("unknown_time_zone", .configuration, "there is no time zone '\(user.timeZone)'")
        }
        if let problem = await gateway.clockProblem() { throw problem }
        let manager = try gateway.requireManager()
        try await output.note("Waiting for \(address) …")
        let setting = try await manager.setClock(of: address, within: .seconds(operation.seconds)) {
            zone.wallTime(at: $0)
        }
        try await output.data(json ? setting.document(zone).text : setting.line(zone))
    }

    /// What to write into the clock of a device that wants that at each connection: the user's time, where `clock.set`
    /// names the device or its model; nil else, and then no clock is touched.
    static func clockToWrite(_ settings: Settings, zone: @escaping @Sendable () async -> ZoneRules?)
        -> MeterReader.ClockToWrite
    {
        let named = settings.list("clock.set")
        let addresses = Set(named.compactMap { DeviceAddress($0)?.bits })
        let models = Set(named)
        return { device in
            guard
                device.model.map(models.contains) == true || device.address.map({ addresses.contains($0.bits) }) == true
            else { return nil }
            return await zone()?.wallTime(at: .systemClock)
        }
    }
}

extension ClockSetting {
    /// `{address, written, before, after}`; a clock is `{difference_seconds, read_at}`, null where it cannot be read.
    func document(_ zone: ZoneRules) -> JSONValue {
        .object([
            "address": .optional(device.address?.description), "written": .string(written.description),
            "before": before.map { ClockComparison($0, zone: zone).document } ?? .null,
            "after": after.map { ClockComparison($0, zone: zone).document } ?? .null,
        ])
    }

    /// What became of it, for people.
    func line(_ zone: ZoneRules) -> String {
        let before = before.map { ClockComparison($0, zone: zone).seconds } ?? "not known"
        let after = after.map { ClockComparison($0, zone: zone).seconds } ?? "not known"
        return "\(device.address?.description ?? "the device")  clock set to \(written); "
            + "it was \(before), and is \(after)"
    }
}

extension ClockComparison {
    /// How the clock stands, to the second.
    fileprivate var seconds: String {
        differenceSeconds == 0 ? "right" : "\(abs(differenceSeconds)) s \(differenceSeconds > 0 ? "ahead" : "behind")"
    }
}

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
        let zone = try await Self.zone(of: address, in: gateway.store)
        if let problem = await gateway.clockProblem() { throw problem }
        let manager = try gateway.requireManager()
        try await output.note("Waiting for \(address) …")
        let setting = try await manager.setClock(of: address, within: .seconds(operation.seconds)) {
            zone.wallTime(at: $0)
        }
        try await output.data(json ? setting.document(zone).text : setting.line(zone))
    }

    /// The zone by which a device's clock is read, and so is set: that of the person whose readings it makes.
    ///
    /// - Parameters:
    ///   - address: the device's address; `nil`: it has none, and is the current user's.
    ///   - store: knows whose the device is.
    /// - Throws: `StoreError`; for a zone that this machine does not know, `unknownTimeZone`.
    static func zone(of address: DeviceAddress?, in store: ReadingStore) async throws -> ZoneRules {
        var person = try await store.currentUser()
        if let address, let owner = try await store.user(store.person(ofDevice: address)) { person = owner }
        guard let zone = ZoneRules.named(person.timeZone) else { throw StoreError.unknownTimeZone(person.timeZone) }
        return zone
    }

    /// What to write into the clock of a device that wants that at each connection: its person's time, where `clock.set`
    /// names the device or its model; nil else, and then no clock is touched.
    static func clockToWrite(
        _ settings: Settings, zone: @escaping @Sendable (DeviceDescription) async -> ZoneRules?
    ) -> MeterReader.ClockToWrite {
        let named = settings.list("clock.set")
        let addresses = Set(named.compactMap { DeviceAddress($0)?.bits })
        let models = Set(named)
        return { device in
            guard
                device.model.map(models.contains) == true || device.address.map({ addresses.contains($0.bits) }) == true
            else { return nil }
            return await zone(device)?.wallTime(at: .systemClock)
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

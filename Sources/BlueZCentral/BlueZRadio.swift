import GATTClient
import HealthReadings
import LibDBus
import Logging

/// The Bluetooth radio behind BlueZ's daemon, `org.bluez`, version 5.55 or later.
///
/// It keeps one connection to the bus, made when it is first used, and finds everything again by itself: the bus, the
/// service, the adapter. An adapter that is switched off is switched on once; one that is switched off later stays so.
///
/// ```swift
/// let radio = BlueZRadio()
/// for try await advertisement in radio.advertisements() {
///     print(advertisement.name ?? "?", advertisement.rssi ?? 0)
/// }
/// ```
public final class BlueZRadio: Radio {
    let context: RadioContext

    /// Makes a radio; nothing is opened before it is used.
    ///
    /// - Parameters:
    ///   - adapter: the adapter's name (`hci0`) or address; nil for the first that can be used.
    ///   - bus: the bus the service is on.
    ///   - logger: addresses are in its messages at debug only.
    public convenience init(
        adapter: String? = nil, bus: DBusAddress = .system, logger: Logger = Logger(label: "healthrelay.bluez")
    ) {
        self.init(adapter: adapter, bus: bus, limits: RadioLimits(), rfkill: .system, logger: logger)
    }

    init(adapter: String?, bus: DBusAddress, limits: RadioLimits, rfkill: RFKill, logger: Logger) {
        let link = ServiceLink(
            address: bus, wantedAdapter: adapter, rfkill: rfkill, limits: limits, logger: logger)
        context = RadioContext(link: link, limits: limits, logger: logger)
    }

    /// Ends every stream and closes the connection; the radio cannot be used afterwards.
    public func close() async { await context.link.close() }

    /// The adapter's state: see `Radio.adapterStates()`.
    public func adapterStates() -> AsyncStream<AdapterState> {
        let link = context.link
        let (stream, continuation) = AsyncStream<AdapterState>.makeStream(bufferingPolicy: .bufferingNewest(64))
        let task = Task { [context] in
            var last: AdapterState?
            for await _ in await context.link.changes() {
                let state: AdapterState
                do {
                    state = .ready(try await link.usableAdapter(trying: false).adapter.adapter)
                } catch let error as RadioError {
                    state = .unusable(error)
                } catch {
                    continue
                }
                if state != last { continuation.yield(state) }
                last = state
            }
            continuation.finish()
        }
        continuation.onTermination = { _ in task.cancel() }
        return stream
    }

    /// What is near: see `Radio.advertisements()`.
    public func advertisements() -> AsyncThrowingStream<Advertisement, any Error> {
        Self.stream { [context] continuation in
            var filter = AdvertisementFilter()
            try await DeviceStream(context: context, addresses: nil).listen { changes, _ in
                for change in changes {
                    if change.kind == .gone {
                        filter.forget(change.device.path)
                    } else if change.device.rssi != nil, change.device.address != nil {
                        let advertisement = change.device.advertisement(at: change.at)
                        if filter.isNews(advertisement, of: change.device.path) { continuation.yield(advertisement) }
                    }
                }
                return true
            }
        }
    }

    /// What these devices say of their services: see `Radio.advertisements(of:)`.
    ///
    /// The daemon tells of service data when it has changed, without `DuplicateData`: a device that repeats itself
    /// wakes nobody.
    public func advertisements(of addresses: Set<DeviceAddress>) -> AsyncThrowingStream<Advertisement, any Error> {
        Self.stream { [context] continuation in
            var told: [String: [BluetoothUUID: [UInt8]]] = [:]
            try await DeviceStream(context: context, addresses: addresses).listen { changes, _ in
                for change in changes {
                    let device = change.device
                    guard change.kind != .gone else {
                        told[device.path] = nil
                        continue
                    }
                    // Without a signal it is what was heard before this discovery began.
                    guard device.rssi != nil, !device.serviceData.isEmpty, told[device.path] != device.serviceData
                    else { continue }
                    told[device.path] = device.serviceData
                    continuation.yield(device.advertisement(at: change.at))
                }
                return true
            }
        }
    }

    /// Every device as it comes into reach: see `Central.peripherals()`.
    public func peripherals() -> AsyncThrowingStream<any Peripheral, any Error> { peripherals(among: nil) }

    /// These devices as they come into reach: see `Radio.peripherals(_:)`.
    public func peripherals(_ addresses: Set<DeviceAddress>) -> AsyncThrowingStream<any Peripheral, any Error> {
        peripherals(among: addresses)
    }

    private func peripherals(among addresses: Set<DeviceAddress>?) -> AsyncThrowingStream<any Peripheral, any Error> {
        Self.stream { [context] continuation in
            var presence = Presence()
            try await DeviceStream(context: context, addresses: addresses).listen { changes, listeningTime in
                for change in changes where presence.isComing(change, at: listeningTime, context) {
                    continuation.yield(BlueZPeripheral(context, change.device, seenAt: change.at))
                }
                return true
            }
        }
    }

    /// A device when it is heard: see `Radio.peripheral(_:within:)`.
    public func peripheral(_ address: DeviceAddress, within timeout: Duration) async throws -> any Peripheral {
        let (device, _, instant) = try await locate(address, within: timeout)
        return BlueZPeripheral(context, device, seenAt: instant)
    }

    /// Bonds with a device: see `Radio.pair(_:within:agent:)`.
    public func pair(
        _ address: DeviceAddress, within timeout: Duration, agent: any PairingAgent
    ) async throws -> Bond {
        try await context.pairing.take {
            try Task.checkCancellation()
            // The daemon never answers a Pair of a device that is paired already (5.66).
            if let bond = try await self.trustedBond(with: address) { return bond }
            let (device, usable, _) = try await self.locate(address, within: timeout)
            return try await PairingCourse(self.context, usable, device, device.address ?? address, agent: agent).run()
        }
    }

    /// Removes a bond: see `Radio.unpair(_:)`.
    @discardableResult public func unpair(_ address: DeviceAddress) async throws -> Bool {
        let usable = try await context.link.usableAdapter()
        var wasBonded = false
        for device in try await devices(of: usable) where device.address?.bits == address.bits {
            if device.isBonded { await endReconnecting(to: device, usable) }
            do {
                _ = try await usable.service.connection.call(
                    BlueZName.service, usable.adapter.path, BlueZName.adapter, "RemoveDevice",
                    [.objectPath(device.path)])
            } catch {
                // It was removed by somebody else meanwhile.
                guard RemoteError(error)?.isVanished ?? false else { throw error.radioError }
            }
            wasBonded = wasBonded || device.isBonded
        }
        if wasBonded { await context.noteBondChange() }
        return wasBonded
    }

    /// The bonds there are: see `Radio.bonds()`.
    public func bonds() async throws -> [Bond] {
        let usable = try await context.link.usableAdapter()
        return try await devices(of: usable).compactMap(\.bond).sorted { $0.address.bits < $1.address.bits }
    }

    /// The bond with a device: see `Radio.bond(with:)`.
    public func bond(with address: DeviceAddress) async throws -> Bond? {
        try await bonded(address, try await context.link.usableAdapter())?.bond
    }

    /// What other adapters may have bonds with: see `Radio.bondedElsewhere(among:)`.
    public func bondedElsewhere(among addresses: Set<DeviceAddress>) async throws -> Set<DeviceAddress> {
        let (link, logger) = (context.link, context.logger)
        let usable = try await link.usableAdapter()
        // Nobody can say which bonds an adapter has that is gone.
        guard await link.hasHome else { return addresses }
        var found: Set<DeviceAddress> = []
        for other in await link.adapters.keys where other != usable.adapter.path {
            do throws(DBusError) {
                let objects = try await ManagedObjects.of(usable.service.connection, .children(of: other))
                for (path, properties) in objects.with(BlueZName.device) {
                    let device = DeviceObject(path: path, properties, logger: logger)
                    if device.isBonded, let address = device.address { found.insert(address) }
                }
            } catch {
                throw error.radioError
            }
        }
        return found.intersection(addresses)
    }

    /// Devices connecting and disconnecting: see `Radio.connectionChanges(_:)`.
    public func connectionChanges(_ addresses: Set<DeviceAddress>) -> AsyncThrowingStream<ConnectionChange, any Error> {
        Self.stream { [context] continuation in
            let usable = try await context.link.usableAdapter()
            var states: [UInt64: Bool] = [:]
            var isFirst = true
            func tell(_ bits: UInt64, _ isConnected: Bool, _ instant: Instant) {
                guard states.updateValue(isConnected, forKey: bits) != isConnected else { return }
                for address in addresses where address.bits == bits {
                    continuation.yield(ConnectionChange(address: address, isConnected: isConnected, at: instant))
                }
            }
            try await DeviceStream(context: context, addresses: addresses).follow(usable) { changes, _ in
                for change in changes {
                    guard let bits = change.device.address?.bits else { continue }
                    tell(bits, change.kind != .gone && change.device.isConnected, change.at)
                }
                if isFirst {
                    isFirst = false
                    for address in addresses where states[address.bits] == nil {
                        tell(address.bits, false, .systemClock)
                    }
                }
                return true
            }
        }
    }
}

extension BlueZRadio {
    /// Listens until a device is heard; one that is connected is near without that.
    private func locate(
        _ address: DeviceAddress, within timeout: Duration
    ) async throws -> (DeviceObject, ServiceLink.UsableAdapter, Instant) {
        let context = context
        let found = Question<(DeviceObject, Instant)>()
        do {
            let (device, instant) = try await found.answer(within: timeout) {
                var found: (DeviceObject, Instant)?
                try await DeviceStream(context: context, addresses: [address]).listen { changes, _ in
                    for change in changes where change.kind != .gone {
                        if change.device.rssi != nil || change.device.isConnected { found = (change.device, change.at) }
                    }
                    return found == nil
                }
                guard let found else { throw RadioError.lost }
                return found
            }
            return (device, try await context.link.usableAdapter(), instant)
        } catch is TimeIsUp {
            throw RadioError.notSeen(address, within: timeout)
        }
    }

    private func endReconnecting(to device: DeviceObject, _ usable: ServiceLink.UsableAdapter) async {
        let wire = PeripheralWire(usable.service, path: device.path)
        defer { wire.subscription.close() }
        guard (try? await wire.open()) != nil, (try? await wire.look()) != nil else { return }
        await wire.endReconnecting(context.limits)
    }

    /// The bond with a device, trusted, where there is one.
    private func trustedBond(with address: DeviceAddress) async throws -> Bond? {
        let usable = try await context.link.usableAdapter()
        guard let device = try await bonded(address, usable) else { return nil }
        if !device.isTrusted {
            _ = try? await usable.service.connection.call(
                BlueZName.service, device.path, BlueZName.properties, "Set",
                [.string(BlueZName.device), .string("Trusted"), .variant(.bool(true))])
        }
        var bond = device.bond
        bond?.isTrusted = true
        return bond
    }

    /// The bonded device with this address, whatever its kind.
    private func bonded(_ address: DeviceAddress, _ usable: ServiceLink.UsableAdapter) async throws -> DeviceObject? {
        func isMeant(_ device: DeviceObject) -> Bool { device.isBonded && device.address?.bits == address.bits }
        if let device = try await object(at: usable.adapter.path + "/dev_" + address.pathName, usable), isMeant(device)
        {
            return device
        }
        // A path has the address that the device was first heard with. One that resolved to another keeps it.
        return try await devices(of: usable).first(where: isMeant)
    }

    /// A device's object; nil where there is none.
    private func object(at path: String, _ usable: ServiceLink.UsableAdapter) async throws -> DeviceObject? {
        do throws(DBusError) {
            return try await usable.service.connection.deviceProperties(at: path)
                .map { DeviceObject(path: path, $0, logger: context.logger) }
        } catch {
            // Whether the service can be asked at all shows when it is asked for all objects.
            guard case .remote = error else { throw error.radioError }
            return nil
        }
    }

    private func devices(of usable: ServiceLink.UsableAdapter) async throws -> [DeviceObject] {
        do throws(DBusError) {
            let devices = try await ManagedObjects.of(
                usable.service.connection, .children(of: usable.adapter.path)
            ).with(BlueZName.device)
            context.noteDevices(devices.count)
            return devices.map { DeviceObject(path: $0.path, $0.properties, logger: context.logger) }
        } catch {
            throw error.radioError
        }
    }

    /// A stream whose elements a task brings, which ends with it. A consumer that takes nothing misses the oldest.
    private static func stream<Element: Sendable>(
        _ body: @escaping @Sendable (AsyncThrowingStream<Element, any Error>.Continuation) async throws -> Void
    ) -> AsyncThrowingStream<Element, any Error> {
        let (stream, continuation) = AsyncThrowingStream<Element, any Error>.makeStream(
            bufferingPolicy: .bufferingNewest(4096))
        let task = Task {
            do {
                try await body(continuation)
                continuation.finish()
            } catch is CancellationError {
                continuation.finish()
            } catch {
                continuation.finish(throwing: error)
            }
        }
        continuation.onTermination = { _ in task.cancel() }
        return stream
    }
}

extension Presence {
    /// Whether a change means that the device has come.
    fileprivate mutating func isComing(
        _ change: DeviceWatch.Change, at listeningTime: Duration, _ context: RadioContext
    ) -> Bool {
        let device = change.device
        guard change.kind != .gone else {
            forget(device.path)
            return false
        }
        noteConnection(device.path, isConnected: device.isConnected)
        let isHeard = change.kind == .heard || (change.kind == .present && device.rssi != nil)
        guard isHeard || device.isConnected, let address = device.address else { return false }
        return isComing(
            device.path, isConnected: device.isConnected, at: listeningTime, failures: context.failures(of: address))
    }
}

extension DeviceAddress {
    /// How bluetoothd writes it in a path: `AA_BB_CC_DD_EE_FF`.
    fileprivate var pathName: String { String(description.map { $0 == ":" ? "_" : $0 }) }
}

import GATTClient
import HealthReadings
import LibDBus

extension BlueZPeripheral {
    func characteristics() async throws -> [Characteristic] {
        let wire = try connected().wire
        for attempt in 0... {
            let objects: GATTObjects
            do throws(DBusError) {
                objects = GATTObjects(
                    of: path, in: try await managedObjects(wire.service.connection), logger: context.logger)
            } catch {
                throw error.radioError
            }
            guard wire.link.isConnected else { throw GATTError.disconnected }
            // The services may be told as resolved before they are shown.
            if objects.characteristics.isEmpty, attempt < 10 {
                try await Task.sleep(for: context.limits.pause)
                continue
            }
            session?.objects = objects
            return objects.characteristics
        }
        return []
    }

    /// The device's objects: in one answer that tells of all devices, or one by one where these are many.
    private func managedObjects(_ connection: DBusConnection) async throws(DBusError) -> ManagedObjects {
        if context.devices > RadioContext.mostTold {
            do throws(DBusError) {
                let own = try await ManagedObjects.attributes(of: path, connection)
                if !own.with(BlueZName.gattCharacteristic).isEmpty { return own }
            } catch {
                // The bus's policy may forbid introspection, and what has just gone shows below.
                guard case .remote = error else { throw error }
            }
        }
        return try await ManagedObjects.of(connection, .tree(at: path))
    }

    func read(_ characteristic: Characteristic) async throws -> CharacteristicValue {
        if characteristic.uuid == GATTObjects.batteryLevel, characteristic.valueHandle == GATTObjects.batteryHandle {
            return try await readBattery(characteristic)
        }
        let path = try await object(of: characteristic)
        let reply = try await ask(characteristic, path, "ReadValue", [.properties([:])], refusal: 0x02)
        let receivedAt = Instant.systemClock
        guard let octets = reply.first?.byteValues else {
            throw DBusError.unexpectedReply(expected: "ay", found: reply.signature).radioError
        }
        try connected().wire.removeEcho(of: octets, handle: characteristic.valueHandle)
        return CharacteristicValue(uuid: characteristic.uuid, octets: octets, receivedAt: receivedAt)
    }

    func write(_ octets: [UInt8], to characteristic: Characteristic, expectingResponse: Bool) async throws {
        let path = try await object(of: characteristic)
        let options: [String: DBusValue] = ["type": .string(expectingResponse ? "request" : "command")]
        _ = try await ask(
            characteristic, path, "WriteValue", [.bytes(octets), .properties(options)], refusal: 0x03)
    }

    func startNotifying(_ characteristic: Characteristic) async throws {
        let path = try await object(of: characteristic)
        let wire = try connected().wire
        // Before the call: the device may send before its answer has come.
        do throws(DBusError) { try await wire.notify(characteristic, at: path) } catch { throw error.radioError }
        session?.subscribed.append(path)
        do {
            _ = try await ask(characteristic, path, "StartNotify", refusal: 0x03)
        } catch RadioError.other(_, let message) where message == "Already notifying" {
            return
        } catch let error as GATTError {
            // A refusal leaves nothing behind; what ended otherwise may, and is stopped with the rest.
            if case .attribute = error { forget(path, wire) }
            throw error
        }
    }

    func stopNotifying(_ characteristic: Characteristic) async throws {
        guard let session, let path = session.objects?.path(of: characteristic), session.subscribed.contains(path)
        else {
            return
        }
        // A cancelled reader stops its notifications, too.
        let wire = session.wire
        await shieldedFromCancellation { await Self.stopNotify(path, wire) }
        forget(path, wire)
    }

    func keepNotifying() { session?.keepsNotifying = true }

    func nextValues(within timeout: Duration) async throws -> ValueBurst {
        guard let session else { return .disconnected }
        let wire = session.wire
        guard !session.hasGone else { return try await gone(wire) }
        let deadline = ContinuousClock.now + timeout
        while true {
            switch await wire.subscription.next(within: ContinuousClock.now.duration(to: deadline)) {
            case .signals(let signals):
                var values: [CharacteristicValue] = []
                values.reserveCapacity(signals.count)
                for signal in signals {
                    switch signal {
                    case .value(let value, _): values.append(value)
                    case .disconnected: self.session?.hasGone = true
                    case .lost:
                        self.session?.hasGone = true
                        self.session?.isLost = true
                    case .changed: break
                    }
                }
                // Before notifications are stopped: a daemon that has just died takes 10 s for that.
                if !values.isEmpty { return .values(values) }
                if self.session?.hasGone ?? true { return try await gone(wire) }
            case .silence: return .silence
            case .interrupted: continue
            case .ended: throw RadioError.lost
            case .cancelled: throw CancellationError()
            }
        }
    }

    /// The device has gone and may come again by itself: nothing of ours is to be enabled then.
    ///
    /// - Returns: the end, behind the last value.
    /// - Throws: ``RadioError/lost`` where the service left with it.
    private func gone(_ wire: PeripheralWire) async throws -> ValueBurst {
        let subscribed = session?.subscribed ?? []
        session?.subscribed = []
        await shieldedFromCancellation {
            for path in subscribed.reversed() { await Self.stopNotify(path, wire) }
        }
        if session?.isLost ?? false { throw RadioError.lost }
        return .disconnected
    }

    private func forget(_ path: String, _ wire: PeripheralWire) {
        wire.stopNotifying(at: path)
        if let index = session?.subscribed.lastIndex(of: path) { session?.subscribed.remove(at: index) }
    }

    private func object(of characteristic: Characteristic) async throws -> String {
        if try connected().objects == nil { _ = try await characteristics() }
        guard let path = try connected().objects?.path(of: characteristic) else {
            throw GATTError.noSuchCharacteristic(characteristic.uuid)
        }
        return path
    }

    /// The level the daemon read itself when it connected.
    private func readBattery(_ characteristic: Characteristic) async throws -> CharacteristicValue {
        let wire = try connected().wire
        let reply: [DBusValue]
        do throws(DBusError) {
            reply = try await wire.service.connection.call(
                BlueZName.service, path, BlueZName.properties, "Get",
                [.string(BlueZName.battery), .string("Percentage")])
        } catch {
            guard let remote = RemoteError(error), !remote.isLost, !remote.isWithoutService else {
                throw error.radioError
            }
            throw wire.link.isConnected
                ? GATTError.noSuchCharacteristic(characteristic.uuid) : GATTError.disconnected
        }
        guard let percent = reply.first?.intValue.flatMap({ UInt8(exactly: $0) }) else {
            throw DBusError.unexpectedReply(expected: "y", found: reply.signature).radioError
        }
        return CharacteristicValue(uuid: characteristic.uuid, octets: [percent], receivedAt: .systemClock)
    }
}

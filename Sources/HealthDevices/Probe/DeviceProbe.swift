import GATTClient
import GATTProfiles
import HealthReadings

/// Reads of a device what may safely be read, and makes a report of it.
///
/// Only values whose meaning the specifications give are asked for: another may be anything of a person, or may be gone once
/// it was read. No value is written, and none enabled, but for the requests that read an Omron monitor's memory. A device that
/// is not paired is asked for its device information alone: others may want a bond, and the system would begin to make one.
struct DeviceProbe {
    private let peripheral: any Peripheral
    private let catalogue: Catalogue
    private let key: [UInt8]?
    private let progress: @Sendable (Int, Int) async -> Void

    /// Values that are of the model, not of the device: what its services can do, and its battery.
    private static let values = uuids(.feature).union([BatteryLevel.uuid])
    /// Values that are of the device or of its owner's time.
    private static let hidden = uuids(.clock).union([SystemID.uuid])

    private static func uuids(_ role: CharacteristicProfile.Role) -> Set<BluetoothUUID> {
        Set(ServiceProfile.all.flatMap(\.characteristics).filter { $0.role == role }.map(\.uuid))
    }

    /// - Parameters:
    ///   - key: the secret of a device that was given one.
    ///   - progress: told how many octets of a memory were asked for, and of how many.
    init(
        _ peripheral: any Peripheral, catalogue: Catalogue, key: [UInt8]?,
        progress: @escaping @Sendable (Int, Int) async -> Void
    ) {
        (self.peripheral, self.catalogue, self.key, self.progress) = (peripheral, catalogue, key, progress)
    }

    /// Connects, reads and disconnects. What came before the device left is in the report.
    ///
    /// - Parameters:
    ///   - model: what it was paired as.
    ///   - isPaired: whether it is paired here without a bond.
    /// - Throws: `RadioError` and `GATTError` where there is no connection; `CancellationError`.
    func report(
        knownAs model: String?, isPaired: Bool = false, _ clock: any Clock<Duration>
    ) async throws -> DeviceReport {
        do {
            let elapsed = clock.stopwatch()
            _ = try await peripheral.connect()
            var report = DeviceReport(peripheral.advertisement, model: model)
            let isBonded = report.isPaired
            report.isPaired = isBonded || isPaired
            report.connectMilliseconds = elapsed().milliseconds
            let characteristics = try await peripheral.characteristics()
            report.discoveryMilliseconds = elapsed().milliseconds - report.connectMilliseconds
            report.model =
                model ?? catalogue.model(for: peripheral.advertisement, offering: OfferedServices(characteristics))?.id
            var serials: [String] = []
            report.attributes = characteristics.map { DeviceReport.Attribute(characteristic: $0, finding: nil) }
            do {
                for place in characteristics.indices {
                    report.attributes[place].finding = try await finding(of: characteristics[place], &serials)
                }
                report.memory = try await memory(characteristics)
            } catch let error as CancellationError {
                throw error
            } catch {
                switch error {
                // The system begins to pair where a value is refused for want of a bond, and nobody answers that. The
                // question and the pairing both wait for 30 s, and either may end first.
                case GATTError.disconnected where !isBonded, GATTError.timedOut where !isBonded:
                    report.failure = Self.wantsBond
                default: report.failure = ContactFailure(error)
                }
            }
            report.disguise(Disguise(address: peripheral.advertisement.address, serials: serials))
            await peripheral.disconnectSurely()
            return report
        } catch {
            await peripheral.disconnectSurely()
            throw error
        }
    }

    private static let wantsBond = ContactFailure(
        code: "not_paired", description: "the device did not tell its device information",
        hint: "it may tell that only to who is paired with it: pair it, and probe it again")

    // MARK: Values

    private func finding(
        of characteristic: Characteristic, _ serials: inout [String]
    ) async throws -> DeviceReport.Finding? {
        guard characteristic.properties?.contains(.read) != false else { return nil }
        let uuid = characteristic.uuid
        let kind = uuid.assignedNumber.flatMap(DeviceInformationString.Kind.init(rawValue:))
        let isOpen = kind != nil || uuid == SystemID.uuid
        guard isOpen || peripheral.advertisement.isPaired && (Self.values.contains(uuid) || Self.hidden.contains(uuid))
        else { return nil }
        let octets: [UInt8]
        do {
            octets = try await peripheral.read(characteristic).octets
        } catch GATTError.attribute(let code) {
            return .refused(code)
        } catch let error as GATTError where error != .disconnected && error != .timedOut {
            return .failed(error.description)
        }
        if Self.hidden.contains(uuid) { return .hidden(count: octets.count) }
        guard let kind else { return .value(octets) }
        let text = DeviceInformationString(decoding: octets)
        guard text.isFaithful else { return .hidden(count: octets.count) }
        guard kind == .serialNumber else { return .text(text.text) }
        serials.append(text.text)
        return .text(Disguise.template(text.text))
    }

    // MARK: An Omron's memory

    private func memory(_ characteristics: [Characteristic]) async throws -> DeviceReport.Memory? {
        let stack: OmronMemory.Stack
        if characteristics.contains(where: { $0.uuid == Omron.answers[1] }) {
            stack = .key
        } else {
            stack = characteristics.contains { $0.uuid == Omron.key } ? .bondAndEcho : .bond
        }
        guard let link = OmronLink(peripheral, characteristics, stack: stack) else { return nil }
        guard peripheral.advertisement.isPaired else {
            return .unread(
                ContactFailure(
                    code: "not_paired", description: "the monitor gives its memory only to who is paired with it",
                    hint: "pair it, as any model with the same link if it wants one"))
        }
        let key = key.flatMap { OmronKey($0) }
        guard stack != .key || key != nil else {
            return .unread(
                ContactFailure(
                    code: "omron_key_missing", description: "the monitor wants a key, and none is kept on this machine",
                    hint: "pair it as any model that wants a key"))
        }
        do {
            let map = try await peripheral.whileNotifying(link.notifying, farewell: link.farewell) {
                try await read(link, key)
            }
            let runs = map.runs
            var generator = SystemRandomNumberGenerator()
            return .omron(
                stack: stack.explanation,
                runs: OmronMap.disguised(runs, using: &generator, moving: OmronMap.hourly(runs)),
                areas: map.areas(beside: runs), clock: map.clock, models: OmronMap.models(of: runs, in: catalogue))
        } catch let error as TransferError {
            return .unread(ContactFailure(error))
        }
    }

    private func read(_ link: OmronLink, _ key: OmronKey?) async throws -> OmronMap {
        try await link.rest()
        try await link.unlock(key)
        return try await link.inSession {
            var map = OmronMap()
            for address in stride(from: 0, to: OmronMap.size, by: OmronMap.step) {
                await progress(address, OmronMap.size)
                guard let request = OmronRequest.read(OmronMap.step, at: UInt16(address)) else { break }
                do {
                    switch try await link.ask(request, received: address) {
                    case .answered(let octets, _, _): map.note(octets, at: UInt16(address))
                    case .refused(let code, _, _), .ended(let code, _, _):
                        map.noteRefusal(code, at: UInt16(address), count: OmronMap.step)
                    case .malformed: continue
                    }
                } catch let error as TransferError {
                    // What was read by then is worth a report.
                    guard !map.isEmpty else { throw error }
                    return map
                }
            }
            return map
        }
    }
}

extension DevicesManager {
    /// Reads of a device what may safely be read, known or not, and makes a report of it: from that, a model can be added
    /// to the catalogue.
    ///
    /// Nothing of the device changes. An Omron monitor's memory is read if it is paired; no other maker's is.
    ///
    /// - Parameters:
    ///   - address: the device; it need not be paired.
    ///   - timeout: how long it may take to be heard.
    ///   - progress: told how many octets of a memory were asked for, and of how many.
    /// - Throws: `RadioError`, `GATTError` where there is no connection, ``ContactFailure/barred(_:)``, the memory's error,
    ///   and `CancellationError`.
    public func probe(
        _ address: DeviceAddress, within timeout: Duration = .seconds(60),
        progress: @escaping @Sendable (_ done: Int, _ of: Int) async -> Void = { _, _ in }
    ) async throws -> DeviceReport {
        let known = try await bonded(address) ?? address
        guard try await !isBarred(known) else { throw ContactFailure.barred(known) }
        return try await inTurn(known) {
            let peripheral = try await radio.peripheral(known, within: timeout)
            let probe = DeviceProbe(
                peripheral, catalogue: catalogue, key: try await secrets?.secret(of: known), progress: progress)
            let isPaired = try await isPaired(peripheral.advertisement)
            return try await probe.report(
                knownAs: try await pairings.model(of: known), isPaired: isPaired, clock)
        }
    }
}

extension Duration {
    fileprivate var milliseconds: Int64 { Int64(self / .milliseconds(1)) }
}

import FreeStyleLibre
import HealthReadings

/// A sensor's memory by itself, as `libre decode` shows it: its readings as a store would hold them that was empty before.
public struct SensorDump: Sendable {
    private let memory: LibreMemory
    private let uid: SensorUID?
    private let patchInformation: PatchInformation?
    private let scannedAt: Instant?

    /// - Parameters:
    ///   - memory: the memory that was read.
    ///   - uid: the sensor's number; without it no serial number and no ids are known.
    ///   - patchInformation: what the sensor told of its model.
    ///   - scannedAt: when the memory was read; without it no times are known.
    public init(memory: LibreMemory, uid: SensorUID?, patchInformation: PatchInformation?, scannedAt: Instant?) {
        self.memory = memory
        self.uid = uid
        self.patchInformation = patchInformation
        self.scannedAt = scannedAt
    }

    /// `{"sensor", "readings"}`.
    public var document: JSONValue {
        .object([
            "sensor": memory.document(uid: uid, patchInformation: patchInformation),
            "readings": .array(
                readings.map { reading in
                    guard uid == nil, case .object(var members) = reading.document,
                        let id = members.firstIndex(where: { $0.key == "id" })
                    else { return reading.document }
                    members[id] = .init("id", .null)
                    return .object(members)
                }),
        ])
    }

    /// The sensor and its readings for people.
    public var lines: [String] {
        let scan = uid.map {
            LibreScan(uid: $0, patchInformation: patchInformation ?? PatchInformation([]), memory: memory)
        }
        let age = memory.ageMinutes.map { "\($0) min old" }
        let sensor =
            scan?.line ?? ["FreeStyle Libre", memory.state?.name, age].compactMap(\.self).joined(separator: "  ")
        return [sensor] + readings.map(\.line)
    }

    /// Why there are no readings; nil where the memory's body is whole.
    public var fault: String? {
        memory.isBodyRight ? nil : "the CRC of the memory's body is wrong, so nothing in it can be trusted"
    }

    private var readings: [Reading] {
        let serial = uid.map { $0.serialNumber(family: patchInformation?.family ?? 0) }
        guard let scan = memory.sensorScan(serial: serial ?? "") else { return [] }
        var life = Libre1Life(serial: scan.serial)
        if let scannedAt { life.note(scan, scannedAt: scannedAt) }
        return scan.readings(of: LibreScan.device(serial: serial), in: life, scannedAt: scannedAt)
    }
}

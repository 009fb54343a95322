import HealthReadings

/// One reading of a sensor: all that is stored of it, undecoded.
public struct LibreScan: Sendable, Hashable {
    /// The sensor's number.
    public let uid: SensorUID
    /// What it told of its model; empty where the reader could not ask.
    public let patchInformation: PatchInformation
    /// Its memory.
    public let memory: LibreMemory

    /// Makes a scan.
    public init(uid: SensorUID, patchInformation: PatchInformation, memory: LibreMemory) {
        self.uid = uid
        self.patchInformation = patchInformation
        self.memory = memory
    }

    /// The most octets of patch information a sensor is known to send.
    public static let longestPatchInformation = 24

    /// Takes the payload of a frame of the format `FrameFormat.libre1Scan`.
    /// - Throws: `MalformedFrame` for any other length than its own octets ask for, or a UID that is none.
    public init(payload: [UInt8]) throws(MalformedFrame) {
        func missing(_ what: String) -> MalformedFrame {
            Self.error(
                "\(what)", at: payload.count,
                found: "the end after \(payload.count) octet\(payload.count == 1 ? "" : "s")")
        }
        guard payload.count >= 9 else {
            throw missing(payload.count < 8 ? "UID (8 octets)" : "count of patch information")
        }
        let uid = try SensorUID(onAir: payload[..<8])
        let count = Int(payload[8])
        guard count <= Self.longestPatchInformation else {
            throw Self.error(
                "at most \(Self.longestPatchInformation) octets of patch information", at: 8, found: "\(count)")
        }
        guard payload.count >= 9 + count else { throw missing("patch information (\(count) octets)") }
        let whole = 9 + count + LibreMemory.size
        guard payload.count >= whole else { throw missing("memory (\(LibreMemory.size) octets)") }
        guard payload.count == whole else {
            throw Self.error("the end after the memory", at: whole, found: "\(payload.count - whole) more")
        }
        self.init(
            uid: uid, patchInformation: PatchInformation(Array(payload[9..<(9 + count)])),
            memory: try LibreMemory(Array(payload[(9 + count)...])))
    }

    /// The payload of a frame of the format `FrameFormat.libre1Scan`. Patch information beyond 24 octets is left out.
    public var payload: [UInt8] {
        let patch = patchInformation.octets.prefix(Self.longestPatchInformation)
        return uid.octetsOnAir + [UInt8(patch.count)] + patch + memory.octets
    }

    /// The serial number as printed on the sensor; without patch information, of a FreeStyle Libre 1.
    public var serial: String { uid.serialNumber(family: patchInformation.family ?? 0) }

    /// The sensor that is not read, where it is none of ours: its memory says nothing here.
    public var foreignSensor: ForeignSensor? {
        patchInformation.octets.isEmpty ? nil : ForeignSensor(patchInformation)
    }

    /// What the scan says; nil where nothing can be said of any record and of the sensor's age, because the body's CRC is
    /// wrong or the sensor is a foreign one.
    public var sensorScan: SensorScan? { foreignSensor == nil ? memory.sensorScan(serial: serial) : nil }

    /// The sensor as documents show it.
    public var document: JSONValue { memory.document(uid: uid, patchInformation: patchInformation) }

    private static func error(_ expected: String, at octet: Int, found: String) -> MalformedFrame {
        MalformedFrame(subject: "FreeStyle Libre 1 scan", expected: expected, octet: octet, found: found)
    }
}

extension LibreMemory {
    /// The sensor as documents show it: every key always there, null where it is not known or its part's CRC is wrong.
    /// - Parameters:
    ///   - uid: the sensor's number; a dump alone does not hold it.
    ///   - patchInformation: what the sensor told of its model; a dump alone does not hold it.
    public func document(uid: SensorUID?, patchInformation: PatchInformation?) -> JSONValue {
        let patch = patchInformation.flatMap { $0.octets.isEmpty ? nil : $0 }
        return .object([
            "serial": .optional(uid?.serialNumber(family: patch?.family ?? 0)),
            "uid": .optional(uid?.description),
            "type": .optional(patch?.model.rawValue),
            "state": .optional(state?.name),
            "age_minutes": .optional(ageMinutes),
            "max_life_minutes": .optional(maximumLifeMinutes),
            "region": .optional(region?.name),
            "crc": .object(["header": .bool(isHeaderRight), "body": .bool(isBodyRight), "footer": .bool(isFooterRight)]
            ),
            "life_left_minutes": .optional(lifeLeftMinutes),
            "initialisations": .optional(initialisations),
            "error_code": .optional(failure?.code),
            "failed_at_minutes": .optional(failure?.ageMinutes),
            "calibration_fault": .optional(calibrationFault?.rawValue),
            "trend_fault": .optional(trendFault?.rawValue),
            "history_fault": .optional(historyFault?.rawValue),
        ])
    }
}

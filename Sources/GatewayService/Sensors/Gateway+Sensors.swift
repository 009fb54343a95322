import FreeStyleLibre
import HealthDevices
import HealthReadings
import ISO15693Reader
import LibreReader
import ReadingStore
import Synchronization

/// A scan that is stored, and what became of it.
struct StoredScan: Sendable {
    var scan: LibreScan
    /// What became of the frame and its records.
    var outcomes: [FrameOutcome]
    /// The readings of its records, oldest minute first.
    var readings: [Reading]

    /// How many of them are new.
    var new: Int { outcomes.count { if case .new = $0 { true } else { false } } }
    /// Why it holds no readings.
    var fault: MalformedFrame? {
        for case .malformed(let error) in outcomes { return error }
        return nil
    }

    /// `{"sensor", "readings"}`.
    var document: JSONValue {
        .object(["sensor": scan.document, "readings": .array(readings.map(\.document))])
    }
}

extension Gateway {
    /// The catalogue's id of the sensors that are read.
    static let sensorModel = "freestyle_libre"

    /// Where sensors are held to: the desk of `nfc.reader`, or one of its own for another reader.
    ///
    /// - Parameter setting: a reader in the form of `nfc.reader`; nil for that itself.
    /// - Throws: ``Problem`` where none is set, or what is set names none.
    func sensorDesk(_ setting: String? = nil) throws -> SensorDesk {
        let configured = settings["nfc.reader"]
        guard let name = setting ?? configured else {
            throw Problem(
                "no_reader_set", .unavailable, "no NFC reader is set",
                hint: "see `healthrelay nfc readers`, then set `nfc.reader` or give `--reader`")
        }
        guard name == configured else { return SensorDesk(try NFCReaders().reader(name)) }
        return try desk.withLock { desk in
            if let desk { return desk }
            let made = SensorDesk(try NFCReaders().reader(name))
            desk = made
            return made
        }
    }

    /// Makes a scan durable, with its readings. Nothing else has happened to it before.
    ///
    /// - Throws: ``Problem`` where this machine's clock is in doubt: a sensor's start is taken from it once, and all its
    ///   minutes with it.
    func store(_ scan: LibreScan, at instant: Instant) async throws -> StoredScan {
        if let problem = await clockProblem() { throw problem }
        let model = catalogue[Self.sensorModel]
        let contact = try await store.beginContact(
            with: DeviceDescription(
                address: nil, model: Self.sensorModel, serial: scan.serial, name: model?.name,
                provider: model.map(provider(of:)) ?? "manual"),
            at: instant, clock: nil, batteryPercent: nil)
        let frame = Frame(format: .libre1Scan, payload: scan.payload, receivedAt: instant, ordinal: 0)
        let outcomes = try await store.append([frame], of: contact)
        var stored = StoredScan(scan: scan, outcomes: outcomes, readings: [])
        for outcome in outcomes {
            switch outcome {
            case .new(let reading), .clash(let reading, _): stored.readings.append(reading)
            case .repeated(let id): if let reading = try await store.reading(id) { stored.readings.append(reading) }
            case .revised(let reading):
                // A minute's trend record, by the history record that came with it or after it.
                if let place = stored.readings.firstIndex(where: { $0.id == reading.id }) {
                    stored.readings[place] = reading
                }
            case .waiting, .nothing, .malformed: break
            }
        }
        let isWhole = stored.fault == nil
        try await store.endContact(
            contact,
            ContactSummary(
                isComplete: isWhole, error: isWhole ? nil : "sensor_memory_damaged", received: stored.readings.count))
        return stored
    }
}

extension LibreScan {
    /// The sensor on one line for people.
    var line: String {
        var parts = ["FreeStyle Libre \(serial)", memory.state.map(\.words) ?? "state unknown"]
        if let age = memory.ageMinutes { parts.append("\(Self.days(age)) old") }
        if let left = memory.lifeLeftMinutes, memory.state == .active { parts.append("\(Self.days(left)) left") }
        if let fault = memory.calibrationFault {
            parts.append("no values: \(fault.rawValue.replacing("_", with: " "))")
        }
        return parts.joined(separator: "  ")
    }

    /// What a person must know of the sensor's state; nil for one that measures.
    var warning: String? {
        switch memory.state {
        case .active, nil: nil
        case .notActivated: "the sensor is not activated: start it with the manufacturer's reader or application"
        case .warmingUp: "the sensor is warming up for its first hour: its values are kept and not delivered"
        case .expired: "the sensor has expired: its values are kept and not delivered"
        case .shutDown: "the sensor has shut down and no longer measures"
        case .failure:
            "the sensor has failed: its values are kept and not delivered; ask the manufacturer for a replacement"
        case .unknown(let number): "the sensor's state is \(number), which has no public meaning: nothing is delivered"
        }
    }

    private static func days(_ minutes: UInt16) -> String {
        let (days, hours) = (minutes / 1440, minutes % 1440 / 60)
        return days == 0 ? "\(hours) h \(minutes % 60) min" : "\(days) d \(hours) h"
    }
}

extension SensorState {
    fileprivate var words: String { name.replacing("_", with: " ") }
}

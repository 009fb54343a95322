import FreeStyleLibre
import GatewaySettings
import HealthDevices
import HealthReadings
import ISO15693Reader
import LibreReader
import ReadingStore
import Synchronization

/// A scan that is stored, and what became of it.
package struct StoredScan: Sendable {
    package var scan: LibreScan
    /// What became of the frame and its records.
    package var outcomes: [FrameOutcome]
    /// The readings of its records, oldest minute first.
    package var readings: [Reading]
    /// Who is taken to wear a sensor that is new; `nil` for another, and while there is one person only.
    package var newWearer: String?

    /// How many of them are new.
    package var new: Int { outcomes.count { if case .new = $0 { true } else { false } } }
    /// Why it holds no readings.
    package var fault: MalformedFrame? {
        for case .malformed(let error) in outcomes { return error }
        return nil
    }

    /// Whose a new sensor is taken to be, where there are several people.
    ///
    /// - Parameter showsName: whether the person may be named.
    package func wearerNote(showsName: Bool) -> String? {
        guard let newWearer else { return nil }
        let person = showsName ? newWearer : "the current person"
        return
            "the sensor is new, and its readings are \(person)'s: if somebody else wears it, `healthrelay move` them, "
            + "and its next ones are that person's too"
    }

    /// `{"sensor", "readings"}`.
    package var document: JSONValue {
        .object(["sensor": scan.document, "readings": .array(readings.map(\.document))])
    }
}

/// The readers of sensors, and the way of a scan into the store.
package final class Sensors: Sendable {
    private let settings: LiveSettings
    private let store: ReadingStore
    private let catalogue: Catalogue
    private let clock: GatewayClock
    /// The reader that the settings name, once it is needed.
    private let configured = Mutex<SensorDesk?>(nil)

    init(_ settings: LiveSettings, store: ReadingStore, catalogue: Catalogue, clock: GatewayClock) {
        self.settings = settings
        self.store = store
        self.catalogue = catalogue
        self.clock = clock
    }

    /// Where sensors are held to: the desk of `nfc.reader`, or one of its own for another reader.
    ///
    /// - Parameter setting: a reader in the form of `nfc.reader`; nil for that itself.
    /// - Throws: `Problem` where none is set, or what is set names none.
    package func desk(_ setting: String? = nil) throws -> SensorDesk {
        let named = settings.current["nfc.reader"]
        guard let name = setting ?? named else {
            throw Problem(
                "no_reader_set", .unavailable, "no NFC reader is set",
                hint: "see `healthrelay nfc readers`, then set `nfc.reader` or give `--reader`")
        }
        guard name == named else { return SensorDesk(try NFCReaders().reader(name)) }
        return try configured.withLock { desk in
            if let desk { return desk }
            let made = SensorDesk(try NFCReaders().reader(name))
            desk = made
            return made
        }
    }

    /// Why this machine's clock is not to be trusted with a scan; `nil` where nothing speaks against it.
    ///
    /// A scan by which the sensor started earlier than is known would move the times of all readings to come, so the clock has
    /// to be proven then: one that lost time while the machine was off is behind. A few minutes are no such loss, but a clock
    /// that was fast when the start was fixed, and is right now. A later start corrects one that was fixed under a clock that
    /// was behind.
    package func doubt(of scan: LibreScan, at instant: Instant) async throws -> ClockDoubt? {
        if let doubt = await clock.doubt() { return doubt }
        guard let sensor = scan.sensorScan, sensor.isRunning,
            let start = try await store.sensor(serial: scan.serial, model: LibreScan.model)?.start
        else { return nil }
        let shown = SensorTime(scannedAt: instant, ageMinutes: sensor.ageMinutes)
        return await clock.isContradicted(by: start.seconds - shown.start.seconds) ? .againstSensor : nil
    }

    /// Makes a scan durable, with its readings. Nothing else has happened to it before.
    ///
    /// - Throws: `Problem` while this machine's clock is in doubt: the sensor's start, and so the time of every reading,
    ///   is set by the first scan.
    package func store(_ scan: LibreScan, at instant: Instant) async throws -> StoredScan {
        if let doubt = try await doubt(of: scan, at: instant) { throw Problem(doubt.failure) }
        let isNew = try await store.sensor(serial: scan.serial, model: LibreScan.model)?.start == nil
        let model = catalogue[LibreScan.model]
        var contact = try await store.beginContact(
            with: DeviceDescription(
                address: nil, model: LibreScan.model, serial: scan.serial, name: model?.name,
                provider: model.map(settings.current.provider(of:)) ?? "manual"),
            at: instant, clock: nil, batteryPercent: nil)
        // Somebody has reset the sensor: it counts its minutes anew, and they are none of its former life.
        if let sensor = scan.sensorScan, try await store.isRestarted(sensor, in: contact, scannedAt: instant) {
            contact = try await store.beginSequenceEpoch(in: contact)
        }
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
        if isNew, stored.new > 0, let people = try? await store.users(), people.count(where: \.hasName) > 1 {
            stored.newWearer = stored.readings.first?.person
        }
        return stored
    }

    /// Lets go of the reader, where one was used.
    func close() async { await configured.withLock(\.self)?.close() }
}

extension LibreScan {
    /// The catalogue's id of the sensors that are read.
    static let model = "freestyle_libre"

    /// The sensor on one line for people.
    package var line: String {
        var parts = ["FreeStyle Libre \(serial)", memory.state.map(\.words) ?? "state unknown"]
        if let age = memory.ageMinutes { parts.append("\(Self.days(age)) old") }
        if let left = memory.lifeLeftMinutes, memory.state == .active { parts.append("\(Self.days(left)) left") }
        if let fault = memory.calibrationFault {
            parts.append("no values: \(fault.rawValue.replacing("_", with: " "))")
        }
        return parts.joined(separator: "  ")
    }

    /// What a person must know of the sensor; nil for one that measures, and whose records are at known minutes.
    package var warning: String? {
        switch memory.state {
        case .active, nil: ringWarning
        case .notActivated: "the sensor is not activated: start it with the manufacturer's reader or application"
        case .warmingUp: "the sensor is warming up for its first hour: its values are kept and not delivered"
        case .expired: "the sensor has expired: values after its end are kept and not delivered"
        case .shutDown: "the sensor has shut down and no longer measures"
        case .failure:
            "the sensor has failed: its values are kept and not delivered; ask the manufacturer for a replacement"
        case .unknown(let number): "the sensor's state is \(number), which has no public meaning: nothing is delivered"
        }
    }

    /// Why records are not kept, although the memory is whole.
    private var ringWarning: String? {
        let rings = [("its values of each minute", memory.trendFault), ("its history", memory.historyFault)]
            .filter { _, fault in fault != nil && fault != .bodyCRC }
            .map { name, _ in name }
        guard !rings.isEmpty else { return nil }
        return "the sensor's age contradicts its memory, as after a reset of the age alone: the times of "
            + "\(rings.joined(separator: " and ")) are unknown, and nothing of that is kept as a reading"
    }

    private static func days(_ minutes: UInt16) -> String {
        let (days, hours) = (minutes / 1440, minutes % 1440 / 60)
        return days == 0 ? "\(hours) h \(minutes % 60) min" : "\(days) d \(hours) h"
    }
}

extension StoreUser {
    /// Whether anybody has named them.
    fileprivate var hasName: Bool { !clientUserID.isEmpty }
}

extension SensorState {
    fileprivate var words: String { name.replacing("_", with: " ") }
}

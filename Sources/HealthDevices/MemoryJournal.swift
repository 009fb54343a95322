import HealthReadings
import Synchronization

/// Keeps readings and devices in memory, for as long as the process runs.
///
/// For programs that keep readings in a place of their own, or only show them. Nothing is durable: a meter that deletes
/// its records once they are confirmed has then lost them. Use a store for such meters.
///
/// Readings have the ids and times that an empty store would give them. Memory grows with the readings. Scans of sensors
/// are not kept.
///
/// ```swift
/// let journal = MemoryJournal(timeZone: zone)
/// let manager = DevicesManager(radio: radio, keepingIn: journal)
/// for reading in try await manager.readings(of: address).usable { print(reading.document.text) }
/// print(journal.readings.count)
/// ```
public final class MemoryJournal: FrameJournal, DeviceMemory, PairingMemory {
    private let decoder: any FrameDecoding
    private let zone: ZoneRules
    private let state: Mutex<MemoryState>

    /// Creates an empty journal.
    ///
    /// - Parameters:
    ///   - decoder: decodes frames.
    ///   - timeZone: the user's zone, in which meters without a readable clock are taken to show their time.
    ///   - person: the id of the person whose readings these are (`Reading.person`).
    public init(decoder: any FrameDecoding = ModelFrameDecoder(), timeZone: ZoneRules, person: String? = nil) {
        self.decoder = decoder
        zone = timeZone
        state = Mutex(MemoryState(person: person))
    }

    /// All readings, in the order in which they came.
    public var readings: [Reading] { state.withLock { $0.readings } }

    /// The reading with this id; `nil` if there is none.
    public func reading(_ id: ReadingID) -> Reading? { state.withLock { $0.reading(id) } }

    // MARK: Frames

    /// Keeps the readings of these frames. Nothing is durable.
    public func append(_ frames: [Frame], of contact: Contact) async throws -> [FrameOutcome] {
        state.withLock { state in
            let times = state.times(of: contact, in: zone)
            return frames.map { state.add($0, of: contact, decoder, times) }
        }
    }

    // MARK: Devices

    /// Begins a contact and remembers the device by its address and serial number.
    public func beginContact(
        with device: DeviceDescription, at start: Instant, clock: ClockReading?, batteryPercent: UInt8?
    ) async throws -> Contact {
        state.withLock { $0.beginContact(with: device, at: start, clock: clock, in: zone) }
    }

    /// Notes what a device's clock shows in a contact that goes on. Records that were made before it was set are placed by
    /// what it showed then.
    public func noteClock(_ clock: ClockReading, in contact: Contact) async throws -> Contact {
        state.withLock { $0.note(clock, in: contact, zone) }
        var contact = contact
        contact.clock = clock
        return contact
    }

    /// The record of the contact's sequence epoch that has the highest number; `nil` if there is none.
    public func lastRecord(of contact: Contact) async throws -> LastRecord? {
        state.withLock { $0.lastRecord(of: contact) }
    }

    /// How the device's contact before this one ended; `nil` where there was none, or it never ended.
    public func previousSummary(before contact: Contact) async throws -> ContactSummary? {
        state.withLock { $0.previousSummary(before: contact) }
    }

    /// Which of these recordings of the contact's device are known.
    public func recordings(of contact: Contact, beganAt starts: [WallTime]) async throws -> [WallTime: Set<Int>] {
        state.withLock { $0.recordings(of: contact, beganAt: starts) }
    }

    /// Begins a new sequence epoch of the contact's device.
    public func beginSequenceEpoch(in contact: Contact) async throws -> Contact {
        state.withLock { $0.beginSequenceEpoch(in: contact) }
    }

    /// Ends a contact and remembers whether it was complete.
    public func endContact(_ contact: Contact, _ summary: ContactSummary) async throws {
        state.withLock { $0.endContact(contact, summary) }
    }

    // MARK: Bonds

    /// The devices that were met or paired since the process began.
    public func pairings() async throws -> [DevicePairing] { state.withLock { $0.devices.map(\.pairing) } }

    /// Remembers how the bond with a device stands.
    public func notePairing(of device: DeviceDescription, as pairing: PairingState) async throws {
        state.withLock { $0.note(device, as: pairing) }
    }

    /// Remembers how the bond with a device stands. No device is ever barred.
    public func admit(_ device: DeviceDescription, as pairing: PairingState) async throws {
        state.withLock { $0.note(device, as: pairing) }
    }
}

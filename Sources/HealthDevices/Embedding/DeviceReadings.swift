import HealthReadings
import Synchronization

/// What reading a device has brought, as values.
public struct DeviceReadings: Sendable, Hashable {
    /// The device, with what is known of it.
    public internal(set) var device: DeviceDescription
    /// The readings that were not known before, in the order in which they came; where all records were asked for, also those
    /// that were (``DevicesManager/readings(of:within:allRecords:report:)``).
    public internal(set) var readings: [Reading] = []
    /// Readings that were known before, and differ now: a context that came, a status that changed.
    public internal(set) var revised: [Reading] = []
    /// Frames that are no records, and why: they say nothing of what the others hold.
    public internal(set) var malformed: [MalformedFrame] = []
    /// How many records came, those that were known included.
    public internal(set) var received = 0
    /// How many records the device said it would send, where it can count.
    public internal(set) var announced: Int?
    /// Why not everything came; `nil` where everything did. The next reading brings the rest.
    public internal(set) var failure: ContactFailure?

    /// Whether everything came.
    public var isComplete: Bool { failure == nil }
    /// Those of ``readings`` that are a person's values: without control solution, damaged records, and the like
    /// (`Reading.excluded`).
    public var usable: [Reading] { readings.filter { $0.excluded == nil } }
}

/// Collects what a transfer tells.
final class ReadingCollector: Sendable {
    fileprivate struct State {
        var found: DeviceReadings?
        /// The places of readings, by their ids.
        var places: [ReadingID: Int] = [:]
        var revisedPlaces: [ReadingID: Int] = [:]
    }

    private let state: Mutex<State>
    private let lookup: @Sendable (ReadingID) -> Reading?

    /// - Parameters:
    ///   - earlier: what came before and nobody was told of.
    ///   - lookup: the reading with an id that came again; `nil` for one that is not wanted.
    init(_ earlier: DeviceReadings? = nil, lookup: @escaping @Sendable (ReadingID) -> Reading?) {
        self.lookup = lookup
        var state = State(found: earlier)
        for (place, reading) in (earlier?.readings ?? []).enumerated() { state.places[reading.id] = place }
        for (place, reading) in (earlier?.revised ?? []).enumerated() { state.revisedPlaces[reading.id] = place }
        self.state = Mutex(state)
    }

    func note(_ event: TransferEvent) {
        state.withLock { state in
            switch event {
            case .began(let contact):
                // A transfer that was joined may be given up by whoever had begun it, and begun again: what it brought stays.
                state.found = state.found ?? DeviceReadings(device: contact.device)
                state.found?.device = contact.device
            case .progress(let received, let announced):
                state.found?.received = received
                if let announced { state.found?.announced = announced }
            case .stored(let outcomes): for outcome in outcomes { state.add(outcome, lookup) }
            case .ended(let summary):
                state.found?.received = summary.received
                state.found?.announced = summary.announced
                state.found?.failure = ContactFailure(summary)
            }
        }
    }

    /// What came; `nil` where the device was not reached.
    var found: DeviceReadings? { state.withLock(\.found) }
}

/// What was read of devices on the connection on which they were paired. Whoever pairs is told of no readings, and a journal in
/// memory has them as known from then on: whoever reads the device next is told of them.
final class PairingReadings: Sendable {
    /// By the 48 bits of addresses: who types an address does not know its type.
    private let found = Mutex<[UInt64: DeviceReadings]>([:])

    func keep(_ readings: DeviceReadings, of address: DeviceAddress) {
        found.withLock { $0[address.bits] = readings }
    }

    /// What is kept of a device; it is kept no longer.
    func take(_ address: DeviceAddress) -> DeviceReadings? {
        found.withLock { $0.removeValue(forKey: address.bits) }
    }
}

extension ReadingCollector.State {
    fileprivate mutating func add(_ outcome: FrameOutcome, _ lookup: (ReadingID) -> Reading?) {
        switch outcome {
        case .new(let reading), .clash(let reading, _): put(reading)
        case .revised(let reading):
            if let place = places[reading.id] {
                found?.readings[place] = reading
            } else if let reading = lookup(reading.id) {
                put(reading)
            } else if let place = revisedPlaces[reading.id] {
                found?.revised[place] = reading
            } else {
                revisedPlaces[reading.id] = found?.revised.count
                found?.revised.append(reading)
            }
        case .repeated(let id): if places[id] == nil, let reading = lookup(id) { put(reading) }
        case .malformed(let frame): found?.malformed.append(frame)
        case .waiting, .nothing: break
        }
    }

    private mutating func put(_ reading: Reading) {
        places[reading.id] = found?.readings.count
        found?.readings.append(reading)
    }
}

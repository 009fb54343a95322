import HealthReadings

/// What a ``MemoryJournal`` has in memory, by the rules that a store follows.
struct MemoryState {
    struct Device {
        var pairing: DevicePairing
        var epoch = 0
        var lastContactWasComplete = false
    }

    private struct CurrentContact {
        var device: Int
        /// Whether the device's contact before this one ended, and ended complete.
        var followsComplete: Bool
        /// The places of the readings that contexts of this contact can name.
        var records: [UInt16: Int] = [:]
        /// Contexts that came before their records.
        var contexts: [UInt16: GlucoseContext] = [:]
    }

    private struct Numbered {
        var device: Int
        var epoch: Int
        var place: Int
    }

    /// Whose readings these are.
    let person: String?
    private(set) var readings: [Reading] = []
    private(set) var devices: [Device] = []
    private var places: [ReadingID: Int] = [:]
    private var numbered: [Numbered] = []
    private var contacts: [Int64: CurrentContact] = [:]
    private var contactCount: Int64 = 0

    init(person: String?) { self.person = person }

    // MARK: Frames

    mutating func add(
        _ frame: Frame, of contact: Contact, _ decoder: any FrameDecoding, _ times: TimeResolution
    ) -> FrameOutcome {
        switch decoder.decode(frame, model: contact.device.model) {
        case .record(let record): add(record, frame, of: contact, decoder, times)
        case .glucoseContext(let sequence, let context): add(context, of: sequence, in: contact)
        case .malformed(let error): .malformed(error)
        case .sensor, .nothing: .nothing
        }
    }

    private mutating func add(
        _ record: Record, _ frame: Frame, of contact: Contact, _ decoder: any FrameDecoding, _ times: TimeResolution
    ) -> FrameOutcome {
        let model = contact.device.model
        let number =
            record.value.kind == .glucose ? decoder.passingNumber(of: frame, model: model) ?? record.sequence : nil
        let (id, known, other) = find(record, frame, of: contact)
        if let place = known {
            let context = number.flatMap { join($0, place, in: contact) }
            return revise(place, record, context) ? .revised(readings[place]) : .repeated(id)
        }
        let time = times.resolve(
            record, receivedAt: frame.receivedAt, byBaseTime: decoder.clockShowsBaseTime(model: model)
        ) { precedingInstant(of: record, in: contact) }
        let context = number.flatMap { join($0, readings.count, in: contact) }
        let reading = Reading(
            id: id, record: record, context: context, device: contact.device, time: time,
            person: person,
            excluded: record.exclusion(with: context)
                ?? TimeResolution.exclusion(of: time, receivedAt: frame.receivedAt),
            receivedAt: frame.receivedAt)
        places[id] = readings.count
        if record.sequence != nil, let device = contacts[contact.id]?.device {
            numbered.append(Numbered(device: device, epoch: contact.sequenceEpoch, place: readings.count))
        }
        readings.append(reading)
        return other.map { .clash(reading, with: $0) } ?? .new(reading)
    }

    /// The record's id, its place if it is known, and the reading whose key it shares with another value.
    private func find(
        _ record: Record, _ frame: Frame, of contact: Contact
    ) -> (id: ReadingID, place: Int?, clashing: ReadingID?) {
        func id(epoch: Int, clash: Int) -> ReadingID {
            ReadingIdentity(of: record, epoch: epoch, frame: frame, contactStart: contact.startedAt, clash: clash)
                .id(device: identity(of: contact), kind: record.value.kind)
        }
        var (clash, other): (Int, ReadingID?) = (0, nil)
        while true {
            let wanted = id(epoch: contact.sequenceEpoch, clash: clash)
            guard let place = places[wanted] else {
                // A device that is read from its first record may still hold records of earlier epochs.
                guard clash == 0, record.sequence != nil, record.baseTime != nil else { return (wanted, nil, other) }
                for epoch in (0..<contact.sequenceEpoch).reversed() {
                    let earlier = id(epoch: epoch, clash: 0)
                    if let place = places[earlier], readings[place].record == record { return (earlier, place, nil) }
                }
                return (wanted, nil, other)
            }
            if readings[place].record.value == record.value { return (wanted, place, nil) }
            other = other ?? wanted
            clash += 1
        }
    }

    /// Notes what a device says anew of a record; returns whether anything differs. Its time stays.
    private mutating func revise(_ place: Int, _ record: Record, _ context: GlucoseContext?) -> Bool {
        let before = readings[place]
        readings[place].record = record
        readings[place].context = context ?? before.context
        readings[place].excluded =
            record.exclusion(with: readings[place].context)
            ?? TimeResolution.exclusion(of: before.time, receivedAt: before.receivedAt)
        return readings[place] != before
    }

    /// Remembers which reading a number names in this contact; returns the context that has come for it.
    private mutating func join(_ number: UInt16, _ place: Int, in contact: Contact) -> GlucoseContext? {
        contacts[contact.id]?.records[number] = place
        return contacts[contact.id]?.contexts.removeValue(forKey: number)
    }

    private mutating func add(_ context: GlucoseContext, of number: UInt16, in contact: Contact) -> FrameOutcome {
        guard let place = contacts[contact.id]?.records[number] else {
            contacts[contact.id]?.contexts[number] = context
            return .waiting
        }
        let isNew = revise(place, readings[place].record, context)
        return isNew ? .revised(readings[place]) : .repeated(readings[place].id)
    }

    /// The instant of the nearest record with a lower number in the same epoch.
    private func precedingInstant(of record: Record, in contact: Contact) -> Instant? {
        guard let sequence = record.sequence else { return nil }
        let lower = records(of: contact).filter { ($0.record.sequence ?? .max) < sequence && $0.time.instant != nil }
        return lower.max { ($0.record.sequence ?? 0) < ($1.record.sequence ?? 0) }?.time.instant
    }

    // MARK: Devices

    mutating func beginContact(
        with device: DeviceDescription, at start: Instant, clock: ClockReading?
    ) -> Contact {
        let index = know(device)
        contactCount += 1
        contacts[contactCount] = CurrentContact(
            device: index, followsComplete: devices[index].lastContactWasComplete)
        // A contact that never ends counts as cut.
        devices[index].lastContactWasComplete = false
        var known = devices[index].pairing.device
        known.name = device.name ?? known.name
        known.provider = device.provider
        return Contact(
            id: contactCount, device: known, startedAt: start, sequenceEpoch: devices[index].epoch, clock: clock)
    }

    func lastRecord(of contact: Contact) -> LastRecord? {
        let records = records(of: contact).map(\.record)
        guard let last = records.max(by: { ($0.sequence ?? 0) < ($1.sequence ?? 0) }), let sequence = last.sequence
        else { return nil }
        return LastRecord(
            sequence: sequence, baseTime: last.baseTime, count: Set(records.map(\.sequence)).count,
            followsCompleteTransfer: contacts[contact.id]?.followsComplete ?? false)
    }

    mutating func beginSequenceEpoch(in contact: Contact) -> Contact {
        var renewed = contact
        renewed.sequenceEpoch += 1
        contacts[contact.id]?.records = [:]
        if let device = contacts[contact.id]?.device { devices[device].epoch = renewed.sequenceEpoch }
        return renewed
    }

    mutating func endContact(_ contact: Contact, _ summary: ContactSummary) {
        guard let ended = contacts.removeValue(forKey: contact.id) else { return }
        devices[ended.device].lastContactWasComplete = summary.isComplete
    }

    mutating func note(_ device: DeviceDescription, as state: PairingState) {
        let index = know(device)
        let now = Instant.systemClock
        if state.isPaired, !devices[index].pairing.state.isPaired { devices[index].pairing.pairedAt = now }
        if state.isProven {
            devices[index].pairing.provenAt = devices[index].pairing.provenAt ?? now
        } else {
            devices[index].pairing.provenAt = nil
        }
        devices[index].pairing.state = state
    }

    /// The place of a device, by its address or serial number; what is not said of it stays as it was.
    private mutating func know(_ device: DeviceDescription) -> Int {
        let index = devices.firstIndex { known in
            device.address.map(known.pairing.addresses.contains) ?? false
                || device.serial != nil && known.pairing.device.serial == device.serial
        }
        guard let index else {
            let addresses = device.address.map { [$0] } ?? []
            devices.append(Device(pairing: DevicePairing(device: device, addresses: addresses, state: .unpaired)))
            return devices.count - 1
        }
        var known = devices[index].pairing
        if let address = device.address, !known.addresses.contains(address) { known.addresses.append(address) }
        known.device.model = device.model ?? known.device.model
        known.device.serial = device.serial ?? known.device.serial
        known.device.name = device.name ?? known.device.name
        devices[index].pairing = known
        return index
    }

    /// The address that ids are made with: the first that the device was met with.
    private func identity(of contact: Contact) -> DeviceAddress? {
        contacts[contact.id].map { devices[$0.device].pairing.addresses.first } ?? contact.device.address
    }

    private func records(of contact: Contact) -> [Reading] {
        guard let device = contacts[contact.id]?.device else { return [] }
        return numbered.filter { $0.device == device && $0.epoch == contact.sequenceEpoch }.map { readings[$0.place] }
    }
}

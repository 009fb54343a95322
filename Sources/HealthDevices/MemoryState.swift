import HealthReadings

/// What a ``MemoryJournal`` has in memory, by the rules that a store follows.
struct MemoryState {
    struct Device {
        var pairing: DevicePairing
        var epoch = 0
        /// How its last contact ended; one that never ends counts as cut, and so does one that is older than another.
        var lastSummary: ContactSummary?
        /// When the newest of its contacts began, and whether everything came in it that the device had.
        var newestContact: (start: Instant, isComplete: Bool)?
        /// Whether everything came in the last contact, which may have been an older one of a capture.
        var lastWasComplete = false
        var clock = MemoryClock()

        func isOlder(_ start: Instant) -> Bool { newestContact.map { start < $0.start } ?? false }
    }

    private struct CurrentContact {
        var device: Int
        var startedAt: Instant
        /// When the device's clock was read last in the contact.
        var clockReadAt: Instant?
        /// How the device's contact before this one ended; `nil` where it never did.
        var previous: ContactSummary?
        /// Whether everything came in the contact before, and in the newest.
        var followsCompleteTransfer: Bool
        /// The places of the readings whose records came in this contact, by the numbers that contexts name them by.
        var records: [UInt16: Int] = [:]
    }

    /// What a reading was made of: a frame that comes again changes nothing.
    private struct Origin {
        var device: Int
        var epoch: Int
        /// The lasting octets of its record's frames.
        var records: Set<[UInt8]>
        /// The oldest first.
        var contexts: [KeptContext] = []
    }

    private struct KeptContext {
        /// Counts contexts as they come.
        var number: Int
        var contact: Int64
        var lastingOctets: [UInt8]
        var context: GlucoseContext
    }

    /// How a context names its record.
    private struct ContextNumber: Hashable {
        var device: Int
        var epoch: Int
        var number: UInt16
        /// Whether the number names another record in the next contact.
        var isPassing: Bool
    }

    /// Whose readings these are.
    let person: String?
    private(set) var readings: [Reading] = []
    private(set) var devices: [Device] = []
    /// Of each reading, by its place.
    private var origins: [Origin] = []
    private var places: [ReadingID: Int] = [:]
    /// Contexts that came before their records.
    private var waiting: [ContextNumber: [KeptContext]] = [:]
    private var contacts: [Int64: CurrentContact] = [:]
    private var contactCount: Int64 = 0
    private var contextCount = 0

    init(person: String?) { self.person = person }

    func reading(_ id: ReadingID) -> Reading? { places[id].map { readings[$0] } }

    // MARK: Frames

    mutating func add(
        _ frame: Frame, of contact: Contact, _ decoder: any FrameDecoding, _ times: TimeResolution
    ) -> FrameOutcome {
        guard let device = contacts[contact.id]?.device else { return .nothing }
        let model = contact.device.model
        let passing = decoder.passingNumber(of: frame, model: model)
        let octets = decoder.lastingOctets(of: frame, model: model)
        func named(_ number: UInt16) -> ContextNumber {
            ContextNumber(
                device: device, epoch: contact.sequenceEpoch, number: passing ?? number, isPassing: passing != nil)
        }
        switch decoder.decode(frame, model: model) {
        case .record(let record):
            let number = record.value.kind == .glucose ? (passing ?? record.sequence).map(named) : nil
            let (id, known, other) = find(record, frame, of: contact, decoder)
            let time = { (state: MemoryState) in
                times.resolve(
                    record, receivedAt: frame.receivedAt, byBaseTime: decoder.clockShowsBaseTime(model: model)
                ) { state.precedingInstant(of: record, in: contact) }
            }
            if let known {
                let isRevised = revise(known, record, octets, number, in: contact)
                if isRevised, readings[known].excluded == .noTime {
                    readings[known].time = time(self)
                    judge(known)
                }
                return isRevised ? .revised(readings[known]) : .repeated(id)
            }
            let place = readings.count
            places[id] = place
            readings.append(
                Reading(
                    id: id, record: record, device: contact.device, time: time(self), person: person,
                    receivedAt: frame.receivedAt))
            judge(place)
            origins.append(Origin(device: device, epoch: contact.sequenceEpoch, records: [octets]))
            // A context that came before its record was taken for the other's, unless the other came here too.
            if let other, let number, contacts[contact.id]?.records[number.number] == nil {
                moveContexts(of: contact, from: other, to: place)
            }
            _ = join(number, place, in: contact)
            return other.map { .clash(readings[place], with: $0) } ?? .new(readings[place])
        case .glucoseContext(let number, let context):
            contextCount += 1
            let kept = KeptContext(number: contextCount, contact: contact.id, lastingOctets: octets, context: context)
            return add(kept, named(number), in: contact)
        case .malformed(let error): return .malformed(error)
        case .sensor, .entry, .imported, .withdrawal, .figures, .nothing: return .nothing
        }
    }

    /// The record's id, its place if it is known, and the reading whose key it shares with another value.
    private func find(
        _ record: Record, _ frame: Frame, of contact: Contact, _ decoder: any FrameDecoding
    ) -> (id: ReadingID, place: Int?, clashing: ReadingID?) {
        func id(epoch: Int, clash: Int) -> ReadingID { self.id(of: record, frame, contact, epoch: epoch, clash: clash) }
        var (clash, other): (Int, ReadingID?) = (0, nil)
        while true {
            let wanted = id(epoch: contact.sequenceEpoch, clash: clash)
            guard let place = places[wanted] else {
                if clash == 0,
                    let place = beforeModel(record, frame, contact, decoder) ?? inOtherForm(record, contact, decoder)
                {
                    return (readings[place].id, place, nil)
                }
                // A device that is read from its first record may still hold records of earlier epochs.
                guard clash == 0, record.sequence != nil, record.baseTime != nil else { return (wanted, nil, other) }
                for epoch in (0..<contact.sequenceEpoch).reversed() {
                    let earlier = id(epoch: epoch, clash: 0)
                    if let place = places[earlier], readings[place].record == record,
                        readings[place].excluded != .implausibleTime
                    {
                        return (earlier, place, nil)
                    }
                }
                return (wanted, nil, other)
            }
            let stored = readings[place].record
            if stored.value == record.value || record.isSameRecording(as: stored) { return (wanted, place, nil) }
            // It has taken its mean pressure from another form since, or was read as another model's.
            if record.sequence == nil, record.value.series == nil {
                return (wanted, place, nil)
            }
            other = other ?? wanted
            clash += 1
        }
    }

    private func id(
        of record: Record, _ frame: Frame, _ contact: Contact, epoch: Int, clash: Int
    ) -> ReadingID {
        ReadingIdentity(of: record, epoch: epoch, frame: frame, contactStart: contact.startedAt, clash: clash)
            .id(device: identity(of: contact), kind: record.value.kind)
    }

    /// The same record from the time when the device's model was not known, and its frames were read by the standard
    /// alone.
    private func beforeModel(
        _ record: Record, _ frame: Frame, _ contact: Contact, _ decoder: any FrameDecoding
    ) -> Int? {
        guard contact.device.model != nil, case .record(let plain) = decoder.decode(frame, model: nil) else {
            return nil
        }
        if plain.sequence != nil, record.sequence == nil {
            // The number that it had then may have been another.
            return places(of: contact).first { place in
                readings[place].record.value == record.value && readings[place].record.baseTime == record.baseTime
            }
        }
        let place = places[id(of: plain, frame, contact, epoch: contact.sequenceEpoch, clash: 0)]
        return place.flatMap { [plain.value, record.value].contains(readings[$0].record.value) ? $0 : nil }
    }

    /// The same record as another protocol of the device brought it.
    private func inOtherForm(_ record: Record, _ contact: Contact, _ decoder: any FrameDecoding) -> Int? {
        guard decoder.comesByTwoProtocols(model: contact.device.model), let device = contacts[contact.id]?.device else {
            return nil
        }
        return readings.indices.first {
            origins[$0].device == device && record.isSameMeasurement(as: readings[$0].record)
        }
    }

    /// Notes what a device says anew of a record, and joins contexts that wait for it; returns whether anything differs.
    /// Its time stays.
    private mutating func revise(
        _ place: Int, _ record: Record, _ octets: [UInt8], _ number: ContextNumber?, in contact: Contact
    ) -> Bool {
        let isJoined = join(number, place, in: contact)
        let heeded = record.heeding(readings[place].record)
        let isReadOtherwise = heeded.isRead(otherwiseThan: readings[place].record)
        guard origins[place].records.insert(octets).inserted || isReadOtherwise, heeded != readings[place].record else {
            return isJoined
        }
        readings[place].record = heeded
        judge(place)
        return true
    }

    /// Notes why a reading is never delivered, where it is not.
    private mutating func judge(_ place: Int) {
        let reading = readings[place]
        readings[place].excluded =
            reading.record.exclusion ?? TimeResolution.exclusion(of: reading.time, receivedAt: reading.receivedAt)
    }

    /// The instant of the nearest record with a lower number in the same epoch.
    private func precedingInstant(of record: Record, in contact: Contact) -> Instant? {
        guard let sequence = record.sequence else { return nil }
        return last(of: contact) { ($0.record.sequence ?? .max) < sequence && $0.time.instant != nil }?.time.instant
    }

    // MARK: Contexts

    /// Gives a context to its record, if that has come: to the one of this contact, else to the newest that has its
    /// number in the epoch, unless the number passes.
    private mutating func add(_ kept: KeptContext, _ number: ContextNumber, in contact: Contact) -> FrameOutcome {
        guard let place = contacts[contact.id]?.records[number.number] ?? newest(number) else {
            var contexts = waiting[number] ?? []
            if let same = contexts.firstIndex(where: { $0.lastingOctets == kept.lastingOctets }) {
                contexts[same].contact = contact.id
            } else {
                contexts.append(kept)
            }
            waiting[number] = contexts
            return .waiting
        }
        return attach([kept], to: place) ? .revised(readings[place]) : .repeated(readings[place].id)
    }

    private func newest(_ number: ContextNumber) -> Int? {
        guard !number.isPassing else { return nil }
        return readings.indices.last { place in
            readings[place].kind == .glucose && readings[place].record.sequence == number.number
                && origins[place].device == number.device && origins[place].epoch == number.epoch
        }
    }

    /// Remembers which reading a number names in this contact, and gives it the contexts that wait for it: those of
    /// this contact, else all, unless the number passes; returns whether any is new.
    private mutating func join(_ number: ContextNumber?, _ place: Int, in contact: Contact) -> Bool {
        guard let number else { return false }
        contacts[contact.id]?.records[number.number] = place
        guard let contexts = waiting[number] else { return false }
        let own = contexts.filter { $0.contact == contact.id }
        guard number.isPassing || !own.isEmpty else {
            waiting[number] = nil
            return attach(contexts, to: place)
        }
        waiting[number] = contexts.filter { $0.contact != contact.id }
        return attach(own, to: place)
    }

    /// Gives a reading those of the contexts that it does not have; returns whether any is new.
    private mutating func attach(_ contexts: [KeptContext], to place: Int) -> Bool {
        let known = origins[place].contexts
        for context in contexts where !known.contains(where: { $0.lastingOctets == context.lastingOctets }) {
            origins[place].contexts.append(context)
        }
        guard origins[place].contexts.count > known.count else { return false }
        setNewestContext(of: place)
        return true
    }

    /// Gives a clashing record the contexts that came in this contact and were taken for those of the other.
    private mutating func moveContexts(of contact: Contact, from other: ReadingID, to place: Int) {
        guard let previous = places[other] else { return }
        let contexts = origins[previous].contexts.filter { $0.contact == contact.id }
        guard !contexts.isEmpty else { return }
        origins[previous].contexts.removeAll { $0.contact == contact.id }
        setNewestContext(of: previous)
        _ = attach(contexts, to: place)
    }

    private mutating func setNewestContext(of place: Int) {
        let newest = origins[place].contexts.max { $0.number < $1.number }?.context
        readings[place].context = newest
        readings[place].record.exclusion = readings[place].record.exclusion(with: newest)
        judge(place)
    }

    // MARK: Devices

    mutating func beginContact(
        with device: DeviceDescription, at start: Instant, clock: ClockReading?, in zone: ZoneRules
    ) -> Contact {
        let index = know(device)
        if let clock { devices[index].clock.note(clock, in: zone) }
        contactCount += 1
        contacts[contactCount] = CurrentContact(
            device: index, startedAt: start, clockReadAt: clock?.readAt, previous: devices[index].lastSummary,
            followsCompleteTransfer: devices[index].lastWasComplete && devices[index].newestContact?.isComplete ?? false
        )
        // A contact that never ends counts as cut.
        devices[index].lastSummary = nil
        devices[index].lastWasComplete = false
        if !devices[index].isOlder(start) { devices[index].newestContact = (start, false) }
        var known = devices[index].pairing.device
        known.name = device.name ?? known.name
        known.provider = device.provider
        return Contact(
            id: contactCount, device: known, startedAt: start, sequenceEpoch: devices[index].epoch, clock: clock)
    }

    /// Notes what the device's clock shows in a contact that goes on: records that come from here on are placed by it.
    mutating func note(_ clock: ClockReading, in contact: Contact, _ zone: ZoneRules) {
        guard let device = contacts[contact.id]?.device else { return }
        devices[device].clock.note(clock, in: zone)
        contacts[contact.id]?.clockReadAt = clock.readAt
    }

    /// How records of a contact are placed in time: by the device's clock in it, and before it was set or lost its battery.
    func times(of contact: Contact, in zone: ZoneRules) -> TimeResolution {
        guard let current = contacts[contact.id] else { return TimeResolution(zone: zone, clock: nil) }
        let end = current.clockReadAt ?? current.startedAt
        return TimeResolution(zone: zone, epochs: devices[current.device].clock.epochs(until: end))
    }

    func lastRecord(of contact: Contact) -> LastRecord? {
        guard let last = last(of: contact), let sequence = last.record.sequence else { return nil }
        return LastRecord(
            sequence: sequence, baseTime: last.record.baseTime, time: last.time.instant,
            count: Set(places(of: contact).map { readings[$0].record.sequence }).count,
            followsCompleteTransfer: contacts[contact.id]?.followsCompleteTransfer ?? false)
    }

    func previousSummary(before contact: Contact) -> ContactSummary? { contacts[contact.id]?.previous }

    func recordings(of contact: Contact, beganAt starts: [WallTime]) -> [WallTime: Set<Int>] {
        guard let device = contacts[contact.id]?.device else { return [:] }
        var known: [WallTime: Set<Int>] = [:]
        for (reading, origin) in zip(readings, origins) where origin.device == device && reading.kind == .spo2 {
            guard let start = reading.record.baseTime, starts.contains(start) else { continue }
            known[start, default: []].formUnion(origin.records.map(\.count))
        }
        return known
    }

    mutating func beginSequenceEpoch(in contact: Contact) -> Contact {
        var renewed = contact
        renewed.sequenceEpoch += 1
        guard let device = contacts[contact.id]?.device else { return renewed }
        guard !devices[device].isOlder(contact.startedAt) else { return contact }
        renewed.sequenceEpoch = max(renewed.sequenceEpoch, devices[device].epoch + 1)
        devices[device].epoch = renewed.sequenceEpoch
        contacts[contact.id]?.records = [:]
        return renewed
    }

    mutating func endContact(_ contact: Contact, _ summary: ContactSummary) {
        guard let ended = contacts.removeValue(forKey: contact.id) else { return }
        devices[ended.device].lastWasComplete = summary.isComplete
        let isOlder = devices[ended.device].isOlder(contact.startedAt)
        devices[ended.device].lastSummary = isOlder ? nil : summary
        if !isOlder { devices[ended.device].newestContact?.isComplete = summary.isComplete }
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

    /// The place of a device, by its address, or by its model and serial number; what is not said of it stays as it
    /// was.
    private mutating func know(_ device: DeviceDescription) -> Int {
        let index = devices.firstIndex { known in
            device.address.map(known.pairing.addresses.contains) ?? false
                || device.serial != nil && known.pairing.device.serial == device.serial
                    && known.pairing.device.model == device.model
        }
        guard let index else {
            let addresses = device.address.map { [$0] } ?? []
            devices.append(Device(pairing: DevicePairing(device: device, addresses: addresses, state: .unpaired)))
            return devices.count - 1
        }
        var known = devices[index].pairing
        if let address = device.address, !known.addresses.contains(address) { known.addresses.append(address) }
        // What was read of it as another model vouches for nothing: its memory may have places that the other does not have.
        if let model = device.model, known.device.model != nil, known.device.model != model {
            devices[index].lastSummary?.announced = nil
        }
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

    /// The reading with the highest number in the contact's epoch, of those that are wanted; the newest if several
    /// have that number.
    private func last(of contact: Contact, where isWanted: (Reading) -> Bool = { _ in true }) -> Reading? {
        let wanted = places(of: contact).filter { isWanted(readings[$0]) }
        return wanted.max { one, other in
            (readings[one].record.sequence ?? 0, one) < (readings[other].record.sequence ?? 0, other)
        }.map { readings[$0] }
    }

    /// The places of the numbered readings of the contact's epoch.
    private func places(of contact: Contact) -> [Int] {
        guard let device = contacts[contact.id]?.device else { return [] }
        return readings.indices.filter { place in
            readings[place].record.sequence != nil && origins[place].device == device
                && origins[place].epoch == contact.sequenceEpoch
        }
    }
}

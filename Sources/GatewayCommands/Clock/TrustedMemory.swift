import HealthDevices
import HealthReadings

/// What is remembered of devices, where no contact begins while the gateway's clock is in doubt: the time of every record
/// in it, and what the device's clock is compared with, would be wrong for ever.
///
/// The clock is looked at now and then while meters are waited for; it may have jumped since.
///
/// A machine without a battery for its clock begins with the time at which it was turned off, which nothing shows but the clocks
/// of devices: they all seem to be ahead by as long. A device whose clock was read before, and is suddenly ahead, is left alone
/// until something speaks for this machine's: by that difference its records would be dated too early for good.
struct TrustedMemory: DeviceMemory {
    let memory: any DeviceMemory
    let clock: GatewayClock
    /// By how many seconds a device is ahead of this machine that it was not ahead when its clock was last read; `nil` where it
    /// was never read before.
    var lead: @Sendable (ClockReading, DeviceDescription) async throws -> Int64? = { _, _ in nil }

    func beginContact(
        with device: DeviceDescription, at start: Instant, clock reading: ClockReading?, batteryPercent: UInt8?
    ) async throws -> Contact {
        try await requireTrust(reading, of: device)
        return try await memory.beginContact(with: device, at: start, clock: reading, batteryPercent: batteryPercent)
    }

    func noteClock(_ reading: ClockReading, in contact: Contact) async throws -> Contact {
        // The clock may have jumped since the contact began.
        try await requireTrust(reading, of: contact.device)
        return try await memory.noteClock(reading, in: contact)
    }

    private func requireTrust(_ reading: ClockReading?, of device: DeviceDescription) async throws {
        if let doubt = await clock.doubt() { throw doubt.failure }
        guard let reading else { return }
        // A first comparison is forgotten if this machine's clock turns out to have been behind. One that was right then, and loses
        // time later, must not look like that.
        guard let seconds = try await lead(reading, device) else { return await clock.noteWhetherRight() }
        guard await clock.isContradicted(by: seconds) else { return }
        throw ClockDoubt.againstMeter(seconds).failure
    }

    func lastRecord(of contact: Contact) async throws -> LastRecord? { try await memory.lastRecord(of: contact) }

    func previousSummary(before contact: Contact) async throws -> ContactSummary? {
        try await memory.previousSummary(before: contact)
    }

    func recordings(of contact: Contact, beganAt starts: [WallTime]) async throws -> [WallTime: Set<Int>] {
        try await memory.recordings(of: contact, beganAt: starts)
    }

    func beginSequenceEpoch(in contact: Contact) async throws -> Contact {
        try await memory.beginSequenceEpoch(in: contact)
    }

    func endContact(_ contact: Contact, _ summary: ContactSummary) async throws {
        try await memory.endContact(contact, summary)
    }
}

/// Where frames become durable, at the time they were received even where the gateway's clock jumps during the contact, and with
/// the time since the machine began, by which they are placed should the clock turn out to have been behind.
struct TrustedJournal: FrameJournal {
    let journal: any FrameJournal
    let clock: GatewayClock

    func append(_ frames: [Frame], of contact: Contact) async throws -> [FrameOutcome] {
        let outcomes = try await journal.append(clock.placed(frames), of: contact)
        if outcomes.contains(where: \.isImplausible) { await clock.noteWhetherRight() }
        return outcomes
    }

    func keep(_ growing: Frame, of contact: Contact) async throws {
        for frame in await clock.placed([growing]) { try await journal.keep(frame, of: contact) }
    }
}

extension FrameOutcome {
    /// Whether a reading came of it that is excluded because of its time: the device's clock is ahead, or this machine's is behind.
    var isImplausible: Bool {
        switch self {
        case .new(let reading), .clash(let reading, with: _): reading.excluded == .implausibleTime
        case .revised, .repeated, .waiting, .nothing, .malformed: false
        }
    }
}

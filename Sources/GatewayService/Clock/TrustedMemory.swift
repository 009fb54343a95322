import HealthDevices
import HealthReadings

/// What is remembered of devices, where no contact begins while the gateway's clock is in doubt: the time of every record
/// in it, and what the device's clock is compared with, would be wrong for ever.
///
/// The clock is looked at now and then while meters are waited for; it may have jumped since.
struct TrustedMemory: DeviceMemory {
    let memory: any DeviceMemory
    let clock: GatewayClock

    func beginContact(
        with device: DeviceDescription, at start: Instant, clock reading: ClockReading?, batteryPercent: UInt8?
    ) async throws -> Contact {
        if let doubt = await clock.doubt() { throw doubt.failure }
        return try await memory.beginContact(with: device, at: start, clock: reading, batteryPercent: batteryPercent)
    }

    func noteClock(_ clock: ClockReading, in contact: Contact) async throws -> Contact {
        try await memory.noteClock(clock, in: contact)
    }

    func lastRecord(of contact: Contact) async throws -> LastRecord? { try await memory.lastRecord(of: contact) }

    func beginSequenceEpoch(in contact: Contact) async throws -> Contact {
        try await memory.beginSequenceEpoch(in: contact)
    }

    func endContact(_ contact: Contact, _ summary: ContactSummary) async throws {
        try await memory.endContact(contact, summary)
    }
}

extension ClockDoubt {
    /// Why a device is not read.
    var failure: ContactFailure {
        ContactFailure(
            code: "clock_not_trusted",
            description: "this machine's clock \(self): no device is read or set by it; each keeps what it has",
            hint: "set it, and keep it right: `timedatectl set-ntp true`")
    }
}

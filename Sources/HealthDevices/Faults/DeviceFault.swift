import GATTClient
import HealthReadings

/// A fault that lasts until somebody or something ends it: of the radio, or of the bond with a device.
///
/// A fault has two events, one when it begins and one when it ends, however many attempts meet it meanwhile.
public struct DeviceFault: Sendable, Hashable {
    /// What has it.
    public enum Subject: Sendable, Hashable {
        /// The radio: nothing can be reached.
        case radio
        /// One device: its bond does not hold, or none comes about.
        case device(DeviceAddress)
    }

    /// What has it.
    public var subject: Subject
    /// What is wrong, and what to do about it. Its code is that of the error that a command ends with.
    public var failure: ContactFailure
    /// When it was first met.
    public var began: Instant
    /// When it had passed; `nil` while it stands.
    public var ended: Instant?

    /// Makes a fault.
    public init(_ subject: Subject, _ failure: ContactFailure, began: Instant, ended: Instant? = nil) {
        self.subject = subject
        self.failure = failure
        self.began = began
        self.ended = ended
    }

    /// Whether it stands.
    public var isStanding: Bool { ended == nil }

    /// The name that clients for phones know the state by: of the radio one of Core Bluetooth's `CBManagerState` (`poweredOff`,
    /// `unauthorized`, `unsupported`, `resetting`), of a bond `CBError.peerRemovedPairingInformation` or
    /// `CBATTError.insufficientAuthentication`.
    public var name: String { Self.names[failure.code] ?? "unknown" }

    /// The names by the codes of faults.
    static let names = [
        "no_system_bus": "unsupported", "no_bluetooth_service": "unsupported", "no_adapter": "unsupported",
        "bluetooth_not_permitted": "unauthorized", "adapter_powered_off": "poweredOff",
        "adapter_blocked": "poweredOff", "bluetooth_lost": "resetting", "bluetooth_error": "unknown",
        "bond_lost_by_device": "peerRemovedPairingInformation", "bond_lost_here": "peerRemovedPairingInformation",
        "wrong_passkey": "insufficientAuthentication", "pairing_rejected_by_device": "insufficientAuthentication",
        "omron_key_refused": "peerRemovedPairingInformation", "omron_key_missing": "peerRemovedPairingInformation",
    ]

    /// `{subject, address, code, name, message, hint, began_at, ended_at}`.
    public var document: JSONValue {
        var (what, address): (String, DeviceAddress?) = ("radio", nil)
        if case .device(let its) = subject { (what, address) = ("device", its) }
        return .object([
            "subject": .string(what), "address": .optional(address?.description), "code": .string(failure.code),
            "name": .string(name), "message": .string(failure.description), "hint": .optional(failure.hint),
            "began_at": .string(began.flooredToSecond.description),
            "ended_at": .optional(ended?.flooredToSecond.description),
        ])
    }
}

extension ContactFailure {
    /// The codes that say of a device that its bond does not hold, or none comes about, until somebody does something. A
    /// pairing that was interrupted or not answered in time is no fault: nothing is wrong but that once.
    private static let bondFaults: Set = [
        "bond_lost_by_device", "bond_lost_here", "wrong_passkey", "pairing_rejected_by_device", "omron_key_refused",
        "omron_key_missing",
    ]

    /// Whether it is a fault of a device's bond.
    var isOfTheBond: Bool { Self.bondFaults.contains(code) }
}

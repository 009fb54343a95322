import HealthReadings

/// Why a radio, or a device by radio, cannot be used.
public enum RadioError: Error, Sendable, Hashable {
    /// The system bus cannot be reached.
    case noBus(String)
    /// The system's policy forbids the use of Bluetooth to this user.
    case notPermitted(String)
    /// The Bluetooth service does not run.
    case noService
    /// There is no adapter, or not the one that is named.
    case noAdapter(String?)
    /// The adapter is switched off, and could not be switched on.
    case poweredOff(String)
    /// The adapter is blocked by rfkill: by software, or by a switch (`hard`).
    case blocked(String, hard: Bool)
    /// The service or the bus went away in the middle.
    case lost
    /// The device was not heard in time.
    case notSeen(DeviceAddress, within: Duration)
    /// The device was heard and could not be connected; the service's own words.
    case notConnected(DeviceAddress, String)
    /// A pairing that came to nothing.
    case pairing(PairingFailure)
    /// The device no longer knows the bond that is kept here ("key missing"): it says so, or its links break again and
    /// again before anything can be asked over them.
    case forgottenByDevice(DeviceAddress)
    /// There is no bond with the device here.
    case notBonded(DeviceAddress)
    /// Anything else the service said: its error's name and words.
    case other(name: String, message: String)
}

/// Why a pairing came to nothing.
public enum PairingFailure: Error, Sendable, Hashable {
    /// The passkey was wrong, or the digits differed.
    case wrongPasskey
    /// The device refused: it is not in its pairing mode, or its memory for bonds is full.
    case rejectedByDevice
    /// This side refused: a passkey was not given, or digits were not confirmed.
    case rejectedHere
    /// Nobody answered in time.
    case timedOut
    /// The device went away in the middle.
    case disconnected
    /// The device keeps a bond with this gateway that the gateway has lost. A radio cannot tell that from a device that
    /// just refuses: who remembers that they were bonded can.
    case forgottenHere
}

extension RadioError: CustomStringConvertible {
    /// The published snake_case code.
    public var code: String {
        switch self {
        case .noBus: "no_system_bus"
        case .notPermitted: "bluetooth_not_permitted"
        case .noService: "no_bluetooth_service"
        case .noAdapter: "no_adapter"
        case .poweredOff: "adapter_powered_off"
        case .blocked: "adapter_blocked"
        case .lost: "bluetooth_lost"
        case .notSeen: "device_not_seen"
        case .notConnected: "device_not_connected"
        case .pairing(let failure): failure.code
        case .forgottenByDevice: "bond_lost_by_device"
        case .notBonded: "not_paired"
        case .other: "bluetooth_error"
        }
    }

    /// One line for people.
    public var description: String {
        switch self {
        case .noBus(let why): "the system bus cannot be reached: \(why)"
        case .notPermitted(let why): "the system does not permit this user to use Bluetooth: \(why)"
        case .noService: "the Bluetooth service (bluetoothd) is not running"
        case .noAdapter(nil): "there is no Bluetooth adapter"
        case .noAdapter(let name?): "there is no Bluetooth adapter \(name)"
        case .poweredOff(let name): "the Bluetooth adapter \(name) is switched off"
        case .blocked(let name, hard: true): "the Bluetooth adapter \(name) is blocked by a switch on the machine"
        case .blocked(let name, hard: false): "the Bluetooth adapter \(name) is blocked by rfkill"
        case .lost: "the Bluetooth service went away"
        case .notSeen(let address, let timeout):
            "\(address) was not heard within \(timeout.components.seconds) s"
        case .notConnected(let address, let why): "cannot connect to \(address): \(why)"
        case .pairing(let failure): failure.description
        case .forgottenByDevice(let address): "\(address) has lost its bond with this machine"
        case .notBonded(let address): "\(address) is not paired"
        case .other(let name, let message): "the Bluetooth service said \(name): \(message)"
        }
    }

    /// What to do next.
    public var hint: String? {
        switch self {
        case .noBus: "check that dbus is running and that DBUS_SYSTEM_BUS_ADDRESS is right"
        case .notPermitted: "add the user to the group `bluetooth`, and log in again"
        case .noService: "start it: `systemctl start bluetooth`"
        case .noAdapter: "plug one in, or name another: `bluetooth.adapter`"
        case .poweredOff: "switch it on: `bluetoothctl power on`"
        case .blocked(_, hard: true): "switch it on at the machine"
        case .blocked(_, hard: false): "unblock it: `rfkill unblock bluetooth`"
        case .lost: "the gateway keeps looking for it"
        case .notSeen: "wake the device, or press its Bluetooth button, and try again"
        case .notConnected: "try again, nearer to the device"
        case .pairing(let failure): failure.hint
        case .forgottenByDevice: "put it into its pairing mode and pair it again: `healthrelay pair ADDRESS --repair`"
        case .notBonded: "pair it: `healthrelay pair ADDRESS`"
        case .other: nil
        }
    }
}

extension PairingFailure: CustomStringConvertible {
    /// The published snake_case code.
    public var code: String {
        switch self {
        case .wrongPasskey: "wrong_passkey"
        case .rejectedByDevice: "pairing_rejected_by_device"
        case .rejectedHere: "pairing_rejected"
        case .timedOut: "pairing_timed_out"
        case .disconnected: "pairing_interrupted"
        case .forgottenHere: "bond_lost_here"
        }
    }

    /// One line for people.
    public var description: String {
        switch self {
        case .wrongPasskey: "the passkey was wrong"
        case .rejectedByDevice: "the device refused to be paired"
        case .rejectedHere: "the pairing was rejected here"
        case .timedOut: "the pairing was not answered in time"
        case .disconnected: "the device disconnected during pairing"
        case .forgottenHere: "the device has a bond with this gateway, but the gateway has lost its own"
        }
    }

    /// What to do next.
    public var hint: String {
        switch self {
        case .wrongPasskey: "type the six digits that the device shows now; they change every time"
        case .rejectedByDevice:
            "put the device into its pairing mode; some devices know only one phone and must forget it first"
        case .rejectedHere: "pair again and answer the questions"
        case .timedOut: "pair again, with the device awake and in range"
        case .disconnected: "pair again, nearer to the device"
        case .forgottenHere: "make the device forget this gateway in its menu, then pair it again with `--repair`"
        }
    }
}

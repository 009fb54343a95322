import GATTClient
import HealthReadings

/// Why a contact with a device did not bring what it should: named, for people and for scripts.
public struct ContactFailure: Error, Sendable, Hashable {
    /// The published snake_case code.
    public var code: String
    /// One line for people.
    public var description: String
    /// What to do next; nil where nothing need be done.
    public var hint: String?

    /// Makes a failure.
    public init(code: String, description: String, hint: String? = nil) {
        self.code = code
        self.description = description
        self.hint = hint
    }

    /// The device's person was erased, and nobody has paired it since.
    public static func barred(_ address: DeviceAddress) -> ContactFailure {
        ContactFailure(
            code: barredCode,
            description: "\(address) is barred: its user was removed, and it has not been paired since",
            hint: "its present user must pair it again: `healthrelay pair \(address)`")
    }

    static let barredCode = "device_barred"

    /// What a summary's code means and what a person does about it, where reading once more does not help.
    private static let explanations: [String: (what: String, mend: String)] = [
        "omron_key_refused": (
            "the monitor knows another key than this gateway's: another program has paired it since",
            "hold the monitor's Bluetooth button until P blinks, and pair it again with --repair"
        ),
        "omron_key_missing": (
            "no key of this monitor is kept here",
            "hold the monitor's Bluetooth button until P blinks, and pair it again with --repair"
        ),
        "omron_wrong_model": (
            "what stands in the monitor's memory are no records of the model that it was paired as",
            "pair it again with --model, as the model whose number is on its label: see `healthrelay catalog`"
        ),
        "microlife_generation": (
            "the monitor is of an earlier generation, whose memory cannot be read without setting its clock",
            "read it with the maker's app: see Documentation/makers.md"
        ),
        "o2ring_layout": (
            "a recording of the oximeter has a layout that the gateway doesn't know, or isn't whole",
            "see Documentation/makers.md: its octets are kept, and are read once the layout is known"
        ),
    ]

    /// The failure that an error of a contact stands for.
    public init(_ error: any Error) {
        switch error {
        case let failure as ContactFailure: self = failure
        case let error as RadioError: self.init(code: error.code, description: error.description, hint: error.hint)
        case let error as TransferError:
            self.init(
                code: error.code, description: error.description, hint: Self.explanations[error.code]?.mend)
        case let error as GATTError: self.init(code: error.code, description: error.description)
        case is CancellationError: self.init(code: "interrupted", description: "the transfer was ended here")
        default: self.init(code: "not_stored", description: "cannot store what arrived: \(error)")
        }
    }

    /// The failure that a summary tells of; nil where everything came.
    public init?(_ summary: ContactSummary) {
        if let error = summary.error, let known = Self.explanations[error] {
            self.init(code: error, description: summary.errorDetail ?? known.what, hint: known.mend)
        } else if let error = summary.error, let detail = summary.errorDetail {
            self.init(code: error, description: "\(detail); \(summary.received) records are kept")
        } else if let error = summary.error {
            self.init(
                code: error,
                description: "\(error.replacing("_", with: " ")), after \(summary.received) records; they are kept")
        } else if !summary.isComplete {
            let announced = summary.announced.map { " of \($0)" } ?? ""
            self.init(
                code: "records_missing",
                description: "\(summary.received)\(announced) records arrived; the next contact reads all of them again"
            )
        } else {
            return nil
        }
    }
}

extension ContactFailure: CustomStringConvertible {}

extension GATTError {
    /// The published snake_case code.
    var code: String {
        switch self {
        case .attribute: "device_refused"
        case .noSuchCharacteristic: "nothing_to_read"
        case .disconnected: "transfer_interrupted"
        case .timedOut: "timeout"
        }
    }

    /// Whether the device says that the link is not as secure as it wants: on a bonded link, that the bond does not
    /// hold.
    var saysBondIsMissing: Bool { self == .attribute(0x05) || self == .attribute(0x0F) }
}

extension RadioError {
    /// Whether nothing can be reached by this radio now, as opposed to this one device.
    var concernsTheRadio: Bool {
        switch self {
        case .noBus, .notPermitted, .noService, .noAdapter, .poweredOff, .blocked, .lost: true
        case .notSeen, .notConnected, .pairing, .forgottenByDevice, .notBonded, .other: false
        }
    }
}

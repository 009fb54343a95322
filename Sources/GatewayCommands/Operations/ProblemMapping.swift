import CloudSources
import DeviceReports
import FreeStyleLibre
import GATTClient
import GatewaySettings
import HCICapture
import HealthDevices
import HealthReadings
import HealthSyncClient
import ISO15693Reader
import LibreReader
import LocalAccess
import ReadingDelivery
import ReadingStore
import VitalClient

extension Problem.ExitStatus {
    /// What a command ends with when the store fails, by the failure's code: deliveries keep no more of it.
    ///
    /// - Parameter code: what `StoreError.code` says; another code gives `nil`.
    init?(storeCode code: String) {
        switch code {
        case "store_locked", "took_too_long": self = .tryAgain
        case "store_cannot_create": self = .cannotCreate
        case "store_not_permitted": self = .notPermitted
        case "disk_full", "too_little_space", "store_io": self = .inputOutput
        case "not_refused": self = .noInput
        case "store_corrupt", "store_foreign", "store_newer": self = .badData
        case "limit_out_of_range", "offset_out_of_range", "invalid_cursor", "position_unknown": self = .usage
        case "unknown_time_zone", "prune_key_missing", "store_key_missing", "store_key_wrong", "store_key_unusable":
            self = .configuration
        case "store_unknown", "store_internal": self = .ourFault
        default: return nil
        }
    }
}

extension Problem {
    /// The problem behind an error of any of the modules; nil for an error of none of them.
    public init?(describing error: any Error) {
        switch error {
        case let problem as Problem: self = problem
        case let error as StoreError: self.init(error)
        case let error as ExportError: self.init(error)
        case let error as EntryError:
            self.init(error.isUsage ? "usage" : "invalid_entry", error.isUsage ? .usage : .badData, error.description)
        case let error as EntryChangeError: self.init(error)
        case let error as SubscriberError: self.init(error)
        case let error as FigureDecisionError:
            self.init(
                error.code, { if case .tooMany = error { .usage } else { .noInput } }(), error.description,
                hint: error.hint)
        case let error as MoveError: self.init(error.code, .noInput, error.description, hint: error.hint)
        case let error as VitalError: self.init(error)
        case let error as HealthSyncError: self.init(error)
        case let failure as PhoneDiscovery.Failure: self.init(failure)
        case let error as CloudError: self.init(error, nil)
        case let failure as CloudAccounts.Failure: self.init(failure, nil)
        case let error as CloudSession.NotConnected: self.init(error)
        case let failure as DeliveryFailure: self.init(failure)
        case let error as AccessError: self.init(error)
        case let error as InvalidBaseURL:
            self.init("config_invalid", .configuration, error.description)
        case let error as MalformedFrame:
            self.init("malformed_frame", .badData, error.description)
        case let error as CaptureError: self.init(error)
        case let error as HandleMapError:
            self.init("handle_map_invalid", .badData, error.description)
        case let error as ModelReportError:
            self.init("device_report_malformed", .badData, "the file is no report of a device: \(error)")
        case let error as RadioError: self.init(error)
        case let error as PairingFailure: self.init(error)
        case let error as TransferError:
            self.init(deviceCode: error.code, error.description, hint: "read the device again")
        case let error as GATTError: self.init(ContactFailure(error))
        case let failure as ContactFailure: self.init(failure)
        case let failure as DeviceSecretFile.Failure:
            self.init(failure.code, .inputOutput, failure.description, hint: failure.hint)
        case let error as LibreReadError: self.init(error)
        case let error as ISO15693Error: self.init(error)
        case let error as MalformedDump: self.init("dump_malformed", .badData, error.description)
        case is CancellationError:
            self.init("interrupted", .tryAgain, "interrupted")
        default: return nil
        }
    }

    /// An error nobody expected: a fault of this program.
    public static func unexpected(_ error: any Error) -> Problem {
        Problem("unexpected", .ourFault, "unexpected error: \(error)", hint: "please report this")
    }

    private init(_ error: EntryChangeError) {
        let status: ExitStatus =
            switch error {
            case .noSuchReading: .noInput
            case .measured, .withdrawn: .badData
            }
        self.init(error.code, status, error.description, hint: error.hint)
    }

    private init(_ error: SubscriberError) {
        let status: ExitStatus =
            switch error {
            case .invalidName, .otherScope: .usage
            case .inUse: .tryAgain
            case .unknown, .ended: .noInput
            }
        self.init(error.code, status, error.description, hint: error.hint)
    }

    private init(_ error: CaptureError) {
        switch error {
        case .cannotOpen: self.init("capture_unreadable", .noInput, error.description)
        case .cannotRead, .cannotWrite: self.init("capture_io", .inputOutput, error.description)
        case .damaged:
            self.init("capture_damaged", .badData, error.description, hint: "everything before that octet was read")
        case .unsupported:
            self.init(
                "capture_unsupported", .badData, error.description,
                hint: "btsnoop, pcap and pcapng of Bluetooth HCI can be read")
        }
    }

    private init(_ error: StoreError) {
        self.init(error.code, ExitStatus(storeCode: error.code) ?? .ourFault, error.description, hint: error.hint)
    }

    private init(_ error: ExportError) {
        let status: ExitStatus =
            switch error {
            case .foreign, .newer, .unreasonable, .damaged: .badData
            case .wrongPassphrase: .notPermitted
            case .passphraseTooShort: .usage
            case .storeNotEmpty: .cannotCreate
            }
        self.init(error.code, status, error.description, hint: error.hint)
    }

    private init(_ error: VitalError) {
        let (status, hint): (ExitStatus, String?) =
            switch error.kind {
            case .authenticationFailed:
                (.notPermitted, "check the key in the file that `api_key_file` of the destination names")
            case .tokenExpired:
                (
                    .notPermitted,
                    "put a new sign-in token into the file that `sign_in_token_file` of the destination names, and start again"
                )
            case .noWearableData: (.noInput, nil)
            case .forbidden: (.notPermitted, "the server knows the key; ask its operator what the key may do")
            case .noConnection:
                (.unavailable, "check the network and `base_url` of the destination; readings wait in the store")
            case .untrustedServer: (.unavailable, "check the server's certificate and this machine's clock")
            case .timeout, .rateLimitExceeded, .serverError: (.tryAgain, "readings wait in the store")
            case .sourceNotConnected: (.configuration, "connect it: `healthrelay source connect PROVIDER`")
            case .notJSON, .redirected, .unexpectedAnswer:
                (.protocolBroken, "is `base_url` of the destination the server's? a proxy or portal may answer")
            case .notFound, .validationFailed, .conflict, .payloadTooLarge, .refused, .answerTooLarge:
                (.protocolBroken, nil)
            }
        self.init(error.code, status, error.description, hint: hint)
    }
}

import GATTClient
import GatewaySettings
import HealthDevices
import HealthReadings

extension Problem {
    /// Why a radio, or a device by radio, cannot be used.
    ///
    /// 69: there is nothing to use; 75: it may come back by itself; 77: the system or the device refuses; 78: something
    /// must be set first.
    init(_ error: RadioError) {
        let status: ExitStatus =
            switch error {
            case .noBus, .noService, .noAdapter, .poweredOff, .blocked, .other: .unavailable
            case .notPermitted, .forgottenByDevice: .notPermitted
            case .lost, .notSeen, .notConnected: .tryAgain
            case .pairing(.wrongPasskey), .pairing(.rejectedByDevice), .pairing(.rejectedHere),
                .pairing(.forgottenHere):
                .notPermitted
            case .pairing(.timedOut), .pairing(.disconnected): .tryAgain
            case .notBonded: .configuration
            }
        self.init(error.code, status, error.description, hint: error.hint)
    }

    init(_ failure: PairingFailure) { self.init(RadioError.pairing(failure)) }

    init(_ failure: ContactFailure) {
        self.init(deviceCode: failure.code, failure.description, hint: failure.hint)
    }

    /// Why a device could not be read to the end, by its published code.
    init(deviceCode code: String, _ message: String, hint: String?) {
        let status: ExitStatus =
            switch code {
            // It did not answer to the end, which the next time it may; any other answer is the device's own.
            case "racp_aborted", "racp_count_missing", "racp_timed_out", "microlife_measuring", "viatom_measuring",
                "o2ring_incomplete":
                .tryAgain
            case _ where code.hasPrefix("racp_"): .protocolBroken
            case "device_refused", "clock_refused", "onetouch_not_allowed", "omron_key_refused",
                "omron_key_not_taken":
                .notPermitted
            case "clock_cannot_be_set", "encrypted_scale", "cannot_measure", "microlife_generation": .unavailable
            case "omron_key_missing", "omron_wrong_model", "no_place_for_secrets": .configuration
            case "model_not_chosen", "model_not_credible": .usage
            case _
            where ["onetouch_", "cgm_", "omron_", "microlife_", "viatom_", "o2ring_"].contains(where: code.hasPrefix):
                .protocolBroken
            case "device_barred", "clock_not_trusted", "private_address": .configuration
            case "nothing_to_read": .unavailable
            case "not_stored": .inputOutput
            default: .tryAgain
            }
        self.init(code, status, message, hint: hint)
    }
}

extension DeviceAddress {
    /// Reads an address as commands take it.
    /// - Throws: `Problem` with status 64.
    package static func argument(_ text: String) throws(Problem) -> DeviceAddress {
        guard let address = DeviceAddress(text) else {
            throw Problem.usage("expected an address such as C0:00:00:00:18:08, found '\(text)'")
        }
        return address
    }
}

import GatewaySettings
import HealthDevices
import HealthReadings

/// Why the gateway's own clock is not trusted now.
public enum ClockDoubt: Sendable, Hashable {
    /// It shows a time before the newest contact in the store began.
    case beforeStored(Instant)
    /// It shows a time before this program was built.
    case beforeBuild(Instant)
    /// It has jumped by so many seconds, and has not run steadily for long enough since.
    case jumped(Int64)
    /// The kernel does not say that it is synchronised, and the settings ask for that.
    case notSynchronized
    /// It contradicts when a sensor is known to have started, and nothing speaks for it.
    case againstSensor
    /// A device's clock, which was read before, says that it has lost so many seconds, and nothing speaks for it.
    case againstMeter(Int64)
}

extension ClockDoubt: CustomStringConvertible {
    /// Whether it is the same doubt, whatever its numbers.
    func isLike(_ other: ClockDoubt) -> Bool {
        switch (self, other) {
        case (.beforeStored, .beforeStored), (.beforeBuild, .beforeBuild), (.jumped, .jumped),
            (.notSynchronized, .notSynchronized), (.againstSensor, .againstSensor),
            (.againstMeter, .againstMeter):
            true
        default: false
        }
    }

    /// Half a line for people: "this machine's clock …".
    public var description: String {
        switch self {
        case .beforeStored(let instant): "is behind the newest contact in the store, \(instant.flooredToSecond)"
        case .beforeBuild(let instant): "is earlier than this program's build, \(instant.flooredToSecond)"
        case .jumped(let seconds): "has jumped by \(seconds) s"
        case .notSynchronized: "is not synchronised, and `clock.require_sync` requires it"
        case .againstSensor: "contradicts the known start of this sensor, and nothing says that the clock is right"
        case .againstMeter(let seconds):
            "seems to have lost \(seconds) s: the device's clock is ahead by so much more than when it was last read, and "
                + "nothing says that this machine's clock is right"
        }
    }

    /// The published name of its kind.
    package var name: String {
        switch self {
        case .beforeStored: "before_stored"
        case .beforeBuild: "before_build"
        case .jumped: "jumped"
        case .notSynchronized: "not_synchronised"
        case .againstSensor: "against_sensor"
        case .againstMeter: "against_meter"
        }
    }

    /// What to do about it.
    var mend: String {
        let keep = "set it, and keep it right: `timedatectl set-ntp true`"
        switch self {
        case .beforeBuild, .notSynchronized: return keep
        case .beforeStored, .jumped, .againstSensor:
            return keep + "; if it is already right: `healthrelay store trust-clock`"
        case .againstMeter:
            return "wait until it is synchronised: `timedatectl set-ntp true`; if it is already right, because the "
                + "device's clock was set ahead: `healthrelay store trust-clock`"
        }
    }

    /// Why a device is not read.
    var failure: ContactFailure {
        let consequence =
            switch self {
            case .beforeStored, .beforeBuild, .jumped, .notSynchronized:
                "no device is read or set under it; devices keep their records"
            case .againstSensor, .againstMeter: "the device is not read or set under it, and keeps its records"
            }
        return ContactFailure(
            code: "clock_not_trusted", description: "this machine's clock \(self): \(consequence)", hint: mend)
    }
}

import Foundation
import GatewaySettings
import HealthReadings

/// What of the clock outlasts the process: `clock.json` in the state directory. It holds nothing personal.
struct ClockRecord: Codable, Sendable, Hashable {
    /// A jump of the clock that is still in doubt.
    struct Jump: Codable, Sendable, Hashable {
        var seconds: Int64
        /// How long the clock must run steadily to be trusted again, in seconds.
        var needed: Int64
    }

    /// Where the clock stood when it was last trusted.
    struct Anchor: Codable, Sendable, Hashable {
        var boot: String
        /// The clock less the time since the machine began.
        var offset: Int64
        /// The clock itself.
        var wall: Int64
    }

    /// The kernel's number of this start of the machine.
    var boot: String
    /// Seconds since the machine began, when the clock was last looked at.
    var uptime: Int64
    /// The clock less the uptime then.
    var offset: Int64
    /// How long the clock has run with the machine, without a jump, in seconds that the gateway has watched.
    var steady: Int64
    var jump: Jump?
    var anchor: Anchor?
    /// The clock less the uptime as it was trusted earlier in this start of the machine, if the clock has been put forward since
    /// and what was received before is not judged again by it yet.
    var behind: Int64?
    /// The clock less the uptime as it was known to be right in this start of the machine: it was synchronised, or confirmed.
    var right: Int64?
    /// The start of the machine in which a person said that the clock is right; it has not jumped since.
    var confirmed: String?

    /// The clock when it was last looked at.
    var wall: Int64 { offset + uptime }

    enum CodingKeys: String, CodingKey {
        case boot, uptime, offset, steady = "steady_seconds", jump, anchor = "trusted", behind, right, confirmed
    }
}

/// The file of a ``ClockRecord``. One that cannot be read or written costs only what was known of steadiness.
struct ClockFile: Sendable {
    static let name = "clock.json"
    let path: String

    init(directory: String) { path = directory + "/" + Self.name }

    func read() -> ClockRecord? {
        guard let data = OrdinaryFile.contents(path), data.count < 4096 else { return nil }
        return try? JSONDecoder().decode(ClockRecord.self, from: data)
    }

    /// Put in place at once, so that a power cut leaves the old one or the new one, or an empty one, which is no record.
    func write(_ record: ClockRecord) {
        guard let data = try? JSONEncoder().encode(record) else { return }
        let fresh = path + ".new"
        let file = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK, 0o600)
        guard file >= 0 else { return }
        let isWhole = data.withUnsafeBytes { Foundation.write(file, $0.baseAddress, $0.count) } == data.count
        close(file)
        if isWhole { rename(fresh, path) } else { unlink(fresh) }
    }
}

import CTimex
import Foundation
import LibDBus
import Synchronization

/// Who says that this machine's clock is synchronised.
///
/// Every time service (systemd-timesyncd, chrony, ntpd) tells the kernel. A sandboxed service may not ask the kernel
/// (adjtimex(2)); it asks systemd-timedated, which asks the kernel for it, and looks for the file systemd-timesyncd
/// leaves.
enum ClockEvidence: String, Sendable, Hashable, CaseIterable {
    case kernel
    case timesyncd
    case timedated

    /// Half a line for people.
    var words: String {
        switch self {
        case .kernel: "the kernel says so"
        case .timesyncd: "systemd-timesyncd says so"
        case .timedated: "systemd-timedated says so"
        }
    }
}

/// Looks for evidence that the clock is synchronised.
struct ClockWitness: Sendable {
    /// The kernel's answer.
    enum Kernel: Sendable, Hashable {
        case synchronized
        case unsynchronized
        /// This process may not ask.
        case refused
    }

    /// Asks the kernel.
    var kernel: @Sendable () -> Kernel = Self.askKernel
    /// What systemd-timesyncd leaves where it has synchronised the clock since the machine began.
    var timesyncFile = "/run/systemd/timesync/synchronized"
    /// Asks systemd-timedated; nil where there is none.
    var timedated: @Sendable () async -> Bool? = Self.askTimedated

    /// The evidence there is; nil: nobody says that the clock is synchronised.
    ///
    /// The kernel's answer counts alone where there is one: the file stays where a time service has lost its servers.
    func evidence() async -> ClockEvidence? {
        switch kernel() {
        case .synchronized: return .kernel
        case .unsynchronized: return nil
        case .refused: break
        }
        if let isSynchronized = await timedated() { return isSynchronized ? .timedated : nil }
        return access(timesyncFile, F_OK) == 0 ? .timesyncd : nil
    }

    @Sendable static func askKernel() -> Kernel {
        var state = timex()
        state.modes = 0
        let result = adjtimex(&state)
        if result < 0 { return .refused }
        return result != TIME_ERROR && state.status & STA_UNSYNC == 0 ? .synchronized : .unsynchronized
    }

    /// How long an answer of systemd-timedated counts: it is started for each question.
    private static let timedatedEvery: Duration = .seconds(60)
    private static let lastAnswer = Mutex<(answer: Bool?, at: ContinuousClock.Instant)?>(nil)

    @Sendable static func askTimedated() async -> Bool? {
        if let last = lastAnswer.withLock({ $0 }), ContinuousClock.now - last.at < timedatedEvery { return last.answer }
        let answer = await property()
        lastAnswer.withLock { $0 = (answer, .now) }
        return answer
    }

    private static func property() async -> Bool? {
        guard let connection = try? await DBusConnection.open(.system) else { return nil }
        let answer = try? await connection.call(
            "org.freedesktop.timedate1", "/org/freedesktop/timedate1", "org.freedesktop.DBus.Properties", "Get",
            [.string("org.freedesktop.timedate1"), .string("NTPSynchronized")])
        await connection.close()
        guard case .variant(let value)? = answer?.first, case .bool(let isSynchronized) = value else { return nil }
        return isSynchronized
    }
}

import GRDB
import HealthReadings

/// How long a destination is left alone after a failure, kept over restarts.
public struct DeliveryDelay: Sendable, Hashable {
    /// When the next attempt is due, by the gateway's clock.
    public var due: Instant
    /// How long that was when it was noted, in whole seconds.
    public var seconds: Int64
    /// Whether a process that begins waits for it too: the destination has asked to be left alone, or has refused a key.
    public var outlivesProcess: Bool
    /// Whether delivery waits for a person.
    public var needsPerson: Bool
    /// Attempts that failed since the last that did not.
    public var failures: Int
    /// How many of them in a row needed a person.
    public var pauses: Int
    /// A mark of the settings that it failed with: with others it is forgotten.
    public var settings: String
    /// The published name of the failure.
    public var code: String
    /// The failure on one line, without the destination's words.
    public var message: String

    /// Creates a delay.
    public init(
        due: Instant, seconds: Int64, outlivesProcess: Bool, needsPerson: Bool, failures: Int,
        pauses: Int, settings: String, code: String, message: String
    ) {
        self.due = due
        self.seconds = seconds
        self.outlivesProcess = outlivesProcess
        self.needsPerson = needsPerson
        self.failures = failures
        self.pauses = pauses
        self.settings = settings
        self.code = code
        self.message = message
    }

    /// The longest wait that is believed: a day is the longest that a server's `Retry-After` may ask for.
    private static let longest: Int64 = 25 * 3600
    /// The longest wait for a person.
    private static let longestPause: Int64 = 6 * 3600

    /// How much of it is left, in whole seconds, rounded up.
    ///
    /// A clock that was set meanwhile neither makes it longer than it was, nor longer than any wait may be.
    public func secondsLeft(at now: Instant) -> Int64 {
        guard due > now else { return 0 }
        let (left, isTooLong) = due.microseconds.subtractingReportingOverflow(now.microseconds)
        let bound = min(seconds, needsPerson ? Self.longestPause : Self.longest)
        return max(0, isTooLong ? bound : min(bound, left / 1_000_000 + (left % 1_000_000 == 0 ? 0 : 1)))
    }
}

extension DeliveryDelay {
    /// The delay as it is stored.
    fileprivate var lines: [String] {
        let flags = [outlivesProcess, needsPerson].map { $0 ? "1" : "0" }.joined()
        return [
            "\(due.microseconds) \(seconds) \(flags) \(failures) \(pauses)", "settings \(settings)", "code \(code)",
            "message " + message.split(whereSeparator: \.isNewline).joined(separator: " "),
        ]
    }

    /// - Returns: `nil` for lines that are none: nothing is waited for on their word.
    fileprivate init?(lines: [String]) {
        guard lines.count == 4 else { return nil }
        let words = lines[0].split(separator: " ").map(String.init)
        guard words.count == 5, let due = Int64(words[0]), let seconds = Int64(words[1]), words[2].count == 2,
            let failures = Int(words[3]), let pauses = Int(words[4]), (0...1_000_000).contains(failures),
            (0...1_000_000).contains(pauses)
        else { return nil }
        func text(_ line: Int, _ name: String) -> String? {
            lines[line].hasPrefix(name + " ") ? String(lines[line].dropFirst(name.count + 1)) : nil
        }
        guard let settings = text(1, "settings"), let code = text(2, "code"), let message = text(3, "message") else {
            return nil
        }
        let flags = words[2].map { $0 == "1" }
        self.init(
            due: Instant(microseconds: due), seconds: seconds, outlivesProcess: flags[0], needsPerson: flags[1],
            failures: failures, pauses: pauses, settings: settings, code: code, message: message)
    }
}

extension ReadingStore {
    /// How long a destination is left alone after its last failure; `nil` if nothing failed since it last took something.
    public func delay(of destination: DestinationKey) async throws -> DeliveryDelay? {
        try await read { db in try DeliveryDelay(lines: Self.lines(db, Self.delaySetting(destination))) }
    }

    /// Notes how long a destination is left alone; `nil`: no longer.
    public func setDelay(_ delay: DeliveryDelay?, of destination: DestinationKey) async throws {
        let lines = delay?.lines ?? []
        guard try await read({ db in try Self.lines(db, Self.delaySetting(destination)) }) != lines else { return }
        try await write(.setting) { db in try Self.set(db, Self.delaySetting(destination), lines: lines) }
    }

    static func delaySetting(_ destination: DestinationKey) -> String {
        "destination.delay.\(destination.rawValue)"
    }
}

extension ReadingStore {
    /// The highest number that a destination's documents may have had, of those that are kept by their number; `nil` if none
    /// was sent.
    package func lastOrder(of destination: DestinationKey) async throws -> Int64? {
        try await read { db in try Self.lines(db, Self.orderSetting(destination)).first.flatMap(Int64.init) }
    }

    /// Notes that documents up to this number may be sent to a destination. It never falls.
    package func reserveOrder(upTo number: Int64, of destination: DestinationKey) async throws {
        try await write(.order) { db in
            let known = try Self.lines(db, Self.orderSetting(destination)).first.flatMap(Int64.init)
            try Self.set(db, Self.orderSetting(destination), lines: [String(max(number, known ?? number))])
        }
    }

    private static func orderSetting(_ destination: DestinationKey) -> String {
        "destination.order.\(destination.rawValue)"
    }
}

extension ReadingStore {
    /// What is wrong at a destination although readings are delivered there: a line each, without anybody's values.
    public func warnings(of destination: DestinationKey) async throws -> [String] {
        try await read { db in try Self.lines(db, Self.warningSetting(destination)) }
    }

    /// Notes what is wrong at a destination although readings are delivered there; nothing: all is well.
    public func setWarnings(_ warnings: [String], of destination: DestinationKey) async throws {
        let lines = warnings.map { $0.split(whereSeparator: \.isNewline).joined(separator: " ") }
        guard try await self.warnings(of: destination) != lines else { return }
        try await write(.setting) { db in try Self.set(db, Self.warningSetting(destination), lines: lines) }
    }

    static func warningSetting(_ destination: DestinationKey) -> String {
        "destination.warnings.\(destination.rawValue)"
    }
}

import GatewaySettings
import HealthReadings
import ReadingStore

/// Reads instants as commands take them: RFC 3339, or a date in a person's zone.
package enum InstantArgument {
    /// Which end of a day a bare date means.
    package enum End { case start, end }

    /// The instant.
    /// - Throws: `Problem` with status 64.
    package static func instant(_ text: String, _ flag: String, end: End, zone: ZoneRules) throws(Problem) -> Instant {
        if let instant = Instant(rfc3339: text) { return instant }
        guard text.utf8.count == 10, let midnight = WallTime(text + "T00:00:00") else {
            throw Problem.usage(
                "\(flag): expected an instant such as 2026-11-20T13:30:00Z or a date such as 2026-11-20, found '\(text)'"
            )
        }
        switch end {
        case .start: return zone.first(midnight)
        // The last microsecond before the next day begins, whatever its length.
        case .end: return Instant(microseconds: zone.first(midnight.advanced(byMinutes: 24 * 60)).microseconds - 1)
        }
    }
}

extension ZoneRules {
    /// The first instant at which clocks show this time, or would have.
    fileprivate func first(_ wall: WallTime) -> Instant {
        switch moment(wall) {
        case .once(let instant), .never(let instant), .twice(let instant, _): instant
        }
    }
}

extension ReadingStore {
    /// What `--from` and `--to` say; nil where neither is given. A date means a day of this person, or of the current user.
    func range(from: String?, to: String?, of person: StoreUser? = nil) async throws -> ClosedRange<Instant>? {
        guard from != nil || to != nil else { return nil }
        let user = if let person { person } else { try await currentUser() }
        guard let zone = ZoneRules.named(user.timeZone) else { throw StoreError.unknownTimeZone(user.timeZone) }
        // Years that RFC 3339 can write stand for an end that is open.
        let start =
            try from.map { try InstantArgument.instant($0, "--from", end: .start, zone: zone) }
            ?? Instant(seconds: -62_135_596_800)
        let end =
            try to.map { try InstantArgument.instant($0, "--to", end: .end, zone: zone) }
            ?? Instant(seconds: 253_402_300_799)
        guard start <= end else { throw Problem.usage("--from \(start) is later than --to \(end)") }
        return start...end
    }
}

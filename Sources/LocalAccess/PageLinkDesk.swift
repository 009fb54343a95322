import Foundation
import HealthReadings
import Synchronization

/// Hands out the one-time codes in links to the page.
///
/// A code is 128 random bits, good once and for five minutes. Several can be open at a time, so that one person's link
/// ends nobody else's.
public final class PageLinkDesk: Sendable {
    /// A code and its end.
    public struct Ticket: Sendable, Hashable {
        /// 32 hexadecimal digits: a secret.
        public let code: String
        /// When it ends to be good.
        public let expiresAt: Date
    }

    /// How long a code is good, in seconds.
    public static let lifetime: TimeInterval = 300
    /// How many can be open at a time; the oldest goes first.
    static let capacity = 16

    private struct Open {
        var code: [UInt8]
        /// By a clock that nobody sets.
        var end: ContinuousClock.Instant
    }

    private let open = Mutex<[Open]>([])

    /// Makes a desk without any code.
    public init() {}

    /// Makes a code.
    public func issue(now: Date, clock: ContinuousClock.Instant = .now) -> Ticket {
        var generator = SystemRandomNumberGenerator()
        let code = (0..<16).map { _ in UInt8.random(in: .min ... .max, using: &generator) }.hexadecimal()
        open.withLock { open in
            open.removeAll { $0.end <= clock }
            if open.count >= Self.capacity { open.removeFirst() }
            open.append(Open(code: Array(code.utf8), end: clock + .seconds(Self.lifetime)))
        }
        return Ticket(code: code, expiresAt: now + Self.lifetime)
    }

    /// Takes a code; it is not good a second time. Takes as long whichever byte differs.
    ///
    /// - Returns: whether it was good.
    public func redeem(_ code: String, clock: ContinuousClock.Instant = .now) -> Bool {
        let code = Array(code.utf8)
        return open.withLock { open in
            var found: Int?
            for (index, candidate) in open.enumerated() where Self.isEqual(candidate.code, code) { found = index }
            guard let found else { return false }
            return open.remove(at: found).end > clock
        }
    }

    private static func isEqual(_ lhs: [UInt8], _ rhs: [UInt8]) -> Bool {
        lhs.count == rhs.count && zip(lhs, rhs).reduce(UInt8(0)) { $0 | ($1.0 ^ $1.1) } == 0
    }
}

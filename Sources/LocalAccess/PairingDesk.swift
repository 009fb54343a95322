import Foundation
import Synchronization

/// Hands out one-time codes by which a client proves that somebody in front of the gateway wants it.
///
/// There is one code at a time; a new one replaces the one before. It is good once, and for five minutes.
///
/// Wrong guesses never void a code, and the right code is accepted whatever was guessed before: on loopback the owner and
/// a stranger have the same address, so a limit by address would keep the owner out. The limits below decide only how a
/// wrong guess is answered.
///
/// The code's length is what keeps it from being guessed. There are 56^8 = 9.7 × 10^13 codes, and a code lives 300
/// seconds. Even at 100,000 guesses a second, far more than the gateway can answer, an attacker makes 3 × 10^7 guesses
/// and finds one code in 3.2 million.
public final class PairingDesk: Sendable {
    /// What a person shows the client.
    public struct Invitation: Sendable, Hashable {
        /// Eight letters and digits; none of them looks like another.
        public let code: String
        /// When it expires, for people: the desk itself counts by a clock that nobody sets.
        public let expiresAt: Date
        /// For whom, and for what, it lets a client in.
        public let grant: AccessGrant
        /// What the client is called in the list; `nil` for what it calls itself.
        public let name: String?
    }

    /// Who presents a code.
    public struct Guest: Sendable, Hashable {
        /// Its address.
        public let address: String
        /// The network of addresses among which it can choose; for IPv4 the address itself.
        public let network: String

        /// Names a guest.
        public init(address: String, network: String) {
            self.address = address
            self.network = network
        }
    }

    /// Why a code was not taken.
    public enum Refusal: Error, Sendable, Hashable, CustomStringConvertible {
        /// Nobody was invited, or somebody has come already.
        case notInvited
        /// Another code was expected.
        case wrongCode
        /// The five minutes are over.
        case expired
        /// This address has guessed wrong too often; the code is still good.
        case tooManyTries
        /// Too many wrong guesses come in at once; the code is still good.
        case busy

        /// One line for people.
        public var description: String {
            switch self {
            case .notInvited: "No client is expected: make a pairing code with `healthrelay client invite`."
            case .wrongCode: "Wrong pairing code."
            case .expired: "The pairing code has expired: make another with `healthrelay client invite`."
            case .tooManyTries:
                "Too many wrong pairing codes from this address. The right one is still good."
            case .busy: "Too many wrong pairing codes. Try again in a second."
            }
        }

        /// The published code of the refusal.
        public var code: String {
            switch self {
            case .notInvited: "not_invited"
            case .wrongCode: "wrong_pairing_code"
            case .expired: "pairing_code_expired"
            case .tooManyTries: "too_many_tries"
            case .busy: "too_many_guesses"
            }
        }
    }

    /// How long a code is good, in seconds.
    public static let lifetime: TimeInterval = 300
    /// The wrong guesses of one address that are answered as such.
    public static let tries = 5
    /// The wrong guesses of one network that are answered as such, before one a second is.
    public static let networkTries = 100
    /// The wrong guesses of everybody together that are answered and counted, before ``laterRate`` a second are.
    public static let allTries = 10_000
    /// How many wrong guesses a second are answered then.
    public static let laterRate = 10.0
    /// How many characters a code has.
    public static let length = 8
    /// Without I, O, l, o, 0 and 1.
    static let alphabet = Array("ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnpqrstuvwxyz23456789")

    /// How many guesses are left, of which some come back each second.
    private struct Allowance {
        var left: Double
        var at: ContinuousClock.Instant

        mutating func refill(rate: Double, clock: ContinuousClock.Instant) {
            // Those of the beginning are never more than there were.
            if left < 1 { left = min(1, left + max(0, (clock - at) / .seconds(1)) * rate) }
            at = clock
        }
    }

    private struct Open {
        var invitation: Invitation
        var end: ContinuousClock.Instant
        var failures: [String: Int] = [:]
        var networks: [String: Allowance] = [:]
        var all: Allowance
    }

    private let open = Mutex<Open?>(nil)

    /// Makes a desk at which nobody is expected.
    public init() {}

    /// Makes a code.
    ///
    /// - Parameters:
    ///   - grant: for whom, and for what, it lets a client in.
    ///   - name: what the client is called in the list; `nil` for what it calls itself.
    ///   - now: what the code's end is told from.
    ///   - clock: what its lifetime is counted by: setting the machine's clock makes no code live longer or shorter.
    public func invite(
        for grant: AccessGrant, name: String? = nil, now: Date, clock: ContinuousClock.Instant = .now
    ) -> Invitation {
        var generator = SystemRandomNumberGenerator()
        let code = String(
            (0..<Self.length).map { _ in Self.alphabet[Int.random(in: 0..<Self.alphabet.count, using: &generator)] })
        let invitation = Invitation(
            code: code, expiresAt: now + Self.lifetime, grant: grant, name: name)
        open.withLock {
            $0 = Open(
                invitation: invitation, end: clock + .seconds(Self.lifetime),
                all: Allowance(left: Double(Self.allTries), at: clock))
        }
        return invitation
    }

    /// Voids the code that stands for one of these persons.
    public func withdraw(people: [String]) {
        open.withLock { open in
            if let person = open?.invitation.grant.person, people.contains(person) { open = nil }
        }
    }

    /// Takes a code; it is not good a second time.
    ///
    /// - Returns: the invitation whose code it is.
    @discardableResult
    public func redeem(
        _ code: String, from guest: Guest, clock: ContinuousClock.Instant = .now
    ) throws(Refusal) -> Invitation {
        try open.withLock { open throws(Refusal) in
            guard var current = open else { throw .notInvited }
            guard clock < current.end else {
                open = nil
                throw .expired
            }
            // First, and whoever asks: see above.
            if Self.isEqual(Array(code.utf8), Array(current.invitation.code.utf8)) {
                open = nil
                return current.invitation
            }
            let failures = current.failures[guest.address, default: 0]
            guard failures < Self.tries else { throw .tooManyTries }
            var network =
                current.networks[guest.network] ?? Allowance(left: Double(Self.networkTries), at: clock)
            network.refill(rate: 1, clock: clock)
            current.all.refill(rate: Self.laterRate, clock: clock)
            guard network.left >= 1, current.all.left >= 1 else {
                open = current
                throw .busy
            }
            network.left -= 1
            current.all.left -= 1
            current.networks[guest.network] = network
            current.failures[guest.address] = failures + 1
            open = current
            throw failures + 1 < Self.tries ? .wrongCode : .tooManyTries
        }
    }

    /// Takes as long whichever byte differs.
    private static func isEqual(_ lhs: [UInt8], _ rhs: [UInt8]) -> Bool {
        lhs.count == rhs.count && zip(lhs, rhs).reduce(UInt8(0)) { $0 | ($1.0 ^ $1.1) } == 0
    }
}

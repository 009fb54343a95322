import Foundation
import Synchronization

/// Hands out one-time codes by which a client proves that somebody in front of the gateway wants it.
///
/// There is one code at a time; a new one ends the one before. It is good once, for five minutes and for five tries.
public final class PairingDesk: Sendable {
    /// What a person shows the client.
    public struct Invitation: Sendable, Hashable {
        /// Eight letters and digits; none of them looks like another.
        public let code: String
        /// When it ends to be good.
        public let expiresAt: Date
    }

    /// Why a code was not taken.
    public enum Refusal: Error, Sendable, Hashable, CustomStringConvertible {
        /// Nobody was invited, or somebody has come already.
        case notInvited
        /// Another code was expected.
        case wrongCode
        /// The five minutes are over.
        case expired
        /// The code was guessed at too often and is void.
        case tooManyTries

        /// One line for people.
        public var description: String {
            switch self {
            case .notInvited: "No client is expected: make a pairing code with `healthrelay client invite`."
            case .wrongCode: "That is not the pairing code."
            case .expired: "The pairing code has expired: make another with `healthrelay client invite`."
            case .tooManyTries: "Too many wrong pairing codes: make another with `healthrelay client invite`."
            }
        }

        /// The published code of the refusal.
        public var code: String {
            switch self {
            case .notInvited: "not_invited"
            case .wrongCode: "wrong_pairing_code"
            case .expired: "pairing_code_expired"
            case .tooManyTries: "too_many_tries"
            }
        }
    }

    /// How long a code is good, in seconds.
    public static let lifetime: TimeInterval = 300
    /// How often it may be guessed at.
    public static let tries = 5
    /// How many characters it has.
    public static let length = 8
    /// Without I, O, l, o, 0 and 1.
    private static let alphabet = Array("ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnpqrstuvwxyz23456789")

    private struct Open {
        var invitation: Invitation
        var failures = 0
    }

    private let open = Mutex<Open?>(nil)

    /// Makes a desk at which nobody is expected.
    public init() {}

    /// Makes a code.
    public func invite(now: Date) -> Invitation {
        var generator = SystemRandomNumberGenerator()
        let code = String(
            (0..<Self.length).map { _ in Self.alphabet[Int.random(in: 0..<Self.alphabet.count, using: &generator)] })
        let invitation = Invitation(code: code, expiresAt: now + Self.lifetime)
        open.withLock { $0 = Open(invitation: invitation) }
        return invitation
    }

    /// Takes a code; it is not good a second time.
    public func redeem(_ code: String, now: Date) throws(Refusal) {
        try open.withLock { open throws(Refusal) in
            guard var current = open else { throw .notInvited }
            guard current.failures < Self.tries else { throw .tooManyTries }
            guard now < current.invitation.expiresAt else {
                open = nil
                throw .expired
            }
            guard Self.isEqual(Array(code.utf8), Array(current.invitation.code.utf8)) else {
                current.failures += 1
                open = current
                throw current.failures < Self.tries ? .wrongCode : .tooManyTries
            }
            open = nil
        }
    }

    /// Takes as long whichever octet differs.
    private static func isEqual(_ lhs: [UInt8], _ rhs: [UInt8]) -> Bool {
        lhs.count == rhs.count && zip(lhs, rhs).reduce(UInt8(0)) { $0 | ($1.0 ^ $1.1) } == 0
    }
}

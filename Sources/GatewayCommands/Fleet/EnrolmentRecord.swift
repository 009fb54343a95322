import Crypto
import Foundation
import HealthReadings

/// What a gateway remembers of its enrolment at a fleet's authority.
struct EnrolmentRecord: Sendable, Hashable {
    /// A key with its certificate, in a folder of its own.
    struct Generation: Sendable, Hashable {
        /// The folder's name: the certificate's serial number.
        var serial: String
        var issuer: String
        var from: Instant
        var until: Instant
    }

    /// A renewal that failed, or a new certificate that no broker has let in.
    struct Failure: Sendable, Hashable {
        var code: String
        var message: String
        var at: Instant
        /// How often in a row.
        var count: Int
    }

    var gateway: String
    var url: String
    /// SHA-256 of the token, so that the same file is not used twice.
    var token: String
    /// The authority's fingerprint.
    var authority: String
    var current: Generation
    /// The one before, until a connection with ``current`` was made.
    var previous: Generation?
    /// Why the last renewal failed; `nil`: it did not.
    var renewal: Failure?
    /// Why a broker has refused ``current``; `nil`: none has.
    var refusal: Failure?

    static let mostBytes = 65_536

    /// Reads a record; `nil` for anything else.
    init?(_ octets: [UInt8]) {
        guard let node = try? JSONReader.read(octets), node["schema"]?.integer == 1,
            let gateway = node["gateway"]?.text, let url = node["url"]?.text, let token = node["token_sha256"]?.text,
            let authority = node["authority_sha256"]?.text, let current = node["current"].flatMap(Generation.init)
        else { return nil }
        self.init(gateway: gateway, url: url, token: token, authority: authority, current: current)
        previous = node["previous"].flatMap(Generation.init)
        renewal = node["renewal_failure"].flatMap(Failure.init)
        refusal = node["refusal"].flatMap(Failure.init)
    }

    init(gateway: String, url: String, token: String, authority: String, current: Generation) {
        (self.gateway, self.url, self.token) = (gateway, url, token)
        (self.authority, self.current) = (authority, current)
    }

    var document: JSONValue {
        .object([
            "schema": 1, "gateway": .string(gateway), "url": .string(url), "token_sha256": .string(token),
            "authority_sha256": .string(authority), "current": current.document,
            "previous": previous?.document ?? .null, "renewal_failure": renewal?.document ?? .null,
            "refusal": refusal?.document ?? .null,
        ])
    }
}

extension EnrolmentRecord.Generation {
    fileprivate init?(_ node: JSONNode) {
        guard let serial = node["serial"]?.text, !serial.isEmpty, serial.utf8.allSatisfy(\.isLowercaseHexadecimal),
            let issuer = node["issuer"]?.text, let from = node["not_before"]?.text.flatMap({ Instant(rfc3339: $0) }),
            let until = node["not_after"]?.text.flatMap({ Instant(rfc3339: $0) })
        else { return nil }
        self.init(serial: serial, issuer: issuer, from: from, until: until)
    }

    fileprivate var document: JSONValue {
        .object([
            "serial": .string(serial), "issuer": .string(issuer), "not_before": .string(from.description),
            "not_after": .string(until.description),
        ])
    }

    /// When two thirds of its life are over.
    ///
    /// Certificates of gateways that enrolled in one afternoon are not renewed in one: each waits for up to a fiftieth of
    /// the life longer, by its serial number.
    var renewsAt: Instant {
        let life = until.seconds - from.seconds
        let share = Int64(serial.utf8.reduce(0) { ($0 &* 31 &+ Int($1)) & 0xFFFF }) * (life / 50) / 0xFFFF
        return from.advanced(bySeconds: life * 2 / 3 + share)
    }
}

extension EnrolmentRecord.Failure {
    fileprivate init?(_ node: JSONNode) {
        guard let code = node["code"]?.text, let message = node["message"]?.text,
            let at = node["at"]?.text.flatMap({ Instant(rfc3339: $0) }), let count = node["count"]?.integer
        else { return nil }
        self.init(code: code, message: message, at: at, count: count)
    }

    fileprivate var document: JSONValue {
        .object([
            "code": .string(code), "message": .string(message), "at": .string(at.description),
            "count": .integer(Int64(count)),
        ])
    }

    /// The longest time until it is tried again: five minutes, then twice as long each time, up to twelve hours.
    var mostSeconds: Int64 { min(43_200, 300 << Int64(min(max(count, 1) - 1, 8))) }
}

extension EnrolmentRecord {
    /// How the certificate stands.
    enum State: String {
        case valid
        /// Two thirds of its life are over.
        case due
        case expired
        /// The machine's clock is before its beginning.
        case notYetValid = "not_yet_valid"
    }

    func state(at now: Instant) -> State {
        if now < current.from { return .notYetValid }
        if now >= current.until { return .expired }
        return now >= current.renewsAt ? .due : .valid
    }

    /// When a renewal that failed is tried again; `nil`: it did not fail.
    ///
    /// An authority takes so many requests of a network in a minute. Gateways that it refused together, as after a power cut in a
    /// clinic, must not come back together: each waits for half of the time, and for a part of the other half by its id.
    var retriesAt: Instant? {
        renewal.map { failure in
            let half = failure.mostSeconds / 2
            let digest = SHA256.hash(data: Data("\(gateway)/\(failure.count)".utf8))
            let number = digest.prefix(4).reduce(Int64(0)) { $0 << 8 | Int64($1) }
            return failure.at.advanced(bySeconds: half + number % (half + 1))
        }
    }

    /// When the next renewal is tried; `nil`: never, because the certificate has ended.
    func nextRenewal(at now: Instant) -> Instant? {
        guard now < current.until else { return nil }
        // A failure in the future was noted under a clock that was ahead: to wait for it could outlast the certificate.
        let retry = renewal.flatMap { $0.at <= now ? retriesAt : nil }
        return max(current.renewsAt, retry ?? current.renewsAt)
    }

    /// What a person has to know; `nil` if all is well.
    func problem(at now: Instant) -> String? {
        switch state(at: now) {
        case .expired:
            return "the certificate ended at \(current.until): ask the fleet's operator for a token, and enrol again"
        case .notYetValid:
            return "this machine's clock says \(now.flooredToSecond), and the certificate begins at \(current.from): "
                + "set the clock"
        case .valid, .due: break
        }
        if let refusal {
            return "the new certificate was refused, and the one before is used again: \(refusal.message)"
        }
        return renewal.map { "the certificate could not be renewed: \($0.message)" }
    }
}

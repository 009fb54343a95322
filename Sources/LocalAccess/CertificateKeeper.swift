import Foundation
import HealthReadings
import NIOSSL
import Synchronization

/// Keeps the gateway's certificate in its state directory and puts another in its place before it ends.
///
/// Clients keep the certificate's fingerprint and have to be paired again when it changes. It therefore changes only in
/// ``update(now:)``, which is called with a clock that can be trusted, and never at the start: a machine without a battery
/// for its clock may begin in the past or in the future. The certificate before is kept beside it and comes back where the
/// newer one turns out to be made under a clock that stood in the future.
public final class CertificateKeeper: Sendable {
    private struct State {
        var certificate: GatewayCertificate
        var context: NIOSSLContext
    }

    /// What ``update(now:)`` did.
    public enum Update: Sendable, Hashable {
        /// Another certificate took the place of one that was about to end.
        case renewed
        /// The certificate before came back: the newer one is from the future.
        case restored
    }

    /// The file's name in the state directory.
    public static let fileName = "tls.pem"

    private let path: String
    private let names: [String]
    /// Whether clients verify against the certificate as their authority.
    private let isAnchor: Bool
    private let state: Mutex<State>

    /// Takes the certificate of a state directory, whatever the clock says of it, or makes one where there is none.
    ///
    /// - Throws: ``AccessError/cannotKeepCertificate(path:reason:)`` where it can be neither read nor written. A file
    ///   that is damaged is not replaced in silence: what clients were paired with would be gone.
    public init(directory: String, names: [String], now: Date, isAnchor: Bool = false) throws {
        path = directory + "/" + Self.fileName
        self.names = names
        self.isAnchor = isAnchor
        for file in [path, path + ".previous"] where !FileKind(at: file).isAbsentOrRegular {
            throw AccessError.cannotKeepCertificate(path: file, reason: "it is no ordinary file")
        }
        let certificate: GatewayCertificate
        if let text = FileManager.default.contents(atPath: path).map({ String(decoding: $0, as: UTF8.self) }) {
            do {
                certificate = try GatewayCertificate(pem: text)
            } catch {
                throw AccessError.cannotKeepCertificate(path: path, reason: "\(error)")
            }
        } else {
            guard access(path, F_OK) != 0 else {
                throw AccessError.cannotKeepCertificate(path: path, reason: "it cannot be read")
            }
            certificate = try GatewayCertificate(names: names, now: now, isAnchor: isAnchor)
            try Self.write(certificate, to: path)
        }
        state = Mutex(State(certificate: certificate, context: try certificate.context()))
    }

    /// The certificate in force.
    public var certificate: GatewayCertificate { state.withLock(\.certificate) }
    /// What the next connection is made with.
    public var context: NIOSSLContext { state.withLock(\.context) }

    /// Puts another certificate in place where it is time; connections that are open stay.
    ///
    /// - Parameter now: a time that can be trusted.
    /// - Returns: what was done; nil: nothing.
    public func update(now: Date) throws -> Update? {
        let current = certificate
        if current.notBefore > now, let previous = previous(), previous.notBefore <= now, now < previous.notAfter {
            try take(previous, inPlaceOf: nil)
            return .restored
        }
        guard now >= current.renewsAt else { return nil }
        try take(try GatewayCertificate(names: names, now: now, isAnchor: isAnchor), inPlaceOf: current)
        return .renewed
    }

    private var previousPath: String { path + ".previous" }

    private func previous() -> GatewayCertificate? {
        FileManager.default.contents(atPath: previousPath)
            .flatMap { try? GatewayCertificate(pem: String(decoding: $0, as: UTF8.self)) }
    }

    private func take(_ fresh: GatewayCertificate, inPlaceOf current: GatewayCertificate?) throws {
        let context = try fresh.context()
        if let current { try Self.write(current, to: previousPath) }
        try Self.write(fresh, to: path)
        if current == nil { unlink(previousPath) }
        state.withLock { $0 = State(certificate: fresh, context: context) }
    }

    private static func write(_ certificate: GatewayCertificate, to path: String) throws {
        do throws(PrivateFile.Failure) {
            try PrivateFile.write(Array(certificate.pem.utf8), to: path)
        } catch {
            throw AccessError.cannotKeepCertificate(path: path, reason: error.reason)
        }
    }
}

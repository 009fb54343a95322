import Foundation
import NIOSSL
import Synchronization

/// Keeps the gateway's certificate in its state directory and puts another in its place before it ends.
///
/// A certificate that is not good yet by this machine's clock is kept: a machine without a battery for its clock
/// begins in the past, and every client would have to be paired again.
public final class CertificateKeeper: Sendable {
    private struct State {
        var certificate: GatewayCertificate
        var context: NIOSSLContext
    }

    /// The file's name in the state directory.
    public static let fileName = "tls.pem"

    private let path: String
    private let names: [String]
    private let state: Mutex<State>

    /// Takes the certificate of a state directory, or makes one; one that is about to end is renewed.
    ///
    /// - Throws: ``AccessError/cannotKeepCertificate(path:reason:)`` where it can be neither read nor written. A file
    ///   that is damaged is not replaced in silence: what clients were paired with would be gone.
    public init(directory: String, names: [String], now: Date) throws {
        path = directory + "/" + Self.fileName
        self.names = names
        var certificate: GatewayCertificate
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
            certificate = try GatewayCertificate(names: names, now: now)
            try Self.write(certificate, to: path)
        }
        if now >= certificate.renewsAt {
            certificate = try GatewayCertificate(names: names, now: now)
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
    /// - Returns: whether it was time.
    public func renewIfDue(now: Date) throws -> Bool {
        guard now >= certificate.renewsAt else { return false }
        let fresh = try GatewayCertificate(names: names, now: now)
        try Self.write(fresh, to: path)
        let context = try fresh.context()
        state.withLock { $0 = State(certificate: fresh, context: context) }
        return true
    }

    /// Written beside, synchronised and put in place: a power cut leaves the old one or the new one.
    private static func write(_ certificate: GatewayCertificate, to path: String) throws {
        func problem() -> AccessError {
            .cannotKeepCertificate(path: path, reason: String(cString: strerror(errno)))
        }
        let fresh = path + ".new"
        unlink(fresh)
        let file = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard file >= 0 else { throw problem() }
        defer { close(file) }
        var rest = Array(certificate.pem.utf8)[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Foundation.write(file, $0.baseAddress, $0.count) }
            guard count > 0 else { throw problem() }
            rest = rest.dropFirst(count)
        }
        guard fsync(file) == 0, rename(fresh, path) == 0 else { throw problem() }
        // Until the new name is durable, a power cut may leave the former certificate or none.
        let folder = open((path as NSString).deletingLastPathComponent, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard folder >= 0 else { throw problem() }
        defer { close(folder) }
        guard fsync(folder) == 0 else { throw problem() }
    }
}

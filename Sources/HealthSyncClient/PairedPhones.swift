import Crypto
import Foundation
import HealthReadings

/// A phone that was paired: where it was last, what its certificate is, and the token that it gave.
public struct PairedPhone: Sendable, Hashable {
    /// What it is called here: its own name, unless somebody chose another.
    public var name: String
    /// Its name or address.
    public var host: String
    /// Its port, which changes whenever the app starts to share.
    public var port: Int
    /// The only certificate to trust.
    public var fingerprint: CertificateFingerprint
    /// The token.
    public var token: PhoneToken
    /// When the token expires, by the phone's clock.
    public var expiresAt: Instant
    /// When it was paired.
    public var pairedAt: Instant

    /// Makes it.
    public init(
        name: String, host: String, port: Int, fingerprint: CertificateFingerprint, token: PhoneToken,
        expiresAt: Instant, pairedAt: Instant
    ) {
        self.name = name
        self.host = host
        self.port = port
        self.fingerprint = fingerprint
        self.token = token
        self.expiresAt = expiresAt
        self.pairedAt = pairedAt
    }

    /// The phone's server.
    public func phone(limits: HealthSyncLimits = HealthSyncLimits()) -> HealthSyncPhone {
        HealthSyncPhone(host: host, port: port, fingerprint: fingerprint, limits: limits)
    }
}

/// The phones that were paired: a file for each, mode 0600, in one directory.
public struct PairedPhones: Sendable {
    /// Why a phone can't be kept.
    public struct Failure: Error, Sendable, Hashable, CustomStringConvertible {
        /// The file or directory.
        public var path: String
        /// The system's reason.
        public var reason: String
        /// One line for people.
        public var description: String { "cannot keep the phone's token in \(path): \(reason)" }
    }

    /// The directory. It is made with mode 0700 when the first phone is kept.
    public let directory: String

    /// The longest name.
    public static let longestName = 64

    /// Makes it; nothing is read yet.
    public init(directory: String) { self.directory = directory }

    /// Every phone that can be read, by name.
    public func all() -> [PairedPhone] {
        let files = (try? FileManager.default.contentsOfDirectory(atPath: directory)) ?? []
        return files.filter { $0.hasSuffix(".json") }.compactMap { read(directory + "/" + $0) }
            .sorted { $0.name < $1.name }
    }

    /// Keeps a phone, in the place of one of the same name.
    ///
    /// Written beside, synchronised and put in place: a power cut leaves the old file or the new one.
    ///
    /// - Throws: ``Failure``.
    public func save(_ phone: PairedPhone) throws(Failure) {
        do throws(PrivateFile.Failure) {
            try PrivateFile.write(Array(phone.document.text.utf8), to: path(of: phone.name))
        } catch {
            throw Failure(error)
        }
    }

    /// Forgets a phone's token.
    ///
    /// - Returns: whether there was one.
    /// - Throws: ``Failure``.
    public func remove(_ name: String) throws(Failure) -> Bool {
        do throws(PrivateFile.Failure) {
            return try PrivateFile.remove(path(of: name))
        } catch {
            throw Failure(error)
        }
    }

    /// A phone's name may hold anything, so its hash names the file.
    private func path(of name: String) -> String {
        let hash = SHA256.hash(data: Array(name.utf8)).prefix(8).map { $0.hexadecimal() }.joined()
        return "\(directory)/\(hash).json"
    }

    private func read(_ path: String) -> PairedPhone? {
        guard FileKind(at: path) == .regular, let data = FileManager.default.contents(atPath: path),
            data.count <= 65_536, let root = try? JSONReader.read(Array(data)), root["format"]?.integer == 1,
            let name = root["name"]?.text, let host = root["host"]?.text, let port = root["port"]?.integer,
            let fingerprint = root["fingerprint"]?.text.flatMap({ CertificateFingerprint($0) }),
            let token = root["token"]?.text.flatMap(PhoneToken.init),
            let expiresAt = root["expires_at"]?.text.flatMap({ Instant(rfc3339: $0) }),
            let pairedAt = root["paired_at"]?.text.flatMap({ Instant(rfc3339: $0) })
        else { return nil }
        return PairedPhone(
            name: name, host: host, port: port, fingerprint: fingerprint, token: token, expiresAt: expiresAt,
            pairedAt: pairedAt)
    }
}

extension PairedPhones.Failure {
    fileprivate init(_ failure: PrivateFile.Failure) { self.init(path: failure.path, reason: failure.reason) }
}

extension PairedPhone {
    /// What the file holds.
    fileprivate var document: JSONValue {
        .object([
            "format": 1, "name": .string(name), "host": .string(host), "port": .integer(Int64(port)),
            "fingerprint": .string(fingerprint.description), "token": .string(token.value),
            "expires_at": .string(expiresAt.description), "paired_at": .string(pairedAt.description),
        ])
    }
}

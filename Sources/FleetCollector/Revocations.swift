import FleetAuthority
import GatewaySettings
import HealthReadings
import Logging
import Synchronization
import X509

/// The list of gateways' certificates that were revoked, as its file says. The file is read again when it changes.
///
/// The last list that could be verified stays in force: one that is damaged, forged or older than it takes nobody's
/// revocation back. A list whose time is over still refuses who is in it. Before any list could be verified, no certificate
/// counts.
package final class Revocations: Sendable {
    /// What the list says of a certificate.
    package enum Verdict: Sendable, Hashable {
        case good
        case revoked
        /// There is no list yet that could be verified.
        case unknown
    }

    /// How the list itself stands.
    package enum Standing: String, Sendable, Hashable {
        case good = "ok"
        /// The last list that could be verified is in force, and the file now holds another one that can't be used.
        case unreadable
        /// The list in force is one whose time is over: who was revoked since is let in.
        case expired
        /// There is no list yet that could be verified: no certificate is taken.
        case unavailable
    }

    /// Tells a file from another one of the same name, and from what it was before.
    private struct Mark: Hashable {
        var file: FileIdentity?
        var changed: Instant?
    }

    private struct State {
        var list: RevocationList?
        var mark = Mark()
        /// What was told last.
        var told: String?
        var standing = Standing.unavailable
    }

    private let file: String
    private let authorityFile: String
    private let logger: Logger
    private let now: @Sendable () -> Instant
    private let state = Mutex(State())

    /// - Parameters:
    ///   - file: the list, in PEM or DER.
    ///   - authorityFile: the authorities that may sign it.
    package init(
        file: String, authorityFile: String, logger: Logger, now: @escaping @Sendable () -> Instant = { .systemClock }
    ) {
        self.file = file
        self.authorityFile = authorityFile
        self.logger = logger
        self.now = now
    }

    /// The list of the settings; `nil`: they name none.
    convenience init?(_ settings: CollectorSettings, logger: Logger) {
        guard let file = settings.revocationListFile, let authorities = settings.gatewayAuthorityFile else {
            return nil
        }
        self.init(file: file, authorityFile: authorities, logger: logger)
    }

    /// Looks a certificate up.
    package func verdict(on certificate: Certificate) -> Verdict {
        refresh()
        return state.withLock { state in
            guard let list = state.list else { return .unknown }
            return list.contains(certificate) ? .revoked : .good
        }
    }

    /// How the list stands now.
    package func standing() -> Standing {
        refresh()
        return state.withLock(\.standing)
    }

    /// Reads the file if it has changed, and says what is wrong with it.
    package func refresh() {
        let moment = now()
        let words = state.withLock { state -> String? in
            var words: String?
            let mark = Mark(file: FileIdentity(at: file), changed: modificationTime(ofFileAt: file))
            if mark != state.mark || state.list == nil {
                words = read(into: &state)
                // A file that can't be used is looked at again: its authority may come later.
                if words == nil { state.mark = mark }
            }
            state.standing = state.list == nil ? .unavailable : words == nil ? .good : .unreadable
            if let list = state.list, moment >= list.expires {
                state.standing = .expired
                words = words ?? "the list's time was over at \(list.expires): who was revoked since is let in"
            }
            defer { state.told = words }
            return words == state.told ? nil : words ?? "the list is in order again"
        }
        if let words { logger.error("revocation list", metadata: ["file": "\(file)", "state": "\(words)"]) }
    }

    /// - Returns: why the file isn't taken.
    private func read(into state: inout State) -> String? {
        guard let octets = PrivateFile.read(file, upTo: 64 << 20) else { return "it can't be read" }
        guard let authorities = Self.certificates(authorityFile) else { return "\(authorityFile) can't be read" }
        do throws(RevocationList.Refusal) {
            let list = try RevocationList(octets, signedBy: authorities)
            if let known = state.list, list.made < known.made {
                return "it is older than the list in force, which was made at \(known.made)"
            }
            state.list = list
            return nil
        } catch {
            return error.description
        }
    }

    private static func certificates(_ path: String) -> [Certificate]? {
        guard let octets = PrivateFile.read(path, upTo: 1 << 20) else { return nil }
        return try? Certificate.all(inPEM: String(decoding: octets, as: UTF8.self))
    }
}

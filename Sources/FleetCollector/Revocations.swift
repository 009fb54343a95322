import FleetAuthority
import Foundation
import GatewaySettings
import HealthReadings
import Logging
import Synchronization
import X509

/// The lists of gateways' certificates that were revoked, as their file says. The file is read again when it changes.
///
/// A file may have the lists of several authorities. Each is checked under the key of its own authority, and says nothing of
/// another one's certificates. The last list of an authority that could be verified stays in force: one that is damaged,
/// forged or older than it takes nobody's revocation back. A list whose time is over still refuses who is in it. Before any
/// list of an authority could be verified, none of its certificates counts.
package final class Revocations: Sendable {
    /// What the list says of a certificate.
    package enum Verdict: Sendable, Hashable {
        case good
        case revoked
        /// There is no list yet of the certificate's authority that could be verified.
        case unknown
    }

    /// How the list itself stands.
    package enum Standing: String, Sendable, Hashable {
        case good = "ok"
        /// The last list that could be verified is in force, and the file now holds another one that can't be used.
        case unreadable
        /// The list in force is one whose time is over: who was revoked since is let in.
        case expired
        /// An authority has no list yet that could be verified: no certificate of that authority is taken.
        case incomplete
        /// There is no list yet that could be verified: no certificate is taken.
        case unavailable
    }

    /// Tells a file from another one of the same name, and from what it was before.
    private struct Mark: Hashable {
        var file: FileIdentity?
        var changed: Instant?
    }

    private struct State {
        var authorities: [Certificate] = []
        /// The lists in force, by the key identifier of their authority.
        var lists: [[UInt8]: RevocationList] = [:]
        /// The list and the authorities' file as they were read last; `nil`: they are read again.
        var marks: [Mark]?
        /// What was told last.
        var told: String?
        var standing = Standing.unavailable

        /// The authorities that may have issued a certificate: of two with one name, the certificate mostly says which.
        func issuers(of certificate: Certificate) -> [Certificate] {
            let named = authorities.filter { $0.subject == certificate.issuer }
            let exact = named.filter { $0.keyIdentifier == certificate.authorityKeyIdentifier }
            return exact.isEmpty ? named : exact
        }

        func verdict(on certificate: Certificate) -> Verdict {
            let issuers = issuers(of: certificate)
            let found = issuers.compactMap { lists[$0.keyIdentifier] }
            if found.contains(where: { $0.contains(certificate) }) { return .revoked }
            return issuers.isEmpty || found.count < issuers.count ? .unknown : .good
        }
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
        return state.withLock { $0.verdict(on: certificate) }
    }

    /// How the list stands now.
    package func standing() -> Standing {
        refresh()
        return state.withLock(\.standing)
    }

    /// Reads the files if they have changed, and says what is wrong with them.
    package func refresh() {
        let moment = now()
        let words = state.withLock { state -> String? in
            var words: [String] = []
            let marks = [file, authorityFile].map { path in
                Mark(file: FileIdentity(at: path), changed: modificationTime(ofFileAt: path))
            }
            if marks != state.marks {
                words = read(into: &state)
                // A file that can't be used is looked at again: its authority may come later.
                state.marks = words.isEmpty ? marks : nil
            }
            state.standing = state.lists.isEmpty ? .unavailable : words.isEmpty ? .good : .unreadable
            let without = state.authorities.filter { authority in
                state.lists[authority.keyIdentifier] == nil && moment < authority.end
            }
            if !without.isEmpty {
                if state.standing == .good { state.standing = .incomplete }
                words += without.map { "there is no list of \($0.subject): none of its certificates is taken" }
            }
            let over = state.lists.values.map(\.expires).filter { moment >= $0 }
            if let end = over.min() {
                state.standing = .expired
                words.append("the list's time was over at \(end): who was revoked since is let in")
            }
            let text = words.isEmpty ? nil : words.joined(separator: "; ")
            defer { state.told = text }
            return text == state.told ? nil : text ?? "the list is in order again"
        }
        if let words { logger.error("revocation list", metadata: ["file": "\(file)", "state": "\(words)"]) }
    }

    /// - Returns: why something of the files isn't taken.
    private func read(into state: inout State) -> [String] {
        guard let authorities = Self.certificates(authorityFile) else { return ["\(authorityFile) can't be read"] }
        state.authorities = authorities
        let trusted = Set(authorities.map(\.keyIdentifier))
        state.lists = state.lists.filter { trusted.contains($0.key) }
        guard let octets = PrivateFile.read(file, upTo: 64 << 20) else { return ["it can't be read"] }
        var (problems, newest): ([String], [[UInt8]: RevocationList]) = ([], [:])
        do throws(RevocationList.Refusal) {
            for list in try RevocationList.all(octets, signedBy: authorities) {
                switch list {
                case .success(let list):
                    // Of several of one authority the newest counts, as if the file had no other.
                    if newest[list.issuer].map({ $0.isOlder(than: list) }) ?? true { newest[list.issuer] = list }
                case .failure(let refusal): problems.append(refusal.description)
                }
            }
        } catch {
            problems.append(error.description)
        }
        for (issuer, known) in state.lists {
            guard let list = newest[issuer] else {
                problems.append("a list is missing: the one that was made at \(known.made) stays in force")
                continue
            }
            guard list.isOlder(than: known) else { continue }
            newest[issuer] = nil
            problems.append("it is older than the list in force, which was made at \(known.made)")
        }
        state.lists.merge(newest) { $1 }
        return problems.sorted()
    }

    private static func certificates(_ path: String) -> [Certificate]? {
        guard let octets = PrivateFile.read(path, upTo: 1 << 20) else { return nil }
        return try? Certificate.all(inPEM: String(decoding: octets, as: UTF8.self))
    }
}

extension Certificate {
    /// When it ends.
    fileprivate var end: Instant { Instant(seconds: Int64(notValidAfter.timeIntervalSince1970)) }
}

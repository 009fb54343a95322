import Crypto
import Foundation
import GatewaySettings
import HealthReadings
import LocalAccess
import Logging
import ReadingStore
import Synchronization

/// The gateway's door to the network: where it listens, its certificate, who may come in, and what was done.
package final class AccessPoint: Sendable {
    /// Where the page and the API listen.
    package let listen: ListenAddress
    /// The certificate; nil where it speaks without TLS, on loopback.
    package let certificates: CertificateKeeper?
    package let clients: AccessStore
    package let audit: AuditLog
    package let desk = PairingDesk()
    /// The codes of links to the page.
    package let links = PageLinkDesk()
    /// Whether every caller on loopback may read (`http.local: trusted`).
    package let trustsThisMachine: Bool
    /// The reverse proxies whose word is taken for their clients' addresses.
    package let trustedProxies: [AddressRange]
    /// Requests of programs: 60 in 60 seconds each.
    package let programs: RequestRate
    /// Requests of browsers, which fetch more at once.
    package let browsers = RequestRate(limit: 600)
    /// Requests of strangers, by their address.
    package let strangers = RequestRate()
    /// Wrong tokens for the set-up, by the network that they come from.
    package let claims = RequestRate(limit: 10)
    private let hasOwner = Mutex(true)
    /// The names this server answers to besides its addresses.
    package let names: Set<String>
    /// The time by which tokens end to be good; see ``GatewayClock/judgingTime()``.
    package let time: @Sendable () async -> Date
    private let secret = SymmetricKey(size: .bits256)
    private let boundPort = Mutex<Int?>(nil)

    /// Opens it.
    ///
    /// - Parameters:
    ///   - directory: the state directory.
    ///   - port: the port to listen on where the settings name any that is free.
    ///   - programs: counts the requests of programs.
    package init(
        _ settings: Settings, directory: String, port: Int? = nil, logger: Logger,
        programs: RequestRate = RequestRate(), time: @escaping @Sendable () async -> Date = { Date() }
    ) throws {
        self.time = time
        self.programs = programs
        var listen = try ListenAddress(settings["http.listen"] ?? "")
        if let port, listen.port == 0 { listen.port = port }
        self.listen = listen
        trustsThisMachine = settings["http.local"] == "trusted"
        trustedProxies = try settings.trustedProxies()
        let host = Self.hostName
        names = Set(
            ["localhost", host, host + ".local", listen.host]
                + settings.list("http.names"))
        let usesTLS: Bool
        switch settings["http.tls"] {
        case "on": usesTLS = true
        case "off":
            guard listen.isLoopback else {
                throw Problem.configInvalid(
                    "http.tls: off, and http.listen is \(listen): readings would go over the network unencrypted",
                    hint: "remove http.tls, or listen on 127.0.0.1:\(listen.port)")
            }
            usesTLS = false
        default: usesTLS = !listen.isLoopback
        }
        do {
            certificates =
                usesTLS
                ? try CertificateKeeper(directory: directory, names: [host, host + ".local"], now: Date()) : nil
            clients = try AccessStore(directory: directory)
        } catch let error as AccessError {
            throw Problem(error)
        }
        audit = AuditLog(clients, logger: logger)
    }

    /// The port it listens on, once it does.
    package var port: Int {
        get { boundPort.withLock { $0 } ?? listen.port }
        set { boundPort.withLock { $0 = newValue } }
    }

    /// Whether it listens.
    package var isListening: Bool { boundPort.withLock { $0 != nil } }

    /// The page's address.
    package var pageAddress: String {
        var shown = listen
        if ["0.0.0.0", "::"].contains(shown.host) { shown.host = advertisedHost }
        shown.port = port
        return "\(scheme)://\(shown)/"
    }

    /// Makes a link to the page that lets one browser in.
    package func pageLink(now: Date) -> PageLink {
        let ticket = links.issue(now: now)
        // What is behind the # stays in the browser: it is in no request, no log and no referrer.
        return PageLink(url: pageAddress + "#" + ticket.code, expiresAt: ticket.expiresAt.instant)
    }

    /// Whether the gateway has an owner: else it answers at `/setup` and `/health` alone.
    package var isClaimed: Bool {
        get { hasOwner.withLock(\.self) }
        set { hasOwner.withLock { $0 = newValue } }
    }

    /// Makes a link to the set-up of a gateway without an owner.
    ///
    /// - Throws: `Problem` `already_claimed`.
    package func setupLink() async throws -> PageLink {
        do {
            // One that shows recorded devices or a sandbox has no owner on record, and wants none.
            guard !isClaimed else { throw AccessStore.ClaimRefusal.claimed }
            let ticket = try await clients.issueSetupToken(now: await time())
            return PageLink(url: pageAddress + "setup#" + ticket.token, expiresAt: ticket.expiresAt.instant)
        } catch AccessStore.ClaimRefusal.claimed {
            throw Problem(
                "already_claimed", .configuration, "this gateway has an owner, so there is nothing to claim",
                hint: "`healthrelay page` makes a link to its page")
        }
    }

    /// Writes down that the gateway has an owner. Whoever uses its commands has its machine, which proves more than a
    /// token does.
    package func claim(by reason: String) async throws {
        guard !isClaimed else { return }
        try await clients.markClaimed(by: reason, now: await time())
        isClaimed = true
    }

    /// `http` or `https`.
    package var scheme: String { certificates == nil ? "http" : "https" }

    /// The name or address by which others reach it: what it listens on, or this machine's own where that is all.
    package var advertisedHost: String {
        guard ["0.0.0.0", "::"].contains(listen.host) else { return listen.host }
        return NetworkInterfaces.firstAddress ?? Self.hostName + ".local"
    }

    /// How long a token made now is good: 30 days, and never longer than the certificate that it was paired under, so
    /// that no client meets another certificate than it knows.
    package func tokenEnd(now: Date) -> Date {
        let end = now + AccessStore.tokenLifetime
        guard let certificates else { return end }
        return min(end, max(certificates.certificate.renewsAt, now + 86_400))
    }

    /// What proves that a change comes from the page this gateway has served, and from no other.
    package func csrfToken(of session: String) -> String {
        HMAC<SHA256>.authenticationCode(for: Array(session.utf8), using: secret).hexadecimal()
    }

    /// Whether a token is that of a session; takes as long whichever octet differs.
    package func isCSRFToken(_ token: String, of session: String) -> Bool {
        let (lhs, rhs) = (Array(token.utf8), Array(csrfToken(of: session).utf8))
        return lhs.count == rhs.count && zip(lhs, rhs).reduce(UInt8(0)) { $0 | ($1.0 ^ $1.1) } == 0
    }

    /// Writes what waits to be written and closes the files.
    package func close() async {
        await audit.flush()
        try? clients.close()
    }

    /// This machine's name, without its domain.
    package static var hostName: String {
        var octets = [CChar](repeating: 0, count: 256)
        guard gethostname(&octets, octets.count - 1) == 0 else { return "healthrelay" }
        let name = String(decoding: octets.prefix { $0 != 0 }.map { UInt8(truncatingIfNeeded: $0) }, as: UTF8.self)
        let first = name.prefix { $0 != "." }.lowercased()
        return first.isEmpty ? "healthrelay" : first
    }
}

/// A link to the page with a one-time code.
public struct PageLink: Sendable, Hashable {
    /// The link: a secret until it is used.
    public var url: String
    /// When it ends to be good.
    public var expiresAt: Instant
}

extension Problem {
    package init(_ error: AccessError) { self.init(error.code, .inputOutput, error.description, hint: error.hint) }
}

/// The addresses of this machine.
enum NetworkInterfaces {
    /// The first IPv4 address of an interface that is up and no loopback; nil: it has none.
    package static var firstAddress: String? {
        var list: UnsafeMutablePointer<ifaddrs>?
        guard getifaddrs(&list) == 0 else { return nil }
        defer { freeifaddrs(list) }
        var next = list
        while let interface = next {
            defer { next = interface.pointee.ifa_next }
            let flags = Int32(bitPattern: interface.pointee.ifa_flags)
            guard flags & Int32(IFF_UP) != 0, flags & Int32(IFF_LOOPBACK) == 0,
                let address = interface.pointee.ifa_addr, address.pointee.sa_family == sa_family_t(AF_INET)
            else { continue }
            var text = [CChar](repeating: 0, count: Int(INET_ADDRSTRLEN))
            let found = address.withMemoryRebound(to: sockaddr_in.self, capacity: 1) { address in
                var octets = address.pointee.sin_addr
                return inet_ntop(AF_INET, &octets, &text, socklen_t(text.count)) != nil
            }
            guard found else { continue }
            return String(decoding: text.prefix { $0 != 0 }.map { UInt8(truncatingIfNeeded: $0) }, as: UTF8.self)
        }
        return nil
    }
}

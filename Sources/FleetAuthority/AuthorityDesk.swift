import FleetDocuments
import Foundation
import HealthReadings
import LocalAccess
import Logging
import SwiftASN1
import X509

/// Does what the fleet's authority is asked: tokens, certificates, revocation.
package struct AuthorityDesk: Sendable {
    /// How an authority is run.
    package struct Plan: Sendable, Hashable {
        /// Where gateways find the authority; it goes into the files of tokens.
        package var url: String
        /// How long a gateway's certificate is good.
        package var days = 90
        /// A file of other authorities that gateways shall trust besides this one.
        package var alsoTrustFile: String?
        /// Where the revocation list is put; `nil`: into the state directory.
        package var listFile: String?

        package init(url: String) { self.url = url }
    }

    /// How long a token is good.
    package static let tokenLifetime: Int64 = 24 * 3600
    /// The revocation list's name in the state directory.
    package static let listFileName = "revoked.pem"
    /// Who may read the revocation list: everybody.
    private static let listMode: mode_t = 0o644
    /// How long a revocation list is good.
    static let listLifetime: Int64 = 7 * 86_400
    /// How old a list becomes before the next one.
    static let listAge: Int64 = 86_400

    package let authority: Authority
    package let store: AuthorityStore
    package let plan: Plan
    let directory: String
    let logger: Logger
    package let now: @Sendable () -> Instant

    /// Opens an authority.
    package init(
        directory: String, plan: Plan, logger: Logger, now: @escaping @Sendable () -> Instant = { .systemClock }
    ) throws(AuthorityError) {
        authority = try Authority(in: directory)
        store = try AuthorityStore(directory: directory)
        self.plan = plan
        self.directory = directory
        self.logger = logger
        self.now = now
    }

    /// Makes a token for a gateway.
    ///
    /// - Parameters:
    ///   - readmits: whether a gateway that was revoked may come back.
    ///   - oldCertificatesAreHarmless: whether it may come back to a broker before its revoked certificates have ended: nobody
    ///     else has their keys, or the brokers read the revocation list.
    ///   - users: the broker, which must have no user of that name but a gateway's: with its certificate the gateway would
    ///     sign in as that user.
    /// - Returns: the content of the token's file: a secret that can't be read again.
    package func makeTicket(
        for gateway: GatewayID, readmits: Bool = false, oldCertificatesAreHarmless: Bool = false,
        users: BrokerUsers? = nil
    ) async throws(AuthorityError) -> EnrolmentTicket {
        if let users {
            let holder: BrokerUsers.Holder
            do { holder = try await users.holder(of: gateway.description) } catch { throw .broker(error.words) }
            guard holder != .other else {
                throw .nameTaken(gateway.description, reason: "the broker has a user of this name that is no gateway's")
            }
        }
        let (token, now) = (AccessToken(), now().flooredToSecond)
        let end = now.advanced(bySeconds: Self.tokenLifetime)
        try await store.add(
            token: token.digest.hexadecimal(), for: gateway.description, at: now, until: end, readmits: readmits,
            hasBroker: users != nil, oldCertificatesAreHarmless: oldCertificatesAreHarmless)
        return EnrolmentTicket(
            gateway: gateway, url: plan.url, token: token.text, authority: authority.pem,
            fingerprint: authority.fingerprint, made: now, expires: end)
    }

    /// Gives a gateway its first certificate, or one after its former one has ended.
    package func enrol(_ request: EnrolmentRequest) async throws(AuthorityError) -> EnrolmentAnswer {
        let key = try KeyRequest(pem: request.request)
        guard let token = request.token else { throw .unknownToken }
        let (gateway, moment) = (request.gateway.description, now())
        let issued = try await store.enrol(
            token: AccessToken(text: token).digest.hexadecimal(), gateway: gateway, keyDigest: key.digest, at: moment,
            sign: signing(gateway, key, moment))
        logger.notice("a gateway has enrolled", metadata: ["gateway": "\(gateway)", "serial": "\(issued.serial)"])
        return try answer(issued, request.gateway)
    }

    /// Gives a gateway its next certificate.
    ///
    /// - Parameter certificate: what proves who asks, as TLS has verified it.
    package func renew(
        _ request: EnrolmentRequest, with certificate: Certificate
    ) async throws(AuthorityError) -> EnrolmentAnswer {
        guard let name = certificate.commonName else { throw .unknownCertificate }
        guard name == request.gateway.description else {
            throw .otherGateway(expected: name, found: request.gateway.description)
        }
        let (key, moment) = (try KeyRequest(pem: request.request), now())
        let issued = try await store.renew(
            serial: certificate.serialText, gateway: name, keyDigest: key.digest, at: moment,
            sign: signing(name, key, moment))
        logger.info("a certificate was renewed", metadata: ["gateway": "\(name)", "serial": "\(issued.serial)"])
        return try answer(issued, request.gateway)
    }

    private func signing(
        _ gateway: String, _ key: KeyRequest, _ moment: Instant
    ) -> @Sendable () throws -> AuthorityStore.Issued {
        { [authority, days = plan.days] in
            let certificate = try authority.certificate(for: gateway, key, days: days, at: moment)
            return AuthorityStore.Issued(
                serial: certificate.serialText, gateway: gateway, keyDigest: key.digest, pem: try certificate.pem,
                from: certificate.notValidBefore.moment, until: certificate.notValidAfter.moment)
        }
    }

    private func answer(
        _ issued: AuthorityStore.Issued, _ gateway: GatewayID
    ) throws(AuthorityError) -> EnrolmentAnswer {
        EnrolmentAnswer(gateway: gateway, certificate: issued.pem, authorities: try authorities())
    }

    /// Whom gateways trust, in PEM.
    package func authorities() throws(AuthorityError) -> String {
        guard let path = plan.alsoTrustFile else { return authority.pem }
        guard let octets = PrivateFile.read(path, upTo: 60_000) else {
            throw .unusableFile(path: path, reason: "it can't be read, or has more than 60000 bytes")
        }
        // What isn't a certificate, a private key above all, must not be handed to gateways.
        guard let documents = try? PEMDocument.parseMultiple(pemString: String(decoding: octets, as: UTF8.self)),
            !documents.isEmpty, documents.allSatisfy({ (try? Certificate(pemDocument: $0)) != nil })
        else { throw .unusableFile(path: path, reason: "expected certificates in PEM, and nothing else") }
        return authority.pem + documents.map { $0.pemString + "\n" }.joined()
    }

    // MARK: Revocation

    /// Revokes a gateway: its certificates, its tokens, and its user at the broker as soon as ``BrokerUsers`` is told.
    ///
    /// - Returns: how many certificates that had not ended it had.
    package func revoke(_ gateway: GatewayID) async throws(AuthorityError) -> Int {
        let count = try await store.revoke(gateway.description, at: now())
        logger.notice("a gateway was revoked", metadata: ["gateway": "\(gateway)", "certificates": "\(count)"])
        try await writeList()
        return count
    }

    /// Where the revocation list is.
    package var listFile: String { plan.listFile ?? directory + "/" + Self.listFileName }

    /// Writes the revocation list.
    package func writeList() async throws(AuthorityError) {
        let (authority, path, moment) = (authority, listFile, now())
        let (known, logger) = (currentList(), logger)
        try await store.writeList(after: known, at: moment) { entries, number, forgotten in
            if forgotten > 0 {
                // Only a database that was restored from an older copy knows less than its list.
                logger.error(
                    "the database had forgotten revocations, and has them again from the list",
                    metadata: ["file": "\(path)", "certificates": "\(forgotten)"])
            }
            let list = try RevocationList(
                entries, number: number, by: authority, at: moment, lifetime: Self.listLifetime)
            // Brokers and collectors run as other users, and nothing in a list is secret.
            do throws(PrivateFile.Failure) {
                try PrivateFile.write(Array(list.pem.utf8), to: path, mode: Self.listMode)
            } catch {
                throw AuthorityError.unusableFile(path: error.path, reason: error.reason)
            }
        }
    }

    /// Writes the revocation list if there is none, if it isn't the newest, if it is a day old, if its time is in the
    /// future, or if others can't read it.
    ///
    /// - Throws: ``AuthorityError/authorityNotValid(from:until:)`` if the clock is outside of the authority's time.
    package func refreshList() async throws(AuthorityError) {
        let moment = now()
        // A list that is made under a clock that isn't set yet would be over for everybody else.
        try authority.requireValid(at: moment)
        if let list = currentList(), list.number == (try await store.listNumber()), list.made <= moment,
            moment < list.made.advanced(bySeconds: Self.listAge), permissions(ofFileAt: listFile) == Self.listMode
        {
            return
        }
        try await writeList()
    }

    /// The list in its place; `nil` if there is none, or none of this authority.
    package func currentList() -> RevocationList? {
        guard let octets = PrivateFile.read(listFile, upTo: 64 << 20) else { return nil }
        return try? RevocationList(octets, signedBy: [authority.certificate])
    }

    // MARK: The broker

    /// Looks whether the broker still does as it was told about gateways, and has ``settle(_:)`` tell it again if it doesn't.
    ///
    /// After it has lost its disks, the users of gateways are missing. After its definitions were put back from a backup, those
    /// of gateways that were revoked since are there again.
    package func compare(_ users: BrokerUsers) async throws(AuthorityError) {
        let known: [String: Bool]
        do { known = try await users.all() } catch {
            logger.warning("the broker's users could not be looked at", metadata: ["error": "\(error.words)"])
            return
        }
        let wrong = try await store.gateways(at: now()).filter { gateway in
            guard gateway.isSettledAtBroker else { return false }
            return gateway.isWantedAtBroker
                ? known[gateway.id] == nil : gateway.revoked != nil && known[gateway.id] == true
        }
        guard !wrong.isEmpty else { return }
        logger.warning(
            "the broker has lost gateways' users, or has those of revoked ones again; it is told once more",
            metadata: ["gateways": "\(wrong.count)"])
        try await store.unsettle(wrong.map(\.id))
    }

    /// Has the broker do what it should about gateways that have enrolled or were revoked.
    ///
    /// Those that were revoked come first: the others may be a thousand, and a broker that is slow takes its time for each.
    ///
    /// - Returns: the gateways about which it still does not.
    @discardableResult
    package func settle(_ users: BrokerUsers) async throws(AuthorityError) -> [String] {
        var open: [String] = []
        let unsettled = try await store.gateways(at: now()).filter { !$0.isSettledAtBroker }
        for gateway in unsettled.filter({ !$0.isWantedAtBroker }) + unsettled.filter(\.isWantedAtBroker) {
            var failure: String?
            do {
                if gateway.isWantedAtBroker {
                    try await users.admit(gateway.id)
                } else {
                    try await users.remove(gateway.id)
                }
            } catch {
                failure = error.words
                open.append(gateway.id)
                logger.warning(
                    "the broker's user could not be set; trying again",
                    metadata: ["gateway": "\(gateway.id)", "error": "\(error.words)"])
            }
            try await store.settle(gateway.id, isWanted: gateway.isWantedAtBroker, error: failure)
        }
        return open
    }
}

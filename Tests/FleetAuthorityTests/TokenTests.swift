import Crypto
import FleetDocuments
import Foundation
import HealthReadings
import SwiftASN1
import Testing
import X509

@testable import FleetAuthority

@Suite("Tokens and certificates") struct TokenTests {
    private static let gateway = AuthorityFixture.gateway
    private static let other = gatewayID("gw-0002")

    private func request(
        _ token: String, _ key: P256.Signing.PrivateKey, _ gateway: GatewayID = TokenTests.gateway
    ) throws -> EnrolmentRequest {
        EnrolmentRequest(gateway: gateway, token: token, request: try AuthorityFixture.request(.init(key)))
    }

    @Test("a token is good once; the same key may fetch its certificate again, another may not")
    func once() async throws {
        let fixture = try AuthorityFixture()
        let (mine, theirs) = (P256.Signing.PrivateKey(), P256.Signing.PrivateKey())
        let ticket = try await fixture.desk.makeTicket(for: Self.gateway)
        #expect(ticket.fingerprint == fixture.desk.authority.fingerprint)
        let again = try EnrolmentTicket(ticket.document.octets)
        #expect(again == ticket)
        #expect(!"\(ticket)".contains(ticket.token))
        let first = try await fixture.desk.enrol(try request(ticket.token, mine))
        fixture.advance(3600)
        // The answer was lost, and another process of the authority is asked.
        #expect(try await fixture.other().enrol(try request(ticket.token, mine)) == first)
        await #expect(throws: AuthorityError.tokenUsed(ticket.made)) {
            try await fixture.desk.enrol(try request(ticket.token, theirs))
        }
        fixture.advance(23 * 3600)
        await #expect(throws: AuthorityError.tokenExpired(ticket.expires)) {
            try await fixture.desk.enrol(try request(ticket.token, mine))
        }
    }

    @Test("a token that is wrong, over, withdrawn or another gateway's")
    func refused() async throws {
        let fixture = try AuthorityFixture()
        let key = P256.Signing.PrivateKey()
        let first = try await fixture.desk.makeTicket(for: Self.gateway)
        let second = try await fixture.desk.makeTicket(for: Self.gateway)
        let foreign = try await fixture.desk.makeTicket(for: Self.other)
        for token in [first.token, String(repeating: "0", count: 64), ""] {
            await #expect(throws: AuthorityError.unknownToken) {
                try await fixture.desk.enrol(try request(token, key))
            }
        }
        await #expect(throws: AuthorityError.otherGateway(expected: "gw-0002", found: "gw-0001")) {
            try await fixture.desk.enrol(try request(foreign.token, key))
        }
        // What was refused has used nothing up.
        _ = try await fixture.desk.enrol(try request(second.token, key))
        _ = try await fixture.desk.enrol(try request(foreign.token, P256.Signing.PrivateKey(), Self.other))
        let stored = try Data(contentsOf: URL(fileURLWithPath: fixture.folder + "/authority.sqlite"))
        #expect(stored.range(of: Data(second.token.utf8)) == nil)
    }

    @Test("of many at the same time one key wins")
    func race() async throws {
        let fixture = try AuthorityFixture()
        let ticket = try await fixture.desk.makeTicket(for: Self.gateway)
        let desks = [fixture.desk, try fixture.other()]
        let won = await withTaskGroup(of: Bool.self) { group in
            for index in 0..<8 {
                group.addTask {
                    let key = P256.Signing.PrivateKey()
                    do {
                        _ = try await desks[index % 2].enrol(try self.request(ticket.token, key))
                        return true
                    } catch { return false }
                }
            }
            return await group.reduce(into: 0) { if $1 { $0 += 1 } }
        }
        #expect(won == 1)
        #expect(try await fixture.desk.store.gateways(at: fixture.now).map(\.tokenUntil) == [nil])
    }

    @Test("a process that ends between the token and the certificate leaves the token good")
    func interrupted() async throws {
        struct Killed: Error {}
        let fixture = try AuthorityFixture()
        let ticket = try await fixture.desk.makeTicket(for: Self.gateway)
        let key = P256.Signing.PrivateKey()
        let digest = SHA256.hash(data: Data(ticket.token.utf8)).hexadecimal()
        await #expect(throws: AuthorityError.self) {
            try await fixture.desk.store.enrol(
                token: digest, gateway: "gw-0001", keyDigest: "a", at: fixture.now, sign: { throw Killed() })
        }
        _ = try await fixture.desk.enrol(try request(ticket.token, key))
    }

    @Test("a renewal needs a certificate that counts, and repeats itself for the same key")
    func renewal() async throws {
        let fixture = try AuthorityFixture()
        let (old, fresh) = (P256.Signing.PrivateKey(), P256.Signing.PrivateKey())
        let first = try Certificate(pemEncoded: try await fixture.enrol(old).certificate)
        fixture.advance(60 * 86_400)
        let wanted = EnrolmentRequest(
            gateway: Self.gateway, token: nil, request: try AuthorityFixture.request(.init(fresh)))
        let answer = try await fixture.desk.renew(wanted, with: first)
        let second = try Certificate(pemEncoded: answer.certificate)
        #expect(second.publicKey == .init(fresh.publicKey) && second.commonName == "gw-0001")
        #expect(second.notValidAfter > first.notValidAfter)
        #expect(try await fixture.desk.renew(wanted, with: first) == answer)
        let foreign = EnrolmentRequest(gateway: Self.other, token: nil, request: wanted.request)
        await #expect(throws: AuthorityError.otherGateway(expected: "gw-0001", found: "gw-0002")) {
            try await fixture.desk.renew(foreign, with: first)
        }
        let stranger = try AuthorityFixture()
        let theirs = try Certificate(pemEncoded: try await stranger.enrol(old).certificate)
        await #expect(throws: AuthorityError.unknownCertificate) {
            try await fixture.desk.renew(wanted, with: theirs)
        }
        // A gateway whose certificate has ended enrols again under its id.
        fixture.advance(91 * 86_400)
        let later = try await fixture.enrol(P256.Signing.PrivateKey())
        #expect(later.gateway == Self.gateway)
    }

    @Test("a revoked gateway gets no certificate, and its old ones stay revoked if it comes back")
    func revocation() async throws {
        let fixture = try AuthorityFixture()
        let (key, fresh) = (P256.Signing.PrivateKey(), P256.Signing.PrivateKey())
        let certificate = try Certificate(pemEncoded: try await fixture.enrol(key).certificate)
        let kept = try Certificate(
            pemEncoded: try await fixture.enrol(P256.Signing.PrivateKey(), gateway: Self.other).certificate)
        await #expect(throws: AuthorityError.noSuchGateway("gw-9")) {
            try await fixture.desk.revoke(gatewayID("gw-9"))
        }
        #expect(try await fixture.desk.revoke(Self.gateway) == 1)
        #expect(try await fixture.desk.revoke(Self.gateway) == 0)
        let wanted = EnrolmentRequest(
            gateway: Self.gateway, token: nil, request: try AuthorityFixture.request(.init(fresh)))
        let refusal = AuthorityError.revoked(gateway: "gw-0001", since: fixture.now)
        await #expect(throws: refusal) { try await fixture.desk.renew(wanted, with: certificate) }
        await #expect(throws: refusal) { try await fixture.desk.makeTicket(for: Self.gateway) }
        let list = try #require(fixture.desk.currentList())
        #expect(list.contains(certificate) && !list.contains(kept) && list.serials.count == 1)
        // OpenSSL reads the list, and refuses the certificate by it.
        let (anchor, file) = (fixture.folder + "/ca.pem", fixture.desk.listFile)
        #expect(try openSSL("crl", "-in", file, "-CAfile", anchor, "-noout").text.contains("verify OK"))
        let at = "\(fixture.now.seconds)"
        for (one, isGood) in [(certificate, false), (kept, true)] {
            let leaf = try fixture.write(try one.pem, "leaf.pem")
            let said = try openSSL(
                "verify", "-attime", at, "-crl_check", "-CRLfile", file, "-CAfile", anchor, leaf)
            #expect((said.status == 0) == isGood, "\(said.text)")
        }

        let ticket = try await fixture.desk.makeTicket(for: Self.gateway, readmits: true)
        _ = try await fixture.desk.enrol(try request(ticket.token, fresh))
        await #expect(throws: refusal) { try await fixture.desk.renew(wanted, with: certificate) }
        let lines = AuthorityList(
            try await fixture.desk.store.gateways(at: fixture.now), hasBroker: true, list: list, at: fixture.now
        ).lines
        #expect(lines[0].hasPrefix("gw-0001  enrolled, certificate until") && lines[0].hasSuffix("broker: pending"))
    }

    @Test("a gateway whose revoked certificate a broker would let in again gets no token until that has ended")
    func readmission() async throws {
        let fixture = try AuthorityFixture()
        let answer = try await fixture.enrol(P256.Signing.PrivateKey())
        let until = try Certificate(pemEncoded: answer.certificate).notValidAfter.moment
        // As `ca run` does: it notes that the broker has a user for the gateway, and after the revocation that it has none.
        try await fixture.desk.store.settle("gw-0001", isWanted: true, error: nil)
        let database = URL(fileURLWithPath: fixture.folder + "/authority.sqlite")
        let copy = try Data(contentsOf: database)
        _ = try await fixture.desk.revoke(Self.gateway)
        try await fixture.desk.store.settle("gw-0001", isWanted: false, error: nil)
        let end = until.advanced(bySeconds: 86_400)
        let refusal = AuthorityError.revokedCertificateGood(gateway: "gw-0001", until: end)
        await #expect(throws: refusal) { try await fixture.desk.makeTicket(for: Self.gateway, readmits: true) }
        let refused = try #require(try await fixture.desk.store.gateways(at: fixture.now).first)
        #expect(refused.revoked == fixture.now && refused.tokenUntil == nil)
        // Without --readmit that is what is said, whatever else is declared.
        await #expect(throws: AuthorityError.revoked(gateway: "gw-0001", since: fixture.now)) {
            try await fixture.desk.makeTicket(for: Self.gateway, oldCertificatesAreHarmless: true)
        }
        _ = try await fixture.desk.makeTicket(for: Self.gateway, readmits: true, oldCertificatesAreHarmless: true)

        // A database from before the revocation knows of it from the list.
        try copy.write(to: database)
        let restored = try fixture.other()
        try await restored.refreshList()
        await #expect(throws: refusal) { try await restored.makeTicket(for: Self.gateway) }
        #expect(try await restored.store.endOfRevoked("gw-0001", at: fixture.now) == end)
        fixture.advance(end.seconds - fixture.now.seconds)
        _ = try await restored.makeTicket(for: Self.gateway)
        #expect(try await restored.store.endOfRevoked("gw-0001", at: fixture.now) == nil)
    }

    @Test("a broker is told of revoked gateways first")
    func revokedFirst() async throws {
        let fixture = try AuthorityFixture()
        for name in ["gw-1", "gw-2", "gw-3"] {
            _ = try await fixture.enrol(P256.Signing.PrivateKey(), gateway: gatewayID(name))
        }
        _ = try await fixture.desk.revoke(gatewayID("gw-3"))
        let nobody = BrokerUsers(.init(url: "http://127.0.0.1:9", user: "u", password: "p"))
        #expect(try await fixture.desk.settle(nobody) == ["gw-3", "gw-1", "gw-2"])
    }

    @Test("a gateway that is revoked while a broker is told of it is told of once more")
    func revokedMeanwhile() async throws {
        let fixture = try AuthorityFixture()
        _ = try await fixture.enrol(P256.Signing.PrivateKey())
        _ = try await fixture.desk.revoke(Self.gateway)
        let store = fixture.desk.store
        func isSettled() async throws -> [Bool] {
            try await store.gateways(at: fixture.now).map { $0.isSettledAtBroker && !$0.isWantedAtBroker }
        }
        // The command has removed the user. The service, which had begun before the command, has made it again.
        try await store.settle("gw-0001", isWanted: false, error: nil)
        #expect(try await isSettled() == [true])
        try await store.settle("gw-0001", isWanted: true, error: nil)
        #expect(try await isSettled() == [false])
    }

    @Test("an authority whose clock was ahead forgets no revocation, and lets a gateway renew afterwards")
    func clockAhead() async throws {
        let fixture = try AuthorityFixture()
        let first = try Certificate(pemEncoded: try await fixture.enrol(P256.Signing.PrivateKey()).certificate)
        let wanted = EnrolmentRequest(
            gateway: Self.gateway, token: nil,
            request: try AuthorityFixture.request(.init(P256.Signing.PrivateKey())))
        fixture.advance(80 * 86_400)
        let early = try Certificate(pemEncoded: try await fixture.desk.renew(wanted, with: first).certificate)
        fixture.advance(-20 * 86_400)
        let second = try Certificate(pemEncoded: try await fixture.desk.renew(wanted, with: first).certificate)
        #expect(early.notValidBefore.moment > fixture.now && second.notValidBefore.moment <= fixture.now)
        #expect(second.publicKey == early.publicKey)
        // All of them have ended by the clock.
        fixture.advance(400 * 86_400)
        #expect(try await fixture.desk.revoke(Self.gateway) == 0)
        fixture.advance(-400 * 86_400)
        try await fixture.desk.refreshList()
        let list = try #require(fixture.desk.currentList())
        #expect(list.contains(first) && list.contains(early) && list.contains(second))
    }

    @Test("under a clock that isn't set yet no list takes the place of a good one")
    func clockNotSet() async throws {
        let fixture = try AuthorityFixture()
        try await fixture.desk.refreshList()
        let list = fixture.desk.currentList()
        fixture.advance(-400 * 86_400)
        await #expect(throws: AuthorityError.self) { try await fixture.desk.refreshList() }
        #expect(list != nil && fixture.desk.currentList() == list)
    }

    @Test("a gateway that renews without end gets no more certificates than a list can name")
    func manyCertificates() async throws {
        let fixture = try AuthorityFixture()
        let first = try Certificate(pemEncoded: try await fixture.enrol(P256.Signing.PrivateKey()).certificate)
        func renew(_ key: P256.Signing.PrivateKey) async throws -> EnrolmentAnswer {
            let wanted = EnrolmentRequest(
                gateway: Self.gateway, token: nil, request: try AuthorityFixture.request(.init(key)))
            return try await fixture.desk.renew(wanted, with: first)
        }
        let second = P256.Signing.PrivateKey()
        let answer = try await renew(second)
        for _ in 2..<AuthorityStore.mostCertificates { _ = try await renew(P256.Signing.PrivateKey()) }
        await #expect(throws: AuthorityError.tooManyCertificates(gateway: "gw-0001")) {
            try await renew(P256.Signing.PrivateKey())
        }
        // An answer that was lost may be fetched, and the operator may let the gateway enrol.
        #expect(try await renew(second) == answer)
        _ = try await fixture.enrol(P256.Signing.PrivateKey())
        #expect(try await fixture.desk.revoke(Self.gateway) == AuthorityStore.mostCertificates + 1)
    }

    @Test("where no broker has a user for it, a revoked gateway may come back at once")
    func readmissionWithoutBroker() async throws {
        let fixture = try AuthorityFixture()
        _ = try await fixture.enrol(P256.Signing.PrivateKey())
        _ = try await fixture.desk.revoke(Self.gateway)
        let ticket = try await fixture.desk.makeTicket(for: Self.gateway, readmits: true)
        _ = try await fixture.desk.enrol(try request(ticket.token, P256.Signing.PrivateKey()))
    }

    @Test("the list is written anew each day, and by nobody else's key")
    func lists() async throws {
        let (fixture, stranger) = (try AuthorityFixture(), try AuthorityFixture())
        try await fixture.desk.refreshList()
        let first = try #require(fixture.desk.currentList())
        #expect(first.serials.isEmpty && first.expires == first.made.advanced(bySeconds: 7 * 86_400))
        let (file, anchor) = (fixture.desk.listFile, fixture.folder + "/ca.pem")
        #expect(try openSSL("crl", "-in", file, "-CAfile", anchor, "-noout").status == 0)
        fixture.advance(3600)
        try await fixture.desk.refreshList()
        #expect(fixture.desk.currentList() == first)
        fixture.advance(86_400)
        try await fixture.desk.refreshList()
        #expect(try #require(fixture.desk.currentList()).made == fixture.now)
        let octets = [UInt8](try Data(contentsOf: URL(fileURLWithPath: fixture.desk.listFile)))
        #expect(throws: RevocationList.Refusal.notSigned) {
            try RevocationList(octets, signedBy: [stranger.desk.authority.certificate])
        }
        #expect(throws: RevocationList.Refusal.self) {
            try RevocationList(Array("nothing".utf8), signedBy: [fixture.desk.authority.certificate])
        }
        let mode = try FileManager.default.attributesOfItem(atPath: fixture.desk.listFile)[.posixPermissions] as? Int
        #expect(mode == 0o644)
    }

    @Test("a list that was written elsewhere, not at all, or for its owner alone is written again")
    func missedLists() async throws {
        let fixture = try AuthorityFixture()
        let certificate = try Certificate(pemEncoded: try await fixture.enrol(P256.Signing.PrivateKey()).certificate)
        let next = try Certificate(
            pemEncoded: try await fixture.enrol(P256.Signing.PrivateKey(), gateway: Self.other).certificate)
        try await fixture.desk.refreshList()
        func desk(_ file: String) throws -> AuthorityDesk {
            var plan = fixture.desk.plan
            plan.listFile = file
            return try AuthorityDesk(
                directory: fixture.folder, plan: plan, logger: AuthorityFixture.quiet,
                now: { [fixture] in fixture.now })
        }
        func refused() -> [Bool] {
            [certificate, next].map { fixture.desk.currentList()?.contains($0) ?? false }
        }
        // The command had other settings than the service.
        _ = try await desk(fixture.folder + "/other.pem").revoke(Self.gateway)
        #expect(refused() == [false, false])
        try await fixture.desk.refreshList()
        #expect(refused() == [true, false])
        // The list could not be written.
        let nowhere = try desk("/nonexistent/folder/list.pem")
        await #expect(throws: AuthorityError.self) { try await nowhere.revoke(Self.other) }
        #expect(refused() == [true, false])
        try await fixture.desk.refreshList()
        #expect(refused() == [true, true])
        let number = try #require(fixture.desk.currentList()?.number)
        try await fixture.desk.refreshList()
        #expect(fixture.desk.currentList()?.number == number)
        // Others can read it again.
        chmod(fixture.desk.listFile, 0o600)
        try await fixture.desk.refreshList()
        let mode = try FileManager.default.attributesOfItem(atPath: fixture.desk.listFile)[.posixPermissions] as? Int
        #expect(mode == 0o644)
    }

    @Test("a database that was restored from an older copy takes no revocation back")
    func restored() async throws {
        let fixture = try AuthorityFixture()
        let known = try Certificate(pemEncoded: try await fixture.enrol(P256.Signing.PrivateKey()).certificate)
        try await fixture.desk.refreshList()
        let database = fixture.folder + "/authority.sqlite"
        let copy = try Data(contentsOf: URL(fileURLWithPath: database))
        let unknown = try Certificate(
            pemEncoded: try await fixture.enrol(P256.Signing.PrivateKey(), gateway: Self.other).certificate)
        _ = try await fixture.desk.revoke(Self.gateway)
        _ = try await fixture.desk.revoke(Self.other)
        let number = try #require(fixture.desk.currentList()?.number)
        try copy.write(to: URL(fileURLWithPath: database))
        let desk = try fixture.other()
        for _ in 0..<2 {
            try await desk.refreshList()
            let list = try #require(desk.currentList())
            let next = try #require(list.number)
            #expect(list.contains(known) && list.contains(unknown) && next > number)
            fixture.advance(2 * 86_400)
        }
        await #expect(throws: AuthorityError.self) {
            let key = P256.Signing.PrivateKey()
            let wanted = EnrolmentRequest(
                gateway: Self.gateway, token: nil, request: try AuthorityFixture.request(.init(key)))
            _ = try await desk.renew(wanted, with: known)
        }
    }

    @Test("a key that was revoked, or is another gateway's, gets no certificate and uses no token up")
    func usedKeys() async throws {
        let fixture = try AuthorityFixture()
        let (lost, kept) = (P256.Signing.PrivateKey(), P256.Signing.PrivateKey())
        _ = try await fixture.enrol(lost)
        let other = try Certificate(pemEncoded: try await fixture.enrol(kept, gateway: Self.other).certificate)
        _ = try await fixture.desk.revoke(Self.gateway)
        let ticket = try await fixture.desk.makeTicket(for: Self.gateway, readmits: true)
        for key in [lost, kept] {
            await #expect(throws: AuthorityError.keyUsed) {
                try await fixture.desk.enrol(try request(ticket.token, key))
            }
        }
        let stolen = EnrolmentRequest(
            gateway: Self.other, token: nil, request: try AuthorityFixture.request(.init(lost)))
        await #expect(throws: AuthorityError.keyUsed) { try await fixture.desk.renew(stolen, with: other) }
        _ = try await fixture.desk.enrol(try request(ticket.token, P256.Signing.PrivateKey()))
    }

    @Test("no gateway is named as another one's tests are")
    func names() async throws {
        let fixture = try AuthorityFixture()
        for (first, second, isFree) in [
            ("gw-1", "gw-1-t1", false), ("gw-2-t17", "gw-2", false), ("gw-3", "gw-3-tx", true),
            ("gw-4", "gw-4-t", true), ("abcdefghijklmnopqrstuvw", "abcdefghijklmnopqrs-t12", false),
        ] {
            _ = try await fixture.desk.makeTicket(for: gatewayID(first))
            var code: String?
            do { _ = try await fixture.desk.makeTicket(for: gatewayID(second)) } catch { code = error.code }
            #expect(code == (isFree ? nil : "name_taken"), "\(second)")
            // A gateway that is known keeps its id.
            _ = try await fixture.desk.makeTicket(for: gatewayID(first))
        }
    }
}

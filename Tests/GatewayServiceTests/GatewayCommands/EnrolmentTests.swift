import Crypto
import FleetAuthority
import FleetDelivery
import FleetDocuments
import Foundation
import GatewaySettings
import HealthReadings
import Logging
import MQTTDestinations
import MQTTLink
import SwiftASN1
import Synchronization
import Testing
import X509

@testable import GatewayCommands

@Suite("Enrolment in a fleet") struct EnrolmentTests {
    private static func id(_ text: String) -> GatewayID {
        guard let id = GatewayID(ifValid: text) else { preconditionFailure("\(text) is no gateway's id") }
        return id
    }

    private static let gateway = id("gw-0001")

    /// An authority and a gateway, with one clock that tests move.
    private final class Bench: Sendable {
        let root: String
        let desk: AuthorityDesk
        let folder: EnrolmentFolder
        private let clock = Mutex(Instant(seconds: 1_795_000_000))

        init() throws {
            root = FileManager.default.temporaryDirectory.path + "/enrolment-" + UUID().uuidString.prefix(8)
            for part in ["", "/ca", "/state"] {
                try FileManager.default.createDirectory(atPath: root + part, withIntermediateDirectories: true)
            }
            let box = Box()
            _ = try Authority.make(in: root + "/ca", at: Instant(seconds: 1_795_000_000))
            desk = try AuthorityDesk(
                directory: root + "/ca", plan: AuthorityDesk.Plan(url: "https://ca.example:8491"),
                logger: Logger(label: "tests") { _ in SwiftLogNoOpLogHandler() }, now: { box.now() })
            folder = EnrolmentFolder(state: root + "/state", destination: "study")
            box.clock.withLock { $0 = { [weak self] in self?.now ?? Instant(seconds: 0) } }
        }

        deinit { try? FileManager.default.removeItem(atPath: root) }

        private final class Box: Sendable {
            let clock = Mutex<@Sendable () -> Instant>({ Instant(seconds: 0) })
            func now() -> Instant { clock.withLock(\.self)() }
        }

        var now: Instant { clock.withLock(\.self) }
        func advance(days: Int64) { clock.withLock { $0 = $0.advanced(bySeconds: days * 86_400) } }

        /// The authority without a network in between.
        var direct: EnrolmentExchange {
            EnrolmentExchange { [desk] request in
                let wanted = try EnrolmentRequest(request.document.octets)
                do {
                    guard let files = request.identity else { return try await desk.enrol(wanted).document.octets }
                    let shown = try Certificate(
                        pemEncoded: try String(contentsOfFile: files.certificate, encoding: .utf8))
                    return try await desk.renew(wanted, with: shown).document.octets
                } catch let error as AuthorityError {
                    // As the gateway reads the authority's refusal over HTTPS.
                    throw Problem(error.code, .notPermitted, error.description)
                }
            }
        }

        func gateway(_ exchange: EnrolmentExchange? = nil) -> EnrolmentDesk {
            EnrolmentDesk(folder, now: now, exchange: exchange ?? direct)
        }

        func enrol(_ ticket: EnrolmentTicket, _ exchange: EnrolmentExchange? = nil) async throws -> Bool {
            try await gateway(exchange).enrol(ticket, url: ticket.url)
        }

        var files: [String] {
            (FileManager.default.enumerator(atPath: folder.path)?.allObjects as? [String] ?? []).filter {
                !$0.contains("/") || $0.hasSuffix(".key")
            }
        }
    }

    private func code(_ body: () async throws -> Void) async -> String {
        do {
            try await body()
            return "none"
        } catch { return (error as? Problem)?.code ?? "\(type(of: error))" }
    }

    @Test("a gateway enrols, and the files are its own and belong together")
    func enrols() async throws {
        let bench = try Bench()
        let ticket = try await bench.desk.makeTicket(for: Self.gateway)
        #expect(bench.folder.record == nil && EnrolledCredentials(bench.folder).identities().isEmpty)
        #expect(try await bench.enrol(ticket))
        let record = try #require(bench.folder.record)
        #expect(record.gateway == "gw-0001" && record.state(at: bench.now) == .valid && record.previous == nil)
        let identity = try #require(EnrolledCredentials(bench.folder).identities().first)
        #expect(identity.gateway == Self.gateway)
        let keyFile = identity.files.privateKey
        let key = try P256.Signing.PrivateKey(pemRepresentation: String(contentsOfFile: keyFile, encoding: .utf8))
        let certificate = try Certificate(
            pemEncoded: String(contentsOfFile: identity.files.certificate, encoding: .utf8))
        #expect(certificate.publicKey == .init(key.publicKey))
        for file in [keyFile, bench.folder.path + "/record.json"] {
            #expect(try FileManager.default.attributesOfItem(atPath: file)[.posixPermissions] as? Int == 0o600)
        }
        let serial = record.current.serial
        #expect(try await bench.desk.store.gateways(at: bench.now).first?.serial == serial)
        #expect(bench.files.sorted() == [serial, serial + "/private.key", "record.json"])
        // The same file again says so, and asks nobody.
        let silent = EnrolmentExchange { _ in throw Problem("asked", .ourFault, "asked") }
        #expect(try await bench.enrol(ticket, silent) == false)
    }

    @Test("the gateway writes a serial number as its authority does, without zeros before it")
    func serial() {
        #expect(EnrolmentDesk.text(of: .init(bytes: [0x0A, 0x00, 0xF1])) == "a00f1")
        #expect(EnrolmentDesk.text(of: .init(bytes: [0x00, 0x9A])) == "9a")
        #expect(EnrolmentDesk.text(of: .init(bytes: [0x00])) == "0")
    }

    @Test("an answer that was lost is fetched with the same key")
    func resumes() async throws {
        let bench = try Bench()
        let ticket = try await bench.desk.makeTicket(for: Self.gateway)
        let direct = bench.direct
        let lossy = EnrolmentExchange { request in
            _ = try await direct.ask(request)
            throw Problem("no_connection", .unavailable, "lost")
        }
        #expect(await code { _ = try await bench.enrol(ticket, lossy) } == "no_connection")
        #expect(bench.folder.record == nil && bench.files == ["enrolment.key"])
        #expect(try await bench.enrol(ticket))
        #expect(bench.folder.record != nil && !bench.files.contains("enrolment.key"))
    }

    @Test("a pending key that the authority has revoked gives way to another one")
    func revokedKey() async throws {
        let bench = try Bench()
        let direct = bench.direct
        let lossy = EnrolmentExchange { request in
            _ = try await direct.ask(request)
            throw Problem("no_connection", .unavailable, "lost")
        }
        let lost = try await bench.desk.makeTicket(for: Self.gateway)
        #expect(await code { _ = try await bench.enrol(lost, lossy) } == "no_connection")
        _ = try await bench.desk.revoke(Self.gateway)
        let asked = Mutex(0)
        let exchange = EnrolmentExchange { request in
            asked.withLock { $0 += 1 }
            return try await direct.ask(request)
        }
        #expect(try await bench.enrol(try await bench.desk.makeTicket(for: Self.gateway, readmits: true), exchange))
        #expect(asked.withLock(\.self) == 2 && bench.folder.record != nil)
    }

    @Test("nothing is sent to an authority that isn't the file's, and nothing wrong that comes back is kept")
    func refuses() async throws {
        let (bench, stranger) = (try Bench(), try Bench())
        let ticket = try await bench.desk.makeTicket(for: Self.gateway)
        let silent = EnrolmentExchange { _ in throw Problem("asked", .ourFault, "asked") }
        var forged = ticket
        forged.authority = stranger.desk.authority.pem
        #expect(await code { _ = try await bench.enrol(forged, silent) } == "authority_mismatch")
        forged.authority = "nothing"
        #expect(await code { _ = try await bench.enrol(forged, silent) } == "token_file_damaged")

        // Certificates of another authority, for another gateway and for another key.
        let other = try await bench.desk.makeTicket(for: Self.id("gw-0002"))
        let foreign = try await stranger.desk.makeTicket(for: Self.gateway)
        let (here, there) = (bench.direct, stranger.direct)
        let wrong: [EnrolmentExchange] = [
            EnrolmentExchange { request in
                var wanted = try EnrolmentRequest(request.document.octets)
                wanted.token = foreign.token
                var changed = request
                changed.document = wanted.document
                return try await there.ask(changed)
            },
            EnrolmentExchange { request in
                var wanted = try EnrolmentRequest(request.document.octets)
                (wanted.token, wanted.gateway) = (other.token, other.gateway)
                var changed = request
                changed.document = wanted.document
                var answer = try EnrolmentAnswer(try await here.ask(changed))
                answer.gateway = Self.gateway
                return answer.document.octets
            },
            EnrolmentExchange { _ in
                EnrolmentAnswer(
                    gateway: Self.gateway, certificate: bench.desk.authority.pem,
                    authorities: bench.desk.authority.pem
                ).document.octets
            },
            EnrolmentExchange { _ in Array("<html>".utf8) },
        ]
        for exchange in wrong {
            #expect(await code { _ = try await bench.enrol(ticket, exchange) } == "unexpected_answer")
            #expect(bench.folder.record == nil)
        }
        #expect(try await bench.enrol(ticket))
    }

    @Test("a clock that is wrong is named before the token is used up")
    func clocks() async throws {
        let bench = try Bench()
        bench.advance(days: 10)
        let ticket = try await bench.desk.makeTicket(for: Self.gateway)
        let early = EnrolmentDesk(bench.folder, now: Instant(seconds: 1_000_000), exchange: bench.direct)
        #expect(await code { _ = try await early.enrol(ticket, url: ticket.url) } == "clock_wrong")
        // Within the hour that a clock may be off, the certificate's beginning tells.
        let behind = EnrolmentDesk(bench.folder, now: bench.now.advanced(bySeconds: -1800), exchange: bench.direct)
        #expect(await code { _ = try await behind.enrol(ticket, url: ticket.url) } == "clock_wrong")
        #expect(try await bench.enrol(ticket))
        let record = try #require(bench.folder.record)
        #expect(record.state(at: Instant(seconds: 1_000_000)) == .notYetValid)
        #expect(record.problem(at: Instant(seconds: 1_000_000))?.contains("set the clock") == true)
    }

    @Test("at two thirds of its life a certificate is renewed; the one before stays until the new one has connected")
    func renews() async throws {
        let bench = try Bench()
        #expect(try await bench.enrol(try await bench.desk.makeTicket(for: Self.gateway)))
        let credentials = EnrolledCredentials(bench.folder) { [bench] in bench.now }
        let first = try #require(credentials.identities().first)
        bench.advance(days: 59)
        #expect(try await bench.gateway().renewIfDue() == false)
        bench.advance(days: 4)
        #expect(bench.folder.record?.state(at: bench.now) == .due)
        #expect(try await bench.gateway().renewIfDue())
        let both = credentials.identities()
        #expect(both.count == 2 && both[1] == first && both[0] != first)
        #expect(FileManager.default.fileExists(atPath: first.files.privateKey))
        // The new one is refused: the one before is used again, and that is told.
        credentials.refused(both[0], because: "the broker said no")
        #expect(credentials.problem?.contains("the broker said no") == true)
        #expect(credentials.identities() == both)
        credentials.accepted(first)
        #expect(credentials.identities() == both)
        // Then it is let in after all.
        credentials.accepted(both[0])
        #expect(credentials.identities() == [both[0]] && credentials.problem == nil)
        #expect(!FileManager.default.fileExists(atPath: first.files.privateKey))
        #expect(try await bench.gateway().renewIfDue() == false)
    }

    @Test("a failure that was noted under a clock that was ahead keeps no renewal from being tried")
    func failureInTheFuture() {
        let from = Instant(seconds: 1_795_000_000)
        var record = EnrolmentRecord(
            gateway: "gw-0001", url: "https://ca.example:8491", token: "", authority: "",
            current: .init(serial: "01", issuer: "ca", from: from, until: from.advanced(bySeconds: 90 * 86_400)))
        let now = from.advanced(bySeconds: 70 * 86_400)
        record.renewal = .init(code: "unreachable", message: "it broke", at: now, count: 1)
        let retry = record.nextRenewal(at: now)
        #expect(retry == record.retriesAt && retry.map { (150...300).contains($0.seconds - now.seconds) } == true)
        record.renewal?.at = now.advanced(bySeconds: 19 * 86_400)
        #expect(record.nextRenewal(at: now) == record.current.renewsAt)
    }

    /// Enrolled at the same moment; the serial number is random, as the authority's are.
    private static func record(_ number: Int) -> EnrolmentRecord {
        let from = Instant(seconds: 1_795_000_000)
        let serial = Array(SHA256.hash(data: Data("\(number)".utf8)).prefix(20)).hexadecimal()
        return EnrolmentRecord(
            gateway: "gw-\(10_000 + number)", url: "https://ca.example:8491", token: "", authority: "",
            current: .init(serial: serial, issuer: "ca", from: from, until: from.advanced(bySeconds: 90 * 86_400)))
    }

    @Test("gateways that enrolled together renew spread over a fiftieth of their certificates' life")
    func renewalsAreSpread() {
        let records = (0..<1000).map(Self.record)
        let (begin, width) = (Int64(1_795_000_000 + 60 * 86_400), Int64(90 * 86_400 / 50))
        let tenths = records.map { ($0.current.renewsAt.seconds - begin) * 10 / (width + 1) }
        for tenth in Int64(0)..<10 { #expect((60...150).contains(tenths.count { $0 == tenth }), "\(tenth)") }
        #expect(Set(tenths).isSubset(of: Set(0..<10)))
    }

    @Test("gateways whose renewals were refused together try again spread over half of the wait, each time otherwise")
    func retriesAreSpread() {
        let now = Instant(seconds: 1_795_000_000 + 65 * 86_400)
        var orders: [[Int]] = []
        for count in [1, 2, 9] {
            let waits = (0..<1000).map { number -> Int64 in
                var record = Self.record(number)
                record.renewal = .init(code: "too_many_requests", message: "", at: now, count: count)
                #expect(record.nextRenewal(at: now) == record.retriesAt)
                return (record.retriesAt?.seconds ?? 0) - now.seconds
            }
            let most = EnrolmentRecord.Failure(code: "", message: "", at: now, count: count).mostSeconds
            #expect(waits.allSatisfy { (most / 2...most).contains($0) })
            let tenths = waits.map { ($0 - most / 2) * 10 / (most / 2 + 1) }
            for tenth in Int64(0)..<10 { #expect((60...150).contains(tenths.count { $0 == tenth }), "\(tenth)") }
            orders.append(waits.indices.sorted { (waits[$0], $0) < (waits[$1], $1) })
        }
        #expect(Set(orders).count == 3)
    }

    @Test("a renewal that fails is told and waited out; its answer may be lost; a certificate that has ended stays so")
    func renewalFails() async throws {
        let bench = try Bench()
        #expect(try await bench.enrol(try await bench.desk.makeTicket(for: Self.gateway)))
        bench.advance(days: 63)
        let direct = bench.direct
        let lossy = EnrolmentExchange { request in
            _ = try await direct.ask(request)
            throw Problem("no_connection", .unavailable, "it broke")
        }
        #expect(await code { _ = try await bench.gateway(lossy).renewIfDue() } == "no_connection")
        let failed = try #require(bench.folder.record)
        #expect(failed.renewal?.count == 1 && failed.problem(at: bench.now)?.contains("it broke") == true)
        #expect(failed.nextRenewal(at: bench.now) == failed.retriesAt)
        #expect(try await bench.gateway().renewIfDue() == false)
        let waits = (1...10).map { count in
            EnrolmentRecord.Failure(code: "", message: "", at: Instant(seconds: 0), count: count).mostSeconds
        }
        #expect(waits == [300, 600, 1200, 2400, 4800, 9600, 19_200, 38_400, 43_200, 43_200])
        bench.advance(days: 1)
        #expect(try await bench.gateway().renewIfDue())
        let renewed = try #require(bench.folder.record)
        #expect(renewed.renewal == nil && renewed.current.serial != failed.current.serial)
        #expect(try await bench.desk.store.gateways(at: bench.now).first?.serial == renewed.current.serial)

        bench.advance(days: 91)
        let ended = try #require(bench.folder.record)
        #expect(ended.state(at: bench.now) == .expired && ended.nextRenewal(at: bench.now) == nil)
        #expect(ended.problem(at: bench.now)?.contains("enrol again") == true)
        #expect(try await bench.gateway().renewIfDue() == false)
        #expect(try await bench.enrol(try await bench.desk.makeTicket(for: Self.gateway)))
        #expect(bench.folder.record?.state(at: bench.now) == .valid && bench.folder.record?.previous == nil)
    }

    @Test("a process that is killed leaves the old certificate or the new one")
    func killed() async throws {
        let bench = try Bench()
        #expect(try await bench.enrol(try await bench.desk.makeTicket(for: Self.gateway)))
        let record = try #require(bench.folder.record)
        // Killed after the new folder was written, before the record names it.
        let stray = bench.folder.path + "/abcdef"
        try PrivateFile.write(Array("half".utf8), to: stray + "/private.key")
        #expect(bench.folder.record == record)
        #expect(EnrolledCredentials(bench.folder).identities().count == 1)
        // A record that is damaged is none.
        try PrivateFile.write(Array("{\"schema\":1".utf8), to: bench.folder.path + "/record.json")
        #expect(bench.folder.record == nil)
        #expect(EnrolmentFolder.destinations(in: bench.root + "/state").isEmpty)
    }
}

extension JSONValue {
    /// Compact JSON as bytes.
    fileprivate var octets: [UInt8] { Array(text.utf8) }
}

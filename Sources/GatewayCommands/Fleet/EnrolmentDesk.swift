import Crypto
import FleetDelivery
import FleetDocuments
import Foundation
import GatewaySettings
import HealthReadings
import SwiftASN1
import X509

/// Gets a gateway its certificate from a fleet's authority, and the next one in time.
///
/// The key is made here and never leaves. Nothing is sent to an authority whose certificate is not the one of the token's
/// file, and nothing that comes back is kept before it was checked.
struct EnrolmentDesk: Sendable {
    private static let enrolmentKey = "enrolment.key"
    private static let renewalKey = "renewal.key"
    private static let authorityFile = "authority.pem"

    let folder: EnrolmentFolder
    let now: Instant
    /// Exchanges documents with the authority.
    let exchange: EnrolmentExchange

    init(_ folder: EnrolmentFolder, now: Instant, exchange: EnrolmentExchange = .https) {
        self.folder = folder
        self.now = now
        self.exchange = exchange
    }

    // MARK: Enrolment

    /// Enrols with a token, or goes on where a former attempt with it ended.
    ///
    /// - Returns: whether a certificate came; `false`: it came with this token before.
    func enrol(_ ticket: EnrolmentTicket, url: String) async throws -> Bool {
        let authority = try Self.authority(of: ticket)
        let token = SHA256.hash(data: Data(ticket.token.utf8)).hexadecimal()
        if let record = folder.record, record.token == token, record.state(at: now) != .expired { return false }
        guard now >= ticket.made.advanced(bySeconds: -3600) else {
            throw Problem(
                "clock_wrong", .configuration,
                "this machine's clock says \(now.flooredToSecond), and the token was made at \(ticket.made)",
                hint: "set the clock; without the right time no certificate can be checked")
        }
        // Makes the folder too.
        _ = try folder.pendingKey(Self.enrolmentKey)
        let anchor = folder.path + "/" + Self.authorityFile
        do { try PrivateFile.write(Array(ticket.authority.utf8), to: anchor) } catch {
            throw Problem("enrolment_cannot_create", .cannotCreate, "cannot write \(error.path): \(error.reason)")
        }
        defer { unlink(anchor) }
        let (key, answer) = try await ask(
            url, "v1/enrol", ticket.gateway, token: ticket.token, keyFile: Self.enrolmentKey, authorities: anchor,
            identity: nil)
        let fresh = try generation(in: answer, key: key, gateway: ticket.gateway, signers: [authority])
        try folder.install(
            EnrolmentRecord(
                gateway: ticket.gateway.description, url: url, token: token, authority: ticket.fingerprint,
                current: fresh), answer, key: key, keyFile: Self.enrolmentKey, at: now)
        return true
    }

    /// The certificate in a token's file, which has to have the file's fingerprint.
    static func authority(of ticket: EnrolmentTicket) throws(Problem) -> Certificate {
        guard let document = try? PEMDocument(pemString: ticket.authority),
            let certificate = try? Certificate(pemDocument: document)
        else {
            throw Problem("token_file_damaged", .badData, "the token's file holds no certificate of an authority")
        }
        let found = SHA256.hash(data: document.derBytes).hexadecimal()
        guard found == ticket.fingerprint else {
            throw Problem(
                "authority_mismatch", .badData,
                "the authority's certificate in the token's file has the fingerprint \(found), and the file names "
                    + ticket.fingerprint, hint: "nothing was sent; ask the fleet's operator for another token")
        }
        return certificate
    }

    private static func request(_ key: P256.Signing.PrivateKey, _ gateway: GatewayID) throws -> String {
        try CertificateSigningRequest(
            version: .v1, subject: try DistinguishedName { CommonName(gateway.description) },
            privateKey: .init(key), attributes: .init(), signatureAlgorithm: .ecdsaWithSHA256
        ).serializeAsPEM().pemString
    }

    // MARK: Renewal

    /// Renews the certificate if it is time. A failure is noted, and waited out longer each time.
    ///
    /// - Returns: whether there is a new one.
    func renewIfDue() async throws -> Bool {
        guard let record = folder.record, let next = record.nextRenewal(at: now), now >= next,
            record.state(at: now) == .due
        else { return false }
        do {
            try await renew(record)
            return true
        } catch let error as CancellationError {
            throw error
        } catch {
            let problem = Problem(describing: error) ?? .unexpected(error)
            try folder.change { record in
                record.renewal = .init(
                    code: problem.code, message: problem.message, at: now, count: (record.renewal?.count ?? 0) + 1)
            }
            throw problem
        }
    }

    private func renew(_ record: EnrolmentRecord) async throws {
        guard let gateway = GatewayID(ifValid: record.gateway) else {
            throw Problem("enrolment_damaged", .badData, "\(folder.path) names no gateway")
        }
        // A certificate that was refused everywhere may be refused here too; the one before may not.
        let generation = record.refusal == nil ? record.current : record.previous ?? record.current
        let files = folder.files(of: generation)
        let (key, answer) = try await ask(
            record.url, "v1/renew", gateway, token: nil, keyFile: Self.renewalKey, authorities: files.authorities,
            identity: (files.certificate, files.privateKey))
        // The answer came from a server of an authority that is trusted: any of those may have signed.
        let signers = try Self.certificates(answer.authorities)
        let fresh = try self.generation(in: answer, key: key, gateway: gateway, signers: signers)
        var renewed = record
        (renewed.current, renewed.renewal, renewed.refusal) = (fresh, nil, nil)
        try folder.install(renewed, answer, key: key, keyFile: Self.renewalKey, at: now)
    }

    // MARK: Answers

    /// Asks for a certificate for the pending key, or for another key if the authority has revoked that one.
    private func ask(
        _ url: String, _ path: String, _ gateway: GatewayID, token: String?, keyFile: String, authorities: String,
        identity: (certificate: String, key: String)?
    ) async throws -> (key: P256.Signing.PrivateKey, answer: EnrolmentAnswer) {
        var isRepeated = false
        while true {
            let key = try folder.pendingKey(keyFile)
            let request = EnrolmentRequest(gateway: gateway, token: token, request: try Self.request(key, gateway))
            do {
                return (key, try await ask(url, path, request, authorities: authorities, identity: identity))
            } catch let problem as Problem where problem.code == "key_used" && !isRepeated {
                folder.dropPendingKey(keyFile)
                isRepeated = true
            }
        }
    }

    private func ask(
        _ url: String, _ path: String, _ request: EnrolmentRequest, authorities: String,
        identity: (certificate: String, key: String)?
    ) async throws -> EnrolmentAnswer {
        let octets = try await exchange.ask(
            .init(url: url, path: path, document: request.document, authorities: authorities, identity: identity))
        do throws(FleetDocumentError) {
            let answer = try EnrolmentAnswer(octets)
            guard answer.gateway == request.gateway else {
                throw .otherGateway(expected: request.gateway, found: answer.gateway)
            }
            return answer
        } catch {
            throw Self.wrongAnswer("\(error)")
        }
    }

    /// Checks a certificate: its key, its name, who signed it, and its time.
    private func generation(
        in answer: EnrolmentAnswer, key: P256.Signing.PrivateKey, gateway: GatewayID, signers: [Certificate]
    ) throws(Problem) -> EnrolmentRecord.Generation {
        guard let certificate = try? Certificate(pemEncoded: answer.certificate) else {
            throw Self.wrongAnswer("expected a certificate in PEM, found something else")
        }
        guard certificate.publicKey == .init(key.publicKey) else {
            throw Self.wrongAnswer("the certificate is for another key")
        }
        let names = certificate.subject.flatMap { $0 }.filter { $0.type == .RDNAttributeType.commonName }
            .map { String(describing: $0.value) }
        guard names == [gateway.description] else {
            throw Self.wrongAnswer(
                "expected a certificate for \(gateway), found one for "
                    + (names.isEmpty ? "nobody" : PrintableText.escaped(names.joined(separator: ", "))))
        }
        let isSigned = signers.contains {
            $0.subject == certificate.issuer && $0.publicKey.isValidSignature(certificate.signature, for: certificate)
        }
        guard isSigned else { throw Self.wrongAnswer("the certificate isn't signed by the fleet's authority") }
        // Brokers have to be checked against the authority that signed, too.
        _ = try Self.certificates(answer.authorities)
        let (from, until) = (certificate.notValidBefore.instant, certificate.notValidAfter.instant)
        guard from <= now else {
            throw Problem(
                "clock_wrong", .configuration,
                "this machine's clock says \(now.flooredToSecond), and the certificate begins at \(from)",
                hint: "set the clock, and run the command again")
        }
        guard now < until else {
            throw Problem(
                "clock_wrong", .configuration,
                "this machine's clock says \(now.flooredToSecond), and the certificate ended at \(until)",
                hint: "set the clock; if it is right, the authority's is not")
        }
        return .init(
            serial: Self.text(of: certificate.serialNumber), issuer: "\(certificate.issuer)", from: from, until: until)
    }

    /// A serial number in hexadecimal, without zeros before it, as the authority writes it.
    static func text(of serial: Certificate.SerialNumber) -> String {
        let digits = Array(serial.bytes).hexadecimal().drop { $0 == "0" }
        return digits.isEmpty ? "0" : String(digits)
    }

    private static func certificates(_ pem: String) throws(Problem) -> [Certificate] {
        guard let documents = try? PEMDocument.parseMultiple(pemString: pem), !documents.isEmpty else {
            throw wrongAnswer("expected the certificates of authorities, found none")
        }
        var certificates: [Certificate] = []
        for document in documents {
            guard let certificate = try? Certificate(pemDocument: document) else {
                throw wrongAnswer("expected the certificates of authorities, found something else")
            }
            certificates.append(certificate)
        }
        return certificates
    }

    private static func wrongAnswer(_ words: String) -> Problem {
        Problem("unexpected_answer", .protocolBroken, "the authority's answer can't be used: \(words)")
    }
}

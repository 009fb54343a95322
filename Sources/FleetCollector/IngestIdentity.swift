import FleetAuthority
import Foundation
import GatewaySettings
import LocalAccess
import NIOSSL
import SwiftASN1
import Synchronization
import X509

/// What the ingest proves itself with, and the authorities that vouch for gateways.
package final class IngestIdentity: Sendable {
    private let settings: CollectorSettings
    /// The collector's own certificate; `nil`: the owner gave one.
    private let keeper: CertificateKeeper?
    private let directory: String
    private let current: Mutex<NIOSSLContext>

    /// Reads the certificates, and makes one in the state directory where the owner gave none.
    ///
    /// - Throws: `Problem` with status 78.
    package init(_ settings: CollectorSettings, directory: String, now: Date = Date()) throws(Problem) {
        self.settings = settings
        self.directory = directory
        do {
            keeper =
                settings.certificateFile == nil
                ? try CertificateKeeper(
                    directory: directory, names: settings.certificateNames, now: now, isAnchor: true) : nil
            current = Mutex(try Self.context(settings, directory: directory))
        } catch {
            throw Self.unusable("\(error)")
        }
    }

    /// What the next connection speaks TLS with.
    package var context: NIOSSLContext { current.withLock(\.self) }

    /// The file of the certificate, which a gateway needs to know the collector by.
    package var certificateFile: String { settings.certificateFile ?? directory + "/" + CertificateKeeper.fileName }

    /// SHA-256 of the collector's own certificate; `nil`: the owner gave one.
    package var fingerprint: String? { keeper?.certificate.fingerprint }

    /// Renews the collector's own certificate where it is time, and reads the files again. Connections that are open stay.
    package func refresh(now: Date = Date()) throws(Problem) {
        do {
            _ = try keeper?.update(now: now)
            let fresh = try Self.context(settings, directory: directory)
            current.withLock { $0 = fresh }
        } catch {
            throw Self.unusable("\(error)")
        }
    }

    private static func context(_ settings: CollectorSettings, directory: String) throws -> NIOSSLContext {
        let chainFile = settings.certificateFile ?? directory + "/" + CertificateKeeper.fileName
        let keyFile = settings.privateKeyFile ?? chainFile
        let chain = try NIOSSLCertificate.fromPEMFile(chainFile)
        let key = try NIOSSLPrivateKey(file: keyFile, format: .pem)
        var configuration = TLSConfiguration.makeServerConfiguration(
            certificateChain: chain.map { .certificate($0) }, privateKey: .privateKey(key))
        configuration.minimumTLSVersion = .tlsv13
        configuration.applicationProtocols = ["http/1.1"]
        if let file = settings.gatewayAuthorityFile {
            configuration.trustRoots = .certificates(try NIOSSLCertificate.fromPEMFile(file))
            // A gateway without a certificate may still come with a token.
            configuration.certificateVerification = .optionalVerification
        }
        return try NIOSSLContext(configuration: configuration)
    }

    private static func unusable(_ words: String) -> Problem {
        Problem("certificate_unusable", .configuration, "the ingest's certificates can't be used: \(words)")
    }

    /// The common name of a verified certificate.
    package static func commonName(of certificate: NIOSSLCertificate) -> String? {
        (try? certificate.toDERBytes()).flatMap { try? Certificate(derEncoded: $0) }?.commonName
    }
}

extension CollectorSettings {
    /// The names of the certificate that the collector makes.
    var certificateNames: [String] {
        let machine = ProcessInfo.processInfo.hostName
        return names + (names.contains(machine) || machine.isEmpty ? [] : [machine])
    }
}

import NIOSSL

/// Why TLS failed, in words for people. The libraries' own texts name files of the machine that built them.
package enum TLSFailure {
    package static func words(_ error: any Error) -> String {
        if let error = error as? NIOSSLExtraError, error == .failedToValidateHostname {
            return "its certificate is for another name"
        }
        if case NIOSSLError.noSuchFilesystemObject = error { return "the file of certificates to trust is not there" }
        return switch reason(of: error) {
        case "CERTIFICATE_VERIFY_FAILED":
            "expected a certificate that is trusted here and valid now, found that its certificate is not"
        case "NO_CERTIFICATE_OR_CRL_FOUND", "NO_START_LINE", "PEM_LIB":
            "expected a PEM file of certificates to trust, found none in it"
        case let reason?: "TLS failed: " + reason.lowercased().replacing("_", with: " ")
        case nil: "TLS failed"
        }
    }

    /// Whether the server refused the certificate that this client has shown, or the lack of one.
    static func refusesIdentity(_ error: any Error) -> Bool { reason(of: error).map(refusals.contains) ?? false }

    /// BoringSSL's names of the alerts with which a server refuses a certificate.
    private static let refusals: Set<String> = [
        "SSLV3_ALERT_BAD_CERTIFICATE", "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE", "SSLV3_ALERT_CERTIFICATE_REVOKED",
        "SSLV3_ALERT_CERTIFICATE_EXPIRED", "SSLV3_ALERT_CERTIFICATE_UNKNOWN", "SSLV3_ALERT_NO_CERTIFICATE",
        "TLSV1_ALERT_UNKNOWN_CA", "TLSV1_ALERT_ACCESS_DENIED", "TLSV1_ALERT_CERTIFICATE_REQUIRED",
    ]

    /// BoringSSL's name of the first thing that went wrong; `nil` if it names none.
    private static func reason(of error: any Error) -> String? {
        "\(error)".firstMatch(of: /OPENSSL_internal:([A-Z0-9_]+)/).map { String($0.1) }
    }
}

/// Files of certificates to trust.
package enum CertificateFile {
    /// Whether a PEM text holds certificates, and each of them can be read.
    package static func holdsCertificates(pem: [UInt8]) -> Bool {
        (try? NIOSSLCertificate.fromPEMBytes(pem))?.isEmpty == false
    }
}

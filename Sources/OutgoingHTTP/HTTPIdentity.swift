import NIOSSL

/// The certificate that a client shows to servers that ask for one, with its private key.
package struct HTTPIdentity: Sendable, CustomReflectable {
    let chain: [NIOSSLCertificate]
    let key: NIOSSLPrivateKey

    /// Reads both.
    ///
    /// - Parameters:
    ///   - certificate: the path of a PEM file with the certificate and its chain.
    ///   - key: the path of a PEM file with its private key, without a passphrase.
    /// - Returns: `nil` if a file cannot be read, or holds nothing of the kind.
    package init?(certificate: String, key: String) {
        guard let chain = try? NIOSSLCertificate.fromPEMFile(certificate), !chain.isEmpty,
            let key = try? NIOSSLPrivateKey(file: key, format: .pem)
        else { return nil }
        self.chain = chain
        self.key = key
    }

    /// Shows nothing: the key is a secret.
    package var customMirror: Mirror { Mirror(self, children: []) }
}

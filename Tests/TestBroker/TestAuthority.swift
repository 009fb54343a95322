import Foundation

/// A certificate authority of a test: PEM files in a folder, made with openssl.
package final class TestAuthority: Sendable {
    static let program = "/usr/bin/openssl"
    private let folder: URL

    package init() throws {
        folder = FileManager.default.temporaryDirectory.appendingPathComponent(
            "authority-\(UUID().uuidString.prefix(8))")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        try TestProcess.run(
            Self.program,
            [
                "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
                "/CN=Test authority", "-keyout", path("ca.key"), "-out", path("ca.pem"),
            ])
    }

    deinit { try? FileManager.default.removeItem(at: folder) }

    package func path(_ name: String) -> String { folder.appendingPathComponent(name).path }

    /// The authority's own certificate.
    package var certificate: String { path("ca.pem") }

    /// Issues a certificate.
    ///
    /// - Parameters:
    ///   - name: its common name, and the name of its files.
    ///   - alternatives: what it is for: `DNS:localhost`, `IP:127.0.0.1`.
    /// - Returns: the files of the certificate and of its key.
    package func issue(_ name: String, for alternatives: [String] = []) throws -> (certificate: String, key: String) {
        let (key, request, certificate) = (path("\(name).key"), path("\(name).csr"), path("\(name).pem"))
        try TestProcess.run(
            Self.program,
            [
                "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=\(name)",
                "-keyout", key, "-out", request,
            ])
        let lines = alternatives.isEmpty ? "" : "subjectAltName=\(alternatives.joined(separator: ","))\n"
        try lines.write(toFile: path("\(name).ext"), atomically: true, encoding: .utf8)
        try TestProcess.run(
            Self.program,
            [
                "x509", "-req", "-in", request, "-CA", path("ca.pem"), "-CAkey", path("ca.key"), "-CAcreateserial",
                "-days", "2", "-extfile", path("\(name).ext"), "-out", certificate,
            ])
        return (certificate, key)
    }

    /// Lines of a broker's configuration that have it speak TLS.
    package func lines(_ issued: (certificate: String, key: String)) -> [String] {
        ["cafile \(certificate)", "certfile \(issued.certificate)", "keyfile \(issued.key)"]
    }
}

import Foundation
import GatewaySettings
import OutgoingHTTP

/// Files that hold a secret and nothing else.
enum SecretFile {
    /// Reads a file that holds one word, as keys and tokens are; white space around it is dropped.
    ///
    /// - Parameters:
    ///   - path: the file.
    ///   - secret: what it holds, in full: `the server's key`.
    ///   - name: what it holds, in short: `key`.
    /// - Throws: `Problem` if the file cannot be read, or holds nothing or more than one word.
    static func word(in path: String, of secret: String, called name: String) throws(Problem) -> String {
        let text = try contents(path, secret, name).trimmingCharacters(in: .whitespacesAndNewlines)
        guard !text.isEmpty else {
            throw Problem("key_unreadable", .configuration, "the file \(path) holds no \(name)")
        }
        let isWord = text.unicodeScalars.allSatisfy {
            !$0.properties.isWhitespace && $0.properties.generalCategory != .control
        }
        guard isWord else {
            throw Problem(
                "key_unreadable", .configuration,
                "the file \(path) holds more than one \(name): white space or a control character is in the middle of it",
                hint: "write the \(name) alone into it, on one line")
        }
        return text
    }

    /// Reads a file that holds one line, which may have spaces, as passwords may; the line feed at its end is dropped.
    ///
    /// - Throws: `Problem` if the file cannot be read, or holds nothing or more than one line.
    static func line(in path: String, of secret: String, called name: String) throws(Problem) -> String {
        let text = try contents(path, secret, name).trimmingCharacters(in: .newlines)
        guard !text.isEmpty else {
            throw Problem("key_unreadable", .configuration, "the file \(path) holds no \(name)")
        }
        guard text.unicodeScalars.allSatisfy({ $0.properties.generalCategory != .control }) else {
            throw Problem(
                "key_unreadable", .configuration, "the file \(path) holds more than one line, or a control character",
                hint: "write the \(name) alone into it, on one line")
        }
        return text
    }

    /// Reads a file whose lines are looked at elsewhere.
    ///
    /// - Throws: `Problem` if the file cannot be read.
    static func lines(in path: String, of secret: String, called name: String) throws(Problem) -> String {
        try contents(path, secret, name)
    }

    private static func contents(_ path: String, _ secret: String, _ name: String) throws(Problem) -> String {
        do {
            return try OrdinaryFile.text(path)
        } catch {
            throw Problem(
                "key_unreadable", .configuration, "cannot read \(secret) in \(path): \(error.localizedDescription)",
                hint: "the file holds the \(name) alone; its owner is the gateway's user, its mode 0600")
        }
    }
}

extension DestinationSetting {
    /// Refuses a `ca_file` without certificates that can be read.
    func requireCertificates(in path: String) throws(Problem) {
        let text: String
        do {
            text = try OrdinaryFile.text(path)
        } catch {
            throw Problem.configInvalid("\(named("ca_file")): cannot read \(path): \(error.localizedDescription)")
        }
        guard CertificateFile.holdsCertificates(pem: Array(text.utf8)) else {
            throw Problem.configInvalid(
                "\(named("ca_file")): expected a PEM file of certificates, found none that can be read in \(path)")
        }
    }
}

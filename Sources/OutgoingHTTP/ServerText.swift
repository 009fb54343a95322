import HealthReadings

/// Text of a server, made fit for a terminal and a message.
package enum ServerText {
    /// One line without control characters, with secrets masked, at most 300 characters and 1200 octets; `nil` if nothing is
    /// left.
    ///
    /// - Parameters:
    ///   - text: the server's text.
    ///   - secrets: what a server may echo of what it was sent. One with fewer than four characters is not looked for.
    package static func oneLine(_ text: String, masking secrets: [String]) -> String? {
        let flat = masked(text, secrets).unicodeScalars.map { scalar -> Character in
            scalar.properties.generalCategory == .control || scalar.properties.generalCategory == .format
                ? " " : Character(scalar)
        }
        let line = String(flat).split(separator: " ").joined(separator: " ")
        guard !line.isEmpty else { return nil }
        let shown: String = line.count > 300 ? line.prefix(299) + "…" : line
        return shown.cut(toOctets: 1200)
    }

    /// The text with every occurrence of a secret masked.
    package static func masked(_ text: String, _ secrets: [String]) -> String {
        secrets.filter { $0.count >= 4 }.reduce(text) { text, secret in
            text.unicodeScalars.split(separator: secret.unicodeScalars, omittingEmptySubsequences: false)
                .map { String($0) }.joined(separator: "****")
        }
    }

    /// What an answer is that is no JSON: `text/html, beginning "<!DOCTYPE html>…"`.
    package static func summary(of body: [UInt8], type: String?, masking secrets: [String]) -> String {
        let type = type.flatMap { $0.split(separator: ";").first.map(String.init) } ?? "no content type"
        let beginning = oneLine(String(decoding: body.prefix(160), as: UTF8.self), masking: secrets)
            .map { "beginning \"\($0)\"" }
        return "\(oneLine(type, masking: secrets) ?? "no content type"), \(beginning ?? "empty")"
    }
}

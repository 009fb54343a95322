/// Why a broker or a connection to it failed.
package enum AMQPError: Error, Sendable, Hashable {
    /// It can't be reached, or the connection broke. Another node, or the same one later, may do.
    case lost(String)
    /// The broker refused the user or the certificate.
    case notPermitted(String)
    /// The broker refused what was asked, with its code of AMQP 0.9.1.
    case refused(code: Int, String)
    /// A file for TLS can't be used.
    case unusableFile(path: String)
}

extension AMQPError: CustomStringConvertible {
    /// One line for people.
    package var description: String {
        switch self {
        case .lost(let words): words
        case .notPermitted(let words): "the broker refused the user: \(words)"
        case .refused(let code, let words): "the broker refused: \(words) (\(code))"
        case .unusableFile(let path): "cannot use \(path) for TLS"
        }
    }
}

import Foundation

/// The secrets that the service manager hands to the service it starts (systemd.exec(5), `LoadCredential=`).
package struct ServiceCredentials: Sendable {
    /// The name under which the unit hands over a folder of secrets: its files are called `credentials_NAME`.
    private static let folderName = "credentials"

    private let folder: String?

    /// Those of a process with this environment.
    package init(_ environment: [String: String]) { folder = environment["CREDENTIALS_DIRECTORY"] }

    /// Whether a file is one of them, which nobody may write.
    package func holds(_ path: String) -> Bool { folder.map { path.hasPrefix($0 + "/") } ?? false }

    /// The file of a secret; nil: there is none of that name.
    package func file(_ name: String) -> String? {
        guard let folder else { return nil }
        return ["\(folder)/\(name)", "\(folder)/\(Self.folderName)_\(name)"].first { access($0, R_OK) == 0 }
    }
}

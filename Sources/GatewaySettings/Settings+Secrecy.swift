import Foundation

extension Settings {
    /// The files that hold a secret, which only the gateway may read. systemd protects the credentials that it hands
    /// over.
    package func secretFiles(in stateDirectory: String) -> [String] {
        let credentials = ServiceCredentials(ProcessInfo.processInfo.environment)
        let named = ["cloud.app_key_file", "cloud.whoop_client_secret_file", "backup.passphrase_file"]
        let files = destinations.flatMap(\.secretFiles) + named.compactMap { self[$0] }
        return files.filter { !credentials.holds($0) } + storeKeyFiles(in: stateDirectory)
    }

    /// The settings in the administrator's file that other users of the machine should not see.
    package var confidentialKeys: [String] {
        guard let file else { return [] }
        return destinations.flatMap { $0.confidentialKeys(in: file) }
    }
}

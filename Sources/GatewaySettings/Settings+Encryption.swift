import Foundation
import ReadingStore

extension Settings {
    /// What systemd calls the credential with the store's key (`LoadCredential=store-key:…`).
    static let keyCredential = "store-key"

    /// Whether the store's content is sealed, and where the key is: in `store.key_file`, else in the service's
    /// credential, else in the state directory.
    package var storeEncryption: StoreEncryption {
        let credentials = ServiceCredentials(ProcessInfo.processInfo.environment)
        let key: StoreKeySource?
        if let path = self["store.key_file"] {
            key = StoreKeySource(path: path, isWritable: !credentials.holds(path))
        } else if let path = credentials.file(Self.keyCredential) {
            key = StoreKeySource(path: path, isWritable: false)
        } else {
            key = nil
        }
        return self["store.encryption"] == "off" ? .off(key) : .on(key)
    }

    /// The files with the store's key that nobody else may read; a credential is kept by systemd.
    package func storeKeyFiles(in stateDirectory: String) -> [String] {
        let source = storeEncryption.key ?? StoreKeySource(path: stateDirectory + "/" + StoreEncryption.keyName)
        return source.isWritable ? [source.path] : []
    }
}

/// Whether a store's content is sealed, and where the key is.
///
/// Sealed are the octets of frames, the values of readings with all that says how they were measured, their ids, and
/// what the server said of them: AES-256-GCM, one seal a row, a fresh nonce each. In the clear stays what rows are
/// found by: which devices and people there are, when a reading was made, of what kind it is, whether it was delivered.
public struct StoreEncryption: Sendable, Hashable {
    /// Whether new rows are sealed, and rows in the clear become so.
    public var isOn: Bool
    /// Where the key is; nil: `store.key` in the state directory.
    public var key: StoreKeySource?

    /// Content is sealed.
    public static func on(_ key: StoreKeySource? = nil) -> StoreEncryption { .init(isOn: true, key: key) }

    /// Content is in the clear; what is sealed already is opened with the key, and becomes so.
    public static func off(_ key: StoreKeySource? = nil) -> StoreEncryption { .init(isOn: false, key: key) }

    /// The name of the key's file in a state directory.
    public static let keyName = "store.key"
}

/// Entries for fuzzing: what outside text can reach in this module.
public enum StoreFuzzing {
    /// Reads octets as a page cursor, as a query given by a stranger would; never traps.
    public static func cursor(_ octets: [UInt8]) {
        _ = try? PageCursor(text: String(decoding: octets, as: UTF8.self))
    }
}

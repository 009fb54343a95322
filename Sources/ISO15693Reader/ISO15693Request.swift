/// Requests of ISO/IEC 15693-3 that read and nothing else: others cannot be expressed.
///
/// All are unaddressed and at the high data rate, as a sensor's own application asks: with one tag in the field there
/// is nothing to choose. Asking any of them again changes nothing on the tag.
public enum ISO15693Request: Sendable, Hashable {
    /// Who is in the field: one slot, without a mask (ISO/IEC 15693-3, 10.3.1).
    ///
    /// Its answer's data is the storage format identifier and the UID's eight octets, the lowest first.
    case inventory
    /// One block, by its number (10.4.1). Its answer's data is the block.
    case readSingleBlock(UInt8)
    /// `count` blocks from `first` on (10.4.4); a count of 0 is asked as 1. Sensors answer at most three at a time.
    case readMultipleBlocks(first: UInt8, count: UInt8)
    /// What the tag says of its memory (10.4.12): information flags, UID, and the fields these flags name.
    case systemInformation
    /// The sensor's model and region: custom command A1 of manufacturer 07 (Texas Instruments). Six octets.
    case patchInformation
    /// The same of a sensor with a chip of Abbott's own: custom command A1 of manufacturer 7A. A tag answers only the number of
    /// its own manufacturer, which its UID has behind E0.
    case abbottPatchInformation

    /// The request's octets: flags, command, parameters; without its CRC.
    public var frame: [UInt8] {
        switch self {
        case .inventory: [0x26, 0x01, 0x00]
        case .readSingleBlock(let number): [0x02, 0x20, number]
        case .readMultipleBlocks(let first, let count): [0x02, 0x23, first, count == 0 ? 0 : count - 1]
        case .systemInformation: [0x02, 0x2B]
        case .patchInformation: [0x02, 0xA1, 0x07]
        case .abbottPatchInformation: [0x02, 0xA1, 0x7A]
        }
    }
}

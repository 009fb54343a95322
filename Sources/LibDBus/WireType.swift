/// The type codes of messages (D-Bus Specification, "Summary of types"); libdbus has them as macros that do not import.
enum WireType: Int32 {
    case byte = 0x79
    case bool = 0x62
    case int16 = 0x6E
    case uint16 = 0x71
    case int32 = 0x69
    case uint32 = 0x75
    case int64 = 0x78
    case uint64 = 0x74
    case double = 0x64
    case string = 0x73
    case objectPath = 0x6F
    case signature = 0x67
    case unixFD = 0x68
    case array = 0x61
    case variant = 0x76
    case structure = 0x72
    case dictionaryEntry = 0x65

    /// How many containers may lie in each other, dictionary entries and variants included: libdbus refuses more.
    static let deepest = 64
}

/// What `healthrelay-nfc` is asked, one line each, fields with tabs between them.
///
/// | line | answered by |
/// |---|---|
/// | `open` *reader* | `opened`, or `failed` |
/// | `exchange` *milliseconds* *frame in hexadecimal, without CRC* | `answer`, or `failed` |
/// | `list` | `readers` |
/// | `close` | `closed` |
///
/// One request is answered before the next is read. The end of standard input ends the program.
public enum NFCRequest: Sendable, Hashable {
    /// Opens a reader, by a connection string of libnfc's; one that is open is closed first.
    case open(reader: String)
    /// Asks the tag: flags, command and parameters of an ISO 15693 request, without its CRC.
    case exchange(frame: [UInt8], milliseconds: UInt16)
    /// Which readers there are; serial ports are not tried.
    case list
    /// Gives the reader back.
    case close

    /// The request's line, without its end.
    public var line: String {
        switch self {
        case .open(let reader): NFCLine.join(["open", reader])
        case .exchange(let frame, let milliseconds): NFCLine.join(["exchange", "\(milliseconds)", NFCLine.hex(frame)])
        case .list: "list"
        case .close: "close"
        }
    }

    /// - Throws: ``NFCLineError`` where the line is none of these.
    public init(line: String) throws(NFCLineError) {
        let fields = NFCLine.split(line)
        switch (fields[0], fields.count) {
        case ("open", 2): self = .open(reader: fields[1])
        case ("exchange", 3):
            guard let milliseconds = UInt16(fields[1]) else {
                throw NFCLineError(expected: "milliseconds", field: 1, found: fields[1])
            }
            self = .exchange(frame: try NFCLine.octets(fields, 2), milliseconds: milliseconds)
        case ("list", 1): self = .list
        case ("close", 1): self = .close
        default: throw NFCLineError(expected: "a request", field: 0, found: line)
        }
    }
}

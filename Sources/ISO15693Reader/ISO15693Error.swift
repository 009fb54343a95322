/// Why a tag, or a reader, gave no answer.
public enum ISO15693Error: Error, Sendable, Hashable {
    /// There is no tag in the field.
    case noTag
    /// There is a card or tag of another kind.
    case otherTag
    /// A tag was there, and is not any more.
    case tagLeft
    /// The tag is there and did not answer this request.
    case tagSilent
    /// The tag refused: its own error code (ISO/IEC 15693-3, table 12).
    case tag(code: UInt8)
    /// The answer's CRC is wrong.
    case badCRC
    /// The answer is not of the form that the request's has: what was expected, where, and what was found.
    case malformedAnswer(String)

    /// `nfc.reader` is not of a form that names a reader.
    case badReaderName(String)
    /// There is no such reader, or no such port; nil where none is named.
    case noReader(String?)
    /// Another process has the reader or its port; its number where the system tells it.
    case portInUse(String, pid: Int32?)
    /// The system does not let this user have the reader, and what to do about it.
    case notPermitted(String, mend: String)
    /// The reader was unplugged, or its port has vanished.
    case portGone
    /// The reader does not answer.
    case readerSilent
    /// The reader works and does not speak ISO 15693.
    case cannotSpeakISO15693
    /// The reader speaks ISO 15693 and cannot be made to ask this: it offers reading only.
    case readerCannotAsk(ISO15693Request)
    /// Anything else the reader's library said: its error's number and name.
    case reader(code: Int32, name: String)

    /// The program that holds libnfc is not installed, or cannot be run.
    case helperMissing(String)
    /// The program that holds libnfc was ended by a signal: libnfc aborts its own process over some answers of a
    /// reader.
    case helperDied(signal: Int32)
    /// The program that holds libnfc ended by itself, or said what it never says.
    case helperFailed(String)
    /// The PC/SC service (pcscd) is not running.
    case noPCSCService

    /// The task that asked was cancelled.
    case cancelled
}

extension ISO15693Error {
    /// Whether the same request, asked again at once, may well be answered: a field that was disturbed, an answer that
    /// was garbled on its way.
    public var mayPass: Bool {
        switch self {
        case .tagSilent, .badCRC, .malformedAnswer, .readerSilent, .reader: true
        default: false
        }
    }
}

extension ISO15693Error: CustomStringConvertible {
    /// The published snake_case code.
    public var code: String {
        switch self {
        case .noTag: "no_tag"
        case .otherTag: "other_tag"
        case .tagLeft: "tag_left"
        case .tagSilent: "tag_silent"
        case .tag: "tag_error"
        case .badCRC: "bad_crc"
        case .malformedAnswer: "malformed_answer"
        case .badReaderName: "bad_reader_name"
        case .noReader: "no_reader"
        case .portInUse: "port_in_use"
        case .notPermitted: "reader_not_permitted"
        case .portGone: "port_gone"
        case .readerSilent: "reader_silent"
        case .cannotSpeakISO15693: "reader_cannot_speak_iso15693"
        case .readerCannotAsk: "reader_cannot_ask"
        case .reader: "reader_error"
        case .helperMissing: "nfc_helper_missing"
        case .helperDied: "nfc_helper_died"
        case .helperFailed: "nfc_helper_failed"
        case .noPCSCService: "no_pcsc_service"
        case .cancelled: "cancelled"
        }
    }

    /// One line for people.
    public var description: String {
        switch self {
        case .noTag: "there is no sensor at the reader"
        case .otherTag: "the tag at the reader is not an ISO 15693 tag, so it is not a sensor"
        case .tagLeft: "the sensor left the reader"
        case .tagSilent: "the sensor is at the reader but does not answer"
        case .tag(let code): "the sensor refused the request: \(Self.text(ofTagCode: code))"
        case .badCRC: "the sensor's answer came with a wrong CRC"
        case .malformedAnswer(let what): "the sensor's answer is malformed: \(what)"
        case .badReaderName(let name): "\(name.isEmpty ? "an empty text" : name) does not name a reader"
        case .noReader(nil): "there is no NFC reader"
        case .noReader(let name?): "there is no NFC reader \(name)"
        case .portInUse(let name, nil): "another process has the reader \(name)"
        case .portInUse(let name, let pid?): "process \(pid) has the reader \(name)"
        case .notPermitted(let name, _): "the system does not permit this user to use the reader \(name)"
        case .portGone: "the reader is gone: it was unplugged, or its port has vanished"
        case .readerSilent: "the reader does not answer"
        case .cannotSpeakISO15693: "this reader cannot read ISO 15693 tags, which sensors are"
        case .readerCannotAsk(let request): "this reader cannot ask for \(Self.text(of: request))"
        case .reader(let code, let name): "the reader failed: \(name) (\(code))"
        case .helperMissing(let why): "the program healthrelay-nfc cannot be run: \(why)"
        case .helperDied(let signal): "signal \(signal) ended the program healthrelay-nfc during the request"
        case .helperFailed(let why): "the program healthrelay-nfc failed: \(why)"
        case .noPCSCService: "the PC/SC service (pcscd) is not running"
        case .cancelled: "the request was cancelled"
        }
    }

    /// What to do next.
    public var hint: String? {
        switch self {
        case .noTag: "hold the reader to the sensor, within a centimetre, until it is read"
        case .otherTag: "take other cards away from the reader"
        case .tagLeft, .tagSilent: "hold the reader still at the sensor, and try again"
        case .tag: nil
        case .badCRC, .malformedAnswer: "hold the reader still at the sensor, away from metal, and try again"
        case .badReaderName:
            "set nfc.reader to `pn532_uart:/dev/ttyACM0:115200`, `pcsc:` or `pcsc:NAME`"
        case .noReader: "plug one in, and see `healthrelay nfc readers`"
        case .portInUse: "end the other process, or name another reader: `nfc.reader`"
        case .notPermitted(_, let mend): mend
        case .portGone: "plug it in again; the next scan looks for it"
        case .readerSilent: "unplug the reader and plug it in again, and check the speed in `nfc.reader`"
        case .cannotSpeakISO15693:
            "a PN532 supports only ISO 14443; the README's hardware table lists suitable readers"
        case .readerCannotAsk: "use a reader with transparent sessions, or one behind libnfc: see the hardware table"
        case .reader: "try again; if that does not help, unplug the reader and plug it in again"
        case .helperMissing: "install healthrelay-nfc beside healthrelay, or in its libexec folder"
        case .helperDied, .helperFailed: "scan again; the program is restarted"
        case .noPCSCService: "install it and start it: `apt install pcscd`, `systemctl start pcscd.socket`"
        case .cancelled: nil
        }
    }

    private static func text(ofTagCode code: UInt8) -> String {
        switch code {
        case 0x01: "the command is not supported (01)"
        case 0x02: "the command is not recognised (02)"
        case 0x03: "an option is not supported (03)"
        case 0x0F: "no information (0F)"
        case 0x10: "the block is not available (10)"
        case 0x11: "the block is already locked (11)"
        case 0x12: "the block is locked (12)"
        default: "code \(String(code, radix: 16, uppercase: true))"
        }
    }

    private static func text(of request: ISO15693Request) -> String {
        switch request {
        case .inventory: "an inventory"
        case .readSingleBlock(let number): "block \(number)"
        case .readMultipleBlocks(let first, let count): "\(count) blocks from \(first)"
        case .systemInformation: "the system information"
        case .patchInformation, .abbottPatchInformation: "the patch information, which tells a sensor's model"
        }
    }
}

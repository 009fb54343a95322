/// What `healthrelay-nfc` answers, one line each, fields with tabs between them.
public enum NFCReply: Sendable, Hashable {
    /// The first line, before any request: the version of this language, and libnfc's.
    case hello(version: Int, libnfc: String)
    /// A reader is open: whether it speaks ISO 15693, where it was possible to ask it, and its name.
    case opened(speaksISO15693: Bool?, name: String)
    /// A tag's answer as it came: flags, data and CRC, none of them looked at.
    case answer([UInt8])
    /// The readers' connection strings.
    case readers([String])
    /// No reader is open.
    case closed
    /// The request came to nothing.
    case failed(NFCFailure)

    /// The version of the language this is.
    public static let version = 1

    /// The reply's line, without its end.
    public var line: String {
        switch self {
        case .hello(let version, let libnfc): NFCLine.join(["hello", "\(version)", libnfc])
        case .opened(let speaks, let name):
            NFCLine.join(["opened", speaks.map { $0 ? "yes" : "no" } ?? "unknown", name])
        case .answer(let octets): NFCLine.join(["answer", NFCLine.hex(octets)])
        case .readers(let readers): NFCLine.join(["readers"] + readers)
        case .closed: "closed"
        case .failed(let failure): NFCLine.join(["failed"] + failure.fields)
        }
    }

    /// - Throws: ``NFCLineError`` where the line is none of these.
    public init(line: String) throws(NFCLineError) {
        let fields = NFCLine.split(line)
        switch (fields[0], fields.count) {
        case ("hello", 3):
            guard let version = Int(fields[1]) else {
                throw NFCLineError(expected: "a version", field: 1, found: fields[1])
            }
            self = .hello(version: version, libnfc: fields[2])
        case ("opened", 3):
            switch fields[1] {
            case "yes": self = .opened(speaksISO15693: true, name: fields[2])
            case "no": self = .opened(speaksISO15693: false, name: fields[2])
            case "unknown": self = .opened(speaksISO15693: nil, name: fields[2])
            default: throw NFCLineError(expected: "yes, no or unknown", field: 1, found: fields[1])
            }
        case ("answer", 2): self = .answer(try NFCLine.octets(fields, 1))
        case ("readers", _): self = .readers(Array(fields.dropFirst()))
        case ("closed", 1): self = .closed
        case ("failed", 2...): self = .failed(try NFCFailure(fields: Array(fields.dropFirst())))
        default: throw NFCLineError(expected: "a reply", field: 0, found: line)
        }
    }
}

/// Why `healthrelay-nfc` could not do what it was asked.
public enum NFCFailure: Error, Sendable, Hashable {
    /// The request is not of this language.
    case malformed(String)
    /// The frame is none of those that only read.
    case refused
    /// No reader is open.
    case notOpen
    /// The connection string names no port or device that is there.
    case noPort(String)
    /// Another process has the port; its number where the system tells it.
    case portInUse(String, pid: Int32?)
    /// The system does not let this user have the port; the group that may, where there is one.
    case notPermitted(String, group: String?)
    /// The port has vanished.
    case portGone
    /// The reader did not answer in time.
    case silent
    /// No tag answered.
    case unanswered
    /// libnfc's own error.
    case library(code: Int32, name: String)

    var fields: [String] {
        switch self {
        case .malformed(let why): ["malformed", why]
        case .refused: ["refused"]
        case .notOpen: ["not_open"]
        case .noPort(let name): ["no_port", name]
        case .portInUse(let name, let pid): ["port_in_use", name] + (pid.map { ["\($0)"] } ?? [])
        case .notPermitted(let name, let group): ["not_permitted", name] + (group.map { [$0] } ?? [])
        case .portGone: ["port_gone"]
        case .silent: ["silent"]
        case .unanswered: ["unanswered"]
        case .library(let code, let name): ["library", "\(code)", name]
        }
    }

    init(fields: [String]) throws(NFCLineError) {
        func number(_ text: String) throws(NFCLineError) -> Int32 {
            guard let number = Int32(text) else {
                throw NFCLineError(expected: "a number", field: 2, found: text)
            }
            return number
        }
        switch (fields[0], fields.count) {
        case ("malformed", 2): self = .malformed(fields[1])
        case ("refused", 1): self = .refused
        case ("not_open", 1): self = .notOpen
        case ("no_port", 2): self = .noPort(fields[1])
        case ("port_in_use", 2): self = .portInUse(fields[1], pid: nil)
        case ("port_in_use", 3): self = .portInUse(fields[1], pid: try number(fields[2]))
        case ("not_permitted", 2): self = .notPermitted(fields[1], group: nil)
        case ("not_permitted", 3): self = .notPermitted(fields[1], group: fields[2])
        case ("port_gone", 1): self = .portGone
        case ("silent", 1): self = .silent
        case ("unanswered", 1): self = .unanswered
        case ("library", 3): self = .library(code: try number(fields[1]), name: fields[2])
        default: throw NFCLineError(expected: "a failure", field: 1, found: fields[0])
        }
    }
}

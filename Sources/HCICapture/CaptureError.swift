#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Where a capture file stops making sense. Everything before it was yielded.
public struct CaptureDamage: Sendable, Hashable {
    /// The file.
    public var path: String
    /// The octet of the file, from 0, where the damaged record or field begins.
    public var offset: UInt64
    /// What the format has there.
    public var expected: String
    /// What is there.
    public var found: String

    /// Makes a damage report.
    public init(path: String, offset: UInt64, expected: String, found: String) {
        self.path = path
        self.offset = offset
        self.expected = expected
        self.found = found
    }
}

extension CaptureDamage: CustomStringConvertible {
    /// One line for people.
    public var description: String { "\(path): damaged at octet \(offset): expected \(expected), found \(found)" }
}

/// What can go wrong with a capture file.
public enum CaptureError: Error, Sendable, Hashable {
    /// The file cannot be opened or created (`code` is the system's errno).
    case cannotOpen(path: String, code: Int32)
    /// The file cannot be read from an octet on (`code` is the system's errno).
    case cannotRead(path: String, offset: UInt64, code: Int32)
    /// The file cannot be written (`code` is the system's errno).
    case cannotWrite(path: String, code: Int32)
    /// The file is damaged or cut from an octet on, or is no capture at all (octet 0).
    case damaged(CaptureDamage)
    /// The file is a capture of something else, or of a link type that is not supported.
    case unsupported(path: String, offset: UInt64, found: String)

    /// The system's error number, where the system refused.
    public var systemError: Int32? {
        switch self {
        case .cannotOpen(_, let code), .cannotRead(_, _, let code), .cannotWrite(_, let code): code
        case .damaged, .unsupported: nil
        }
    }
}

extension CaptureError: CustomStringConvertible {
    /// One line for people.
    public var description: String {
        func reason(_ code: Int32) -> String { strerror(code).map { String(cString: $0) } ?? "error \(code)" }
        switch self {
        case .cannotOpen(let path, let code): return "\(path): \(reason(code))"
        case .cannotRead(let path, let offset, let code): return "\(path): octet \(offset): \(reason(code))"
        case .cannotWrite(let path, let code): return "\(path): \(reason(code))"
        case .damaged(let damage): return damage.description
        case .unsupported(let path, let offset, let found):
            return "\(path): octet \(offset): not a Bluetooth HCI capture that can be read: \(found)"
        }
    }
}

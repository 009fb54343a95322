import Glibc

/// An open file descriptor that came with a message or goes with one; closed when the last owner lets go of it.
///
/// Two are equal where they are the same object: the system tells no more.
public final class DBusFileDescriptor: Sendable {
    /// The number; valid for as long as this object lives.
    public let rawValue: Int32

    /// Takes over a descriptor, and closes it at the end.
    ///
    /// - Throws: ``DBusError/invalidArgument(_:)`` where it is not open.
    public init(owning rawValue: Int32) throws(DBusError) {
        guard fcntl(rawValue, F_GETFD) >= 0 else {
            throw .invalidArgument("expected an open file descriptor, found \(rawValue)")
        }
        self.rawValue = rawValue
    }

    /// Takes a descriptor that libdbus has just made.
    init(received rawValue: Int32) { self.rawValue = rawValue }

    /// Makes a duplicate of a descriptor that stays its owner's.
    ///
    /// - Throws: ``DBusError/invalidArgument(_:)`` where it is not open, or where no more can be opened.
    public convenience init(duplicating rawValue: Int32) throws(DBusError) {
        try self.init(owning: Self.duplicate(rawValue))
    }

    deinit { close(rawValue) }

    /// A duplicate for someone who closes it.
    ///
    /// - Throws: ``DBusError/invalidArgument(_:)`` where no more can be opened.
    public func duplicate() throws(DBusError) -> Int32 { try Self.duplicate(rawValue) }

    private static func duplicate(_ rawValue: Int32) throws(DBusError) -> Int32 {
        let copy = fcntl(rawValue, F_DUPFD_CLOEXEC, 3)
        guard copy >= 0 else {
            throw .invalidArgument("the file descriptor \(rawValue) cannot be duplicated: \(systemError(errno))")
        }
        return copy
    }
}

extension DBusFileDescriptor: Hashable {
    /// Whether both are the same object.
    public static func == (left: DBusFileDescriptor, right: DBusFileDescriptor) -> Bool { left === right }

    /// Hashes the object's identity.
    public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}

/// The system's words for an error number.
func systemError(_ number: Int32) -> String { String(cString: strerror(number)) }

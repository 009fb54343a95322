import GATTClient
import HealthReadings

/// Which connection of a replay something is said of.
public struct ReplayConnection: Sendable, Hashable {
    /// The file.
    public var path: String
    /// The connection handle.
    public var handle: UInt16
    /// When it began.
    public var start: Instant

    /// Makes a connection's name.
    public init(path: String, handle: UInt16, start: Instant) {
        (self.path, self.handle, self.start) = (path, handle, start)
    }
}

/// What a replay could not do, without being damaged.
public enum ReplayWarning: Sendable, Hashable {
    /// The capture does not show the peer's address, and no other was given.
    case addressUnknown(ReplayConnection)
    /// The capture shows a private address of the peer, which changes, and not the identity behind it: what is read is of a
    /// device of its own.
    case addressPrivate(ReplayConnection)
    /// The capture holds no discovery of the peer and no handle map names its handles: its values cannot be told.
    case noHandleMap(ReplayConnection, values: Int)
    /// Values came on a handle that neither the discovery nor the handle map names.
    case unknownHandle(ReplayConnection, handle: UInt16, values: Int)
    /// The reader did not ask for values that the capture holds.
    case valuesLeftUnread(ReplayConnection, characteristic: BluetoothUUID, values: Int)
    /// The reader asked, by a protocol of the maker's own, what the recorded host had not asked: there is no answer.
    case questionsUnanswered(ReplayConnection, characteristic: BluetoothUUID, questions: Int)
    /// Packets were lost because fragments of them are missing or cut.
    case packetsLost(ReplayConnection, count: Int)
    /// The file itself says that records were lost while the file was written.
    case recordsDropped(path: String, count: Int)
    /// Packets of the file carry no time; they have the time of the packet before them.
    case packetsWithoutTime(path: String, count: Int)
}

extension ReplayWarning {
    /// Whether values are left because nothing says which characteristic they are of.
    public var leavesUnidentified: Bool {
        switch self {
        case .noHandleMap, .unknownHandle: true
        default: false
        }
    }
}

extension ReplayWarning: CustomStringConvertible {
    /// One line for people.
    public var description: String {
        func of(_ connection: ReplayConnection) -> String { "\(connection.path): connection of \(connection.start)" }
        switch self {
        case .addressUnknown(let connection):
            return "\(of(connection)): the capture does not show the device's address; give it with --address"
        case .addressPrivate(let connection):
            return
                "\(of(connection)): the capture shows a private address of the device, which changes; give the one that the "
                + "device is paired with, with --address"
        case .noHandleMap(let connection, let values):
            return
                "\(of(connection)): the capture does not contain the device's discovery, so \(values) values cannot be "
                + "identified; pass a handle map with --handles"
        case .unknownHandle(let connection, let handle, let values):
            return "\(of(connection)): \(values) values came on handle \(handle), whose characteristic is unknown"
        case .valuesLeftUnread(let connection, let characteristic, let values):
            return "\(of(connection)): \(values) values of \(characteristic) were not read"
        case .questionsUnanswered(let connection, let characteristic, let questions):
            return
                "\(of(connection)): \(questions) requests written to \(characteristic) are not in the capture, which "
                + "has no answer to them"
        case .packetsLost(let connection, let count):
            return "\(of(connection)): \(count) packets are incomplete in the capture"
        case .recordsDropped(let path, let count):
            return "\(path): \(count) records were lost while the file was written"
        case .packetsWithoutTime(let path, let count): return "\(path): \(count) packets have no time"
        }
    }
}

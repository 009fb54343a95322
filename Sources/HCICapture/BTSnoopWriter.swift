import HCIMonitor
import HealthReadings

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// How packets are stored in a btsnoop file.
public enum BTSnoopDatalink: UInt32, Sendable, Hashable, CaseIterable {
    /// Packets without a type octet; the flags tell commands and events from data.
    case unencapsulated = 1001
    /// Packets with their H4 type octet (Android's `btsnoop_hci.log`).
    case h4 = 1002
    /// The Linux monitor (`btmon -w`): the flags hold the adapter and the monitor's opcode.
    case linuxMonitor = 2001
}

/// Encodes btsnoop files: a head, then records.
public enum BTSnoopEncoder {
    /// The 16 octets a file begins with.
    public static func header(_ datalink: BTSnoopDatalink) -> [UInt8] {
        BTSnoop.header(datalink: datalink.rawValue)
    }

    /// A record as it stands in a file; nil where the datalink cannot hold it (monitor messages outside 2001, and in 1001
    /// all but commands, events and ACL data) or it has no time.
    public static func record(_ record: CaptureRecord, _ datalink: BTSnoopDatalink) -> [UInt8]? {
        guard let time = record.time, let flags = flags(of: record, datalink) else { return nil }
        let type = datalink == .h4 ? h4Type(of: record.kind).map { [$0] } ?? [] : []
        guard datalink != .h4 || type.count == 1 else { return nil }
        let included = UInt32(truncatingIfNeeded: record.octets.count + type.count)
        let original = UInt32(clamping: max(record.originalLength, record.octets.count) + type.count)
        return BTSnoop.recordHead(
            original: original, included: included, flags: flags, drops: 0, microseconds: time.microseconds)
            + type + record.octets
    }

    private static func h4Type(of kind: HCIPacketKind) -> UInt8? {
        switch kind {
        case .command: RecordScanner.Kind.command
        case .aclData: RecordScanner.Kind.acl
        case .synchronousData: RecordScanner.Kind.synchronous
        case .event: RecordScanner.Kind.event
        case .isochronousData: RecordScanner.Kind.isochronous
        case .unknown(let type): type
        case .monitor: nil
        }
    }

    private static func flags(of record: CaptureRecord, _ datalink: BTSnoopDatalink) -> UInt32? {
        let received: UInt32 = record.direction == .received ? 1 : 0
        switch (datalink, record.kind) {
        case (.unencapsulated, .command): return 2
        case (.unencapsulated, .event): return 3
        case (.unencapsulated, .aclData): return received
        case (.unencapsulated, _): return nil
        case (.h4, .command): return 2
        case (.h4, .event): return 3
        case (.h4, _): return received
        case (.linuxMonitor, let kind):
            let opcode: UInt32
            switch kind {
            case .command: opcode = 2
            case .event: opcode = 3
            case .aclData: opcode = 4 + received
            case .synchronousData: opcode = 6 + received
            case .isochronousData: opcode = 18 + received
            case .monitor(let number): opcode = UInt32(number)
            case .unknown: return nil
            }
            return UInt32(record.adapter) << 16 | opcode
        }
    }
}

/// Writes a btsnoop file.
///
/// A capture holds people's measurements: the file is made for its owner alone (mode 0600).
public struct BTSnoopWriter: ~Copyable {
    private let path: String
    private let descriptor: Int32
    private let datalink: BTSnoopDatalink
    private var buffer: [UInt8]
    private static let bufferSize = 64 * 1024

    /// Creates the file, or empties it where it exists.
    /// - Throws: ``CaptureError/cannotOpen(path:code:)``.
    public init(path: String, datalink: BTSnoopDatalink) throws(CaptureError) {
        self.path = path
        self.datalink = datalink
        buffer = BTSnoopEncoder.header(datalink)
        descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw .cannotOpen(path: path, code: errno) }
        // A file that existed keeps its mode otherwise.
        guard fchmod(descriptor, 0o600) == 0 else {
            let code = errno
            close(descriptor)
            throw .cannotOpen(path: path, code: code)
        }
    }

    deinit { close(descriptor) }

    /// Writes a record; the file has it after the next ``flush()``.
    /// - Returns: false where the datalink cannot hold such a record.
    /// - Throws: ``CaptureError/cannotWrite(path:code:)``.
    @discardableResult
    public mutating func write(_ record: CaptureRecord) throws(CaptureError) -> Bool {
        guard let octets = BTSnoopEncoder.record(record, datalink) else { return false }
        buffer.append(contentsOf: octets)
        if buffer.count >= Self.bufferSize { try flush() }
        return true
    }

    /// Gives all that was written to the system. Call it at the end: what is still buffered is lost otherwise.
    /// - Throws: ``CaptureError/cannotWrite(path:code:)``.
    public mutating func flush() throws(CaptureError) {
        var written = 0
        while written < buffer.count {
            let count = buffer.withUnsafeBytes { octets in
                #if canImport(Darwin)
                    Darwin.write(descriptor, octets.baseAddress.map { $0 + written }, octets.count - written)
                #elseif canImport(Musl)
                    Musl.write(descriptor, octets.baseAddress.map { $0 + written }, octets.count - written)
                #else
                    Glibc.write(descriptor, octets.baseAddress.map { $0 + written }, octets.count - written)
                #endif
            }
            let code = errno
            if count >= 0 {
                written += count
            } else if code != EINTR {
                buffer.removeFirst(written)
                throw .cannotWrite(path: path, code: code)
            }
        }
        buffer.removeAll(keepingCapacity: true)
    }
}

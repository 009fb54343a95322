/// What a message of the kernel's HCI monitor is (include/net/bluetooth/hci_mon.h in Linux).
public struct MonitorOpcode: RawRepresentable, Sendable, Hashable {
    /// The number on the wire.
    public var rawValue: UInt16

    /// Makes an opcode of its number; numbers without a name here are opcodes too.
    public init(rawValue: UInt16) { self.rawValue = rawValue }

    /// An adapter has appeared.
    public static let newIndex = MonitorOpcode(rawValue: 0)
    /// An adapter is gone.
    public static let deletedIndex = MonitorOpcode(rawValue: 1)
    /// An HCI command, host to controller.
    public static let command = MonitorOpcode(rawValue: 2)
    /// An HCI event, controller to host.
    public static let event = MonitorOpcode(rawValue: 3)
    /// ACL data, host to controller.
    public static let aclSent = MonitorOpcode(rawValue: 4)
    /// ACL data, controller to host.
    public static let aclReceived = MonitorOpcode(rawValue: 5)
    /// An adapter is in use.
    public static let openedIndex = MonitorOpcode(rawValue: 8)
    /// An adapter is no longer in use.
    public static let closedIndex = MonitorOpcode(rawValue: 9)
    /// An adapter's address and manufacturer.
    public static let indexInformation = MonitorOpcode(rawValue: 10)
    /// A management event sent to a program such as bluetoothd.
    public static let managementEvent = MonitorOpcode(rawValue: 17)

    /// What a recording keeps: an adapter's coming and going, commands, events and ACL data.
    ///
    /// Not kept are audio (6, 7, 18, 19), which no meter sends; diagnostics of the vendor (11), notes (12) and programs'
    /// logs (13), in which anything may stand; and management traffic (14 to 17), which carries keys.
    public static let recorded: [MonitorOpcode] = [
        .newIndex, .deletedIndex, .command, .event, .aclSent, .aclReceived, .openedIndex, .closedIndex,
        .indexInformation,
    ]
}

/// One message of the HCI monitor.
public struct MonitorMessage: Sendable, Hashable {
    /// What it is.
    public var opcode: MonitorOpcode
    /// The adapter's index: 0 for hci0. 65535 where no adapter is meant.
    public var adapter: UInt16
    /// The packet, without any octet for its type.
    public var octets: [UInt8]

    /// Makes a message.
    public init(_ opcode: MonitorOpcode, adapter: UInt16 = 0, _ octets: [UInt8]) {
        (self.opcode, self.adapter, self.octets) = (opcode, adapter, octets)
    }

    /// Octets before the packet: opcode, adapter, length of the packet, each of 16 bits, little endian.
    public static let headLength = 6
    /// The longest message: a head and the longest packet its length can name.
    public static let mostOctets = headLength + 0xFFFF

    /// Reads a datagram of the monitor channel: the first `count` octets of a buffer.
    /// - Throws: ``MalformedMonitorMessage``.
    public init(decoding buffer: [UInt8], count: Int) throws(MalformedMonitorMessage) {
        guard count >= Self.headLength, count <= buffer.count else {
            throw MalformedMonitorMessage(expected: "a head of \(Self.headLength) octets", found: "\(count) octets")
        }
        let length = Int(buffer.word(4))
        guard count == Self.headLength + length else {
            throw MalformedMonitorMessage(
                expected: "a packet of \(length) octets", found: "one of \(count - Self.headLength)")
        }
        opcode = MonitorOpcode(rawValue: buffer.word(0))
        adapter = buffer.word(2)
        octets = Array(buffer[Self.headLength..<count])
    }

    /// The datagram the kernel would send; a packet longer than 65,535 octets is cut.
    public var datagram: [UInt8] {
        [opcode.rawValue, adapter, UInt16(clamping: octets.count)].flatMap { word in
            [UInt8(truncatingIfNeeded: word), UInt8(truncatingIfNeeded: word >> 8)]
        } + octets.prefix(0xFFFF)
    }
}

/// A datagram that is no message of the HCI monitor.
public struct MalformedMonitorMessage: Error, Sendable, Hashable, CustomStringConvertible {
    /// What the protocol has there.
    public var expected: String
    /// What came.
    public var found: String

    /// One line for people.
    public var description: String { "a message of the HCI monitor: expected \(expected), found \(found)" }
}

extension [UInt8] {
    /// 16 bits, little endian; the caller has checked that they are there.
    @inline(__always)
    func word(_ index: Int) -> UInt16 { UInt16(self[index]) | UInt16(self[index + 1]) << 8 }

    /// Zeroes what there is of a range.
    mutating func zero(_ range: Range<Int>) {
        let there = range.clamped(to: indices)
        for index in there { self[index] = 0 }
    }
}

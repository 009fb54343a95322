/// The octets of btsnoop files that are the same for every reader and writer (RFC 1761, with Bluetooth's datalinks).
package enum BTSnoop {
    /// Packets of the Linux monitor: the flags hold the adapter and the opcode.
    package static let linuxMonitor: UInt32 = 2001
    /// 0000-01-01T00:00:00Z to the POSIX epoch, in microseconds.
    package static let epoch: UInt64 = 0x00DC_DDB3_0F2F_8000
    /// The length of ``header(datalink:)``.
    package static let headerLength = 16
    /// The length of a record's head.
    package static let recordHeadLength = 24

    /// The octets a file begins with.
    package static func header(datalink: UInt32) -> [UInt8] { Array("btsnoop\0".utf8) + words(1, datalink) }

    /// A record's head.
    /// - Parameters:
    ///   - original: how many octets the packet had.
    ///   - included: how many follow the head.
    ///   - drops: how many packets were lost since the file began.
    ///   - microseconds: since the POSIX epoch.
    package static func recordHead(
        original: UInt32, included: UInt32, flags: UInt32, drops: UInt32, microseconds: Int64
    ) -> [UInt8] {
        let stamp = UInt64(bitPattern: microseconds) &+ epoch
        return words(
            original, included, flags, drops, UInt32(truncatingIfNeeded: stamp >> 32),
            UInt32(truncatingIfNeeded: stamp))
    }

    private static func words(_ words: UInt32...) -> [UInt8] {
        words.flatMap { word in [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: word >> $0) } }
    }
}

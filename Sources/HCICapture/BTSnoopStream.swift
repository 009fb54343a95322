import HCIMonitor

/// Cuts a btsnoop stream that comes in pieces into whole records, and counts them, in bounded memory.
public struct BTSnoopStream: Sendable {
    private var octets: [UInt8] = []
    /// The octets of the stream before ``octets``.
    private var base: UInt64 = 0
    private let name: String

    /// Whether the stream's head has come.
    public private(set) var hasBegun = false
    /// How many whole records have been taken.
    public private(set) var packets: UInt64 = 0
    /// How many records the stream says were lost before the last one.
    public private(set) var dropped: UInt32 = 0

    /// Begins a stream; `name` stands for its path in errors.
    public init(named name: String = "stream") { self.name = name }

    /// Adds the next piece, of any length, and takes what is whole: the head, and records.
    /// - Returns: octets that end with a whole record; empty where nothing has become whole.
    /// - Throws: ``CaptureError/damaged(_:)`` where this is no btsnoop stream of the Linux monitor.
    public mutating func take(_ piece: some Sequence<UInt8>) throws(CaptureError) -> [UInt8] {
        octets += piece
        var place = 0
        if !hasBegun {
            let head = BTSnoop.header(datalink: BTSnoop.linuxMonitor)
            guard head.starts(with: octets.prefix(head.count)) else {
                throw damage(0, "the head of a btsnoop stream", hexadecimal(octets))
            }
            guard octets.count >= head.count else { return [] }
            hasBegun = true
            place = head.count
        }
        while octets.count - place >= BTSnoop.recordHeadLength {
            let length = Int(octets.big32(place + 4))
            guard length <= RecordScanner.longestPacket else {
                throw damage(place + 4, "a packet of at most \(RecordScanner.longestPacket) octets", "\(length)")
            }
            guard octets.count - place >= BTSnoop.recordHeadLength + length else { break }
            dropped = octets.big32(place + 12)
            packets += 1
            place += BTSnoop.recordHeadLength + length
        }
        let whole = Array(octets[..<place])
        octets.removeFirst(place)
        base += UInt64(place)
        return whole
    }

    private func damage(_ place: Int, _ expected: String, _ found: String) -> CaptureError {
        .damaged(
            CaptureDamage(
                path: name, offset: base + UInt64(place), expected: expected, found: found.isEmpty ? "nothing" : found))
    }

    /// The length of the whole records at the beginning of such octets, of which `count` are there.
    static func wholeLength(_ octets: [UInt8], _ count: Int) -> Int {
        var place = octets.starts(with: Array("btsnoop\0".utf8)) ? BTSnoop.headerLength : 0
        guard place <= count else { return 0 }
        while count - place >= BTSnoop.recordHeadLength {
            let end = place + BTSnoop.recordHeadLength + Int(octets.big32(place + 4))
            guard end <= count else { break }
            place = end
        }
        return place
    }
}

/// Octets of whole records that wait for a slow reader, in bounded memory.
struct RecordQueue: Sendable {
    private var octets: [UInt8] = []
    private var start = 0
    private let most: Int

    /// Makes a queue of at most `most` octets.
    init(most: Int) { self.most = most }

    var isEmpty: Bool { start == octets.count }

    /// Adds a record's head and packet; false, and nothing is added, where there is no room for both.
    mutating func append(_ head: [UInt8], _ packet: [UInt8] = []) -> Bool {
        guard octets.count - start + head.count + packet.count <= most else { return false }
        octets += head
        octets += packet
        return true
    }

    /// Gives what waits to `body`, which says how many octets it took.
    mutating func take(_ body: (UnsafeRawBufferPointer) -> Int) -> Int {
        let taken = octets.withUnsafeBytes { all in
            body(UnsafeRawBufferPointer(rebasing: all[start...]))
        }
        start += max(0, min(taken, octets.count - start))
        if start == octets.count {
            octets.removeAll(keepingCapacity: true)
            start = 0
        } else if start >= 256 * 1024 {
            octets.removeFirst(start)
            start = 0
        }
        return taken
    }
}

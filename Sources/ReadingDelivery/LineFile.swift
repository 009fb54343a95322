import Foundation
import HealthReadings

/// An open file of JSON lines that each begin with an id: read by pieces, for it may have grown for years.
struct LineFile {
    /// It cannot be read; `errno` says why.
    struct Unreadable: Error {}

    private static let beginning = Array(#"{"id":""#.utf8)
    private static let piece = 1 << 20
    private static let lineFeed = UInt8(ascii: "\n")

    private let file: Int32
    private let size: Int
    /// From then on nothing has been written to it; file systems round by up to two seconds.
    let unchangedSince: Instant

    /// Nil for a descriptor that is none.
    init?(_ file: Int32) {
        var status = stat()
        guard fstat(file, &status) == 0 else { return nil }
        (self.file, size) = (file, Int(status.st_size))
        unchangedSince = Instant(seconds: Int64(status.st_mtim.tv_sec) + 3)
    }

    /// Where its last whole line ends; nil if a line of its first or last megabyte is none of these.
    func end() throws(Unreadable) -> Int? {
        let head = try octets(0, Self.piece)
        guard Self.areOurs(head[...]) else { return nil }
        var length = Self.piece
        while length < size {
            // A line may be longer than that.
            let tail = try octets(size - length, length)
            if let first = tail.firstIndex(of: Self.lineFeed), let last = tail.lastIndex(of: Self.lineFeed) {
                return Self.areOurs(tail[(first + 1)...]) ? size - length + last + 1 : nil
            }
            length *= 2
        }
        let all = size > head.count ? try octets(0, size) : head
        guard Self.areOurs(all[...]) else { return nil }
        return all.lastIndex(of: Self.lineFeed).map { $0 + 1 } ?? 0
    }

    /// Whether it can be read, and its first or last lines are none of these.
    var isForeign: Bool {
        do { return try end() == nil } catch { return false }
    }

    /// Calls `body` for each whole line, without its line feed.
    func forEach(_ body: (UnsafeRawBufferPointer) -> Void) throws(Unreadable) {
        var (rest, place): ([UInt8], Int) = ([], 0)
        while place < size {
            let next = try octets(place, Self.piece)
            place += next.count
            rest += next
            var start = 0
            rest.withUnsafeBytes { octets in
                while let end = octets[start...].firstIndex(of: Self.lineFeed) {
                    body(UnsafeRawBufferPointer(rebasing: octets[start..<end]))
                    start = end + 1
                }
            }
            rest.removeFirst(start)
        }
    }

    /// Up to `count` octets from a place.
    private func octets(_ place: Int, _ count: Int) throws(Unreadable) -> [UInt8] {
        let wanted = max(0, min(count, size - place))
        let octets = [UInt8](unsafeUninitializedCapacity: wanted) { octets, filled in
            while filled < wanted {
                let rest = UnsafeMutableBufferPointer(rebasing: octets[filled..<wanted])
                let count = pread(file, rest.baseAddress, rest.count, off_t(place + filled))
                if count < 0, errno == EINTR { continue }
                guard count > 0 else { break }
                filled += count
            }
        }
        guard octets.count == wanted else { throw Unreadable() }
        return octets
    }

    /// Whether each line, or what there is of the last, begins as these do.
    private static func areOurs(_ octets: ArraySlice<UInt8>) -> Bool {
        octets.split(separator: lineFeed, omittingEmptySubsequences: false).allSatisfy { line in
            line.prefix(beginning.count).elementsEqual(beginning.prefix(line.count))
        }
    }
}

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// An open capture, or octets in memory that stand for one; closed with its last user.
final class CaptureFile: Sendable {
    let path: String
    private let descriptor: Int32
    private let memory: [UInt8]

    init(path: String) throws(CaptureError) {
        self.path = path
        memory = []
        descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw .cannotOpen(path: path, code: errno) }
    }

    init(octets: [UInt8], named path: String) {
        self.path = path
        memory = octets
        descriptor = -1
    }

    deinit {
        if descriptor >= 0 { close(descriptor) }
    }

    /// Reads up to the target's size at an offset; 0 at the end of the file.
    func read(into target: UnsafeMutableRawBufferPointer, at offset: UInt64) throws(CaptureError) -> Int {
        guard let start = target.baseAddress, !target.isEmpty else { return 0 }
        guard descriptor >= 0 else {
            guard offset < UInt64(memory.count) else { return 0 }
            let part = memory[Int(offset)..<min(memory.count, Int(offset) + target.count)]
            target.copyBytes(from: part)
            return part.count
        }
        // Beyond what a file can hold there is nothing.
        guard let position = off_t(exactly: offset) else { return 0 }
        while true {
            let count = pread(descriptor, start, target.count, position)
            if count >= 0 { return count }
            guard errno == EINTR else { throw .cannotRead(path: path, offset: offset, code: errno) }
        }
    }
}

/// A bounded part of a capture in memory: all that is ever held of a file, whatever its size.
///
/// `pread` into one buffer and not `mmap`: mapped pages count as resident.
struct FileWindow {
    let file: CaptureFile
    /// The octets from ``base`` on; the first ``count`` are valid.
    private(set) var octets: [UInt8]
    private(set) var base: UInt64 = 0
    private(set) var count = 0

    init(_ file: CaptureFile, size: Int) {
        self.file = file
        octets = [UInt8](repeating: 0, count: max(1, size))
    }

    /// Brings `length` octets at `offset` into the window, or as many as the file has.
    ///
    /// - Returns: the index of the first in ``octets``, and how many are there (at most `length`).
    @inline(__always)
    mutating func load(_ length: Int, at offset: UInt64) throws(CaptureError) -> (index: Int, available: Int) {
        if offset >= base {
            let (index, length) = (offset - base, UInt64(length))
            if index <= UInt64(count), length <= UInt64(count) - index { return (Int(index), Int(length)) }
        }
        return try refill(length, at: offset)
    }

    private mutating func refill(_ length: Int, at offset: UInt64) throws(CaptureError) -> (index: Int, available: Int)
    {
        var kept = 0
        if offset >= base, offset - base < UInt64(count) {
            let index = Int(offset - base)
            kept = count - index
            octets.withUnsafeMutableBytes { buffer in
                guard let start = buffer.baseAddress else { return }
                memmove(start, start + index, kept)
            }
        }
        base = offset
        count = kept
        if length > octets.count { octets.append(contentsOf: repeatElement(0, count: length - octets.count)) }
        while count < length {
            let (position, filled) = (offset &+ UInt64(count), count)
            var failure: CaptureError?
            let got = octets.withUnsafeMutableBytes { buffer in
                do throws(CaptureError) {
                    return try file.read(into: UnsafeMutableRawBufferPointer(rebasing: buffer[filled...]), at: position)
                } catch {
                    failure = error
                    return 0
                }
            }
            if let failure { throw failure }
            if got == 0 { break }
            count += got
        }
        return (0, min(count, length))
    }
}

extension [UInt8] {
    // Shift-and-or on purpose: wider loads from fresh literals are miscompiled by some toolchains.
    @inline(__always)
    func little16(_ index: Int) -> UInt16 { UInt16(self[index]) | UInt16(self[index + 1]) << 8 }

    @inline(__always)
    func little32(_ index: Int) -> UInt32 { UInt32(little16(index)) | UInt32(little16(index + 2)) << 16 }

    @inline(__always)
    func big16(_ index: Int) -> UInt16 { UInt16(self[index]) << 8 | UInt16(self[index + 1]) }

    @inline(__always)
    func big32(_ index: Int) -> UInt32 { UInt32(big16(index)) << 16 | UInt32(big16(index + 2)) }

    @inline(__always)
    func word32(_ index: Int, bigEndian: Bool) -> UInt32 { bigEndian ? big32(index) : little32(index) }

    @inline(__always)
    func word16(_ index: Int, bigEndian: Bool) -> UInt16 { bigEndian ? big16(index) : little16(index) }
}

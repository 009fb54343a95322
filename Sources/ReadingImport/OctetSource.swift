import Foundation

/// Where octets come from, in order.
protocol OctetSource: AnyObject {
    /// Reads octets; 0 at the end.
    ///
    /// - Throws: ``ImportDamage`` if they cannot be read.
    func read(into buffer: UnsafeMutableRawBufferPointer) throws(ImportDamage) -> Int

    /// Begins anew.
    ///
    /// - Throws: ``ImportDamage`` if the octets come once only.
    func rewind() throws(ImportDamage)
}

/// The octets of a file.
final class FileSource: OctetSource {
    private let descriptor: Int32

    /// Opens a file.
    init(path: String) throws(ImportDamage) {
        descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw Self.unreadable() }
        var status = stat()
        guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT != S_IFDIR else {
            close(descriptor)
            throw ImportDamage(.unreadable, expected: "a file", found: "a directory")
        }
        posix_fadvise(descriptor, 0, 0, POSIX_FADV_SEQUENTIAL)
    }

    deinit { close(descriptor) }

    /// Its octets in all; `nil` where that is not known.
    var size: Int64? {
        var status = stat()
        guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG else { return nil }
        return Int64(status.st_size)
    }

    func read(into buffer: UnsafeMutableRawBufferPointer) throws(ImportDamage) -> Int {
        while true {
            let count = Foundation.read(descriptor, buffer.baseAddress, buffer.count)
            if count >= 0 { return count }
            guard errno == EINTR else { throw Self.unreadable() }
        }
    }

    func rewind() throws(ImportDamage) {
        guard lseek(descriptor, 0, SEEK_SET) == 0 else {
            throw ImportDamage(
                .unreadable, expected: "a file that can be read twice", found: "a pipe",
                hint: "Save the data to a file and import that.")
        }
    }

    private static func unreadable() -> ImportDamage {
        ImportDamage(.unreadable, expected: "a file that can be read", found: String(cString: strerror(errno)))
    }
}

/// Octets in memory.
final class MemorySource: OctetSource {
    private let octets: [UInt8]
    private var position = 0

    init(_ octets: [UInt8]) { self.octets = octets }

    func read(into buffer: UnsafeMutableRawBufferPointer) throws(ImportDamage) -> Int {
        let count = min(buffer.count, octets.count - position)
        octets.withUnsafeBytes { all in
            buffer.copyMemory(from: UnsafeRawBufferPointer(rebasing: all[position..<position + count]))
        }
        position += count
        return count
    }

    func rewind() throws(ImportDamage) { position = 0 }
}

import HealthReadings

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// A new capture file that is written as packets come, and is a valid capture at every moment.
///
/// A capture holds people's measurements: the file is made for its owner alone (mode 0600), and an existing one is never
/// touched. Where the disk is full, the file ends with the last whole record that fits.
public struct DurableCaptureFile: ~Copyable {
    private let path: String
    private let descriptor: Int32
    private var isDirty = false

    /// How many octets the file has.
    public private(set) var octets: UInt64 = 0

    /// Creates the file.
    /// - Throws: ``CaptureError/cannotOpen(path:code:)``, with EEXIST where something of that name is there.
    public init(path: String) throws(CaptureError) {
        self.path = path
        descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw .cannotOpen(path: path, code: errno) }
        // So that the name outlives a power cut; a folder that cannot be synchronised is no reason not to record.
        _ = synchronizeDirectory(parentDirectory(of: path))
    }

    deinit { close(descriptor) }

    /// Appends octets that end with a whole record (``BTSnoopStream/take(_:)``).
    /// - Throws: ``CaptureError/cannotWrite(path:code:)``; the file then ends with the last whole record before that.
    public mutating func write(_ whole: [UInt8]) throws(CaptureError) {
        var written = 0
        while written < whole.count {
            let count = whole.withUnsafeBytes { bytes in
                systemWrite(descriptor, bytes.baseAddress.map { $0 + written }, bytes.count - written)
            }
            let code = errno
            if count > 0 {
                written += count
                isDirty = true
            } else if count == 0 || code != EINTR {
                let length = BTSnoopStream.wholeLength(whole, written)
                octets += UInt64(length)
                // Where even this fails, the cut record is damage that every reader names.
                ftruncate(descriptor, off_t(octets))
                throw .cannotWrite(path: path, code: count == 0 ? EIO : code)
            }
        }
        octets += UInt64(whole.count)
    }

    /// Makes what was written durable; nothing where that is so already.
    /// - Throws: ``CaptureError/cannotWrite(path:code:)``.
    public mutating func synchronize() throws(CaptureError) {
        guard isDirty else { return }
        while fsync(descriptor) != 0 {
            guard errno == EINTR else { throw .cannotWrite(path: path, code: errno) }
        }
        isDirty = false
    }
}

private func systemWrite(_ descriptor: Int32, _ start: UnsafeRawPointer?, _ count: Int) -> Int {
    #if canImport(Glibc)
        Glibc.write(descriptor, start, count)
    #elseif canImport(Musl)
        Musl.write(descriptor, start, count)
    #else
        Darwin.write(descriptor, start, count)
    #endif
}

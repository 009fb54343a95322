import CZlib

/// Compresses request bodies (RFC 1952) with the system's zlib.
package enum Gzip {
    /// What compressing is to save.
    package enum Saving: Int32, Sendable, CaseIterable {
        /// Time of the processor: for what is sent once. Batches of readings become a fifth as large.
        case time = 2
        /// Octets: for what is kept and sent often. Batches of readings become a sixth as large, in twice the time.
        case octets = 5
    }

    /// The octets as a gzip member; the same octets give the same member, whenever it is made.
    ///
    /// Returns nil where zlib has no memory; the body is then sent as it is.
    package static func compress(_ octets: [UInt8], saving: Saving) -> [UInt8]? {
        var stream = z_stream()
        // Bodies of readings are full of ids, whose digits look like each other by chance. zlib's default level spends its
        // time on those: matches of up to five octets (Z_FILTERED drops them) cost more than the digits do.
        // 15 bits of window, and 16 says gzip rather than zlib framing (zlib.h, deflateInit2).
        let begun = deflateInit2_(
            &stream, saving.rawValue, Z_DEFLATED, 15 + 16, 8, Z_FILTERED, ZLIB_VERSION,
            Int32(MemoryLayout<z_stream>.size))
        guard begun == Z_OK, let size = UInt32(exactly: octets.count) else { return nil }
        defer { deflateEnd(&stream) }
        let bound = Int(deflateBound(&stream, UInt(octets.count)))
        let member = [UInt8](unsafeUninitializedCapacity: bound) { output, count in
            let finished = octets.withUnsafeBufferPointer { source in
                // zlib only reads it.
                stream.next_in = UnsafeMutablePointer(mutating: source.baseAddress)
                stream.avail_in = size
                stream.next_out = output.baseAddress
                stream.avail_out = UInt32(truncatingIfNeeded: output.count)
                return deflate(&stream, Z_FINISH) == Z_STREAM_END
            }
            count = finished ? output.count - Int(stream.avail_out) : 0
        }
        return member.isEmpty ? nil : member
    }
}

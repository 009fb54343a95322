import CZlib

/// Why a gzip body was not inflated.
enum GzipError: Error, Equatable {
    /// More than this many octets came out.
    case tooLarge(limit: Int)
    /// The stream ended before its trailer.
    case truncated
    /// Something follows the one member.
    case trailingOctets(at: Int)
    /// zlib found it damaged.
    case damaged(at: Int, code: Int)
}

/// Inflates one gzip member (RFC 1952), header and checksum verified, into at most `limit` octets.
///
/// Output grows by steps as it comes, so a bomb costs no more than the limit, whatever it claims to hold.
func inflateGzip(_ input: [UInt8], limit: Int) throws(GzipError) -> [UInt8] {
    // zlib keeps the address of the stream and compares it at each call: it must not move.
    let stream = UnsafeMutablePointer<z_stream>.allocate(capacity: 1)
    stream.initialize(to: z_stream())
    defer {
        stream.deinitialize(count: 1)
        stream.deallocate()
    }
    let gzipOnly: Int32 = 15 + 16
    let started = inflateInit2_(stream, gzipOnly, zlibVersion(), Int32(MemoryLayout<z_stream>.size))
    guard started == Z_OK else { throw .damaged(at: 0, code: Int(started)) }
    defer { inflateEnd(stream) }

    var source = input
    var output: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 64 << 10)
    var consumed = 0
    while true {
        let (code, read, written) = source.withUnsafeMutableBufferPointer { from in
            chunk.withUnsafeMutableBufferPointer { to in
                let rest = UnsafeMutableBufferPointer(rebasing: from[consumed...])
                let offered = min(rest.count, 1 << 30)
                stream.pointee.next_in = rest.baseAddress
                stream.pointee.avail_in = UInt32(offered)
                stream.pointee.next_out = to.baseAddress
                stream.pointee.avail_out = UInt32(to.count)
                let code = inflate(stream, Z_NO_FLUSH)
                return (code, offered - Int(stream.pointee.avail_in), to.count - Int(stream.pointee.avail_out))
            }
        }
        consumed += read
        guard output.count + written <= limit else { throw .tooLarge(limit: limit) }
        output.append(contentsOf: chunk[..<written])
        switch code {
        case Z_STREAM_END:
            guard consumed == input.count else { throw .trailingOctets(at: consumed) }
            return output
        case Z_OK where read > 0 || written > 0: continue
        case Z_OK, Z_BUF_ERROR: throw .truncated
        default: throw .damaged(at: consumed, code: Int(code))
        }
    }
}

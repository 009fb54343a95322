import CZlib

extension ReceivedRequest {
    /// The body as text, inflated where it is gzipped; empty where it cannot be.
    public var text: String {
        String(decoding: headers["content-encoding"] == "gzip" ? Self.inflated(body) : body, as: UTF8.self)
    }

    private static func inflated(_ member: [UInt8]) -> [UInt8] {
        var stream = z_stream()
        guard inflateInit2_(&stream, 15 + 16, ZLIB_VERSION, Int32(MemoryLayout<z_stream>.size)) == Z_OK else {
            return []
        }
        defer { inflateEnd(&stream) }
        var (input, output) = (member, [UInt8]())
        input.withUnsafeMutableBufferPointer { source in
            stream.next_in = source.baseAddress
            stream.avail_in = UInt32(source.count)
            var status = Z_OK
            while status == Z_OK {
                output += [UInt8](unsafeUninitializedCapacity: 65_536) { part, count in
                    stream.next_out = part.baseAddress
                    stream.avail_out = 65_536
                    status = inflate(&stream, Z_NO_FLUSH)
                    count = 65_536 - Int(stream.avail_out)
                }
            }
        }
        return output
    }
}

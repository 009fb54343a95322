/// Frames on a PN532's serial line (PN532 user manual UM0701-02, 6.2.1).
enum PN532Frame {
    static let acknowledgement: [UInt8] = [0x00, 0x00, 0xFF, 0x00, 0xFF, 0x00]
    /// What a command that is not known, or has no such parameters, is answered with.
    static let error: [UInt8] = [0x00, 0x00, 0xFF, 0x01, 0xFF, 0x7F, 0x81, 0x00]

    /// A reader's answer: its direction, its code and its data, at most 253 octets of it.
    static func answer(_ code: UInt8, _ data: [UInt8], isGarbled: Bool = false) -> [UInt8] {
        let body = [0xD5, code] + data
        let length = UInt8(truncatingIfNeeded: body.count)
        let check = ~body.reduce(0, &+) &+ 1
        return [0x00, 0x00, 0xFF, length, ~length &+ 1] + body + [isGarbled ? ~check : check, 0x00]
    }

    /// Takes the next command out of what has come: its code and parameters. Skips wake-up octets, aborts and damage.
    static func nextCommand(_ octets: inout [UInt8]) -> [UInt8]? {
        while let start = octets.indices.dropLast().first(where: { octets[$0] == 0 && octets[$0 + 1] == 0xFF }) {
            octets.removeFirst(start)
            guard octets.count >= 4 else { return nil }
            let (length, check) = (octets[2], octets[3])
            if (length, check) == (0x00, 0xFF) {
                octets.removeFirst(4)
                continue
            }
            guard length &+ check == 0 else {
                octets.removeFirst(2)
                continue
            }
            let end = 4 + Int(length)
            guard octets.count > end else { return nil }
            let body = Array(octets[4..<end])
            let isWhole = body.reduce(octets[end], &+) == 0
            octets.removeFirst(end + 1)
            if isWhole, body.count >= 2, body[0] == 0xD4 { return Array(body.dropFirst()) }
        }
        if octets.count > 1 { octets.removeFirst(octets.count - 1) }
        return nil
    }
}

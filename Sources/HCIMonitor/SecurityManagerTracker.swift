/// Follows the L2CAP PDUs of one direction of one connection through their ACL fragments, and zeroes what the Security
/// Manager says in them.
///
/// Only the place within the PDU is remembered, never an octet of a key.
struct SecurityManagerTracker: Sendable {
    /// LE and BR/EDR (Core Specification, Vol 3, Part A, 2.1).
    private static let channels: ClosedRange<UInt16> = 6...7
    /// PDUs that hold neither a key nor what one is made of: Pairing Request, Response and Failed, Identity Address
    /// Information, Security Request (Vol 3, Part H, 3.3).
    private static let harmless: Set<UInt8> = [0x01, 0x02, 0x05, 0x09, 0x0B]

    /// Octets of the PDU that have gone by; nil where its beginning was not seen, or it is over.
    private var place: Int?
    /// How many octets the PDU has with its head of four.
    private var length = 0
    private var channel: UInt16 = 0
    private var isSecret = false

    /// Zeroes the keys in the next fragment, `data` of `octets`.
    /// - Returns: false where the fragment continues a PDU whose beginning is not known: it is zeroed as a whole.
    mutating func erase(_ octets: inout [UInt8], _ data: Range<Int>, isStart: Bool) -> Bool {
        if isStart { (place, length, channel, isSecret) = (0, 0, 0, false) }
        let isKnown = place != nil
        var index = data.lowerBound
        while index < data.upperBound, let here = place {
            switch here {
            case 0: length = 4 + Int(octets[index])
            case 1: length += Int(octets[index]) << 8
            case 2: channel = UInt16(octets[index])
            case 3: channel |= UInt16(octets[index]) << 8
            case 4: isSecret = Self.channels.contains(channel) && !Self.harmless.contains(octets[index])
            default:
                let end = min(data.upperBound, index + length - here)
                if isSecret { octets.zero(index..<end) }
                place = here + end - index
                index = end
                if place == length { place = nil }
                continue
            }
            place = here + 1
            index += 1
            if here >= 3, here + 1 == length { place = nil }
        }
        // No PDU is under way: whatever this continues is not known.
        octets.zero(index..<data.upperBound)
        return isKnown
    }
}

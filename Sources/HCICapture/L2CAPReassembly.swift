/// Puts the fragments of one direction of one connection together (Core Specification, Vol 3, Part A, 7.2).
///
/// An unfragmented PDU is answered in place; a fragmented one of a channel that matters is copied, bounded by the
/// length its head declares (at most 65,535 octets). Other channels are only counted through.
struct L2CAPReassembly {
    /// The fixed channels that are looked into.
    enum Channel {
        static let attribute: UInt16 = 4
        static let securityManager: UInt16 = 6
    }

    enum Outcome {
        /// Nothing is whole yet, or the channel does not matter.
        case none
        /// A PDU's payload, in the octets of the fragment.
        case inPlace(channel: UInt16, Range<Int>)
        /// A PDU's payload, in ``buffer``.
        case buffered(channel: UInt16, Range<Int>)
    }

    private(set) var buffer: [UInt8] = []
    /// How many PDUs were lost because their fragments are missing, cut, or do not fit their length.
    private(set) var lost = 0
    /// How many octets the PDU under way has with its head; 0 where none is under way, -1 while its head is incomplete.
    private var expected = 0
    private var received = 0
    private var channel: UInt16 = 0

    private var matters: Bool { channel == Channel.attribute || channel == Channel.securityManager }

    /// Forgets the PDU under way: its rest did not come.
    mutating func abandon() {
        if expected != 0 { lost += 1 }
        (expected, received) = (0, 0)
    }

    /// Counts a fragment that the capture cut: its PDU is lost.
    mutating func addCutFragment(isStart: Bool) {
        if isStart { abandon() }
        if isStart || expected != 0 { lost += 1 }
        (expected, received) = (0, 0)
    }

    @inline(__always)
    mutating func add(_ octets: borrowing [UInt8], _ range: Range<Int>, isStart: Bool) -> Outcome {
        if isStart, expected == 0, range.count >= 4 {
            let length = Int(octets.little16(range.lowerBound))
            if range.count == 4 + length {
                let channel = octets.little16(range.lowerBound + 2)
                return .inPlace(channel: channel, (range.lowerBound + 4)..<range.upperBound)
            }
        }
        return addFragment(octets, range, isStart: isStart)
    }

    private mutating func addFragment(_ octets: borrowing [UInt8], _ range: Range<Int>, isStart: Bool) -> Outcome {
        if isStart { return begin(octets, range) }
        guard expected != 0 else {
            lost += 1
            return .none
        }
        if matters { buffer.append(contentsOf: octets[range]) }
        received += range.count
        if expected < 0 {
            guard received >= 4 else { return .none }
            expected = 4 + Int(buffer.little16(0))
            channel = buffer.little16(2)
        }
        guard received <= expected else {
            abandon()
            return .none
        }
        guard received == expected else { return .none }
        (expected, received) = (0, 0)
        return matters ? .buffered(channel: channel, 4..<buffer.count) : .none
    }

    private mutating func begin(_ octets: borrowing [UInt8], _ range: Range<Int>) -> Outcome {
        abandon()
        buffer.removeAll(keepingCapacity: true)
        guard range.count >= 4 else {
            // Even the head is in pieces; until it is whole the channel may matter.
            buffer.append(contentsOf: octets[range])
            (expected, received, channel) = (-1, range.count, Channel.attribute)
            return .none
        }
        expected = 4 + Int(octets.little16(range.lowerBound))
        received = range.count
        channel = octets.little16(range.lowerBound + 2)
        guard received <= expected else {
            abandon()
            return .none
        }
        if received == expected {
            (expected, received) = (0, 0)
            return .inPlace(channel: channel, (range.lowerBound + 4)..<range.upperBound)
        }
        if matters { buffer.append(contentsOf: octets[range]) }
        return .none
    }
}

/// The head of an ACL data packet (Core Specification, Vol 4, Part E, 5.4.2).
struct ACLHead {
    var handle: UInt16
    var isStart: Bool
    /// Which way it went: said by the capture, else by the packet boundary flag (on LE, a host's first fragments are
    /// 00, a controller's are 10).
    var isReceived: Bool?
    /// The data; nil where the capture cut the packet or the length is garbage.
    var data: Range<Int>?

    @inline(__always)
    init?(_ octets: borrowing [UInt8], _ range: Range<Int>, direction: HCIDirection?) {
        guard range.count >= 4 else { return nil }
        let word = octets.little16(range.lowerBound)
        handle = word & 0x0FFF
        let boundary = word >> 12 & 3
        isStart = boundary != 1
        switch direction {
        case .sent: isReceived = false
        case .received: isReceived = true
        case nil: isReceived = boundary == 1 ? nil : boundary != 0
        }
        let length = Int(octets.little16(range.lowerBound + 2))
        data = range.count >= 4 + length ? (range.lowerBound + 4)..<(range.lowerBound + 4 + length) : nil
    }
}

/// Both directions of one connection.
struct L2CAPLink {
    var inbound = L2CAPReassembly()
    var outbound = L2CAPReassembly()
    private var lastWasReceived = true

    /// Which way a packet goes that does not say so: a continuation goes where the last first fragment went.
    @inline(__always)
    mutating func isReceived(_ head: ACLHead) -> Bool {
        if let known = head.isReceived { lastWasReceived = known }
        return head.isReceived ?? lastWasReceived
    }

    /// Forgets what is under way: records were lost here, so that the next fragment may continue another PDU of the same length.
    mutating func abandon() {
        inbound.abandon()
        outbound.abandon()
    }
}

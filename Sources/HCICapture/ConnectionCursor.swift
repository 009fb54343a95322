import GATTClient
import HealthReadings

/// The second pass: what one connection says, in order, from any place on. Records of others are stepped over.
struct ConnectionCursor {
    enum Step {
        /// The peer sent a value unasked; see ``handle`` and ``octets()``.
        case value
        /// The host wrote to ``handle``, or a part of a long value.
        case write
        /// The connection has ended, or the capture.
        case end
    }

    private var scanner: RecordScanner
    private let adapter: UInt16
    private let connection: UInt16
    private let lastOffset: UInt64
    private var link = L2CAPLink()
    /// What the record before said of lost ones.
    private var drops: UInt32 = 0

    /// The handle of the value or the write last found.
    private(set) var handle: UInt16 = 0
    /// The time of the packet last found, in microseconds since the POSIX epoch.
    private(set) var time: Int64
    /// When the host last sent anything but a confirmation.
    private(set) var hostTime: Int64
    private var range = 0..<0
    /// Which buffer it is in, where it came in fragments.
    private var isBuffered = false
    private var isFromHost = false
    /// The rest of a PDU that holds several values.
    private var more = 0..<0

    init(_ entry: ConnectionEntry, readSize: Int) throws(CaptureError) {
        scanner = try RecordScanner(entry.file, readSize: readSize)
        scanner.resume(at: entry.begin)
        (adapter, connection, lastOffset) = (entry.adapter, entry.handle, entry.lastOffset)
        (time, hostTime) = (entry.start.microseconds, entry.start.microseconds)
    }

    /// Where the record begins that brought what was last found.
    var recordOffset: UInt64 { scanner.recordOffset }

    /// The octets of the value or the write last found.
    func octets() -> [UInt8] {
        isBuffered
            ? Array((isFromHost ? link.outbound : link.inbound).buffer[range]) : Array(scanner.window.octets[range])
    }

    /// The first octets of what was last found, without a copy.
    func octet(_ place: Int) -> UInt8? {
        guard place < range.count else { return nil }
        return isBuffered
            ? (isFromHost ? link.outbound : link.inbound).buffer[range.lowerBound + place]
            : scanner.window.octets[range.lowerBound + place]
    }

    /// Whether the value is a record access control point's answer to a report request: 06 00 01 rc.
    var isReportAnswer: Bool { range.count >= 4 && octet(0) == 6 && octet(2) == 1 }

    /// Whether such an answer says that the request was not understood: op code, operator or operand.
    var isRefusal: Bool { octet(3).map { [2, 3, 4, 5, 9].contains($0) } ?? false }

    /// Moves to the connection's next value or write.
    mutating func advance() throws(CaptureError) -> Step {
        if !more.isEmpty, nextOfSeveral() { return .value }
        // Never past the last record: what is damaged behind it was told by the first pass.
        while scanner.recordOffset < lastOffset, try scanner.advance(), scanner.recordOffset <= lastOffset {
            if scanner.drops != drops {
                drops = scanner.drops
                link.abandon()
            }
            guard scanner.kind == RecordScanner.Kind.acl, scanner.adapter == adapter, scanner.start < scanner.end,
                scanner.window.octets[scanner.start] == UInt8(truncatingIfNeeded: connection),
                let head = ACLHead(scanner.window.octets, scanner.start..<scanner.end, direction: scanner.direction),
                head.handle == connection
            else { continue }
            let isReceived = link.isReceived(head)
            guard let data = head.data else {
                if isReceived { link.inbound.addCutFragment(isStart: head.isStart) }
                if !isReceived { link.outbound.addCutFragment(isStart: head.isStart) }
                continue
            }
            let outcome =
                isReceived
                ? link.inbound.add(scanner.window.octets, data, isStart: head.isStart)
                : link.outbound.add(scanner.window.octets, data, isStart: head.isStart)
            switch outcome {
            case .inPlace(channel: L2CAPReassembly.Channel.attribute, let pdu):
                isBuffered = false
                range = pdu
            case .buffered(channel: L2CAPReassembly.Channel.attribute, let pdu):
                isBuffered = true
                range = pdu
            default: continue
            }
            time = scanner.time
            isFromHost = !isReceived
            if isReceived ? fromPeer() : fromHost() { return isReceived ? .value : .write }
        }
        return .end
    }

    private mutating func fromPeer() -> Bool {
        switch octet(0) {
        case ATT.notification, ATT.indication:
            guard range.count >= 3 else { return false }
            handle = word(range.lowerBound + 1)
            range = (range.lowerBound + 3)..<range.upperBound
            return true
        case ATT.multipleNotification:
            more = (range.lowerBound + 1)..<range.upperBound
            return nextOfSeveral()
        default: return false
        }
    }

    private mutating func nextOfSeveral() -> Bool {
        guard more.count >= 4 else {
            more = 0..<0
            return false
        }
        let end = more.lowerBound + 4 + Int(word(more.lowerBound + 2))
        guard end <= more.upperBound else {
            more = 0..<0
            return false
        }
        handle = word(more.lowerBound)
        range = (more.lowerBound + 4)..<end
        more = end..<more.upperBound
        return true
    }

    private mutating func fromHost() -> Bool {
        guard let opcode = octet(0), opcode != ATT.confirmation else { return false }
        hostTime = time
        // Behind the handle of a part stands its place in the value.
        let head = opcode == ATT.prepareWriteRequest ? 5 : 3
        guard opcode == ATT.writeRequest || opcode == ATT.writeCommand || head == 5, range.count >= head else {
            return false
        }
        handle = word(range.lowerBound + 1)
        range = (range.lowerBound + head)..<range.upperBound
        return true
    }

    private func word(_ place: Int) -> UInt16 {
        isBuffered
            ? (isFromHost ? link.outbound : link.inbound).buffer.little16(place)
            : scanner.window.octets.little16(place)
    }
}

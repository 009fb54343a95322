import HCICapture
import HealthReadings

func little16(_ value: Int) -> [UInt8] { [UInt8(value & 0xFF), UInt8(value >> 8 & 0xFF)] }

/// Builds a small capture packet by packet.
struct CaptureBuilder {
    var records: [CaptureRecord] = []
    /// Milliseconds after 2026-11-20T12:00:00Z; each packet moves it by one.
    var clock: Int64 = 0
    var adapter: UInt16 = 0

    static let epoch = Instant(seconds: 1_795_176_000)

    static func time(_ milliseconds: Int64) -> Instant {
        Instant(microseconds: epoch.microseconds + milliseconds * 1000)
    }

    mutating func add(_ kind: HCIPacketKind, _ direction: HCIDirection?, _ octets: [UInt8]) {
        clock += 1
        records.append(
            CaptureRecord(time: Self.time(clock), adapter: adapter, kind: kind, direction: direction, octets: octets))
    }

    mutating func event(_ code: UInt8, _ body: [UInt8]) {
        add(.event, .received, [code, UInt8(body.count)] + body)
    }

    static func address(_ last: UInt8) -> [UInt8] { [last, 0x18, 0, 0, 0, 0xC0] }

    mutating func connect(_ handle: Int = 64, address: [UInt8] = address(8), type: UInt8 = 1) {
        event(0x3E, [1, 0] + little16(handle) + [0, type] + address + [24, 0, 0, 0, 72, 0, 0])
    }

    mutating func connectEnhanced(_ handle: Int = 64, address: [UInt8], type: UInt8, version2: Bool = false) {
        var body: [UInt8] = [version2 ? 0x29 : 0x0A, 0]
        body += little16(handle)
        body += [0, type]
        body += address
        body += [UInt8](repeating: 0, count: 12)
        body += [24, 0, 0, 0, 72, 0, 0]
        if version2 { body += [0, 0, 0] }
        event(0x3E, body)
    }

    mutating func disconnect(_ handle: Int = 64) { event(0x05, [0] + little16(handle) + [0x13]) }

    mutating func advertise(_ address: [UInt8], name: String, type: UInt8 = 1) {
        let data = [2, 1, 6, UInt8(name.utf8.count + 1), 9] + Array(name.utf8)
        event(0x3E, [2, 1, 0, type] + address + [UInt8(data.count)] + data + [0xC8])
    }

    mutating func advertiseExtended(_ address: [UInt8], name: String, type: UInt8 = 1) {
        let data = [UInt8(name.utf8.count + 1), 9] + Array(name.utf8)
        var body: [UInt8] = [0x0D, 1, 0x13, 0, type]
        body += address
        body += [1, 0, 0, 0x7F, 0xC8, 0, 0, 0, 0, 0, 0, 0, 0, 0, UInt8(data.count)]
        event(0x3E, body + data)
    }

    /// An L2CAP PDU in ACL fragments of at most `size` octets.
    mutating func l2cap(
        _ channel: Int, _ payload: [UInt8], received: Bool, _ handle: Int = 64, fragments size: Int = 1000
    ) {
        for packet in Self.fragments(channel, payload, received: received, handle, size: size) {
            add(.aclData, received ? .received : .sent, packet)
        }
    }

    static func fragments(
        _ channel: Int, _ payload: [UInt8], received: Bool, _ handle: Int, size: Int
    ) -> [[UInt8]] {
        let pdu = little16(payload.count) + little16(channel) + payload
        return stride(from: 0, to: pdu.count, by: size).map { start in
            let part = pdu[start..<min(pdu.count, start + size)]
            let boundary = start > 0 ? 1 : received ? 2 : 0
            return little16(handle | boundary << 12) + little16(part.count) + part
        }
    }

    mutating func sent(_ pdu: [UInt8], _ handle: Int = 64) { l2cap(4, pdu, received: false, handle) }
    mutating func received(_ pdu: [UInt8], _ handle: Int = 64, fragments size: Int = 1000) {
        l2cap(4, pdu, received: true, handle, fragments: size)
    }

    mutating func exchange(_ request: [UInt8], _ response: [UInt8], _ handle: Int = 64) {
        sent(request, handle)
        received(response, handle)
    }

    /// 1808 with 2A18 (14), 2A34 (17), 2A51 (20), 2A52 (22); CCCDs one after.
    mutating func discoverGlucose(_ handle: Int = 64) {
        exchange([0x10, 1, 0, 255, 255, 0, 0x28], [0x11, 6, 12, 0, 24, 0, 0x08, 0x18], handle)
        exchange(
            [0x08, 12, 0, 24, 0, 3, 0x28],
            [0x09, 7] + [13, 0, 0x10, 14, 0, 0x18, 0x2A] + [16, 0, 0x10, 17, 0, 0x34, 0x2A]
                + [19, 0, 2, 20, 0, 0x51, 0x2A], handle)
        exchange([0x08, 20, 0, 24, 0, 3, 0x28], [0x09, 7, 21, 0, 0x28, 22, 0, 0x52, 0x2A], handle)
        exchange([0x04, 15, 0, 15, 0], [0x05, 1, 15, 0, 2, 0x29], handle)
        exchange([0x04, 23, 0, 24, 0], [0x05, 1, 23, 0, 2, 0x29], handle)
        exchange([0x0A, 20, 0], [0x0B, 3, 0], handle)
    }

    /// 1810 with 2A35 (14) and 2A36 (17).
    mutating func discoverPressure(_ handle: Int = 64) {
        exchange([0x10, 1, 0, 255, 255, 0, 0x28], [0x11, 6, 12, 0, 24, 0, 0x10, 0x18], handle)
        exchange(
            [0x08, 12, 0, 24, 0, 3, 0x28],
            [0x09, 7] + [13, 0, 0x20, 14, 0, 0x35, 0x2A] + [16, 0, 0x10, 17, 0, 0x36, 0x2A], handle)
    }

    mutating func enable(_ descriptor: Int, _ value: UInt8 = 1, _ handle: Int = 64) {
        exchange([0x12] + little16(descriptor) + [value, 0], [0x13], handle)
    }

    mutating func notify(_ value: [UInt8], on attribute: Int = 14, _ handle: Int = 64) {
        received([0x1B] + little16(attribute) + value, handle)
    }

    mutating func indicate(_ value: [UInt8], on attribute: Int, _ handle: Int = 64) {
        received([0x1D] + little16(attribute) + value, handle)
        sent([0x1E], handle)
    }

    mutating func request(_ value: [UInt8], _ handle: Int = 64) {
        exchange([0x12, 22, 0] + value, [0x13], handle)
    }

    mutating func answer(_ value: [UInt8], _ handle: Int = 64) { indicate(value, on: 22, handle) }

    static func glucose(_ sequence: Int) -> [UInt8] {
        [2] + little16(sequence) + [0xEA, 7, 11, 20, 12, UInt8(sequence % 60), 0, 95, 0xB0, 0x11]
    }

    /// A whole delivery: connection, discovery, CCCDs, a request, values, the answer, disconnection.
    mutating func delivery(_ handle: Int = 64, address: [UInt8] = address(8), sequences: Range<Int>) {
        connect(handle, address: address)
        discoverGlucose(handle)
        enable(15, 1, handle)
        enable(23, 2, handle)
        request([1, 1], handle)
        for sequence in sequences { notify(Self.glucose(sequence), handle) }
        answer([6, 0, 1, 1], handle)
        disconnect(handle)
    }

    // MARK: files

    func btsnoop(_ datalink: BTSnoopDatalink = .linuxMonitor) -> [UInt8] {
        BTSnoopEncoder.header(datalink) + records.flatMap { BTSnoopEncoder.record($0, datalink) ?? [] }
    }
}

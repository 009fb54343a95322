import HCIMonitor
import TestSupport

func little16(_ value: Int) -> [UInt8] { [UInt8(value & 0xFF), UInt8(value >> 8 & 0xFF)] }

/// Packets from the specification, not from the code under test.
enum Packets {
    static func command(_ opcode: Int, _ parameters: [UInt8]) -> MonitorMessage {
        MonitorMessage(.command, little16(opcode) + [UInt8(parameters.count)] + parameters)
    }

    static func event(_ code: UInt8, _ parameters: [UInt8]) -> MonitorMessage {
        MonitorMessage(.event, [code, UInt8(parameters.count)] + parameters)
    }

    static func complete(_ opcode: Int, _ result: [UInt8]) -> MonitorMessage {
        event(0x0E, [1] + little16(opcode) + result)
    }

    static func meta(_ subevent: UInt8, _ parameters: [UInt8]) -> MonitorMessage {
        event(0x3E, [subevent] + parameters)
    }

    /// An L2CAP PDU in ACL fragments of at most `size` octets.
    static func data(
        _ channel: Int, _ payload: [UInt8], received: Bool, handle: Int = 64, fragments size: Int = 2000
    ) -> [MonitorMessage] {
        let pdu = little16(payload.count) + little16(channel) + payload
        return stride(from: 0, to: pdu.count, by: size).map { start in
            let part = pdu[start..<min(pdu.count, start + size)]
            let flags = start > 0 ? 1 : received ? 2 : 0
            return MonitorMessage(
                received ? .aclReceived : .aclSent, little16(handle | flags << 12) + little16(part.count) + part)
        }
    }

    /// An address as packets carry it; its last octet as it is written tells devices apart.
    static func address(_ last: UInt8, top: UInt8 = 0xC0) -> [UInt8] { [last, 0x18, 0, 0, 0, top] }

    static func peer(_ last: UInt8, top: UInt8 = 0xC0) -> PeerAddress {
        PeerAddress(bits: UInt64(top) << 40 | 0x1800 | UInt64(last))
    }

    static func connected(_ handle: Int, _ address: [UInt8], type: UInt8 = 1, status: UInt8 = 0) -> MonitorMessage {
        meta(0x01, [status] + little16(handle) + [0, type] + address + [24, 0, 0, 0, 72, 0, 0])
    }

    static func connectedEnhanced(_ handle: Int, _ address: [UInt8], type: UInt8) -> MonitorMessage {
        let none = [UInt8](repeating: 0, count: 12)
        return meta(0x0A, [0] + little16(handle) + [0, type] + address + none + [24, 0, 0, 0, 72, 0, 0])
    }

    static func disconnected(_ handle: Int) -> MonitorMessage { event(0x05, [0] + little16(handle) + [0x13]) }

    static func report(_ address: [UInt8], _ data: [UInt8] = [2, 1, 6]) -> [UInt8] {
        [0, 1] + address + [UInt8(data.count)] + data + [0xC8]
    }

    static func advertisement(_ reports: [UInt8]...) -> MonitorMessage {
        meta(0x02, [UInt8(reports.count)] + reports.flatMap { $0 })
    }

    /// Device Connected of the management interface.
    static func deviceConnected(_ address: [UInt8], type: UInt8 = 2) -> MonitorMessage {
        MonitorMessage(
            .managementEvent, [1, 0, 0, 0] + little16(0x000B) + address + [type, 0, 0, 0, 0, 0, 0])
    }

    static func notification(_ value: [UInt8], handle: Int = 64, fragments: Int = 2000) -> [MonitorMessage] {
        data(4, [0x1B, 14, 0] + value, received: true, handle: handle, fragments: fragments)
    }
}

extension SeededGenerator {
    /// Octets that are not zero, so that a zeroed one shows.
    mutating func octets(_ count: Int) -> [UInt8] { (0..<count).map { _ in UInt8.random(in: 1...255, using: &self) } }
}

/// Whether any four octets of a secret that follow each other stand somewhere, in either order.
func holds(_ messages: [MonitorMessage], any secret: [UInt8]) -> Bool {
    func words(_ octets: [UInt8]) -> [UInt32] {
        var (word, words) = (UInt32(0), [UInt32]())
        for (index, octet) in octets.enumerated() {
            word = word << 8 | UInt32(octet)
            if index >= 3 { words.append(word) }
        }
        return words
    }
    let secrets = Set(words(secret) + words(secret.reversed()))
    // Fragments as they are, and joined without their heads, so that a cut cannot hide a key.
    let texts = messages.map(\.octets) + [messages.flatMap { $0.octets.dropFirst(4) }]
    return texts.contains { words($0).contains(where: secrets.contains) }
}

/// An eraser that expectations can call.
final class Erasing {
    private var eraser = KeyEraser()

    func erase(_ message: MonitorMessage) -> MonitorMessage? { eraser.erase(message) }
    func erase(_ messages: [MonitorMessage]) -> [MonitorMessage] { messages.compactMap { eraser.erase($0) } }
    func forgetFragments() { eraser.forgetFragments() }
}

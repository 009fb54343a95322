/// Zeroes the keys in HCI traffic, and what keys can be computed from, before the traffic is kept.
///
/// ```swift
/// var eraser = KeyEraser()
/// for message in messages {
///     if let safe = eraser.erase(message) { output.write(safe.datagram) }
/// }
/// ```
///
/// A stream of messages goes in, in the order the kernel gave them, and the same stream comes out: no packet changes its
/// length, and packets without keys do not change at all, so that erasing again changes nothing. Zeroed are link keys,
/// long-term keys with Rand and EDIV, identity and signature keys, passkeys and PINs, out-of-band data, random numbers and
/// public keys the host asks its controller for, and the Security Manager's values in ACL data, however it is fragmented.
/// What is unknown, or cannot be told because packets before it are missing, is zeroed whole. Management traffic, notes and
/// vendors' diagnostics may hold keys anywhere and are not kept at all.
///
/// Applications' own secrets in attribute values are not Bluetooth's keys and stay.
public struct KeyEraser: Sendable {
    /// One direction of one connection.
    private struct Way: Hashable {
        var adapter: UInt16
        var handle: UInt16
        var isReceived: Bool
    }

    private var pdus: [Way: SecurityManagerTracker] = [:]
    /// Whether the last message continued a PDU whose beginning is not known.
    private(set) var isAdrift = false
    /// More connections than any adapter has: beyond, what is known of all is forgotten.
    private static let mostWays = 1024

    /// Makes an eraser that has seen nothing yet.
    public init() {}

    /// Takes the next message of the stream.
    /// - Returns: the message with zeros where keys were; nil where nothing of it may be kept.
    public mutating func erase(_ message: MonitorMessage) -> MonitorMessage? {
        var message = message
        isAdrift = false
        switch message.opcode {
        case .command: eraseCommand(&message.octets, adapter: message.adapter)
        case .event: eraseEvent(&message.octets, adapter: message.adapter)
        case .aclSent, .aclReceived: eraseData(&message)
        case .deletedIndex, .closedIndex: forget(adapter: message.adapter)
        case .newIndex, .openedIndex, .indexInformation: break
        // Synchronous and isochronous data hold sound, and no keys.
        case MonitorOpcode(rawValue: 6), MonitorOpcode(rawValue: 7): break
        case MonitorOpcode(rawValue: 18), MonitorOpcode(rawValue: 19): break
        default: return nil
        }
        return message
    }

    /// Messages of the stream were lost: fragments that continue something are unknown until the next beginning.
    public mutating func forgetFragments() { pdus.removeAll(keepingCapacity: true) }

    private mutating func forget(adapter: UInt16) {
        for way in pdus.keys where way.adapter == adapter { pdus[way] = nil }
    }

    private mutating func forget(adapter: UInt16, handle: UInt16) {
        for isReceived in [false, true] {
            pdus[Way(adapter: adapter, handle: handle & 0x0FFF, isReceived: isReceived)] = nil
        }
    }

    // MARK: commands and events

    private mutating func eraseCommand(_ octets: inout [UInt8], adapter: UInt16) {
        guard octets.count >= 3 else { return }
        let opcode = octets.word(0)
        if opcode == 0x0C03 { forget(adapter: adapter) }  // Reset
        Self.erase(SecretPlaces.command(opcode), in: &octets, parameters: 3, length: Int(octets[2]))
    }

    private mutating func eraseEvent(_ octets: inout [UInt8], adapter: UInt16) {
        guard octets.count >= 2 else { return }
        let length = Int(octets[1])
        switch octets[0] {
        case 0x0E where octets.count >= 5:
            Self.erase(
                SecretPlaces.answer(to: octets.word(3)), in: &octets, parameters: 5, length: max(0, length - 3))
        case 0x3E where octets.count >= 3:
            if [0x01, 0x0A, 0x29].contains(octets[2]), octets.count >= 6 {
                forget(adapter: adapter, handle: octets.word(4))
            }
            Self.erase(
                SecretPlaces.lowEnergyEvent(octets[2]), in: &octets, parameters: 3, length: max(0, length - 1))
        case let code:
            if code == 0x03 || code == 0x05, octets.count >= 5 { forget(adapter: adapter, handle: octets.word(3)) }
            Self.erase(SecretPlaces.event(code), in: &octets, parameters: 2, length: length)
        }
    }

    private static func erase(_ places: SecretPlaces, in octets: inout [UInt8], parameters: Int, length: Int) {
        switch places {
        case .none: break
        case .octets(let range): octets.zero((parameters + range.lowerBound)..<(parameters + range.upperBound))
        case .from(let first): octets.zero((parameters + first)..<max(parameters + first, octets.count))
        }
        // What a packet holds beyond its own length has no meaning anybody could check.
        let end = parameters + length
        if end < octets.count { octets.zero(end..<octets.count) }
    }

    // MARK: data

    private mutating func eraseData(_ message: inout MonitorMessage) {
        // Handle and flags, length (Core Specification, Vol 4, Part E, 5.4.2).
        guard message.octets.count >= 4 else { return message.octets.zero(0..<message.octets.count) }
        let word = message.octets.word(0)
        let end = min(message.octets.count, 4 + Int(message.octets.word(2)))
        let way = Way(
            adapter: message.adapter, handle: word & 0x0FFF, isReceived: message.opcode == .aclReceived)
        if pdus.count >= Self.mostWays, pdus[way] == nil { forgetFragments() }
        isAdrift = !pdus[way, default: SecurityManagerTracker()]
            .erase(&message.octets, 4..<end, isStart: word >> 12 & 3 != 1)
        if end < message.octets.count { message.octets.zero(end..<message.octets.count) }
    }
}

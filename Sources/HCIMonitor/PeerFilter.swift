/// A message with the kernel's time.
public struct TimedMessage: Sendable, Hashable {
    /// The message.
    public var message: MonitorMessage
    /// Microseconds since the POSIX epoch.
    public var microseconds: Int64

    /// Makes a timed message.
    public init(_ message: MonitorMessage, at microseconds: Int64) {
        (self.message, self.microseconds) = (message, microseconds)
    }
}

/// Keeps what is about one peer, or about the adapter alone, and drops what is about other devices or may be.
///
/// The peer's connections are learned from the events that complete them. A device that connects with a resolvable private
/// address is known by its identity address only to the host: the kernel says it in the management event that follows, which
/// is read for that alone and not kept. Until then the connection's packets are held back.
public struct PeerFilter: Sendable {
    let peer: PeerAddress
    private var handles: Set<UInt16>
    /// Private addresses the peer has been seen to use, the newest last.
    private var aliases: [PeerAddress] = []
    private var advertisements = HeldAdvertisements()
    /// A connection whose peer's identity is not known yet, with what came of it.
    private var undecided: (handle: UInt16, address: PeerAddress, messages: [TimedMessage])?
    /// Commands about the peer that wait for their answer.
    private var unanswered: [UInt16: Int] = [:]
    private static let (mostAliases, mostUndecided) = (16, 64)

    /// The one management event that is looked at: Device Connected (mgmt-api.txt in BlueZ). Its number stands in a
    /// ``MonitorOpcode/managementEvent`` from its fifth octet on, little endian.
    public static let identityEvent: UInt16 = 0x000B

    /// Makes a filter.
    /// - Parameters:
    ///   - peer: the device's identity address, or the address it shows.
    ///   - handles: its connections that exist already.
    public init(peer: PeerAddress, handles: [UInt16] = []) {
        self.peer = peer
        self.handles = Set(handles.map { $0 & 0x0FFF })
    }

    /// Takes the next message of the adapter.
    /// - Returns: what to keep, in order: mostly the message or nothing, sometimes with others that were held back.
    public mutating func take(_ message: MonitorMessage, at microseconds: Int64) -> [TimedMessage] {
        let timed = TimedMessage(message, at: microseconds)
        switch message.opcode {
        case .newIndex, .openedIndex, .indexInformation: return [timed]
        case .deletedIndex, .closedIndex:
            forgetConnections()
            return [timed]
        case .command: return command(message.octets) ? [timed] : []
        case .event: return event(timed)
        case .aclSent, .aclReceived:
            guard message.octets.count >= 4 else { return [] }
            return aboutConnection(message.octets.word(0), timed)
        case .managementEvent: return managementEvent(message.octets)
        default: return []
        }
    }

    private func isPeer(_ address: PeerAddress) -> Bool { address == peer || aliases.contains(address) }

    private mutating func forgetConnections() {
        handles = []
        undecided = nil
        unanswered = [:]
    }

    private mutating func aboutConnection(_ word: UInt16, _ timed: TimedMessage) -> [TimedMessage] {
        let handle = word & 0x0FFF
        if handles.contains(handle) { return [timed] }
        guard undecided?.handle == handle else { return [] }
        undecided?.messages.append(timed)
        if let count = undecided?.messages.count, count > Self.mostUndecided { undecided = nil }
        return []
    }

    // MARK: commands

    private mutating func command(_ octets: [UInt8]) -> Bool {
        guard octets.count >= 3, octets.count == 3 + Int(octets[2]) else { return false }
        let opcode = octets.word(0)
        if opcode == 0x0C03 { forgetConnections() }
        let isKept: Bool
        switch PeerPlaces.command(opcode) {
        case .nobody: return true
        case .anybody: return false
        case .handle(let place):
            isKept = octets.count >= 5 + place && handles.contains(octets.word(3 + place) & 0x0FFF)
        case .address(let place):
            guard octets.count >= 9 + place else { return false }
            let address = PeerAddress(octets, at: 3 + place)
            isKept = address == .none || isPeer(address)
        }
        if isKept { unanswered[opcode, default: 0] += 1 }
        return isKept
    }

    private mutating func answer(to opcode: UInt16) -> Bool {
        switch PeerPlaces.command(opcode) {
        case .nobody: return true
        case .anybody: return opcode == 0
        case .handle, .address:
            guard let count = unanswered[opcode] else { return false }
            unanswered[opcode] = count > 1 ? count - 1 : nil
            return true
        }
    }

    // MARK: events

    private mutating func event(_ timed: TimedMessage) -> [TimedMessage] {
        let octets = timed.message.octets
        guard octets.count >= 2, octets.count == 2 + Int(octets[1]) else { return [] }
        switch octets[0] {
        case 0x03 where octets.count >= 11:
            let isOurs = isPeer(PeerAddress(octets, at: 5))
            if octets[2] == 0 { begin(octets.word(3), isOurs: isOurs) }
            return isOurs ? [timed] : []
        case 0x0E where octets.count >= 5: return answer(to: octets.word(3)) ? [timed] : []
        case 0x0F where octets.count >= 6: return answer(to: octets.word(4)) ? [timed] : []
        case 0x13: return completedPackets(timed)
        case 0x3E where octets.count >= 3: return lowEnergyEvent(timed)
        case let code:
            defer { if code == 0x05, octets.count >= 5 { end(octets.word(3)) } }
            return about(PeerPlaces.event(code), from: 2, timed)
        }
    }

    private mutating func about(_ places: PeerPlaces, from first: Int, _ timed: TimedMessage) -> [TimedMessage] {
        let octets = timed.message.octets
        switch places {
        case .nobody: return [timed]
        case .anybody: return []
        case .handle(let place):
            guard octets.count >= first + place + 2 else { return [] }
            return aboutConnection(octets.word(first + place), timed)
        case .address(let place):
            guard octets.count >= first + place + 6 else { return [] }
            return isPeer(PeerAddress(octets, at: first + place)) ? [timed] : []
        }
    }

    private mutating func begin(_ word: UInt16, isOurs: Bool) {
        let handle = word & 0x0FFF
        if undecided?.handle == handle { undecided = nil }
        if isOurs { handles.insert(handle) } else { handles.remove(handle) }
    }

    private mutating func end(_ word: UInt16) {
        let handle = word & 0x0FFF
        handles.remove(handle)
        if undecided?.handle == handle { undecided = nil }
    }

    /// Number Of Completed Packets tells of several connections at once.
    private func completedPackets(_ timed: TimedMessage) -> [TimedMessage] {
        let octets = timed.message.octets
        guard octets.count >= 3, octets.count == 3 + 4 * Int(octets[2]) else { return [] }
        let kept = stride(from: 3, to: octets.count, by: 4).filter { handles.contains(octets.word($0) & 0x0FFF) }
        guard !kept.isEmpty else { return [] }
        var timed = timed
        timed.message.octets =
            [octets[0], UInt8(1 + 4 * kept.count), UInt8(kept.count)] + kept.flatMap { octets[$0..<($0 + 4)] }
        return [timed]
    }

    private mutating func lowEnergyEvent(_ timed: TimedMessage) -> [TimedMessage] {
        let octets = timed.message.octets
        switch octets[2] {
        // LE Connection Complete and LE Enhanced Connection Complete, versions 1 and 2.
        case 0x01 where octets.count >= 21, 0x0A where octets.count >= 33, 0x29 where octets.count >= 33:
            return connected(timed)
        case 0x02, 0x0B, 0x0D: return advertised(timed)
        case let code: return about(PeerPlaces.lowEnergyEvent(code), from: 3, timed)
        }
    }

    private mutating func connected(_ timed: TimedMessage) -> [TimedMessage] {
        let octets = timed.message.octets
        let address = PeerAddress(octets, at: 8)
        let isOurs = isPeer(address)
        // An attempt that failed may name nobody.
        guard octets[3] == 0 else { return isOurs || address == .none ? [timed] : [] }
        begin(octets.word(4), isOurs: isOurs)
        if isOurs { return [timed] }
        undecided = nil
        if octets[7] == 1, address.looksResolvable {
            undecided = (octets.word(4) & 0x0FFF, address, [timed])
        }
        return []
    }

    private mutating func advertised(_ timed: TimedMessage) -> [TimedMessage] {
        guard let event = AdvertisingReports(timed.message.octets) else { return [] }
        for report in event.reports where report.isResolvable && !isPeer(report.address) {
            guard let octets = event.event(with: [report]) else { continue }
            var held = timed
            held.message.octets = octets
            advertisements.hold(held, of: report.address)
        }
        guard let octets = event.event(with: event.reports.filter { isPeer($0.address) }) else { return [] }
        var timed = timed
        timed.message.octets = octets
        return [timed]
    }

    // MARK: identity

    /// Device Connected: the identity address of the connection that was completed just before.
    private mutating func managementEvent(_ octets: [UInt8]) -> [TimedMessage] {
        // A cookie of 32 bits, the event, then its parameters: address and its type, 0 for BR/EDR.
        guard octets.count >= 13, octets.word(4) == Self.identityEvent, octets[12] != 0, let connection = undecided
        else {
            return []
        }
        undecided = nil
        guard PeerAddress(octets, at: 6) == peer else { return [] }
        handles.insert(connection.handle)
        aliases.append(connection.address)
        if aliases.count > Self.mostAliases { aliases.removeFirst() }
        return advertisements.take(connection.address) + connection.messages
    }
}

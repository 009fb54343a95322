import GATTClient
import HealthReadings

/// The first pass over a capture: follows every connection and keeps what replay needs of it.
struct IndexBuilder {
    private struct Link {
        var entry: Int
        var l2cap = L2CAPLink()
        /// When a disconnection was seen: data that was still on its way may follow.
        var endedAt: Int64?
        /// How many gaps of the capture it knows of.
        var gaps: Int
    }

    /// Data this much later than a disconnection (in microseconds) is of a connection whose beginning was not seen.
    private static let straggle: Int64 = 1_000_000

    var scanner: RecordScanner
    private(set) var packetsWithoutTime = 0
    private var entries: [ConnectionEntry] = []
    private var links: [Link] = []
    private var slots: [UInt32: Int] = [:]
    /// The keys of connections that have not ended, by adapter. A capture may have a million, and end those of an adapter as often.
    private var openKeys: [UInt16: Set<UInt32>] = [:]
    /// The slots last used, by the low bits of their key: saves the dictionary on nearly every packet.
    private var recent = [(key: UInt32, slot: Int)](repeating: (.max, 0), count: 64)
    private var names = AdvertisedNames()
    private var lastTime: Int64 = 0
    /// What the record before said of lost ones.
    private var drops: UInt32 = 0
    /// How often records were lost. A connection hears of it with its next packet.
    private var gaps = 0

    init(_ scanner: RecordScanner) { self.scanner = scanner }

    /// Reads to the end; returns what ended it early.
    mutating func run() -> CaptureError? {
        do throws(CaptureError) {
            while try scanner.advance() {
                lastTime = scanner.time
                if !scanner.hasTime { packetsWithoutTime += 1 }
                if scanner.drops != drops {
                    drops = scanner.drops
                    gaps += 1
                }
                switch scanner.kind {
                case RecordScanner.Kind.acl: acl()
                case RecordScanner.Kind.event: event()
                case RecordScanner.Kind.command: command()
                case RecordScanner.Kind.monitor: monitor()
                default: break
                }
            }
            return nil
        } catch {
            return error
        }
    }

    /// Ends what is open, and gives the connections in which the peer spoke ATT.
    mutating func finish() -> [ConnectionEntry] {
        for slot in links.indices { close(slot, at: scanner.recordOffset) }
        var identities: [DeviceAddress: DeviceAddress] = [:]
        for entry in entries {
            if let address = entry.address, let identity = entry.identity { identities[address] = identity }
        }
        return entries.compactMap { entry in
            guard entry.isLowEnergy, entry.peerHasSpokenATT else { return nil }
            var entry = entry
            let connectedWith = entry.address
            entry.address = entry.identity ?? connectedWith.flatMap { identities[$0] } ?? connectedWith
            let advertised = entry.name ?? entry.address.flatMap { names[$0] } ?? connectedWith.flatMap { names[$0] }
            entry.name = advertised ?? nameRead(in: entry)
            return entry
        }
    }

    private func nameRead(in entry: ConnectionEntry) -> String? {
        let conversation = entry.conversation
        let handle =
            conversation.table.characteristics.first { $0.uuid == .deviceName }?.valueHandle
            ?? conversation.namedByRead.first { $0.value == .deviceName }?.key
        guard let handle, let value = conversation.reads[handle] else { return nil }
        let name = String(decoding: value.octets.prefix { $0 != 0 }, as: UTF8.self)
        return name.nonEmpty
    }

    private var now: Instant { Instant(microseconds: scanner.time) }

    // MARK: connections

    private static func key(_ adapter: UInt16, _ handle: UInt16) -> UInt32 { UInt32(adapter) << 16 | UInt32(handle) }

    @inline(__always)
    private mutating func slot(_ key: UInt32) -> Int? {
        let place = Int(key & 63)
        if recent[place].key == key { return recent[place].slot }
        guard let slot = slots[key] else { return nil }
        recent[place] = (key, slot)
        return slot
    }

    /// Begins a connection at the current record; one that had the handle before has ended unseen.
    private mutating func begin(_ key: UInt32, _ change: (inout ConnectionEntry) -> Void) -> Int {
        var entry = ConnectionEntry(
            file: scanner.window.file, adapter: UInt16(key >> 16), handle: UInt16(key & 0xFFFF),
            begin: scanner.bookmark, start: now)
        change(&entry)
        entries.append(entry)
        openKeys[entry.adapter, default: []].insert(key)
        let link = Link(entry: entries.count - 1, gaps: gaps)
        if let slot = slot(key) {
            close(slot, at: scanner.recordOffset &- 1)
            links[slot] = link
            return slot
        }
        links.append(link)
        slots[key] = links.count - 1
        return links.count - 1
    }

    /// Writes into a connection's entry what its link knows.
    private mutating func close(_ slot: Int, at lastOffset: UInt64) {
        let entry = links[slot].entry
        links[slot].l2cap.inbound.abandon()
        entries[entry].lostPDUs = links[slot].l2cap.inbound.lost
        guard links[slot].endedAt == nil else { return }
        entries[entry].lastOffset = lastOffset
        entries[entry].end = Instant(microseconds: lastTime)
    }

    private mutating func disconnect(_ key: UInt32) {
        openKeys[UInt16(key >> 16)]?.remove(key)
        guard let slot = slot(key), links[slot].endedAt == nil else { return }
        close(slot, at: scanner.recordOffset)
        links[slot].endedAt = scanner.time
    }

    /// Ends every connection of an adapter that was reset, closed or unplugged.
    private mutating func endConnections(of adapter: UInt16) {
        for key in openKeys.removeValue(forKey: adapter) ?? [] { disconnect(key) }
    }

    // MARK: HCI

    private mutating func command() {
        // Reset (Core Specification, Vol 4, Part E, 7.3.2) drops every link.
        guard scanner.end - scanner.start >= 2, scanner.window.octets.little16(scanner.start) == 0x0C03 else { return }
        endConnections(of: scanner.adapter)
    }

    private mutating func monitor() {
        // Index gone, index closed.
        if scanner.monitorOpcode == 1 || scanner.monitorOpcode == 9 { endConnections(of: scanner.adapter) }
    }

    private mutating func event() {
        guard scanner.end - scanner.start >= 2 else { return }
        let (code, length) = (scanner.window.octets[scanner.start], Int(scanner.window.octets[scanner.start + 1]))
        let body = (scanner.start + 2)..<min(scanner.end, scanner.start + 2 + length)
        switch code {
        case 0x03 where body.count >= 11 && scanner.window.octets[body.lowerBound] == 0:
            let handle = scanner.window.octets.little16(body.lowerBound + 1) & 0x0FFF
            _ = begin(Self.key(scanner.adapter, handle)) { $0.isLowEnergy = false }
        case 0x05 where body.count >= 3 && scanner.window.octets[body.lowerBound] == 0:
            disconnect(Self.key(scanner.adapter, scanner.window.octets.little16(body.lowerBound + 1) & 0x0FFF))
        case 0x3E where !body.isEmpty: lowEnergyEvent(body)
        default: break
        }
    }

    private mutating func lowEnergyEvent(_ body: Range<Int>) {
        switch scanner.window.octets[body.lowerBound] {
        case 0x01 where body.count >= 19, 0x0A where body.count >= 31, 0x29 where body.count >= 31: connected(body)
        case 0x02: advertised(body)
        case 0x0D: advertisedExtended(body)
        default: break
        }
    }

    private func address(_ kind: UInt8, at place: Int) -> DeviceAddress {
        let octets = scanner.window.octets
        let bits = UInt64(octets.little32(place)) | UInt64(octets.little16(place + 4)) << 32
        return DeviceAddress(bits: bits, kind: kind & 1 == 0 ? .public : .random)
    }

    /// LE Connection Complete and LE Enhanced Connection Complete, versions 1 and 2 (Vol 4, Part E, 7.7.65).
    private mutating func connected(_ body: Range<Int>) {
        let place = body.lowerBound
        guard scanner.window.octets[place + 1] == 0 else { return }
        let handle = scanner.window.octets.little16(place + 2) & 0x0FFF
        let kind = scanner.window.octets[place + 5]
        let peer = address(kind, at: place + 6)
        // Types 2 and 3: the controller has resolved the identity address.
        _ = begin(Self.key(scanner.adapter, handle)) { entry in
            entry.address = peer
            if kind == 2 || kind == 3 { entry.identity = peer }
        }
        entries[entries.count - 1].name = names[peer]
    }

    private mutating func advertised(_ body: Range<Int>) {
        guard body.count >= 2 else { return }
        var place = body.lowerBound + 2
        for _ in 0..<scanner.window.octets[body.lowerBound + 1] {
            guard place + 9 <= body.upperBound else { return }
            let data = (place + 9)..<(place + 9 + Int(scanner.window.octets[place + 8]))
            guard data.upperBound <= body.upperBound else { return }
            names.add(address(scanner.window.octets[place + 1], at: place + 2), scanner.window.octets, data)
            place = data.upperBound + 1
        }
    }

    private mutating func advertisedExtended(_ body: Range<Int>) {
        guard body.count >= 2 else { return }
        var place = body.lowerBound + 2
        for _ in 0..<scanner.window.octets[body.lowerBound + 1] {
            guard place + 24 <= body.upperBound else { return }
            let data = (place + 24)..<(place + 24 + Int(scanner.window.octets[place + 23]))
            guard data.upperBound <= body.upperBound else { return }
            let kind = scanner.window.octets[place + 2]
            if kind != 0xFF { names.add(address(kind, at: place + 3), scanner.window.octets, data) }
            place = data.upperBound
        }
    }

    // MARK: ACL

    @inline(__always)
    private mutating func acl() {
        guard
            let head = ACLHead(
                scanner.window.octets, scanner.start..<scanner.end, direction: scanner.direction)
        else { return }
        let key = Self.key(scanner.adapter, head.handle)
        let slot = openSlot(key)
        guard entries[links[slot].entry].isLowEnergy else { return }
        if links[slot].gaps != gaps {
            links[slot].gaps = gaps
            links[slot].l2cap.abandon()
        }
        let isReceived = links[slot].l2cap.isReceived(head)
        guard let data = head.data else {
            if isReceived { links[slot].l2cap.inbound.addCutFragment(isStart: head.isStart) }
            if !isReceived { links[slot].l2cap.outbound.addCutFragment(isStart: head.isStart) }
            return
        }
        let outcome =
            isReceived
            ? links[slot].l2cap.inbound.add(scanner.window.octets, data, isStart: head.isStart)
            : links[slot].l2cap.outbound.add(scanner.window.octets, data, isStart: head.isStart)
        switch outcome {
        case .none: break
        case .inPlace(let channel, let range):
            pdu(channel, scanner.window.octets, range, of: links[slot].entry, isReceived)
        case .buffered(let channel, let range):
            let buffer = isReceived ? links[slot].l2cap.inbound.buffer : links[slot].l2cap.outbound.buffer
            pdu(channel, buffer, range, of: links[slot].entry, isReceived)
        }
    }

    @inline(__always)
    private mutating func openSlot(_ key: UInt32) -> Int {
        guard let slot = slot(key) else { return begin(key) { _ in } }
        guard let endedAt = links[slot].endedAt else { return slot }
        guard scanner.time - endedAt <= Self.straggle else { return begin(key) { _ in } }
        // The controller gives events and data on different ways: this was sent before the link went.
        entries[links[slot].entry].lastOffset = scanner.recordOffset
        return slot
    }

    @inline(__always)
    private mutating func pdu(
        _ channel: UInt16, _ octets: borrowing [UInt8], _ range: Range<Int>, of entry: Int, _ isReceived: Bool
    ) {
        if channel == L2CAPReassembly.Channel.attribute {
            if isReceived { fromPeer(octets, range, entry) } else { entries[entry].conversation.host(octets, range) }
        } else if channel == L2CAPReassembly.Channel.securityManager, isReceived {
            pairing(octets, range, entry)
        }
    }

    @inline(__always)
    private mutating func fromPeer(_ octets: borrowing [UInt8], _ range: Range<Int>, _ entry: Int) {
        guard let place = range.first else { return }
        entries[entry].peerHasSpokenATT = true
        switch octets[place] {
        case ATT.notification, ATT.indication:
            guard range.count >= 3 else { return }
            value(octets.little16(place + 1), octets, (place + 3)..<range.upperBound, entry)
        case ATT.multipleNotification:
            var next = place + 1
            while next + 4 <= range.upperBound {
                let end = next + 4 + Int(octets.little16(next + 2))
                guard end <= range.upperBound else { return }
                value(octets.little16(next), octets, (next + 4)..<end, entry)
                next = end
            }
        case let opcode where opcode & 1 == 1 && (opcode < 0x1A || opcode == ATT.readMultipleVariableResponse):
            entries[entry].conversation.response(octets, range, at: now)
        default: break
        }
    }

    @inline(__always)
    private mutating func value(_ handle: UInt16, _ octets: borrowing [UInt8], _ range: Range<Int>, _ entry: Int) {
        entries[entry].countValue(of: handle)
        if entries[entry].conversation.controlHandle == Int(handle) {
            entries[entry].conversation.controlValue(octets, range, at: now)
        }
    }

    /// Identity Address Information (Core Specification, Vol 3, Part H, 3.6.5). Keys are not looked at.
    private mutating func pairing(_ octets: borrowing [UInt8], _ range: Range<Int>, _ entry: Int) {
        guard range.count == 8, octets[range.lowerBound] == 0x09 else { return }
        let place = range.lowerBound + 2
        let bits = UInt64(octets.little32(place)) | UInt64(octets.little16(place + 4)) << 32
        entries[entry].identity = DeviceAddress(bits: bits, kind: octets[place - 1] & 1 == 0 ? .public : .random)
    }
}

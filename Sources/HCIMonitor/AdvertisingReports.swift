/// The reports of one LE advertising event: one event may carry several devices'.
///
/// Core Specification, Vol 4, Part E, 7.7.65.2, .11 and .13.
struct AdvertisingReports {
    /// One device's report.
    struct Report {
        /// Who advertises.
        var address: PeerAddress
        /// Whether the address is a random one that can be resolved.
        var isResolvable: Bool
        /// The report's octets in the event.
        var range: Range<Int>
    }

    private let event: [UInt8]
    private(set) var reports: [Report] = []

    /// Reads an LE Meta event of subevent 02, 0B or 0D; nil where its length and its contents disagree.
    init?(_ event: [UInt8]) {
        guard event.count >= 4, event.count == 2 + Int(event[1]) else { return nil }
        self.event = event
        var place = 4
        for _ in 0..<event[3] {
            let (address, dataLength, head): (Int, Int?, Int)
            switch event[2] {
            case 0x02: (address, dataLength, head) = (2, 8, 10)  // RSSI follows the data
            case 0x0B: (address, dataLength, head) = (2, nil, 16)
            default: (address, dataLength, head) = (3, 23, 24)
            }
            guard place + head <= event.count else { return nil }
            let length = head + (dataLength.map { Int(event[place + $0]) } ?? 0)
            guard place + length <= event.count else { return nil }
            let peer = PeerAddress(event, at: place + address)
            reports.append(
                Report(
                    address: peer, isResolvable: event[place + address - 1] & 1 == 1 && peer.looksResolvable,
                    range: place..<(place + length)))
            place += length
        }
        guard place == event.count else { return nil }
    }

    /// The event with these reports alone; nil where there are none.
    func event(with kept: [Report]) -> [UInt8]? {
        guard !kept.isEmpty else { return nil }
        let body = kept.flatMap { event[$0.range] }
        return [event[0], UInt8(body.count + 2), event[2], UInt8(kept.count)] + body
    }
}

/// The last advertisements of devices whose private address may turn out to be the peer's.
struct HeldAdvertisements {
    private var events: [PeerAddress: [TimedMessage]] = [:]
    private var order: [PeerAddress] = []
    /// Addresses remembered, and events of each: an advertisement and its scan response.
    private static let (mostAddresses, mostEvents) = (64, 2)

    mutating func hold(_ message: TimedMessage, of address: PeerAddress) {
        if events[address] == nil {
            if order.count == Self.mostAddresses { events[order.removeFirst()] = nil }
            order.append(address)
        }
        events[address, default: []].append(message)
        if events[address, default: []].count > Self.mostEvents { events[address]?.removeFirst() }
    }

    mutating func take(_ address: PeerAddress) -> [TimedMessage] {
        order.removeAll { $0 == address }
        return events.removeValue(forKey: address) ?? []
    }
}

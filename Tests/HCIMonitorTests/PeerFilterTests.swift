import HCIMonitor
import Testing

@Suite("One device's traffic")
struct PeerFilterTests {
    private static let (ours, other) = (Packets.address(8), Packets.address(9))
    /// A resolvable private address, as on the wire.
    private static let hidden = Packets.address(0x77, top: 0x5A)

    /// What a filter for our peer keeps of some messages.
    private func kept(_ messages: [MonitorMessage], handles: [UInt16] = []) -> [MonitorMessage] {
        var filter = PeerFilter(peer: Packets.peer(8), handles: handles)
        return messages.enumerated().flatMap { filter.take($1, at: Int64($0)) }.map(\.message)
    }

    @Test("data is kept of the peer's connections alone, from their beginning to their end")
    func connections() {
        let (open, strange) = (Packets.connected(64, Self.ours), Packets.connected(65, Self.other))
        let (value, noise) = (Packets.notification([1])[0], Packets.notification([2], handle: 65)[0])
        let end = Packets.disconnected(64)
        #expect(kept([open, strange, value, noise, end, value]) == [open, value, end])
        // The handle passes to another device.
        #expect(kept([open, end, Packets.connected(64, Self.other), value]) == [open, end])
        #expect(kept([open, Packets.connected(64, Self.other), value]) == [open])
        let enhanced = Packets.connectedEnhanced(66, Self.ours, type: 3)
        let later = Packets.notification([3], handle: 66)[0]
        #expect(kept([enhanced, later]) == [enhanced, later])
        let classic = Packets.event(0x03, [0] + little16(67) + Self.ours + [1, 0])
        let data = Packets.data(0x40, [1], received: true, handle: 67)[0]
        #expect(kept([classic, data]) == [classic, data])
        #expect(kept([Packets.event(0x03, [0] + little16(67) + Self.other + [1, 0]), data]) == [])
    }

    @Test("a connection that exists already is known by its handle")
    func existing() {
        let value = Packets.notification([1])[0]
        #expect(kept([value], handles: [64]) == [value])
        #expect(kept([value]).isEmpty)
    }

    @Test("the adapter's reset, closing and removal end every connection")
    func ends() {
        let (open, value) = (Packets.connected(64, Self.ours), Packets.notification([1])[0])
        for end in [Packets.command(0x0C03, []), MonitorMessage(.closedIndex, []), MonitorMessage(.deletedIndex, [])] {
            #expect(kept([open, end, value]) == [open, end])
        }
    }

    @Test("events and commands about others are dropped, those about the adapter kept")
    func packets() {
        let open = Packets.connected(64, Self.ours)
        let about: [MonitorMessage] = [
            Packets.command(0x2013, little16(64) + [UInt8](repeating: 0, count: 12)),
            Packets.command(0x2019, little16(64) + [UInt8](repeating: 0, count: 26)),
            Packets.command(0x200D, [0x60, 0, 0x60, 0, 0, 1] + Self.ours + [UInt8](repeating: 0, count: 13)),
            Packets.command(0x2011, [1] + Self.ours), Packets.event(0x08, [0] + little16(64) + [1]),
            Packets.meta(0x03, [0] + little16(64) + [UInt8](repeating: 0, count: 6)),
            Packets.event(0x17, Self.ours), Packets.command(0x0C03 - 2, [UInt8](repeating: 0, count: 8)),
            Packets.meta(0x11, []), MonitorMessage(.newIndex, [1]),
        ]
        #expect(kept([open] + about) == [open] + about)
        let strange: [MonitorMessage] = [
            Packets.command(0x2013, little16(65) + [UInt8](repeating: 0, count: 12)),
            Packets.command(0x200D, [0x60, 0, 0x60, 0, 0, 1] + Self.other + [UInt8](repeating: 0, count: 13)),
            Packets.command(0x2027, [1] + Self.other + [UInt8](repeating: 0, count: 32)),
            Packets.event(0x08, [0] + little16(65) + [1]), Packets.event(0x17, Self.other),
            Packets.event(0x05, [0] + little16(65) + [0x13]), Packets.event(0x22, [1] + Self.other + [0]),
            Packets.command(0x0C11, [0]), Packets.command(0xFC01, []), Packets.event(0xFF, [1]),
            Packets.meta(0x60, [1]), Packets.complete(0xFC01, [0]),
            MonitorMessage(MonitorOpcode(rawValue: 7), [1, 2, 3]),
        ]
        #expect(kept([open] + strange) == [open])
    }

    @Test("an answer is kept where its command was")
    func answers() {
        let (mine, theirs) = (Packets.command(0x2011, [1] + Self.ours), Packets.command(0x2011, [1] + Self.other))
        let (done, status) = (Packets.complete(0x2011, [0]), Packets.event(0x0F, [0, 1] + little16(0x2011)))
        #expect(kept([mine, done, theirs, done]) == [mine, done])
        #expect(kept([theirs, status, mine, status]) == [mine, status])
        #expect(kept([done, status]).isEmpty)
        let reset = Packets.complete(0x0C03, [0])
        #expect(kept([reset]) == [reset])
    }

    @Test("an event that tells of several devices is cut to the peer's part")
    func several() {
        let (mine, theirs) = (Packets.report(Self.ours, [3, 9, 65, 66]), Packets.report(Self.other))
        #expect(kept([Packets.advertisement(theirs, mine, theirs)]) == [Packets.advertisement(mine)])
        #expect(kept([Packets.advertisement(theirs)]).isEmpty)
        let extended =
            [0x13, 0, 1] + Self.ours + [1, 0, 0, 0x7F, 0xC8, 0, 0, 0] + Packets.address(0, top: 0) + [2, 1, 6]
        let strange = [0x13, 0, 1] + Self.other + [1, 0, 0, 0x7F, 0xC8, 0, 0, 0] + Packets.address(0, top: 0) + [0]
        let both = Packets.meta(0x0D, [2] + strange + extended)
        #expect(kept([both]) == [Packets.meta(0x0D, [1] + extended)])
        let directed = [1, 1] + Self.ours + [1] + Self.other + [0xC8]
        #expect(kept([Packets.meta(0x0B, [1] + directed)]) == [Packets.meta(0x0B, [1] + directed)])
        let open = Packets.connected(64, Self.ours)
        let counts = Packets.event(0x13, [2] + little16(65) + [1, 0] + little16(64) + [2, 0])
        #expect(kept([open, counts]) == [open, Packets.event(0x13, [1] + little16(64) + [2, 0])])
        #expect(kept([counts]).isEmpty)
    }

    @Test("events that are short or contradict themselves are dropped")
    func malformed() {
        let whole: [MonitorMessage] = [
            Packets.connected(64, Self.ours), Packets.advertisement(Packets.report(Self.ours)),
            Packets.event(0x13, [1] + little16(64) + [2, 0]), Packets.event(0x17, Self.ours),
        ]
        for message in whole {
            for length in message.octets.indices {
                var short = message
                short.octets.removeLast(message.octets.count - length)
                #expect(kept([short], handles: [64]).isEmpty)
                if length >= 2 { short.octets[1] = UInt8(length - 2) }
                #expect(kept([short], handles: [64]).isEmpty)
            }
        }
    }

    @Test("a bonded device behind a private address is known by what the kernel says of its identity")
    func identity() {
        let advertised = Packets.advertisement(Packets.report(Self.hidden, [2, 9, 65]))
        let stranger = Packets.advertisement(Packets.report(Packets.address(1, top: 0x5B)))
        let open = Packets.connected(64, Self.hidden)
        let early = Packets.meta(0x14, little16(64) + [1])
        let value = Packets.notification([1])[0]
        let messages = [stranger, advertised, open, early, Packets.deviceConnected(Self.ours), value, advertised]
        #expect(kept(messages) == [advertised, open, early, value, advertised])
        // Another device's, or one that is never told.
        #expect(kept([advertised, open, early, Packets.deviceConnected(Self.other), value]).isEmpty)
        #expect(kept([advertised, open, early, value]).isEmpty)
        // Device Connected of BR/EDR, or of no connection that waits, says nothing.
        #expect(kept([open, Packets.deviceConnected(Self.ours, type: 0), value]).isEmpty)
        #expect(kept([Packets.deviceConnected(Self.ours), value]).isEmpty)
    }

    @Test("what is held back is bounded")
    func bounded() {
        let open = Packets.connected(64, Self.hidden)
        let values = (0..<100).map { Packets.notification([UInt8($0)])[0] }
        #expect(kept([open] + values + [Packets.deviceConnected(Self.ours)]).isEmpty)
        let reports = (0..<200).map { Packets.advertisement(Packets.report(Packets.address(UInt8($0), top: 0x5C))) }
        let last = Packets.connected(64, Packets.address(199, top: 0x5C))
        #expect(kept(reports + [last, Packets.deviceConnected(Self.ours)]) == [reports[199], last])
        let first = Packets.connected(64, Packets.address(0, top: 0x5C))
        #expect(kept(reports + [first, Packets.deviceConnected(Self.ours)]) == [first])
    }

    @Test("an address is read as people write it", arguments: ["C0:00:00:00:18:08", "c0:00:00:00:18:08"])
    func address(_ text: String) { #expect(PeerAddress(text) == Packets.peer(8)) }

    @Test(
        "anything else is no address",
        arguments: ["", "C0:00:00:00:18", "C0:00:00:00:18:0G", "C0-00-00-00-18-08", "hci0"])
    func noAddress(_ text: String) { #expect(PeerAddress(text) == nil) }
}

import HCIMonitor
import TestSupport
import Testing

@Suite("Keys in HCI traffic")
struct KeyEraserTests {
    /// A place where a secret of so many octets stands, and the packet around it.
    struct Place: Sendable, CustomTestStringConvertible {
        var name: String
        var length: Int
        var make: @Sendable ([UInt8]) -> MonitorMessage
        var testDescription: String { name }

        init(_ name: String, _ length: Int, _ make: @escaping @Sendable ([UInt8]) -> MonitorMessage) {
            (self.name, self.length, self.make) = (name, length, make)
        }
    }

    static let address = Packets.address(8)
    static let handle: [UInt8] = [64, 0]

    /// Core Specification 5.4, Vol 4, Part E, 7: written from the tables there.
    static let places: [Place] = [
        Place("LE Encrypt: key and plain text", 32) { Packets.command(0x2017, $0) },
        Place("LE Encrypt: result", 16) { Packets.complete(0x2017, [0] + $0) },
        Place("LE Rand", 8) { Packets.complete(0x2018, [0] + $0) },
        Place("LE Enable Encryption: Rand, EDIV, LTK", 26) { Packets.command(0x2019, handle + $0) },
        Place("LE Long Term Key Request Reply", 16) { Packets.command(0x201A, handle + $0) },
        Place("LE Long Term Key Request: Rand, EDIV", 10) { Packets.meta(0x05, handle + $0) },
        Place("LE Read Local P-256 Public Key Complete", 64) { Packets.meta(0x08, [0] + $0) },
        Place("LE Generate DHKey", 64) { Packets.command(0x2026, $0) },
        Place("LE Generate DHKey, version 2", 64) { Packets.command(0x205E, $0 + [0]) },
        Place("LE Generate DHKey Complete", 32) { Packets.meta(0x09, [0] + $0) },
        Place("LE Add Device To Resolving List: both IRKs", 32) { Packets.command(0x2027, [1] + address + $0) },
        Place("LE Create BIG: broadcast code", 16) {
            Packets.command(0x2068, [0, 0, 1, 16, 39, 0, 40, 0, 10, 0, 2, 2, 0, 0, 1] + $0)
        },
        Place("LE Create BIG Test: broadcast code", 16) {
            Packets.command(0x2069, [UInt8](repeating: 0, count: 19) + [1] + $0)
        },
        Place("LE BIG Create Sync: broadcast code", 16) {
            Packets.command(0x206B, [0, 1, 0, 1] + $0 + [0, 10, 0, 1, 1])
        },
        Place("Link Key Request Reply", 16) { Packets.command(0x040B, address + $0) },
        Place("PIN Code Request Reply", 17) { Packets.command(0x040D, address + $0) },
        Place("User Passkey Request Reply", 4) { Packets.command(0x042E, address + $0) },
        Place("Remote OOB Data Request Reply", 32) { Packets.command(0x0430, address + $0) },
        Place("Remote OOB Extended Data Request Reply", 64) { Packets.command(0x0445, address + $0) },
        Place("Create Physical Link", 34) { Packets.command(0x0435, [1] + $0) },
        Place("Accept Physical Link", 34) { Packets.command(0x0436, [1] + $0) },
        Place("Send Keypress Notification", 1) { Packets.command(0x0460, address + $0) },
        Place("Write Stored Link Key", 44) { Packets.command(0x0C11, [2] + $0) },
        Place("Return Link Keys", 44) { Packets.event(0x15, [2] + $0) },
        Place("Link Key Notification", 16) { Packets.event(0x18, address + $0 + [4]) },
        Place("Read Local OOB Data", 32) { Packets.complete(0x0C57, [0] + $0) },
        Place("Read Local OOB Extended Data", 64) { Packets.complete(0x0C7D, [0] + $0) },
        Place("User Confirmation Request", 4) { Packets.event(0x33, address + $0) },
        Place("User Passkey Notification", 4) { Packets.event(0x3B, address + $0) },
        Place("Keypress Notification", 1) { Packets.event(0x3C, address + $0) },
        Place("Loopback Command", 19) { Packets.event(0x19, $0) },
        Place("a vendor's command", 40) { Packets.command(0xFC55, $0) },
        Place("a vendor's answer", 40) { Packets.complete(0xFC55, $0) },
        Place("a vendor's event", 40) { Packets.event(0xFF, $0) },
        Place("a command of a later version", 40) { Packets.command(0x20F0, $0) },
        Place("an event of a later version", 40) { Packets.event(0x70, $0) },
        Place("an LE event of a later version", 40) { Packets.meta(0x60, $0) },
    ]

    @Test("a key is zeroed wherever it may stand, and nothing else is", arguments: places)
    func zeroed(_ place: Place) throws {
        var generator = SeededGenerator(seed: 7)
        for _ in 0..<20 {
            let secret = generator.octets(place.length)
            let eraser = Erasing()
            let message = place.make(secret)
            let safe = try #require(eraser.erase(message))
            #expect(safe == place.make([UInt8](repeating: 0, count: place.length)))
            // A passkey's octets, or one alone, stand elsewhere by chance.
            if place.length >= 8 { #expect(!holds([safe], any: secret)) }
            #expect(eraser.erase(safe) == safe)
        }
    }

    @Test(
        "a packet cut in the middle of a key, and what stands beyond a packet's own length, are zeroed",
        arguments: places)
    func cut(_ place: Place) throws {
        var generator = SeededGenerator(seed: 8)
        let message = place.make(generator.octets(place.length))
        let empty = place.make([UInt8](repeating: 0, count: place.length))
        for length in message.octets.indices {
            let eraser = Erasing()
            var short = message
            short.octets.removeLast(message.octets.count - length)
            let safe = try #require(eraser.erase(short))
            // Before the octets that name the packet, there is no key either.
            guard length > (message.opcode == .command || [0x0E, 0x3E].contains(message.octets[0]) ? 4 : 2) else {
                continue
            }
            #expect(safe.octets == Array(empty.octets[..<length]), "cut at \(length)")
        }
        let eraser = Erasing()
        var long = message
        long.octets += generator.octets(16)
        let safe = try #require(eraser.erase(long))
        #expect(safe.octets == empty.octets + [UInt8](repeating: 0, count: 16))
    }

    /// The Security Manager's PDUs with what follows their code (Core Specification, Vol 3, Part H, 3.5 and 3.6).
    static let secretPDUs: [(UInt8, Int)] = [
        (0x03, 16), (0x04, 16), (0x06, 16), (0x07, 10), (0x08, 16), (0x0A, 16), (0x0C, 64), (0x0D, 16), (0x0E, 1),
        (0x00, 20), (0x0F, 20), (0xFF, 200),
    ]

    @Test("Security Manager PDUs lose their keys in fragments of every size, in both directions, on LE and BR/EDR")
    func fragments() {
        var generator = SeededGenerator(seed: 9)
        for (code, length) in Self.secretPDUs {
            for size in 1...(length + 6) {
                for (received, channel) in [(false, 6), (true, 6), (false, 7), (true, 7)] {
                    let secret = generator.octets(length)
                    let eraser = Erasing()
                    let safe = eraser.erase(
                        Packets.data(channel, [code] + secret, received: received, fragments: size))
                    let expected = Packets.data(
                        channel, [code] + [UInt8](repeating: 0, count: length), received: received, fragments: size)
                    #expect(safe == expected, "code \(code), fragments of \(size)")
                    if length >= 8 { #expect(!holds(safe, any: secret)) }
                }
            }
        }
    }

    @Test("a whole pairing in fragments of every size, with values of another connection and direction between them")
    func interleaved() throws {
        var generator = SeededGenerator(seed: 10)
        for size in 1...80 {
            let secrets = Self.secretPDUs.map { generator.octets($0.1) }
            var ways: [[MonitorMessage]] = [[], [], []]
            for ((code, _), secret) in zip(Self.secretPDUs, secrets) {
                ways[0] += Packets.data(6, [code] + secret, received: false, fragments: size)
                ways[1] += Packets.data(6, [code] + secret, received: true, fragments: size)
            }
            let values = (0..<60).flatMap {
                Packets.notification([UInt8($0)] + [1, 2, 3, 4, 5], handle: 65, fragments: size)
            }
            ways[2] = values
            var (mixed, places) = ([MonitorMessage](), [0, 0, 0])
            while let way = (0..<3).filter({ places[$0] < ways[$0].count }).randomElement(using: &generator) {
                mixed.append(ways[way][places[way]])
                places[way] += 1
            }
            let eraser = Erasing()
            let safe = eraser.erase(mixed)
            #expect(safe.map(\.octets.count) == mixed.map(\.octets.count))
            for secret in secrets where secret.count >= 8 { #expect(!holds(safe, any: secret), "fragments of \(size)") }
            let others = safe.filter { $0.octets[0] == 65 }
            #expect(others == values)
            let again = Erasing()
            #expect(again.erase(safe) == safe)
        }
    }

    @Test("what pairs without being a key stays: requests, failures, identity addresses, security requests")
    func harmless() {
        let eraser = Erasing()
        let pdus: [[UInt8]] = [
            [0x01, 4, 0, 0x2D, 16, 3, 3], [0x02, 2, 0, 0x2D, 16, 3, 3], [0x05, 4],
            [0x09, 1] + Self.address, [0x0B, 0x0D],
        ]
        for pdu in pdus {
            for size in 1...12 {
                let messages = Packets.data(6, pdu, received: true, fragments: size)
                #expect(eraser.erase(messages) == messages)
            }
        }
    }

    @Test("values, discovery and other channels pass as they are, in fragments of every size")
    func values() {
        var generator = SeededGenerator(seed: 11)
        let eraser = Erasing()
        for size in 1...60 {
            for channel in [1, 4, 5, 0x40, 0x3A] {
                let messages = Packets.data(channel, generator.octets(40), received: size % 2 == 0, fragments: size)
                #expect(eraser.erase(messages) == messages)
            }
            let empty = Packets.data(4, [], received: true, fragments: size)
            #expect(eraser.erase(empty) == empty)
        }
    }

    @Test("a fragment whose beginning was not seen may be a key's: it is zeroed until something begins")
    func unknownContinuation() throws {
        var generator = SeededGenerator(seed: 12)
        let secret = generator.octets(64)
        let pdu = Packets.data(6, [0x0C] + secret, received: true, fragments: 27)
        for ending in [
            nil, Packets.disconnected(64), Packets.connected(64, Self.address), Packets.command(0x0C03, []),
            Packets.connectedEnhanced(64, Self.address, type: 1), MonitorMessage(.closedIndex, []),
            MonitorMessage(.deletedIndex, []), Packets.event(0x03, [0] + little16(64) + Self.address + [1, 0]),
        ] {
            let eraser = Erasing()
            // A value of which only the beginning came, so that a key's rest would seem to be its rest.
            if let ending {
                _ = eraser.erase(Packets.notification(generator.octets(90), fragments: 27)[0])
                _ = eraser.erase(ending)
            }
            let safe = eraser.erase(Array(pdu.dropFirst()))
            #expect(!holds(safe, any: secret))
            #expect(safe.allSatisfy { $0.octets.dropFirst(4).allSatisfy { $0 == 0 } })
            let value = Packets.notification([1, 2, 3], fragments: 4)
            #expect(eraser.erase(value) == value)
        }
        let lossy = Erasing()
        _ = lossy.erase(Packets.notification(generator.octets(90), fragments: 27)[0])
        lossy.forgetFragments()
        #expect(!holds(lossy.erase(Array(pdu.dropFirst())), any: secret))
    }

    @Test("octets behind a PDU's own length, without a new beginning, are zeroed")
    func overlong() throws {
        let eraser = Erasing()
        var message = Packets.data(4, [0x1B, 14, 0, 9], received: true)[0]
        message.octets += [1, 2, 3]
        message.octets[2] += 3
        let safe = try #require(eraser.erase(message))
        #expect(safe.octets.suffix(4) == [9, 0, 0, 0])
        let more = MonitorMessage(.aclReceived, little16(64 | 1 << 12) + little16(2) + [7, 7])
        #expect(eraser.erase(more)?.octets.suffix(2) == [0, 0])
        for (channel, payload) in [(4, []), (4, [0x1B]), (6, []), (6, [0x0C])] as [(Int, [UInt8])] {
            let short = Packets.data(channel, payload, received: true)
            #expect(eraser.erase(short) == short)
            let key = MonitorMessage(.aclReceived, little16(64 | 1 << 12) + little16(3) + [0x0C, 7, 7])
            #expect(eraser.erase(key)?.octets.suffix(3) == [0, 0, 0])
        }
    }

    @Test("management traffic, notes, logs and diagnostics are not kept", arguments: Array(11...17) + Array(20...40))
    func dropped(_ number: Int) {
        let eraser = Erasing()
        let opcode = MonitorOpcode(rawValue: UInt16(number))
        #expect(eraser.erase(MonitorMessage(opcode, [1, 2, 3])) == nil)
    }

    @Test(
        "random packets keep their lengths and erasing again changes nothing", arguments: 1...20 as ClosedRange<UInt64>)
    func random(_ seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        let (eraser, again) = (Erasing(), Erasing())
        for _ in 0..<500 {
            let opcode = MonitorOpcode(rawValue: UInt16.random(in: 0...20, using: &generator))
            var octets = generator.octets(Int.random(in: 0...80, using: &generator))
            if octets.count > 4, Bool.random(using: &generator) {
                // Mostly sensible heads, few handles.
                octets[0] = UInt8.random(in: 0...3, using: &generator)
                octets[1] = [0x00, 0x10, 0x20].randomElement(using: &generator) ?? 0
                octets.replaceSubrange(2..<4, with: little16(octets.count - 4))
                if octets.count > 8 { octets.replaceSubrange(4..<8, with: [UInt8(octets.count), 0, 6, 0]) }
            }
            let message = MonitorMessage(opcode, adapter: UInt16.random(in: 0...1, using: &generator), octets)
            guard let safe = eraser.erase(message) else { continue }
            #expect(safe.octets.count == octets.count && safe.opcode == opcode && safe.adapter == message.adapter)
            #expect(zip(safe.octets, octets).allSatisfy { $0 == $1 || $0 == 0 })
            #expect(again.erase(safe) == safe)
        }
    }

    @Test("two thousand connections are remembered in bounded memory, and none leaks a key")
    func manyConnections() {
        var generator = SeededGenerator(seed: 13)
        let eraser = Erasing()
        let secret = generator.octets(64)
        let pdus = (0..<2000).map { Packets.data(6, [0x0C] + secret, received: true, handle: $0, fragments: 27) }
        var safe: [MonitorMessage] = []
        for fragment in 0..<3 { for pdu in pdus { safe += eraser.erase([pdu[fragment]]) } }
        #expect(safe.count == 6000)
        #expect(safe.allSatisfy { !holds([$0], any: secret) })
    }
}

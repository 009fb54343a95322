import Foundation
import TestSupport
import Testing

@testable import LibDBus

@Suite(.timeLimit(.minutes(10))) struct HostileTests {
    /// Everything that is ever read of a message.
    @discardableResult
    static func readAll(_ message: borrowing OwnedMessage) -> Int {
        let signal = DBusSignal(message.pointer)
        var seen = signal.arguments().count + signal.sender.count + signal.path.count + signal.interface.count
        seen += signal.invalidatedProperties().count + (signal.argument(1).map { _ in 1 } ?? 0)
        signal.forEachChangedProperty { property in
            seen += property.name.count + (property.bytes?.count ?? 0) + (property.value == nil ? 0 : 1)
        }
        let rules = [
            DBusMatch(pathNamespace: "/a", interface: "b.c"), DBusMatch(arg0: "x"), DBusMatch(arg0Path: "/a/"),
            DBusMatch(member: "D", arg0Namespace: "a.b"),
        ]
        for rule in rules where SignalRule(rule, owner: nil).matches(signal) { seen += 1 }
        return seen + (signal.isChange(of: "b.c") ? 1 : 0)
    }

    private func message(_ random: inout RandomValues) throws -> [UInt8] {
        while true {
            let values = random.arguments()
            guard Name.signature.accepts(values.signature) else { continue }
            return RawMessage.octets(of: try OwnedMessage.signal("/a/b", "b.c", "D", values, to: ":1.1"))
        }
    }

    @Test(arguments: 0..<20)
    func mutatedMessagesAreReadOrRefused(seed: Int) throws {
        var random = RandomValues(seed: UInt64(seed) << 20)
        var read = 0
        for _ in 0..<200 {
            let octets = try message(&random)
            for _ in 0..<10 {
                var mutated = octets
                for _ in 0..<Int.random(in: 1...6, using: &random.generator) {
                    let place = Int.random(in: 0..<mutated.count, using: &random.generator)
                    mutated[place] =
                        Bool.random(using: &random.generator)
                        ? UInt8.random(in: 0...255, using: &random.generator)
                        : mutated[place] ^ 1 << UInt8.random(in: 0...7, using: &random.generator)
                }
                if RawMessage.read(mutated, { Self.readAll($0) }) != nil { read += 1 }
            }
        }
        #expect(read > 0, "some are messages still")
    }

    @Test func truncatedMessagesAreRefused() throws {
        var random = RandomValues(seed: 3)
        for _ in 0..<20 {
            let octets = try message(&random)
            for count in 0..<octets.count { #expect(RawMessage.values(Array(octets.prefix(count))) == nil) }
            #expect(RawMessage.values(octets) != nil)
        }
        #expect(RawMessage.values([]) == nil)
    }

    @Test func aMessageOfTheOtherByteOrderIsReadAlike() throws {
        // A signal "/a" a.b.C with (u 1, q 2, ay 3 4), big-endian, by hand.
        func field(_ code: UInt8, _ type: UInt8, _ text: String) -> [UInt8] {
            [code, 1, type, 0] + (type == 0x67 ? [UInt8(text.utf8.count)] : [0, 0, 0, UInt8(text.utf8.count)])
                + Array(text.utf8) + [0]
        }
        var fields: [UInt8] = []
        for (code, type, text) in [(1, 0x6F, "/a"), (2, 0x73, "a.b"), (3, 0x73, "C"), (8, 0x67, "uqay")] {
            fields += [UInt8](repeating: 0, count: (8 - fields.count % 8) % 8)
            fields += field(UInt8(code), UInt8(type), text)
        }
        let padding = [UInt8](repeating: 0, count: (8 - fields.count % 8) % 8)
        let body: [UInt8] = [0, 0, 0, 1, 0, 2, 0, 0, 0, 0, 0, 2, 3, 4]
        let octets: [UInt8] =
            [0x42, 4, 0, 1, 0, 0, 0, UInt8(body.count), 0, 0, 0, 9, 0, 0, 0, UInt8(fields.count)] + fields + padding
            + body
        #expect(RawMessage.values(octets) == [.uint32(1), .uint16(2), .bytes([3, 4])])
    }

    @Test func moreValuesThanAMessageMayHoldAreNotRead() throws {
        let many = DBusValue.array([DBusValue](repeating: .byte(1), count: ValueReader.mostValues), of: "y")
        let octets = RawMessage.octets(of: try OwnedMessage.signal("/", "a.b", "C", [many], to: nil))
        #expect(RawMessage.values(octets)?.first?.byteValues?.count == ValueReader.mostValues)
        let flags = DBusValue.array([DBusValue](repeating: .bool(true), count: ValueReader.mostValues), of: "b")
        let message = try OwnedMessage.signal("/", "a.b", "C", [flags], to: nil)
        let found = RawMessage.octets(of: message)
        #expect(RawMessage.values(found) == nil)
        #expect(DBusSignal(message.pointer).arguments().isEmpty)
    }

    @Test func aPeerThatSaysNothingIsGivenUp() async throws {
        let silent = try FakeBus { try $0.drain() }
        let deaf = try FakeBus { peer in
            try peer.authenticate()
            try peer.drain()
        }
        for bus in [silent, deaf] {
            let error = await #expect(throws: DBusError.self) {
                try await DBusConnection.open(.address(bus.address), timeout: .milliseconds(50))
            }
            guard case .timedOut = error else {
                Issue.record("\(String(describing: error))")
                continue
            }
            let address = bus.address
            let opening = Task { try await DBusConnection.open(.address(address), timeout: .seconds(100_000_000_000)) }
            try await Task.sleep(for: .milliseconds(20))
            opening.cancel()
            #expect(await opening.result.failure as? DBusError == .cancelled)
        }
    }

    @Test func rubbishFromTheBusEndsTheConnection() async throws {
        let rubbish: [[UInt8]] = [
            [], Array("HTTP/1.1 400 Bad Request\r\n\r\n".utf8), [UInt8](repeating: 0, count: 64),
            [UInt8](repeating: 0xFF, count: 4096), [0x6C, 1, 0, 1, 0xFF, 0xFF, 0xFF, 0x7F, 1, 0, 0, 0, 0, 0, 0, 0],
        ]
        for octets in rubbish {
            let bus = try FakeBus { peer in
                try peer.greet()
                _ = try peer.next()
                try peer.send(octets)
                shutdown(peer.socket, Int32(SHUT_WR))
                try peer.drain()
            }
            let connection = try await DBusConnection.open(.address(bus.address))
            await #expect(throws: DBusError.disconnected) { try await connection.bus("GetId") }
            await connection.closed()
        }
    }

    @Test func answersOfTheWrongTypesAreErrors() async throws {
        let answers: [[DBusValue]] = [[], [.int32(1)], [.bytes([0])], [.variant(.string("a"))]]
        for values in answers {
            let bus = try FakeBus { peer in
                try peer.greet()
                try peer.serve { member in
                    switch member {
                    case "AddMatch": return []
                    case "GetId": return [.string("id")]
                    case "GetNameOwner":
                        // An answer that nobody waits for, and a change of owner that is none.
                        try peer.send(try OwnedMessage.reply(to: ReplyAddress(sender: ":1.1", serial: 77), values))
                        try peer.send(
                            try OwnedMessage.signal(
                                "/org/freedesktop/DBus", "org.freedesktop.DBus", "NameOwnerChanged", values, to: nil))
                        return values
                    default: return nil
                    }
                }
            }
            let connection = try await DBusConnection.open(.address(bus.address))
            let isText = values.first?.stringValue != nil
            do {
                let signals = try await connection.signals(DBusMatch(sender: "a.b")) { _ in 1 }
                #expect(isText)
                withExtendedLifetime(signals) {}
            } catch {
                guard case .unexpectedReply = error, !isText else {
                    Issue.record("\(error)")
                    continue
                }
            }
            #expect(try await connection.bus("GetId") == [.string("id")])
            try await until { await connection.subscriptions == [0, 0] }
            await connection.close()
        }
    }

    @Test func mutatedMessagesOverASocketNeverBreakMoreThanTheConnection() async throws {
        for seed in 0..<60 {
            let bus = try FakeBus { peer in
                try peer.greet()
                try peer.answer([])
                var random = RandomValues(seed: UInt64(seed))
                for _ in 0..<20 {
                    var octets = RawMessage.octets(
                        of: try OwnedMessage.signal("/a", "a.b", "C", random.small(), to: nil))
                    for _ in 0..<3 {
                        octets[Int.random(in: 0..<octets.count, using: &random.generator)] ^=
                            UInt8.random(in: 1...255, using: &random.generator)
                    }
                    try peer.send(octets)
                }
                shutdown(peer.socket, Int32(SHUT_WR))
                try peer.drain()
            }
            let connection = try await DBusConnection.open(.address(bus.address))
            let signals = try await connection.signals(DBusMatch()) { $0.arguments().count }
            await #expect(throws: DBusError.disconnected) {
                for try await _ in signals {}
            }
            await connection.closed()
        }
    }
}

extension RandomValues {
    /// Arguments whose signature fits into a message.
    fileprivate mutating func small() -> [DBusValue] {
        while true {
            let values = arguments()
            if Name.signature.accepts(values.signature) { return values }
        }
    }
}

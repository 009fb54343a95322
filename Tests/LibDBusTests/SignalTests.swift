import Foundation
import TestBus
import TestSupport
import Testing

@testable import LibDBus

@Suite(.enabled(if: TestBus.isInstalled, "dbus-daemon is not installed"), .timeLimit(.minutes(10)))
struct SignalTests {
    @Test func aHundredThousandSignalsComeInOrderAndNoneIsLost() async throws {
        let bus = try await TestBus.start()
        let (sender, receiver) = (try await bus.connect(), try await bus.connect())
        let signals = try await receiver.signals(
            DBusMatch(interface: "org.freedesktop.DBus.Properties", member: "PropertiesChanged", arg0: "test.Value")
        ) { signal -> UInt32? in
            var number: UInt32?
            signal.forEachChangedProperty { property in
                guard property.isNamed("Value"), let octets = property.bytes, octets.count == 4 else { return }
                number = octets.reduce(0) { $0 << 8 | UInt32($1) }
            }
            return number
        }
        let count: UInt32 = 100_000
        let sending = Task {
            for start in stride(from: 0, to: count, by: 500) { try await sender.emitNumbers(start..<start + 500) }
        }
        var next: UInt32 = 0
        for try await burst in signals {
            #expect(!burst.isEmpty)
            for number in burst {
                if number != next { Issue.record("expected \(next), found \(number)") }
                next = number + 1
            }
            if next == count { break }
        }
        try await sending.value
    }

    @Test func aHundredChangesASecondAreEachHeard() async throws {
        let bus = try await TestBus.start()
        let (sender, receiver) = (try await bus.connect(), try await bus.connect())
        let signals = try await receiver.signals(DBusMatch(member: "PropertiesChanged")) { signal -> Int? in
            var value: Int?
            signal.forEachChangedProperty { if $0.isNamed("RSSI") { value = $0.intValue } }
            return value
        }
        let sending = Task {
            for number in 0..<200 {
                try await sender.emitSignal(
                    "/value", "org.freedesktop.DBus.Properties", "PropertiesChanged",
                    [.string("test.Value"), .properties(["RSSI": .int16(Int16(number))]), .array([], of: "s")])
                try await Task.sleep(for: .milliseconds(10))
            }
        }
        var seen: [Int] = []
        for try await burst in signals {
            seen += burst
            if seen.count == 200 { break }
        }
        #expect(seen == Array(0..<200))
        try await sending.value
    }

    @Test func whatOneWakeUpBroughtIsOneBurst() async throws {
        let bus = try await TestBus.start()
        let (sender, receiver) = (try await bus.connect(), try await bus.connect())
        let signals = try await receiver.signals(DBusMatch(interface: "test.Burst")) { $0.argument(0)?.intValue }
        for number in 0..<50 { try await sender.emitSignal("/", "test.Burst", "Number", [.int32(Int32(number))]) }
        try await sender.flush()
        // An answer comes behind the signals that came before it, so all have come; nothing was taken yet.
        _ = try await sender.bus("GetId")
        _ = try await receiver.bus("GetId")
        var iterator = signals.makeAsyncIterator()
        #expect(try await iterator.next() == Array(0..<50))
    }

    @Test func signalsThatStreamInAreHandedOverInFewBurstsAndCallsAreAnsweredMeanwhile() async throws {
        let bus = try await TestBus.start()
        let (sender, receiver) = (try await bus.connect(), try await bus.connect())
        let signals = try await receiver.signals(DBusMatch(interface: "test.Burst")) { $0.argument(0)?.intValue }
        let count = 2000
        let sending = Task {
            for number in 0..<count {
                try await sender.emitSignal("/", "test.Burst", "Number", [.int32(Int32(number))])
                try await sender.flush()
                if number % 200 == 0 { _ = try await receiver.bus("GetId") }
            }
        }
        var (seen, bursts) = ([Int](), 0)
        for try await burst in signals {
            seen += burst
            bursts += 1
            if seen.count == count { break }
        }
        try await sending.value
        #expect(seen == Array(0..<count))
        #expect(bursts <= count / 2, "\(bursts) bursts")
    }

    @Test func signalsAreHandedOverBeforeAnAnswerThatCameAfterThem() async throws {
        let bus = try await TestBus.start()
        let (server, client) = (try await bus.connect(), try await bus.connect())
        try await server.export("/a", interface: "test.Order") { [weak server] call in
            for number in 0..<10 {
                try await server?.emitSignal("/a", "test.Order", "Before", [.int32(Int32(number))])
            }
            return call.arguments
        }
        let signals = try await client.signals(DBusMatch(interface: "test.Order")) { $0.argument(0)?.intValue }
        var iterator = signals.makeAsyncIterator()
        for _ in 0..<50 {
            _ = try await client.call(server.uniqueName, "/a", "test.Order", "Go")
            #expect(try await iterator.next() == Array(0..<10))
        }
    }

    @Test func rulesChooseBySenderPathInterfaceMemberAndArgument() async throws {
        let bus = try await TestBus.start()
        let (sender, other, receiver) = (try await bus.connect(), try await bus.connect(), try await bus.connect())
        let rules: [(DBusMatch, [String])] = [
            (DBusMatch(interface: "test.A"), ["a", "b", "c", "d", "e", "f", "o", "z"]),
            (DBusMatch(sender: sender.uniqueName, interface: "test.A"), ["a", "b", "c", "d", "e", "f", "z"]),
            (DBusMatch(sender: other.uniqueName, interface: "test.A"), ["o"]),
            (DBusMatch(path: "/x", interface: "test.A"), ["a", "b", "o", "z"]),
            (DBusMatch(pathNamespace: "/x", interface: "test.A"), ["a", "b", "c", "o", "z"]),
            (DBusMatch(pathNamespace: "/", interface: "test.A"), ["a", "b", "c", "d", "e", "f", "o", "z"]),
            (DBusMatch(interface: "test.A", member: "Second"), ["b"]),
            (DBusMatch(interface: "test.A", arg0: "c"), ["c"]),
            (DBusMatch(interface: "test.A", arg0Path: "/p/"), ["e"]),
            (DBusMatch(interface: "test.A", arg0Namespace: "org.test"), ["f"]),
        ]
        var streams: [DBusSignals<String>] = []
        for rule in rules {
            streams.append(
                try await receiver.signals(rule.0) { signal in
                    guard let last = signal.arguments().last else { return nil }
                    return last.stringValue
                })
        }
        func emit(_ by: DBusConnection, _ path: String, _ member: String, _ arguments: [DBusValue]) async throws {
            try await by.emitSignal(path, "test.A", member, arguments)
        }
        try await emit(sender, "/x", "First", [.string("a")])
        try await emit(sender, "/x", "Second", [.string("b")])
        try await emit(sender, "/x/y", "First", [.string("c")])
        try await emit(sender, "/xy", "First", [.string("d")])
        try await emit(sender, "/", "First", [.objectPath("/p/q"), .string("e")])
        try await emit(sender, "/", "First", [.string("org.test.Name"), .string("f")])
        try await sender.emitSignal("/x", "test.B", "First", [.string("g")])
        _ = try await sender.bus("GetId")
        try await emit(other, "/x", "First", [.string("o")])
        _ = try await other.bus("GetId")
        try await emit(sender, "/x", "First", [.string("z")])
        _ = try await sender.bus("GetId")
        _ = try await receiver.bus("GetId")
        for (stream, rule) in zip(streams, rules) {
            var iterator = stream.makeAsyncIterator()
            #expect(try await iterator.next() == rule.1, "\(rule.0)")
        }
    }

    @Test func aWellKnownNameIsFollowedToItsOwner() async throws {
        let bus = try await TestBus.start()
        let receiver = try await bus.connect()
        let signals = try await receiver.signals(DBusMatch(sender: "test.Name", interface: "test.A")) {
            $0.argument(0)?.stringValue
        }
        let (first, second) = (try await bus.connect(), try await bus.connect())
        try await first.emitSignal("/", "test.A", "B", [.string("too early")])
        try await first.own("test.Name")
        try await first.emitSignal("/", "test.A", "B", [.string("first")])
        try await second.emitSignal("/", "test.A", "B", [.string("another")])
        // Straight to the receiver, past the bus's rules.
        try await second.emitSignal("/", "test.A", "B", [.string("forged")], to: receiver.uniqueName)
        _ = try await second.bus("GetId")
        #expect(try await first.bus("ReleaseName", [.string("test.Name")]) == [.uint32(1)])
        try await first.emitSignal("/", "test.A", "B", [.string("too late")], to: receiver.uniqueName)
        _ = try await first.bus("GetId")
        try await second.own("test.Name")
        try await second.emitSignal("/", "test.A", "B", [.string("second")])
        _ = try await second.bus("GetId")
        // Who comes when the name is owned already finds its owner.
        let late = try await receiver.signals(DBusMatch(sender: "test.Name", interface: "test.A")) {
            $0.argument(0)?.stringValue
        }
        try await second.emitSignal("/", "test.A", "B", [.string("last")])
        #expect(try await take(signals, 3) == ["first", "second", "last"])
        #expect(try await take(late, 1) == ["last"])
        try await until { await receiver.subscriptions == [0, 0] }
    }

    private func take(_ signals: DBusSignals<String>, _ count: Int) async throws -> [String] {
        var result: [String] = []
        for try await burst in signals {
            result += burst
            if result.count >= count { break }
        }
        return result
    }

    @Test func theRuleIsTakenOffTheBusWhenTheIterationEnds() async throws {
        let bus = try await TestBus.start()
        let receiver = try await bus.connect()
        func rules() async throws -> Int {
            let answer = try await receiver.call(
                "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus.Debug.Stats",
                "GetConnectionStats",
                [.string(receiver.uniqueName)])
            return answer.first?.stringKeyed?["MatchRules"]?.intValue ?? -1
        }
        #expect(try await rules() == 0)
        let broken = try await receiver.signals(DBusMatch(sender: "test.Name")) { _ in 1 }
        #expect(try await rules() == 2)
        try await receiver.emitSignal("/", "a.b", "C")
        let cancelled = try await receiver.signals(DBusMatch(interface: "a.b")) { _ in 1 }
        try await receiver.emitSignal("/", "a.b", "C")
        for try await _ in cancelled { break }
        try await until { try await rules() == 2 }
        let task = Task { for try await _ in broken {} }
        task.cancel()
        await #expect(throws: Never.self) { try await task.value }
        try await until { try await rules() == 0 }
        do { _ = try await receiver.signals(DBusMatch()) { _ in 1 } }
        try await until { try await rules() == 0 }
        let twice = try await receiver.signals(DBusMatch(interface: "a.b")) { _ in 1 }
        var (one, two) = (twice.makeAsyncIterator(), twice.makeAsyncIterator())
        #expect(try await two.next() == nil)
        try await receiver.emitSignal("/", "a.b", "C")
        #expect(try await one.next() == [1])
    }

    @Test func whatTheBusRefusesLeavesNothingBehind() async throws {
        let bus = try await TestBus.start()
        let receiver = try await bus.connect()
        await #expect(throws: DBusError.self) {
            try await receiver.signals(DBusMatch(arg0Namespace: "not..valid")) { _ in 1 }
        }
        #expect(await receiver.subscriptions == [0, 0])
    }

    @Test func signalsOfTheWrongTypesAreReadAsFarAsTheyGo() async throws {
        let bus = try await TestBus.start()
        let (sender, receiver) = (try await bus.connect(), try await bus.connect())
        let signals = try await receiver.signals(DBusMatch(member: "PropertiesChanged")) { signal -> String in
            var found: [String] = []
            let isOne = signal.forEachChangedProperty { property in
                found.append(
                    "\(property.name):\(property.bytes?.count ?? -1):\(property.intValue ?? -1):"
                        + "\(property.stringValue ?? "-"):\(property.boolValue.map(String.init) ?? "-"):"
                        + (property.value?.signature ?? "-"))
            }
            return "\(isOne) \(found.sorted()) \(signal.invalidatedProperties())"
        }
        let bodies: [([DBusValue], String)] = [
            ([], "false [] []"), ([.string("a.b")], "false [] []"),
            ([.string("a.b"), .dictionary([:], key: "s", value: "s"), .array([], of: "s")], "false [] []"),
            ([.objectPath("/"), .properties([:]), .array([], of: "s")], "false [] []"),
            ([.string("a.b"), .properties([:]), .array([.string("X")], of: "s")], "true [] [\"X\"]"),
            (
                [
                    .string("a.b"),
                    .properties([
                        "A": .string("x"), "B": .bytes([]), "C": .bytes([1, 2]), "D": .variant(.variant(.bytes([1]))),
                        "E": .array([.byte(1)], of: "y"), "F": .bool(true), "G": .uint64(.max),
                        "": .structure([.byte(3)]),
                    ]), .array([], of: "s"),
                ],
                "true [\":-1:-1:-:-:(y)\", \"A:-1:-1:x:-:s\", \"B:0:-1:-:-:ay\", \"C:2:-1:-:-:ay\", "
                    + "\"D:-1:-1:-:-:v\", \"E:1:-1:-:-:ay\", \"F:-1:-1:-:true:b\", \"G:-1:-1:-:-:t\"] []"
            ),
        ]
        for body in bodies {
            try await sender.emitSignal("/", "org.freedesktop.DBus.Properties", "PropertiesChanged", body.0)
        }
        var found: [String] = []
        for try await burst in signals {
            found += burst
            if found.count >= bodies.count { break }
        }
        #expect(found == bodies.map(\.1))
    }
}

extension DBusConnection {
    /// Emits a change of a value of four octets for each number, and waits until they are written.
    fileprivate func emitNumbers(_ numbers: Range<UInt32>) async throws {
        for number in numbers {
            let octets = [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: number >> $0) }
            try emitSignal(
                "/value", "org.freedesktop.DBus.Properties", "PropertiesChanged",
                [.string("test.Value"), .properties(["Value": .bytes(octets)]), .array([], of: "s")])
        }
        try await flush()
    }
}

import Foundation
import TestSupport
import Testing

@testable import LibDBus

@Suite(.timeLimit(.minutes(5))) struct ValueTests {
    /// A value through libdbus' own encoding.
    private func throughTheWire(_ values: [DBusValue]) throws -> [DBusValue]? {
        let octets = RawMessage.octets(of: try OwnedMessage.signal("/a", "b.c", "D", values, to: nil))
        return RawMessage.values(octets)
    }

    @Test(arguments: 0..<40)
    func valuesOfEveryTypeAreReadAsTheyWereWritten(seed: Int) throws {
        var random = RandomValues(seed: UInt64(seed))
        for _ in 0..<50 {
            let values = random.arguments()
            // A message's signature has at most 255 letters.
            guard Name.signature.accepts(values.signature) else { continue }
            #expect(try throughTheWire(values) == values)
        }
    }

    @Test func emptyContainersKeepTheirTypes() throws {
        let values: [DBusValue] = [
            .bytes([]), .array([], of: "a{sv}"), .array([], of: "(ii)"), .dictionary([:], key: "o", value: "a{sv}"),
            .variant(.array([], of: "s")), .string(""), .signature(""),
        ]
        #expect(try throughTheWire(values) == values)
        #expect(values.signature == "ayaa{sv}a(ii)a{oa{sv}}vsg")
    }

    @Test func containersMayBeAsDeepAsTheSpecificationSays() throws {
        var value = DBusValue.byte(1)
        for _ in 0..<64 { value = .variant(value) }
        #expect(try throughTheWire([value]) == [value])
        #expect(throws: DBusError.self) { try throughTheWire([.variant(value)]) }
        var array = DBusValue.bool(true)
        for _ in 0..<32 { array = .array([array], of: array.signature) }
        #expect(try throughTheWire([array]) == [array])
        #expect(throws: DBusError.self) { try throughTheWire([.array([array], of: array.signature)]) }
        var mixed = DBusValue.string("x")
        for _ in 0..<16 { mixed = .dictionary([.byte(1): .variant(mixed)], key: "y", value: "v") }
        #expect(throws: Never.self) { try throughTheWire([mixed]) }
        for _ in 0..<6 { mixed = .dictionary([.byte(1): .variant(mixed)], key: "y", value: "v") }
        #expect(throws: DBusError.self) { try throughTheWire([mixed]) }
    }

    static let wrong: [DBusValue] = [
        .string("a\0b"), .objectPath("a"), .objectPath(""), .objectPath("/a/"), .objectPath("/a\0"), .signature("a"),
        .signature("{sv}"), .signature("\0"), .structure([]), .array([.int32(1)], of: "s"), .array([], of: ""),
        .array([], of: "ss"), .array([], of: "a"), .array([], of: "z"), .array([], of: "s\0"),
        .dictionary([:], key: "v", value: "s"), .dictionary([:], key: "as", value: "s"),
        .dictionary([:], key: "s", value: ""), .dictionary([:], key: "s", value: "ss"),
        .dictionary([.string("a"): .int16(1)], key: "s", value: "v"),
        .dictionary([.byte(1): .int16(1)], key: "s", value: "n"), .variant(.string("\0")), .variant(.structure([])),
        .array([.structure([.byte(1)]), .structure([.bool(true)])], of: "(y)"),
        .string(String(repeating: "x", count: 1 << 27)), .bytes([UInt8](repeating: 0, count: (1 << 26) + 1)),
        .signature(String(repeating: "s", count: 256)), .objectPath("/ä"),
        .array([], of: String(repeating: "a", count: 33) + "y"),
        .structure((0..<256).map { _ in .byte(0) }),
    ]

    @Test(arguments: wrong.indices)
    func wrongValuesAreRefusedBeforeLibdbusSeesThem(index: Int) {
        let value = Self.wrong[index]
        for value in [value, .variant(value), .array([value], of: value.signature), .structure([value])] {
            let error = #expect(throws: DBusError.self) { try throughTheWire([value]) }
            guard case .invalidArgument = error else {
                Issue.record("\(String(describing: error))")
                return
            }
        }
    }

    @Test func wrongNamesAreRefusedBeforeLibdbusSeesThem() {
        let long = String(repeating: "a.", count: 128) + "a"
        for name in ["", "a", "a..b", ".a.b", "a.b.", "1.2", "a.b\0", "ä.ö", " a.b", long] {
            #expect(throws: DBusError.self) { _ = try OwnedMessage.call(name, "/", "a.b", "C", []) }
            #expect(throws: DBusError.self) { _ = try OwnedMessage.call("a.b", "/", name, "C", []) }
            #expect(throws: DBusError.self) { _ = try OwnedMessage.signal("/", name, "C", [], to: nil) }
            #expect(throws: DBusError.self) { _ = try OwnedMessage.signal("/", "a.b", "C", [], to: name) }
        }
        for member in ["", "a.b", "1a", "ä", "a b", "a\0", String(repeating: "a", count: 256)] {
            #expect(throws: DBusError.self) { _ = try OwnedMessage.call("a.b", "/", "a.b", member, []) }
        }
        for path in ["", "a", "/a/", "//", "/a\0", "/a b", "/org/freedesktop/DBus/Local"] {
            #expect(throws: DBusError.self) { _ = try OwnedMessage.call("a.b", path, "a.b", "C", []) }
            #expect(throws: DBusError.self) { try DBusMatch(path: path.isEmpty ? "x" : path + "\0").text() }
        }
        #expect(throws: DBusError.self) { _ = try OwnedMessage.call("a.b", "/", "org.freedesktop.DBus.Local", "C", []) }
    }

    @Test func accessorsLookThroughVariantsAndAnswerNilForOtherTypes() {
        let text = DBusValue.variant(.variant(.string("a")))
        #expect(text.stringValue == "a" && text.objectPathValue == nil && text.boolValue == nil)
        #expect(text.intValue == nil && text.byteValues == nil && text.arrayValue == nil && text.stringKeyed == nil)
        #expect(DBusValue.variant(.uint64(.max)).intValue == nil)
        #expect(DBusValue.int16(-3).intValue == -3 && DBusValue.byte(7).intValue == 7)
        #expect(DBusValue.bool(true).intValue == nil && DBusValue.uint32(1).boolValue == nil)
        #expect(DBusValue.variant(.bytes([1, 2])).byteValues == [1, 2])
        #expect(DBusValue.array([.byte(1)], of: "y").byteValues == [1])
        #expect(DBusValue.array([.string("a"), .string("b")], of: "s").stringValues == ["a", "b"])
        #expect(DBusValue.array([.string("a"), .int32(1)], of: "s").stringValues == nil)
        #expect(DBusValue.objectPath("/a").objectPathValue == "/a" && DBusValue.objectPath("/a").stringValue == nil)
        #expect(DBusValue.double(0.5).doubleValue == 0.5 && DBusValue.structure([text]).structureValue == [text])
        let properties = DBusValue.properties(["A": .bool(true), "B": .variant(.byte(1))])
        #expect(properties.stringKeyed == ["A": .variant(.bool(true)), "B": .variant(.byte(1))])
        #expect(properties.signature == "a{sv}" && properties.dictionaryValue?.count == 2)
        #expect(DBusValue.dictionary([.byte(1): .byte(1)], key: "y", value: "y").stringKeyed == nil)
    }

    @Test func matchRulesAreQuotedAndChecked() throws {
        let rule = DBusMatch(
            sender: "org.bluez", pathNamespace: "/org/bluez", interface: "a.b", member: "C", arg0: "it's, 'so'")
        let text = try rule.text()
        #expect(
            text == "type='signal',sender='org.bluez',path_namespace='/org/bluez',interface='a.b',member='C',"
                + #"arg0='it'\''s, '\''so'\'''"#)
        #expect(try DBusMatch(arg0: "a'\u{301}b").text() == "type='signal',arg0='a'\\''\u{301}b'")
        #expect(throws: DBusError.self) { try DBusMatch(path: "/", pathNamespace: "/").text() }
        #expect(throws: DBusError.self) { try DBusMatch(arg0: "\0").text() }
        #expect(throws: DBusError.self) { try DBusMatch(sender: "'").text() }
    }

    @Test func callsRunOutOfTimeInTheirOrderHoweverManyAreAnswered() async {
        // What waits for them is not asked here.
        var pending = PendingCalls()
        let start = SuspendingClock.now
        var generator = SeededGenerator(seed: 5)
        var expected: [UInt32: SuspendingClock.Instant] = [:]
        for serial in UInt32(1)...2000 {
            let deadline = start + .milliseconds(Int.random(in: 0..<500, using: &generator))
            expected[serial] = deadline
            let waiter = await Task.detached { await Self.continuation() }.value
            pending.add(
                PendingCalls.Call(deadline: deadline, description: "\(serial)", continuation: waiter), serial: serial)
        }
        for serial in UInt32(1)...2000 where Bool.random(using: &generator) {
            expected[serial] = nil
            pending.take(serial)?.continuation.resume(returning: .success([]))
            #expect(pending.nextDeadline == expected.values.min())
        }
        var last = start
        while let call = pending.takeExpired(at: start + .seconds(1)) {
            #expect(call.deadline >= last)
            last = call.deadline
            expected[UInt32(call.description) ?? 0] = nil
            call.continuation.resume(returning: .success([]))
        }
        #expect(expected.isEmpty && pending.nextDeadline == nil)
    }

    /// A continuation whose task waits in the background.
    private static func continuation() async -> CheckedContinuation<PendingCalls.Answer, Never> {
        await withCheckedContinuation { outer in
            Task { _ = await withCheckedContinuation { outer.resume(returning: $0) } }
        }
    }

    @Test func fileDescriptorsAreClosedWithTheirLastOwner() throws {
        var pipe: [Int32] = [0, 0]
        try #require(Foundation.pipe(&pipe) == 0)
        let (reading, writing) = (pipe[0], pipe[1])
        defer { Foundation.close(reading) }
        #expect(fcntl(reading, F_SETFL, O_NONBLOCK) == 0)
        var octet: UInt8 = 0
        do {
            let owned = try DBusFileDescriptor(owning: writing)
            let copy = try DBusFileDescriptor(duplicating: writing).duplicate()
            #expect(fcntl(copy, F_GETFD) & FD_CLOEXEC != 0)
            Foundation.close(copy)
            #expect(Foundation.read(reading, &octet, 1) == -1, "the owner still has it open")
            #expect(owned == owned)
        }
        #expect(Foundation.read(reading, &octet, 1) == 0, "nobody has it open any more")
        #expect(throws: DBusError.self) { try DBusFileDescriptor(owning: -1) }
        #expect(throws: DBusError.self) { try DBusFileDescriptor(duplicating: 1 << 20) }
    }
}

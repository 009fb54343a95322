@testable import LibDBus

extension FuzzTarget {
    /// A message of the bus. An even first octet: the rest is the message; else it is the length of the signature, which
    /// follows, and the body is what comes then: a header that is right gets more of them past libdbus.
    static let busMessage = FuzzTarget(
        "bus-message", longest: 1024,
        words: [
            "sa{sv}as", "a{oa{sa{sv}}}", "ay", "(ybnqiuxtdsog)", "v", "Value", "org.bluez.GattCharacteristic1",
            "PropertiesChanged", "org.freedesktop.DBus.Properties", "/org/bluez/hci0", "NameOwnerChanged",
        ],
        seeds: { _ in try BusMessages.seeds() }
    ) { octets in
        _ = RawMessage.read(BusMessages.message(octets)) { message in
            BusMessages.readSignal(message)
            guard let values = try? ValueReader.arguments(of: message.pointer) else { return }
            expect(values.signature == message.signature, "the values have another type than the message")
            do {
                let again = RawMessage.octets(of: try OwnedMessage.signal("/a", "b.c", "D", values, to: nil))
                let reread = RawMessage.values(again)
                if values.allSatisfy(BusMessages.isComparable) {
                    expect(reread == values, "values are not what is written of them")
                } else {
                    expect(reread?.signature == values.signature, "values lose their type when they are written")
                }
            } catch {
                fatalError("what was read cannot be written: \(error)")
            }
        }
    }
}

private enum BusMessages {
    static func seeds() throws -> [[UInt8]] {
        let value = DBusValue.bytes([0x02, 5, 0, 0xEA, 7, 11, 20, 12, 30, 0, 95, 0xB0, 0x11])
        let every: [DBusValue] = [
            .byte(1), .bool(true), .int16(-2), .uint16(3), .int32(-4), .uint32(5), .int64(-6), .uint64(7), .double(0.5),
            .string("text"), .objectPath("/a/b"), .signature("a{sv}"),
        ]
        let device = DBusValue.properties([
            "Address": .string("C0:00:00:00:18:08"), "RSSI": .int16(-60), "Paired": .bool(false),
            "ManufacturerData": .dictionary([.uint16(0x0170): .variant(value)], key: "q", value: "v"),
            "UUIDs": .array([.string("00001808-0000-1000-8000-00805f9b34fb")], of: "s"),
        ])
        let object = DBusValue.dictionary([.string("org.bluez.Device1"): device], key: "s", value: "a{sv}")
        var deep = DBusValue.byte(1)
        for _ in 0..<20 { deep = .variant(.structure([deep])) }
        let bodies: [(String, String, [DBusValue])] = [
            (
                "org.freedesktop.DBus.Properties", "PropertiesChanged",
                [
                    .string("org.bluez.GattCharacteristic1"), .properties(["Value": value]),
                    .array([.string("Notifying")], of: "s"),
                ]
            ),
            (
                "org.freedesktop.DBus.ObjectManager", "InterfacesAdded",
                [.objectPath("/org/bluez/hci0/dev_C0_00_00_00_18_08"), object]
            ),
            (
                "org.freedesktop.DBus", "NameOwnerChanged",
                [.string("org.bluez"), .string(":1.2"), .string("")]
            ),
            ("test.Every", "Type", every), ("test.Every", "Structure", [.structure(every), .array([], of: "(ss)")]),
            ("test.Every", "Deep", [deep]),
        ]
        return try bodies.flatMap { interface, member, values -> [[UInt8]] in
            let octets = RawMessage.octets(
                of: try OwnedMessage.signal("/org/bluez/hci0", interface, member, values, to: nil))
            let signature = [UInt8](values.signature.utf8)
            let length = octets[4...7].reversed().reduce(0) { $0 << 8 | Int($1) }
            let body: [UInt8] = [UInt8(signature.count << 1 | 1)] + signature + octets.suffix(length)
            return [[0] + octets, body]
        }
    }

    /// The message an input stands for.
    static func message(_ input: [UInt8]) -> [UInt8] {
        guard let first = input.first, first & 1 == 1 else { return Array(input.dropFirst()) }
        let signature = input.dropFirst().prefix(Int(first >> 1))
        let body = input.dropFirst(1 + signature.count)
        var fields: [UInt8] = []
        func add(_ code: UInt8, _ type: Character, _ text: some Collection<UInt8>) {
            fields += [UInt8](repeating: 0, count: (8 - fields.count % 8) % 8)
            let length = UInt8(truncatingIfNeeded: text.count)
            fields += [code, 1, type.asciiValue ?? 0, 0, length]
            if type != "g" { fields += [0, 0, 0] }
            fields += text
            fields.append(0)
        }
        add(1, "o", "/org/bluez/hci0".utf8)
        add(2, "s", "org.freedesktop.DBus.Properties".utf8)
        add(3, "s", "PropertiesChanged".utf8)
        add(8, "g", signature)
        let padding = [UInt8](repeating: 0, count: (8 - fields.count % 8) % 8)
        func word(_ value: Int) -> [UInt8] { (0..<4).map { UInt8(truncatingIfNeeded: value >> (8 * $0)) } }
        let head: [UInt8] = [0x6C, 4, 0, 1] + word(body.count) + word(1) + word(fields.count)
        return head + fields + padding + body
    }

    /// Everything that a subscription reads of a signal.
    static func readSignal(_ message: borrowing OwnedMessage) {
        let signal = DBusSignal(message.pointer)
        _ = (signal.sender, signal.path, signal.interface, signal.member, signal.invalidatedProperties())
        _ = (signal.argument(0), signal.argument(3), signal.isChange(of: "org.bluez.GattCharacteristic1"))
        signal.forEachChangedProperty { property in
            _ = (property.name, property.isNamed("Value"), property.stringValue, property.intValue, property.boolValue)
            expect(
                property.value?.byteValues ?? [] == property.bytes ?? [] || property.bytes == nil, "the octets differ")
        }
        for rule in [
            DBusMatch(sender: ":1.1", path: "/a"), DBusMatch(pathNamespace: "/org", interface: "test.Every"),
            DBusMatch(arg0: "org.bluez"), DBusMatch(arg0Path: "/org/"), DBusMatch(arg0Namespace: "org"),
        ] { _ = SignalRule(rule, owner: nil).matches(signal) }
    }

    /// Whether a value equals itself: a number that is none does not.
    static func isComparable(_ value: DBusValue) -> Bool {
        switch value {
        case .double(let number): !number.isNaN
        case .array(let elements, _), .structure(let elements): elements.allSatisfy(isComparable)
        case .dictionary(let entries, _, _): entries.allSatisfy { isComparable($0.key) && isComparable($0.value) }
        case .variant(let inner): isComparable(inner)
        default: true
        }
    }
}

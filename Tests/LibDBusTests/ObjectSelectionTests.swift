import Testing

@testable import LibDBus

@Suite("Objects that are wanted of an answer")
struct ObjectSelectionTests {
    static let paths = [
        "/", "/org/bluez", "/org/bluez/hci0", "/org/bluez/hci0/dev_01", "/org/bluez/hci0/dev_01/service0010",
        "/org/bluez/hci0/dev_01/service0010/char0011", "/org/bluez/hci0/dev_010", "/org/bluez/hci01",
        "/org/bluez/hci01/dev_01",
    ]

    @Test(
        "by where their paths are",
        arguments: [
            (DBusObjects.children(of: "/"), []),
            (.children(of: "/org/bluez"), ["/org/bluez/hci0", "/org/bluez/hci01"]),
            (.children(of: "/org/bluez/hci0"), ["/org/bluez/hci0/dev_01", "/org/bluez/hci0/dev_010"]),
            (.tree(at: "/org/bluez/hci0/dev_01"), Array(paths[3...5])),
            (.tree(at: "/"), paths), (.tree(at: "/org/bluez/hci0/dev_0"), []),
        ])
    func chosen(_ wanted: DBusObjects, _ expected: [String]) throws {
        #expect(Self.paths.filter(wanted.contains) == expected)
        let objects = DBusValue.dictionary(
            Dictionary(uniqueKeysWithValues: Self.paths.map { (.objectPath($0), .bool(true)) }), key: "o", value: "b")
        let message = try OwnedMessage.signal("/", "a.b", "C", [objects, .string("behind")], to: nil)
        let values = try ValueReader.arguments(of: message.pointer, wanted)
        guard case .dictionary(let read, "o", "b") = values.first else {
            Issue.record("a dictionary of objects expected, found \(values)")
            return
        }
        #expect(Set(read.keys.compactMap(\.objectPathValue)) == Set(expected))
        #expect(values.last == .string("behind"))
    }

    @Test("what isn't wanted counts for nothing: a service of a thousand devices can be asked about one")
    func passedOver() throws {
        let many = DBusValue.array([DBusValue](repeating: .bool(true), count: ValueReader.mostValues / 2), of: "b")
        let objects = DBusValue.dictionary(
            [.objectPath("/a"): many, .objectPath("/b"): many, .objectPath("/c/d"): .array([.bool(true)], of: "b")],
            key: "o", value: "ab")
        let message = try OwnedMessage.signal("/", "a.b", "C", [objects], to: nil)
        #expect(throws: ValueReader.Failure.self) { try ValueReader.arguments(of: message.pointer) }
        #expect(try ValueReader.arguments(of: message.pointer, .tree(at: "/c")).first?.keyedCount == 1)
    }
}

extension DBusValue {
    fileprivate var keyedCount: Int? {
        if case .dictionary(let entries, _, _) = self { entries.count } else { nil }
    }
}

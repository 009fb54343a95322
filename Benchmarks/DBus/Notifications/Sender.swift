import Glibc
import LibDBus

/// Stands for bluetoothd: a connected glucose meter that, asked for its records, sends so many at a given pace, in the
/// shape and order of the real one's signals.
struct Sender {
    let connection: DBusConnection
    let count: Int
    let burst: Int
    let interval: Duration

    private static let objects: [String: [String: [String: DBusValue]]] = [
        Layout.adapter: [
            "org.bluez.Adapter1": ["Address": .string("00:00:00:00:00:01"), "Powered": .bool(true)]
        ],
        Layout.device: [
            "org.bluez.Device1": [
                "Adapter": .objectPath(Layout.adapter), "Address": .string("C0:00:00:00:18:08"),
                "AddressType": .string("random"), "Name": .string("meter"), "Alias": .string("meter"),
                "Paired": .bool(true), "Bonded": .bool(true), "Trusted": .bool(true), "Connected": .bool(true),
                "ServicesResolved": .bool(true), "UUIDs": .array([Layout.uuid("1808")], of: "s"),
            ]
        ],
        Layout.service: [
            "org.bluez.GattService1": [
                "UUID": Layout.uuid("1808"), "Device": .objectPath(Layout.device), "Primary": .bool(true),
            ]
        ],
        Layout.measurement: [
            Layout.characteristic: [
                "UUID": Layout.uuid("2a18"), "Service": .objectPath(Layout.service), "Notifying": .bool(false),
                "Flags": .array([.string("notify")], of: "s"), "MTU": .uint16(23),
            ]
        ],
        Layout.control: [
            Layout.characteristic: [
                "UUID": Layout.uuid("2a52"), "Service": .objectPath(Layout.service), "Notifying": .bool(false),
                "Flags": .array([.string("write"), .string("indicate")], of: "s"), "MTU": .uint16(23),
            ]
        ],
    ]

    func serve() async throws {
        try await connection.export("/", interface: "org.freedesktop.DBus.ObjectManager") { _ in
            let objects = Self.objects.map { path, interfaces in
                let described = interfaces.map { (DBusValue.string($0.key), DBusValue.properties($0.value)) }
                return (
                    DBusValue.objectPath(path),
                    DBusValue.dictionary(Dictionary(uniqueKeysWithValues: described), key: "s", value: "a{sv}")
                )
            }
            return [.dictionary(Dictionary(uniqueKeysWithValues: objects), key: "o", value: "a{sa{sv}}")]
        }
        try await connection.export(Layout.device, interface: "org.bluez.Device1") { call in
            if call.member == "Disconnect" { try await connection.emitDisconnect() }
            return []
        }
        for path in [Layout.measurement, Layout.control] {
            try await connection.export(path, interface: Layout.characteristic) { call in
                if call.member == "WriteValue" { Task { try await sendRecords() } }
                return []
            }
        }
        _ = try await connection.call(
            "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "RequestName",
            [.string("org.bluez"), .uint32(4)])
        print("ready")
        fflush(nil)
        await connection.closed()
    }

    private func sendRecords() async throws {
        let clock = ContinuousClock()
        var due = clock.now
        for first in stride(from: 0, to: count, by: burst) {
            try await connection.emitRecords(first..<min(first + burst, count))
            due += interval
            if due > clock.now { try await clock.sleep(until: due, tolerance: .zero) }
        }
        try await connection.emitValue([6, 0, 1, 1], of: Layout.control)
        try await connection.flush()
    }
}

extension DBusConnection {
    fileprivate func emitRecords(_ numbers: Range<Int>) async throws {
        for number in numbers {
            let minute = number * 10
            let (day, glucose) = (minute / 1440, 40 + number * 7 % 400)
            let (month, year) = (day / 28, 2020 + day / 28 / 12)
            let octets = [
                0x03, number & 0xFF, number >> 8 & 0xFF, year & 0xFF, year >> 8, month % 12 + 1, day % 28 + 1,
                minute / 60 % 24, minute % 60, number % 60, 60, 0, glucose & 0xFF, 0xB0 | glucose >> 8, 0x11,
            ]
            try emitValue(octets.map { UInt8(truncatingIfNeeded: $0) }, of: Layout.measurement)
        }
        try await flush()
    }

    fileprivate func emitDisconnect() throws {
        try emitSignal(
            Layout.device, Layout.properties, "PropertiesChanged",
            [.string("org.bluez.Device1"), .properties(["Connected": .bool(false)]), .array([], of: "s")])
    }

    fileprivate func emitValue(_ octets: [UInt8], of path: String) throws {
        try emitSignal(
            path, Layout.properties, "PropertiesChanged",
            [.string(Layout.characteristic), .properties(["Value": .bytes(octets)]), .array([], of: "s")])
    }
}

import LibDBus

/// Where the objects of the emulated service are.
enum Layout {
    static let adapter = "/org/bluez/hci0"
    static let device = adapter + "/dev_C0_00_00_00_18_08"
    static let service = device + "/service0010"
    static let measurement = service + "/char0011"
    static let control = service + "/char0014"
    static let characteristic = "org.bluez.GattCharacteristic1"
    static let properties = "org.freedesktop.DBus.Properties"

    static func uuid(_ assigned: String) -> DBusValue { .string("0000\(assigned)-0000-1000-8000-00805f9b34fb") }
}

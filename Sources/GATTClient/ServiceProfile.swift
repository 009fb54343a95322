/// A standard service: which of its characteristics bring what.
///
/// Every list of services and characteristics in the gateway is derived from ``all``, or compared with it by a test: a
/// service that is added here is found, read and replayed.
public struct ServiceProfile: Sendable, Hashable {
    /// The service.
    public var service: BluetoothUUID
    /// Values that are records, which are stored.
    public var records: [BluetoothUUID]
    /// Values that come beside the records: contexts, and what a device shows until it has measured.
    public var beside: [BluetoothUUID]
    /// Values that come while the device measures, which are shown and not stored.
    public var live: [BluetoothUUID]
    /// Values that are read: features, clocks, names.
    public var readable: [BluetoothUUID]
    /// Whether the records come when they are asked for at a record access control point, and not by themselves.
    public var isAskedFor: Bool

    private init(
        _ service: BluetoothUUID, records: [BluetoothUUID] = [], beside: [BluetoothUUID] = [],
        live: [BluetoothUUID] = [], readable: [BluetoothUUID] = [], isAskedFor: Bool = false
    ) {
        self.service = service
        self.records = records
        self.beside = beside
        self.live = live
        self.readable = readable
        self.isAskedFor = isAskedFor
    }

    /// All of them, in the order in which a device's records are read: a scale sends its weight last, and a composition
    /// that belongs to it comes before, or at once.
    public static let all: [ServiceProfile] = [
        // Glucose, continuous glucose.
        ServiceProfile(0x1808, records: [0x2A18], beside: [0x2A34], readable: [0x2A51], isAskedFor: true),
        ServiceProfile(0x181F, records: [0x2AA7], readable: [0x2AA8, 0x2AA9, 0x2AAA, 0x2AAB], isAskedFor: true),
        // Thermometer, pulse oximeter, body composition, weight, blood pressure, heart rate.
        ServiceProfile(0x1809, records: [0x2A1C], beside: [0x2A1E]),
        ServiceProfile(0x1822, records: [0x2A5E], live: [0x2A5F]),
        ServiceProfile(0x181B, records: [0x2A9C]),
        ServiceProfile(0x181D, records: [0x2A9D]),
        ServiceProfile(0x1810, records: [0x2A35], beside: [0x2A36], readable: [0x2A49]),
        ServiceProfile(0x180D, live: [0x2A37]),
        // Battery, current time, device information.
        ServiceProfile(0x180F, readable: [0x2A19]),
        ServiceProfile(0x1805, readable: [0x2A2B]),
        ServiceProfile(0x180A, readable: [0x2A23, 0x2A24, 0x2A25, 0x2A26, 0x2A27, 0x2A28, 0x2A29]),
    ]

    /// Its characteristics.
    public var characteristics: [BluetoothUUID] { records + beside + live + readable }

    /// The service that each characteristic stands in.
    public static let homes: [BluetoothUUID: BluetoothUUID] = Dictionary(
        all.flatMap { profile in profile.characteristics.map { ($0, profile.service) } }
    ) { first, _ in first }

    /// The service of each characteristic by which records, or live values, come.
    public static let measurementHomes: [BluetoothUUID: BluetoothUUID] = Dictionary(
        all.flatMap { profile in (profile.records + profile.live).map { ($0, profile.service) } }
    ) { first, _ in first }
}

import GATTClient

/// What a connected device was found to offer.
public struct OfferedServices: Sendable, Hashable {
    /// A characteristic in its service.
    public struct Place: Sendable, Hashable {
        /// The characteristic.
        public var characteristic: BluetoothUUID
        /// The service it stands in.
        public var service: BluetoothUUID

        /// Makes a place.
        public init(_ characteristic: BluetoothUUID, in service: BluetoothUUID) {
            self.characteristic = characteristic
            self.service = service
        }
    }

    /// Its services.
    public var services: Set<BluetoothUUID>
    /// Its characteristics.
    public var places: Set<Place>

    /// What these characteristics are, the ones that only a handle map names by their profile's service.
    public init(_ characteristics: [Characteristic]) {
        places = Set(characteristics.compactMap { one in one.service.map { Place(one.uuid, in: $0) } })
        services = Set(characteristics.compactMap(\.service))
        for characteristic in characteristics {
            if let service = Self.standard[characteristic.uuid] { services.insert(service) }
        }
    }

    /// The service of each characteristic that records, or what is live, come by.
    private static let standard: [BluetoothUUID: BluetoothUUID] = [
        0x2A18: 0x1808, 0x2A35: 0x1810, 0x2A37: 0x180D, 0x2A5E: 0x1822, 0x2A5F: 0x1822, 0x2A1C: 0x1809, 0x2A9D: 0x181D,
        0x2A9C: 0x181B, 0x2AA7: 0x181F,
    ]
}

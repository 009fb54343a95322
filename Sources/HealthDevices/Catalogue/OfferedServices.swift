import GATTClient
import GATTProfiles

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
            if let service = ServiceProfile.measurementHomes[characteristic.uuid] { services.insert(service) }
        }
    }
}

import GATTClient
import HealthReadings
import LibDBus
import Logging

/// `org.bluez.Device1`: what the daemon knows of a device.
///
/// The address is the property's, never the path's: after bonding a device that advertised a private address has its
/// identity address here, while the path stays.
struct DeviceObject: Sendable, Hashable {
    let path: String
    private var addressText: String?
    private var addressKind = DeviceAddress.Kind.public
    var name: String?
    var services: [BluetoothUUID] = []
    /// As it was heard last, by company identifier.
    var manufacturerData: [UInt16: [UInt8]] = [:]
    /// As it was heard last, by service.
    var serviceData: [BluetoothUUID: [UInt8]] = [:]
    /// Nil while no discovery hears it.
    var rssi: Int8?
    private var hasPairingKeys = false
    /// Since 5.65; nil before.
    private var hasBond: Bool?
    var isTrusted = false
    var isConnected = false
    var areServicesResolved = false

    /// Nil where the daemon tells none that can be read.
    var address: DeviceAddress? { addressText.flatMap { DeviceAddress($0, kind: addressKind) } }

    /// Whether both keep keys: `Bonded`, and `Paired` of a daemon that does not tell them apart.
    var isBonded: Bool { hasBond ?? hasPairingKeys }

    init(path: String, _ properties: [String: DBusValue] = [:], logger: Logger) {
        self.path = path
        apply(PropertyChange(changed: properties), logger: logger)
    }

    mutating func apply(_ change: PropertyChange, logger: Logger) {
        let reader = PropertyReader(interface: BlueZName.device, values: change.changed, logger: logger)
        if let value = reader.string("Address") { addressText = value }
        if let value = reader.string("AddressType").flatMap(DeviceAddress.Kind.init(rawValue:)) { addressKind = value }
        // Not Alias: without a name the daemon makes one of the address.
        if let value = reader.string("Name") { name = value }
        if let value = reader.strings("UUIDs") { services = value.compactMap { BluetoothUUID($0) } }
        if let value = reader.numberedOctets("ManufacturerData") { manufacturerData = value }
        if let value = reader.octetsByUUID("ServiceData") { serviceData = value }
        if let value = reader.integer("RSSI", in: -128...127) { rssi = Int8(value) }
        if let value = reader.bool("Paired") { hasPairingKeys = value }
        if let value = reader.bool("Bonded") { hasBond = value }
        if let value = reader.bool("Trusted") { isTrusted = value }
        if let value = reader.bool("Connected") { isConnected = value }
        if let value = reader.bool("ServicesResolved") { areServicesResolved = value }
        for name in change.invalidated {
            switch name {
            case "RSSI": rssi = nil
            case "Name": self.name = nil
            case "UUIDs": services = []
            case "ManufacturerData": manufacturerData = [:]
            case "ServiceData": serviceData = [:]
            default: break
            }
        }
    }

    /// What it says of itself.
    func advertisement(at instant: Instant) -> Advertisement {
        Advertisement(
            address: address, name: name, services: services, manufacturerData: manufacturerData,
            serviceData: serviceData, rssi: rssi, isPaired: isBonded, seenAt: instant)
    }

    /// The bond with it; nil where there is none.
    var bond: Bond? {
        guard isBonded, let address else { return nil }
        return Bond(address: address, name: name, isTrusted: isTrusted, isConnected: isConnected)
    }
}

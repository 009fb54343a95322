import GATTClient

/// What a connection's discovery said of the peer's attributes: which handle is which characteristic.
public struct AttributeTable: Sendable, Hashable {
    /// A service and its range of handles.
    public struct Service: Sendable, Hashable {
        /// The first handle (the declaration).
        public var start: UInt16
        /// The last handle.
        public var end: UInt16
        /// What it is.
        public var uuid: BluetoothUUID
    }

    private var servicesByStart: [UInt16: Service] = [:]
    private var characteristicsByHandle: [UInt16: BluetoothUUID] = [:]
    private var descriptorsByHandle: [UInt16: BluetoothUUID] = [:]

    /// Makes an empty table.
    public init() {}

    /// Whether no characteristic is known.
    public var isEmpty: Bool { characteristicsByHandle.isEmpty }

    /// The services in the order of their handles.
    public var services: [Service] { servicesByStart.values.sorted { $0.start < $1.start } }

    /// The characteristics in the order of their handles.
    public var characteristics: [Characteristic] {
        let services = services
        return characteristicsByHandle.sorted { $0.key < $1.key }.map { handle, uuid in
            let service = services.last { $0.start <= handle }
            return Characteristic(
                uuid: uuid, service: service.flatMap { $0.end >= handle ? $0.uuid : nil }, valueHandle: handle)
        }
    }

    /// The value handle of the characteristic a descriptor (such as the CCCD, 2902) belongs to: the last one before it,
    /// in the same service where services are known.
    public func characteristic(ofDescriptor handle: UInt16) -> UInt16? {
        guard descriptorsByHandle[handle] != nil, let owner = characteristicsByHandle.keys.filter({ $0 < handle }).max()
        else { return nil }
        let service = servicesByStart.values.first { $0.start <= handle && handle <= $0.end }
        return service.map { $0.start < owner } ?? true ? owner : nil
    }

    mutating func addService(_ uuid: BluetoothUUID, from start: UInt16, to end: UInt16) {
        servicesByStart[start] = Service(start: start, end: max(start, end), uuid: uuid)
    }

    mutating func addCharacteristic(_ uuid: BluetoothUUID, valueHandle: UInt16) {
        characteristicsByHandle[valueHandle] = uuid
        descriptorsByHandle[valueHandle] = nil
    }

    mutating func addDescriptor(_ uuid: BluetoothUUID, at handle: UInt16) { descriptorsByHandle[handle] = uuid }

    /// Whether it says what each of these handles is.
    func names(_ handles: some Sequence<UInt16>) -> Bool {
        handles.allSatisfy { characteristicsByHandle[$0] != nil || descriptorsByHandle[$0] != nil }
    }

    /// Whether another table can be of the same attributes: no handle is something else in it, and no service lies elsewhere.
    func agrees(with other: AttributeTable) -> Bool {
        for (handle, uuid) in other.characteristicsByHandle {
            guard characteristicsByHandle[handle] ?? uuid == uuid, descriptorsByHandle[handle] == nil else {
                return false
            }
        }
        for (handle, uuid) in other.descriptorsByHandle {
            guard descriptorsByHandle[handle] ?? uuid == uuid, characteristicsByHandle[handle] == nil else {
                return false
            }
        }
        for service in other.servicesByStart.values {
            let overlaps = servicesByStart.values.contains { own in
                own != service && own.start <= service.end && service.start <= own.end
            }
            if overlaps { return false }
        }
        return true
    }

    /// Takes from a table that agrees what this one lacks.
    mutating func fill(with other: AttributeTable) {
        servicesByStart.merge(other.servicesByStart) { own, _ in own }
        characteristicsByHandle.merge(other.characteristicsByHandle) { own, _ in own }
        descriptorsByHandle.merge(other.descriptorsByHandle) { own, _ in own }
    }

    /// Takes what a handle map or a read by UUID says of handles that nothing else has named.
    mutating func fill(with names: [UInt16: BluetoothUUID]) {
        for (handle, uuid) in names where characteristicsByHandle[handle] == nil && descriptorsByHandle[handle] == nil {
            if uuid.isDeclarationOrDescriptor {
                descriptorsByHandle[handle] = uuid
            } else {
                characteristicsByHandle[handle] = uuid
            }
        }
    }
}

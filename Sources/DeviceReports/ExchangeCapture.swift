import GATTClient
import GATTProfiles
import HCICapture
import HealthReadings

extension Exchange {
    /// The exchange as a capture: a btsnoop file of HCI packets as a host that discovers the device would record them.
    ///
    /// It has no pairing and no keys. Handles are others than the device's, in the same order.
    public var capture: [UInt8] {
        var packets = Packets(exchange: self)
        packets.write()
        return BTSnoopEncoder.header(.h4) + packets.records.flatMap { BTSnoopEncoder.record($0, .h4) ?? [] }
    }
}

/// Makes the packets of an exchange.
private struct Packets {
    let exchange: Exchange
    private(set) var records: [CaptureRecord] = []
    private var milliseconds: Int64 = 0
    /// The handle in the capture of each of the device's.
    private var handles: [UInt16: UInt16] = [:]

    private static let link: UInt16 = 64

    init(exchange: Exchange) { self.exchange = exchange }

    private static func octets(_ word: UInt16) -> [UInt8] { [UInt8(truncatingIfNeeded: word), UInt8(word >> 8)] }

    private mutating func add(_ kind: HCIPacketKind, _ direction: HCIDirection, _ octets: [UInt8]) {
        let time = exchange.start.advanced(by: .milliseconds(milliseconds))
        records.append(CaptureRecord(time: time, kind: kind, direction: direction, octets: octets))
    }

    private mutating func event(_ code: UInt8, _ body: [UInt8]) {
        add(.event, .received, [code, UInt8(truncatingIfNeeded: body.count)] + body)
    }

    private mutating func attribute(_ pdu: [UInt8], received: Bool) {
        let packet = Self.octets(UInt16(truncatingIfNeeded: pdu.count)) + [4, 0] + pdu
        let head = Self.octets(Self.link | (received ? 0x2000 : 0))
        add(
            .aclData, received ? .received : .sent,
            head + Self.octets(UInt16(truncatingIfNeeded: packet.count)) + packet)
    }

    private mutating func sent(_ pdu: [UInt8]) { attribute(pdu, received: false) }
    private mutating func received(_ pdu: [UInt8]) { attribute(pdu, received: true) }

    mutating func write() {
        connect()
        discover()
        for step in exchange.steps {
            milliseconds = max(milliseconds, step.milliseconds)
            write(step.action)
        }
        if !exchange.steps.contains(where: { if case .disconnect = $0.action { true } else { false } }) {
            write(.disconnect(byDevice: true))
        }
    }

    // MARK: Link

    private mutating func connect() {
        let address = exchange.advertisement.address ?? DeviceAddress(bits: 0xC000_0000_0001, kind: .random)
        let peer =
            [address.kind == .public ? 0 : 1] + (0..<6).map { UInt8(truncatingIfNeeded: address.bits >> (8 * $0)) }
        if let name = exchange.advertisement.name {
            let text = Array(name.utf8.prefix(29))
            let data = [UInt8(text.count + 1), name.utf8.count > 29 ? 8 : 9] + text
            let rssi = UInt8(bitPattern: exchange.advertisement.rssi ?? -60)
            event(0x3E, [2, 1, 0] + peer + [UInt8(data.count)] + data + [rssi])
        }
        event(0x3E, [1, 0] + Self.octets(Self.link) + [0] + peer + [24, 0, 0, 0, 72, 0, 0])
        if exchange.advertisement.isPaired { event(0x08, [0] + Self.octets(Self.link) + [1]) }
    }

    private mutating func discover() {
        sent([0x02, 0x05, 0x02])
        received([0x03, 0x05, 0x02])
        var services: [(uuid: BluetoothUUID, characteristics: [Characteristic])] = []
        for characteristic in exchange.characteristics.prefix(ModelReport.mostCharacteristics) {
            let uuid = characteristic.service ?? ServiceProfile.homes[characteristic.uuid] ?? 0x1801
            if services.last?.uuid != uuid { services.append((uuid, [])) }
            services[services.count - 1].characteristics.append(characteristic)
        }
        var handle: UInt16 = 1
        for service in services {
            // A declaration of the service, then of each characteristic: its declaration, its value, its configuration.
            let (first, last) = (handle, handle + UInt16(3 * service.characteristics.count))
            let uuid = service.uuid.littleEndian
            sent([0x10] + Self.octets(first) + [0xFF, 0xFF, 0x00, 0x28])
            received([0x11, UInt8(4 + uuid.count)] + Self.octets(first) + Self.octets(last) + uuid)
            handle += 1
            for characteristic in service.characteristics {
                let (uuid, value) = (characteristic.uuid.littleEndian, handle + 1)
                handles[characteristic.valueHandle] = value
                sent([0x08] + Self.octets(handle) + Self.octets(last) + [0x03, 0x28])
                var declaration: [UInt8] = [0x09, UInt8(5 + uuid.count)]
                declaration += Self.octets(handle)
                declaration.append(characteristic.properties?.rawValue ?? 0)
                declaration += Self.octets(value)
                received(declaration + uuid)
                sent([0x04] + Self.octets(value + 1) + Self.octets(value + 1))
                received([0x05, 1] + Self.octets(value + 1) + [0x02, 0x29])
                handle += 3
            }
        }
    }

    // MARK: Steps

    private mutating func answer(_ outcome: Exchange.Outcome, to request: UInt8, _ handle: UInt16, _ done: [UInt8]) {
        switch outcome {
        case .done: received(done)
        case .refused(let code): received([0x01, request] + Self.octets(handle) + [code])
        case .failed: break
        }
    }

    private mutating func write(_ action: Exchange.Action) {
        guard case .disconnect(let byDevice) = action else {
            guard let known = action.handle, let handle = handles[known] else { return }
            return write(action, known, handle)
        }
        event(0x05, [0] + Self.octets(Self.link) + [byDevice ? 0x13 : 0x16])
    }

    private mutating func write(_ action: Exchange.Action, _ known: UInt16, _ handle: UInt16) {
        let properties = exchange.characteristic(known)?.properties ?? []
        let indicates = properties.contains(.indicate) && !properties.contains(.notify)
        switch action {
        case .read(_, let outcome):
            sent([0x0A] + Self.octets(handle))
            let octets: [UInt8] = if case .done(let octets) = outcome { octets } else { [] }
            answer(outcome, to: 0x0A, handle, [0x0B] + octets)
        case .write(_, let octets, let expectsResponse, let outcome):
            sent([expectsResponse ? 0x12 : 0x52] + Self.octets(handle) + octets)
            if expectsResponse { answer(outcome, to: 0x12, handle, [0x13]) }
        case .enable(_, let outcome):
            sent([0x12] + Self.octets(handle + 1) + [indicates ? 2 : 1, 0])
            answer(outcome, to: 0x12, handle + 1, [0x13])
        case .disable:
            sent([0x12] + Self.octets(handle + 1) + [0, 0])
            received([0x13])
        case .value(_, let octets):
            received([indicates ? 0x1D : 0x1B] + Self.octets(handle) + octets)
            if indicates { sent([0x1E]) }
        case .disconnect: break
        }
    }
}

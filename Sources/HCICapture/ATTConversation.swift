import GATTClient
import HealthReadings

/// A value the peer sent in answer to a read.
struct RecordedValue: Sendable, Hashable {
    var octets: [UInt8]
    var receivedAt: Instant
}

/// A recorded request to the record access control point that is no report request, with its answer.
struct RecordedExchange: Sendable, Hashable {
    var handle: UInt16
    var request: [UInt8]
    var answer: RecordedValue
}

/// What one connection's requests and responses say: the attribute table, and the values that were read.
///
/// Bounded by the number of handles; notifications leave no trace here.
struct ATTConversation: Sendable {
    private(set) var table = AttributeTable()
    /// What was read by UUID, so that its handle has a name without discovery.
    private(set) var namedByRead: [UInt16: BluetoothUUID] = [:]
    /// The first value read from each handle.
    private(set) var reads: [UInt16: RecordedValue] = [:]
    /// Recorded counts and aborts: the first of each request, at most ``mostExchanges``.
    private(set) var exchanges: [RecordedExchange] = []

    /// The handles the host wrote to.
    private(set) var written: Set<UInt16> = []

    private static let mostExchanges = 32
    private static let longestValue = 512

    private enum Pending {
        case none
        case discoverServices(BluetoothUUID?)
        case discoverCharacteristics
        case discoverDescriptors
        case readByType(BluetoothUUID)
        case read(UInt16)
        case readBlob(UInt16, offset: Int)
        case readSeveral([UInt16])
    }

    private var pending = Pending.none
    /// A long read under way: its handle, while its first part is the recorded value.
    private var longRead: UInt16?
    /// The handle a count or an abort was written to; -1 where none waits for its answer.
    private(set) var controlHandle = -1
    private var controlRequest: [UInt8] = []

    // MARK: what the host sends

    mutating func host(_ octets: borrowing [UInt8], _ pdu: Range<Int>) {
        guard let opcode = pdu.first.map({ octets[$0] }) else { return }
        let body = (pdu.lowerBound + 1)..<pdu.upperBound
        func handle(_ place: Int = 0) -> UInt16 { octets.little16(body.lowerBound + place) }
        switch opcode {
        case ATT.findInformationRequest: pending = .discoverDescriptors
        case ATT.findByTypeValueRequest:
            guard body.count >= 8, handle(4) == 0x2800 else { return pending = .none }
            pending = .discoverServices(octets.uuid((body.lowerBound + 6)..<body.upperBound))
        case ATT.readByGroupTypeRequest: pending = .discoverServices(nil)
        case ATT.readByTypeRequest:
            guard body.count >= 6, let type = octets.uuid((body.lowerBound + 4)..<body.upperBound) else {
                return pending = .none
            }
            pending = type == .characteristicDeclaration ? .discoverCharacteristics : .readByType(type)
        case ATT.readRequest: pending = body.count == 2 ? .read(handle()) : .none
        case ATT.readBlobRequest: pending = body.count == 4 ? .readBlob(handle(), offset: Int(handle(2))) : .none
        case ATT.readMultipleRequest, ATT.readMultipleVariableRequest:
            pending = .readSeveral(stride(from: 0, to: body.count - 1, by: 2).map { handle($0) })
        case ATT.prepareWriteRequest: if body.count >= 4 { written.insert(handle()) }
        case ATT.writeRequest, ATT.writeCommand:
            if body.count >= 2 { written.insert(handle()) }
            guard body.count >= 4, body.count <= 22 else { return }
            let operation = octets[body.lowerBound + 2]
            guard operation == 3 || operation == 4 else { return }
            controlHandle = Int(handle())
            controlRequest = Array(octets[(body.lowerBound + 2)..<body.upperBound])
        default: break
        }
    }

    // MARK: what the peer answers

    mutating func response(_ octets: borrowing [UInt8], _ pdu: Range<Int>, at time: Instant) {
        guard let opcode = pdu.first.map({ octets[$0] }) else { return }
        let body = (pdu.lowerBound + 1)..<pdu.upperBound
        let request = pending
        pending = .none
        switch (opcode, request) {
        case (ATT.findInformationResponse, .discoverDescriptors): addInformation(octets, body)
        case (ATT.findByTypeValueResponse, .discoverServices(let uuid?)):
            for entry in entries(body, of: 4) {
                table.addService(uuid, from: octets.little16(entry), to: octets.little16(entry + 2))
            }
        case (ATT.readByGroupTypeResponse, .discoverServices(nil)):
            guard let size = body.first.map({ Int(octets[$0]) }), size == 6 || size == 20 else { return }
            for entry in entries(body.dropFirst(), of: size) {
                guard let uuid = octets.uuid((entry + 4)..<(entry + size)) else { continue }
                table.addService(uuid, from: octets.little16(entry), to: octets.little16(entry + 2))
            }
        case (ATT.readByTypeResponse, .discoverCharacteristics):
            guard let size = body.first.map({ Int(octets[$0]) }), size == 7 || size == 21 else { return }
            for entry in entries(body.dropFirst(), of: size) {
                guard let uuid = octets.uuid((entry + 5)..<(entry + size)) else { continue }
                table.addCharacteristic(uuid, valueHandle: octets.little16(entry + 3))
            }
        case (ATT.readByTypeResponse, .readByType(let uuid)):
            guard let size = body.first.map({ Int(octets[$0]) }), size >= 2 else { return }
            for entry in entries(body.dropFirst(), of: size) {
                let handle = octets.little16(entry)
                if !uuid.isDeclarationOrDescriptor { namedByRead[handle] = uuid }
                record(Array(octets[(entry + 2)..<(entry + size)]), of: handle, at: time)
            }
        case (ATT.readResponse, .read(let handle)): record(Array(octets[body]), of: handle, at: time)
        case (ATT.readBlobResponse, .readBlob(let handle, let offset)):
            continueRead(of: handle, at: offset, octets, body, time)
        case (ATT.readMultipleResponse, .readSeveral(let handles)):
            // The values follow each other without lengths: only a single one can be told.
            if handles.count == 1 { record(Array(octets[body]), of: handles[0], at: time) }
        case (ATT.readMultipleVariableResponse, .readSeveral(let handles)):
            var place = body.lowerBound
            for handle in handles {
                guard place + 2 <= body.upperBound else { break }
                let length = Int(octets.little16(place))
                guard place + 2 + length <= body.upperBound else { break }
                record(Array(octets[(place + 2)..<(place + 2 + length)]), of: handle, at: time)
                place += 2 + length
            }
        default: break
        }
    }

    /// A value on the handle a count or an abort was written to: perhaps its answer.
    mutating func controlValue(_ octets: borrowing [UInt8], _ value: Range<Int>, at time: Instant) {
        guard value.count >= 4, let operation = controlRequest.first else { return }
        let (kind, place) = (octets[value.lowerBound], value.lowerBound)
        let isCount = operation == 4 && kind == 5
        guard isCount || (kind == 6 && octets[place + 2] == operation) else { return }
        let isKnown = exchanges.contains { Int($0.handle) == controlHandle && $0.request == controlRequest }
        if !isKnown, exchanges.count < Self.mostExchanges {
            exchanges.append(
                RecordedExchange(
                    handle: UInt16(truncatingIfNeeded: controlHandle), request: controlRequest,
                    answer: RecordedValue(octets: Array(octets[value]), receivedAt: time)))
        }
        controlHandle = -1
    }

    private func entries(_ range: Range<Int>, of size: Int) -> StrideTo<Int> {
        stride(from: range.lowerBound, to: max(range.lowerBound, range.upperBound - size + 1), by: size)
    }

    private mutating func addInformation(_ octets: borrowing [UInt8], _ body: Range<Int>) {
        guard let format = body.first.map({ octets[$0] }), format == 1 || format == 2 else { return }
        let size = format == 1 ? 4 : 18
        for entry in entries(body.dropFirst(), of: size) {
            guard let uuid = octets.uuid((entry + 2)..<(entry + size)) else { continue }
            let handle = octets.little16(entry)
            if uuid.isDeclarationOrDescriptor {
                table.addDescriptor(uuid, at: handle)
            } else {
                // Only a characteristic's value has another type; its declaration stands before it.
                table.addCharacteristic(uuid, valueHandle: handle)
            }
        }
    }

    private mutating func record(_ value: [UInt8], of handle: UInt16, at time: Instant) {
        guard reads[handle] == nil else { return longRead = nil }
        reads[handle] = RecordedValue(octets: value, receivedAt: time)
        longRead = handle
    }

    private mutating func continueRead(
        of handle: UInt16, at offset: Int, _ octets: borrowing [UInt8], _ body: Range<Int>, _ time: Instant
    ) {
        if offset == 0 { return record(Array(octets[body]), of: handle, at: time) }
        guard longRead == handle, let known = reads[handle], known.octets.count == offset,
            offset + body.count <= Self.longestValue
        else { return }
        reads[handle]?.octets.append(contentsOf: octets[body])
    }
}

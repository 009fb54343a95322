import Foundation
import GATTClient
import HealthReadings

@testable import HCICapture

/// What a recorded capture shows of the conversation between a host and its devices, contact by contact.
struct RecordedConversation {
    /// Something that one side said by the attribute protocol.
    struct PDU {
        var isFromHost: Bool
        /// Microseconds since the POSIX epoch.
        var time: Int64
        var octets: [UInt8]

        var opcode: UInt8 { octets.first ?? 0 }
        var handle: UInt16 { octets.count < 3 ? 0 : UInt16(octets[1]) | UInt16(octets[2]) << 8 }
        /// What stands behind the handle.
        var value: [UInt8] { Array(octets.dropFirst(3)) }
    }

    struct Contact {
        var address: DeviceAddress?
        var start: Int64
        /// Why the link ended: 0x13 the device ended it, 0x16 the host did.
        var endReason: UInt8?
        var isEncrypted = false
        /// Whether a bond was made: the Security Manager asked for pairing.
        var isPairing = false
        var pdus: [PDU] = []
        var handles: [BluetoothUUID: UInt16] = [:]

        /// Where in ``pdus`` the host writes to a characteristic's value.
        func writes(to uuid: BluetoothUUID) -> [Int] {
            pdus.indices.filter { place in
                let pdu = pdus[place]
                return pdu.isFromHost && [0x12, 0x52].contains(pdu.opcode) && pdu.handle == handles[uuid]
            }
        }

        /// Where the host enables a characteristic: writes 1 or 2 to its configuration, the handle behind its value.
        func enables(_ uuid: BluetoothUUID) -> [Int] {
            pdus.indices.filter { place in
                let pdu = pdus[place]
                return pdu.isFromHost && pdu.opcode == 0x12 && pdu.handle == handles[uuid].map { $0 + 1 }
                    && [[1, 0], [2, 0]].contains(pdu.value)
            }
        }

        /// What the host wrote to a characteristic.
        func written(to uuid: BluetoothUUID) -> [[UInt8]] { writes(to: uuid).map { pdus[$0].value } }

        /// Where the device sends a characteristic's value unasked.
        func sends(_ uuid: BluetoothUUID) -> [Int] {
            pdus.indices.filter { place in
                let pdu = pdus[place]
                return !pdu.isFromHost && [0x1B, 0x1D].contains(pdu.opcode) && pdu.handle == handles[uuid]
            }
        }

        func sent(_ uuid: BluetoothUUID) -> [[UInt8]] { sends(uuid).map { pdus[$0].value } }

        /// The answers to the host's reads of a characteristic, with where they stand.
        func readings(of uuid: BluetoothUUID) -> [(place: Int, octets: [UInt8])] {
            pdus.indices.compactMap { place in
                let pdu = pdus[place]
                guard pdu.isFromHost, pdu.opcode == 0x0A, pdu.handle == handles[uuid], let answer = response(to: place),
                    pdus[answer].opcode == 0x0B
                else { return nil }
                return (answer, Array(pdus[answer].octets.dropFirst()))
            }
        }

        /// Where the device answers a request of the host.
        func response(to place: Int) -> Int? {
            pdus.indices.first { $0 > place && !pdus[$0].isFromHost && ![0x1B, 0x1D].contains(pdus[$0].opcode) }
        }
    }

    let path: String
    private(set) var contacts: [Contact] = []

    /// Reads one of the repository's captures.
    init(_ name: String) throws {
        path =
            URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../Fixtures/\(name).btsnoop")
            .standardizedFileURL.path
        var (reader, records) = (try CaptureReader(path: path), [CaptureRecord]())
        while let record = try reader.next() { records.append(record) }
        var tables: [DeviceAddress?: AttributeTable] = [:]
        for entry in try CaptureIndex(path: path).entries {
            // A bonded host keeps the table and does not ask again.
            if !entry.conversation.table.isEmpty { tables[entry.address] = entry.conversation.table }
            var contact = Contact(address: entry.address, start: entry.start.microseconds)
            for each in tables[entry.address]?.characteristics ?? [] { contact.handles[each.uuid] = each.valueHandle }
            var link = L2CAPLink()
            for record in records {
                guard let time = record.time, (entry.start...entry.end).contains(time) else { continue }
                contact.take(record, of: entry.handle, &link)
            }
            contacts.append(contact)
        }
    }
}

extension RecordedConversation.Contact {
    fileprivate mutating func take(_ record: CaptureRecord, of handle: UInt16, _ link: inout L2CAPLink) {
        let octets = record.octets
        if record.kind == .event, octets.count >= 6, octets.little16(3) == handle {
            if octets[0] == 0x05 { endReason = octets[5] }
            if octets[0] == 0x08, octets[2] == 0 { isEncrypted = octets[5] == 1 }
        }
        guard record.kind == .aclData, let time = record.time,
            let head = ACLHead(octets, 0..<octets.count, direction: record.direction), head.handle == handle,
            let data = head.data
        else { return }
        let isReceived = link.isReceived(head)
        let outcome =
            isReceived
            ? link.inbound.add(octets, data, isStart: head.isStart)
            : link.outbound.add(octets, data, isStart: head.isStart)
        let (channel, payload): (UInt16, [UInt8]) =
            switch outcome {
            case .none: (0, [])
            case .inPlace(let channel, let range): (channel, Array(octets[range]))
            case .buffered(let channel, let range):
                (channel, Array((isReceived ? link.inbound : link.outbound).buffer[range]))
            }
        if channel == L2CAPReassembly.Channel.attribute {
            pdus.append(.init(isFromHost: !isReceived, time: time.microseconds, octets: payload))
        }
        // Pairing Request.
        if channel == L2CAPReassembly.Channel.securityManager, payload.first == 0x01 { isPairing = true }
    }
}

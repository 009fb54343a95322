import HCICapture
import HCIMonitor

extension FuzzTarget {
    /// Messages of the HCI monitor, one behind the other: what is erased, filtered and recorded of them.
    static let monitor = FuzzTarget("monitor", longest: 4096, seeds: Captures.monitorMessages) { octets in
        let messages = MonitorProperties.messages(octets)
        MonitorProperties.checkErasing(messages)
        MonitorProperties.checkRecording(messages, peer: nil)
        MonitorProperties.checkRecording(messages, peer: PeerAddress(bits: 0xC000_0000_1808))
    }
}

extension Captures {
    /// The captures' packets as the kernel gave them, cut into inputs.
    static func monitorMessages(_ folder: String) throws -> [[UInt8]] {
        try btsnoop(folder).flatMap { octets in
            var (inputs, current) = ([[UInt8]](), [UInt8]())
            var reader = try CaptureReader(octets: octets)
            while let record = try reader.next() {
                let number: UInt16
                switch (record.kind, record.direction) {
                case (.command, _): number = 2
                case (.event, _): number = 3
                case (.aclData, .sent): number = 4
                case (.aclData, _): number = 5
                case (.monitor(let opcode), _): number = opcode
                default: continue
                }
                let datagram = MonitorMessage(
                    MonitorOpcode(rawValue: number), adapter: record.adapter, record.octets
                ).datagram
                if current.count + datagram.count > 1500 {
                    inputs.append(current)
                    current = []
                }
                current += datagram
            }
            return inputs + [current]
        }
    }
}

/// What holds of any messages that are taken for the monitor's.
enum MonitorProperties {
    /// Cuts an input into messages by the lengths in their heads; the last may be short.
    static func messages(_ octets: [UInt8]) -> [MonitorMessage] {
        var (messages, place) = ([MonitorMessage](), 0)
        while place < octets.count {
            let rest = Array(octets[place...])
            let length = rest.count >= 6 ? Int(rest[4]) | Int(rest[5]) << 8 : 0
            let count = min(rest.count, MonitorMessage.headLength + length)
            do {
                let message = try MonitorMessage(decoding: rest, count: count)
                expect(message.datagram == Array(rest[..<count]), "a message is not what its datagram says")
                messages.append(message)
            } catch {
                _ = error.description
            }
            place += count
        }
        return messages
    }

    /// Only octets are zeroed, erasing again changes nothing, and what is zeroed decides nothing.
    static func checkErasing(_ messages: [MonitorMessage]) {
        var (eraser, again, blind) = (KeyEraser(), KeyEraser(), KeyEraser())
        for message in messages {
            let safe = eraser.erase(message)
            guard let safe else {
                expect(
                    again.erase(message) == nil && blind.erase(message) == nil, "a message is dropped only sometimes")
                continue
            }
            expect(
                safe.opcode == message.opcode && safe.adapter == message.adapter
                    && safe.octets.count == message.octets.count
                    && zip(safe.octets, message.octets).allSatisfy { $0 == $1 || $0 == 0 },
                "more than octets was changed")
            expect(again.erase(safe) == safe, "erasing again changes something")
            var other = message
            for index in safe.octets.indices where safe.octets[index] == 0 && message.octets[index] != 0 {
                other.octets[index] = message.octets[index] ^ 0xFF
            }
            expect(blind.erase(other) == safe, "a key decides what is erased")
        }
    }

    /// A stream of whole records, whatever the reader takes at a time, of one adapter, with counts that are right.
    static func checkRecording(_ messages: [MonitorMessage], peer: PeerAddress?) {
        var recorder = MonitorRecorder(MonitorSelection(adapter: 0, peer: peer), backlog: 2048)
        var stream = BTSnoopStream()
        var octets: [UInt8] = []
        for (index, message) in messages.enumerated() {
            _ = recorder.take(message, at: Int64(index), lost: UInt32(index / 16))
            if index % 3 == 0 { recorder.drained() }
            guard index % 5 != 0 else { continue }
            recorder.write { waiting in
                let taken = min(waiting.count, 1 + index % 97)
                octets += (try? stream.take(waiting.prefix(taken))) ?? []
                return taken
            }
        }
        while !recorder.isEmpty {
            recorder.write { waiting in
                octets += (try? stream.take(Array(waiting))) ?? []
                return waiting.count
            }
        }
        expect(stream.packets == recorder.packets, "records are counted wrong")
        var found: UInt64 = 0
        do {
            var reader = try CaptureReader(octets: octets)
            while let record = try reader.next() {
                expect(record.adapter == 0, "another adapter's packet is kept")
                if peer != nil, record.kind == .aclData { expect(record.octets.count >= 4, "data of nobody is kept") }
                found += 1
            }
        } catch {
            expect(false, "the recording is damaged: \(error)")
        }
        expect(found == recorder.packets, "records are missing")
    }
}

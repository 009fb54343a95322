import HCIMonitor
import TestSupport
import Testing

@Suite("A recording of the monitor")
struct MonitorRecorderTests {
    /// One record of a btsnoop stream.
    struct Record: Equatable {
        var message: MonitorMessage
        var drops: Int
        var microseconds: Int64
    }

    /// Reads a stream from the format's description, not with the code under test.
    private func records(_ stream: [UInt8]) throws -> [Record] {
        #expect(Array(stream.prefix(16)) == Array("btsnoop\0".utf8) + [0, 0, 0, 1, 0, 0, 0x07, 0xD1])
        func number(_ place: Int, _ count: Int) -> UInt64 {
            stream[place..<(place + count)].reduce(0) { $0 << 8 | UInt64($1) }
        }
        var (place, found) = (16, [Record]())
        while place < stream.count {
            let length = Int(number(place + 4, 4))
            #expect(number(place, 4) == UInt64(length))
            let flags = number(place + 8, 4)
            found.append(
                Record(
                    message: MonitorMessage(
                        MonitorOpcode(rawValue: UInt16(flags & 0xFFFF)), adapter: UInt16(flags >> 16),
                        Array(stream[(place + 24)..<(place + 24 + length)])),
                    drops: Int(number(place + 12, 4)),
                    microseconds: Int64(number(place + 16, 8)) - 0x00DC_DDB3_0F2F_8000))
            place += 24 + length
        }
        #expect(place == stream.count)
        return found
    }

    private func drain(_ recorder: inout MonitorRecorder, by step: Int = .max) -> [UInt8] {
        var stream: [UInt8] = []
        while !recorder.isEmpty {
            recorder.write { octets in
                stream += octets.prefix(step)
                return min(step, octets.count)
            }
        }
        return stream
    }

    @Test(
        "the adapter's packets are recorded with the kernel's time, whatever the reader takes at a time",
        arguments: [1, 7, 24, 1000])
    func stream(_ step: Int) throws {
        let messages =
            [MonitorMessage(.newIndex, [0, 1]), Packets.connected(64, Packets.address(8))]
            + Packets.notification([1, 2, 3])
        var recorder = MonitorRecorder(MonitorSelection(adapter: 0))
        for (index, message) in messages.enumerated() {
            let note = recorder.take(message, at: 1_795_176_000_000_000 + Int64(index))
            #expect(note == nil)
            var foreign = message
            foreign.adapter = 1
            _ = recorder.take(foreign, at: 0)
        }
        for number in Array(6...7) + Array(11...30) {
            _ = recorder.take(MonitorMessage(MonitorOpcode(rawValue: UInt16(number)), [1, 2, 3, 4]), at: 0)
        }
        let found = try records(drain(&recorder, by: step))
        #expect(found.map(\.message) == messages)
        #expect(found.map(\.microseconds) == [1_795_176_000_000_000, 1_795_176_000_000_001, 1_795_176_000_000_002])
        #expect(recorder.packets == 3 && recorder.dropped == 0)
    }

    @Test("keys are gone unless they are asked for")
    func keys() throws {
        var generator = SeededGenerator(seed: 3)
        let secret = generator.octets(16)
        let message = Packets.command(0x201A, little16(64) + secret)
        var recorder = MonitorRecorder(MonitorSelection(adapter: 0))
        _ = recorder.take(message, at: 0)
        let safe = try records(drain(&recorder)).map(\.message)
        #expect(!holds(safe, any: secret))
        var keeping = MonitorRecorder(MonitorSelection(adapter: 0, keepsKeys: true))
        _ = keeping.take(message, at: 0)
        _ = keeping.take(MonitorMessage(.managementEvent, secret), at: 0)
        let kept = try records(drain(&keeping)).map(\.message)
        #expect(kept == [message])
    }

    @Test("one device's recording has that device's connection and no other's")
    func peer() throws {
        let selection = MonitorSelection(adapter: 0, peer: Packets.peer(8), peerHandles: [70])
        var recorder = MonitorRecorder(selection)
        let wanted =
            [Packets.connected(64, Packets.address(8))] + Packets.notification([1])
            + Packets.notification([2], handle: 70)
        for message in wanted + Packets.notification([9], handle: 71) { _ = recorder.take(message, at: 0) }
        let found = try records(drain(&recorder)).map(\.message)
        #expect(found == wanted)
    }

    @Test("what a slow reader makes us drop is counted in the records, and every record is whole")
    func backlog() throws {
        var recorder = MonitorRecorder(MonitorSelection(adapter: 0), backlog: 200)
        let messages = (0..<100).map { Packets.notification([UInt8($0)])[0] }
        for message in messages[..<50] { _ = recorder.take(message, at: 0) }
        var stream = drain(&recorder, by: 13)
        let dropped = Int(recorder.dropped)
        #expect(dropped > 40)
        for message in messages[50...] {
            _ = recorder.take(message, at: 0)
            stream += drain(&recorder, by: 13)
        }
        let found = try records(stream)
        #expect(found.count + dropped == 100)
        #expect(found.last?.drops == dropped)
        #expect(recorder.packets == UInt64(found.count))
    }

    @Test("what the kernel lost is counted, and a key's fragment behind the loss does not pass for a value's")
    func losses() throws {
        var generator = SeededGenerator(seed: 4)
        let secret = generator.octets(64)
        let key = Packets.data(6, [0x0C] + secret, received: true, fragments: 27)
        var recorder = MonitorRecorder(MonitorSelection(adapter: 0))
        // The kernel holds a value's first fragment and a key's second; the key's first was lost between them.
        _ = recorder.take(Packets.notification(generator.octets(90), fragments: 27)[0], at: 0, lost: 3)
        for fragment in key.dropFirst() { _ = recorder.take(fragment, at: 0, lost: 3) }
        recorder.drained()
        let value = Packets.notification([1, 2, 3, 4, 5, 6, 7, 8], fragments: 6)
        for message in value { _ = recorder.take(message, at: 0, lost: 3) }
        let found = try records(drain(&recorder))
        #expect(!holds(found.map(\.message), any: secret))
        #expect(found.suffix(value.count).map(\.message) == value)
        // Each fragment without its beginning counts: no reader takes it for the rest of the one before.
        #expect(found.map(\.drops) == [3, 4, 5] + value.map { _ in 5 })
        // The counter begins again where the kernel's does.
        _ = recorder.take(value[0], at: 0, lost: 5)
        recorder.skipMalformed()
        #expect(recorder.dropped == 8)
    }

    @Test("an adapter that goes and comes back is told")
    func presence() {
        var recorder = MonitorRecorder(MonitorSelection(adapter: 0))
        let opcodes: [MonitorOpcode] = [.newIndex, .deletedIndex, .newIndex]
        let notes = opcodes.map { recorder.take(MonitorMessage($0, []), at: 0) }
        #expect(notes == [nil, .adapterGone, .adapterBack])
    }

    @Test("a datagram is read as the kernel makes it, and refused where its length is wrong")
    func datagrams() throws {
        let message = MonitorMessage(.event, adapter: 2, [0x0E, 1, 0])
        #expect(message.datagram == [3, 0, 2, 0, 3, 0, 0x0E, 1, 0])
        let datagram = message.datagram
        #expect(try MonitorMessage(decoding: datagram + [9, 9], count: datagram.count) == message)
        for count in datagram.indices {
            #expect(throws: MalformedMonitorMessage.self) { _ = try MonitorMessage(decoding: datagram, count: count) }
        }
        let error = #expect(throws: MalformedMonitorMessage.self) {
            _ = try MonitorMessage(decoding: datagram + [0], count: datagram.count + 1)
        }
        #expect(error?.description == "a message of the HCI monitor: expected a packet of 3 octets, found one of 4")
    }
}

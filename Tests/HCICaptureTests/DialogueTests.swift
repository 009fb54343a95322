import GATTClient
import HealthReadings
import Testing

@testable import HCICapture

/// Protocols of makers' own: what was written decides the answer.
@Suite("Replayed dialogues")
struct DialogueTests {
    private typealias Builder = CaptureBuilder

    private static let service = BluetoothUUID(high: 0xAF9D_F7A1_E595_11E3, low: 0x96B4_0002_A5D5_C51B)
    private static let questions = own(0xAF9D_F7A2, 14)
    private static let answers = own(0xAF9D_F7A3, 16)

    private static func own(_ head: UInt64, _ handle: UInt16) -> Characteristic {
        let uuid = BluetoothUUID(high: head << 32 | 0xE595_11E3, low: service.low)
        return Characteristic(uuid: uuid, service: service, valueHandle: handle)
    }

    private static func littleEndian(_ uuid: BluetoothUUID) -> [UInt8] {
        [uuid.low, uuid.high].flatMap { half in (0..<8).map { UInt8(truncatingIfNeeded: half >> (8 * $0)) } }
    }

    /// A connection to a peer with the two characteristics, and what `body` makes of it.
    private static func capture(_ body: (inout CaptureBuilder) -> Void) -> [UInt8] {
        var builder = Builder()
        builder.connect()
        builder.exchange([0x10, 1, 0, 255, 255, 0, 0x28], [0x11, 20, 12, 0, 18, 0] + littleEndian(service))
        builder.exchange(
            [0x08, 12, 0, 18, 0, 3, 0x28],
            [0x09, 21, 13, 0, 0x0C, 14, 0] + littleEndian(questions.uuid) + [15, 0, 0x10, 16, 0]
                + littleEndian(answers.uuid))
        body(&builder)
        builder.disconnect()
        return builder.btsnoop()
    }

    private static func question(_ octets: [UInt8], in builder: inout CaptureBuilder, answer values: [UInt8]...) {
        builder.sent([0x52, 14, 0] + octets)
        for value in values { builder.notify(value, on: 16) }
    }

    private func replay(
        _ capture: [UInt8], readSize: Int = 65_536,
        _ work: @Sendable (any Peripheral) async throws -> Void
    ) async throws -> [ReplayWarning] {
        let file = try TemporaryFile(capture)
        defer { withExtendedLifetime(file) {} }
        let central = try ReplayCentral(paths: [file.path], readSize: readSize)
        var visits = 0
        for try await peripheral in central.peripherals() {
            visits += 1
            _ = try await peripheral.connect()
            try await peripheral.startNotifying(Self.answers)
            if visits == 1 { try await work(peripheral) }
            await peripheral.disconnect()
        }
        #expect(visits == 1, "what was not asked for is not offered again")
        return central.warnings
    }

    private func ask(_ question: [UInt8], of peripheral: any Peripheral) async throws -> [String] {
        try await peripheral.write(question, to: Self.questions, expectingResponse: false)
        return try await next(peripheral)
    }

    private func next(_ peripheral: any Peripheral) async throws -> [String] {
        switch try await peripheral.nextValues(within: .milliseconds(10)) {
        case .values(let values): values.map { hex($0.octets) }
        case .silence: ["silence"]
        case .disconnected: ["disconnected"]
        }
    }

    private static let threeRecords = capture { builder in
        question([0xB3, 1], in: &builder, answer: [0x81], [6, 101])
        question([0x81], in: &builder)
        question([0xB3, 2], in: &builder, answer: [0x81], [6, 102])
        question([0x81], in: &builder)
        question([0xB3, 3], in: &builder, answer: [0x81], [6, 103])
        builder.clock += 60_000
    }

    @Test("a question is answered as it was, in whatever order and however often it is asked", arguments: [64, 65_536])
    func anyOrder(readSize: Int) async throws {
        let warnings = try await replay(Self.threeRecords, readSize: readSize) { peripheral async throws in
            for number: UInt8 in [3, 1, 2, 2, 3, 1] {
                #expect(try await ask([0xB3, number], of: peripheral) == ["81", "06\(hex([100 + number]))"])
                #expect(try await ask([0x81], of: peripheral) == ["silence"], "an acknowledgement has no answer")
            }
        }
        #expect(warnings.isEmpty)
    }

    @Test("a question that was not asked then is met with silence and told; the peer is gone when its connection ended")
    func unanswered() async throws {
        let warnings = try await replay(Self.threeRecords) { peripheral async throws in
            #expect(try await ask([0xB3, 4], of: peripheral) == ["silence"])
            #expect(try await ask([0xB3], of: peripheral) == ["silence"])
            #expect(try await ask([0xB3, 2], of: peripheral) == ["81", "0666"])
            for _ in 0..<6_100 where try await next(peripheral) == ["disconnected"] { return }
            Issue.record("it stays for ever")
        }
        guard case .questionsUnanswered(_, characteristic: Self.questions.uuid, questions: 2)? = warnings.first else {
            Issue.record("\(warnings)")
            return
        }
        #expect(warnings.count == 1 && "\(warnings[0])".contains("2 requests"))
    }

    @Test("an answer that the reader did not wait for is not given to its next question")
    func notWaitedFor() async throws {
        _ = try await replay(Self.threeRecords) { peripheral async throws in
            try await peripheral.write([0xB3, 1], to: Self.questions, expectingResponse: false)
            #expect(try await ask([0xB3, 2], of: peripheral) == ["81", "0666"])
            try await peripheral.write([0xB3, 1], to: Self.questions, expectingResponse: false)
            #expect(try await ask([0xB3, 9], of: peripheral) == ["silence"])
        }
    }

    @Test("what was asked twice is answered as it was the next time, and behind the last as the first")
    func changing() async throws {
        let capture = Self.capture { builder in
            Self.question([0x20], in: &builder, answer: [1])
            Self.question([0x21], in: &builder)
            Self.question([0x20], in: &builder)
            Self.question([0x20], in: &builder, answer: [2])
            builder.clock += 60_000
        }
        _ = try await replay(capture) { peripheral async throws in
            var came: [[String]] = []
            for _ in 0..<4 { came.append(try await ask([0x20], of: peripheral)) }
            #expect(came == [["01"], ["silence"], ["02"], ["01"]])
        }
    }

    @Test("what came before the first question comes when it is enabled; long questions have their own answers")
    func unasked() async throws {
        let long = (0..<40).map { UInt8($0) }
        let capture = Self.capture { builder in
            builder.notify([0xAA], on: 16)
            Self.question([0x20], in: &builder, answer: [1])
            builder.l2cap(4, [0x12, 14, 0] + long, received: false, fragments: 27)
            builder.notify([2], on: 16)
            // A longer one yet, in parts.
            builder.exchange([0x16, 14, 0, 0, 0] + long, [0x17, 14, 0, 0, 0] + long)
            builder.exchange([0x18, 1], [0x19])
            builder.notify([3], on: 16)
            builder.clock += 60_000
        }
        _ = try await replay(capture) { peripheral async throws in
            #expect(try await next(peripheral) == ["aa"])
            #expect(try await ask([0x20], of: peripheral) == ["01"])
            #expect(try await ask(long, of: peripheral) == ["02"])
            #expect(try await next(peripheral) == ["silence"])
        }
    }

    @Test("an answer of many values comes in bursts, with its packet times, to whoever has enabled it")
    func bursts() async throws {
        let capture = Self.capture { builder in
            builder.sent([0x52, 14, 0, 7])
            for number in 0..<600 { builder.notify(little16(number), on: 16) }
            Self.question([8], in: &builder, answer: [9])
        }
        _ = try await replay(capture) { peripheral async throws in
            try await peripheral.write([7], to: Self.questions, expectingResponse: false)
            var sizes: [Int] = []
            while case .values(let values) = try await peripheral.nextValues(within: .zero) {
                sizes.append(values.count)
                #expect(values.map(\.receivedAt) == values.map(\.receivedAt).sorted())
            }
            #expect(sizes == [256, 256, 88])
            try await peripheral.stopNotifying(Self.answers)
            #expect(try await ask([8], of: peripheral) != ["09"])
        }
    }
}

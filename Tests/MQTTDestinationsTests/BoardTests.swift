import Foundation
import HealthReadings
import MQTTLink
import ReadingFormats
import ReadingStore
import Testing

@testable import MQTTDestinations

@Suite("What is shown of meters")
struct BoardTests {
    private static func board(isForHomeAssistant: Bool = true) -> Board {
        Board(
            naming: Naming(gateway: "6ba7b810-9dad-11d1-80b4-00c04fd430c8", base: "healthrelay"),
            place: MQTTPlace(broker: MQTTBroker(host: "h"), isForHomeAssistant: isForHomeAssistant),
            sender: MQTTSender(version: "1.0"))
    }

    private static func reading(
        _ number: UInt8, minute: Int64, device: DeviceDescription, value: Int64 = 100
    ) -> Reading {
        Reading(
            id: ReadingID(high: 0, low: UInt64(number)),
            record: Record(
                value: .glucose(
                    GlucoseValue(
                        concentration: Quantity(ExactDecimal(significand: value), .milligramsPerDecilitre)))),
            device: device,
            time: ResolvedTime(instant: Instant(seconds: 1_700_000_000 + minute * 60), basis: .assumedZone),
            receivedAt: Instant(seconds: 1_700_000_000))
    }

    private static func delivered(
        _ number: UInt8, minute: Int64, person: String = "white_bear", device: UInt64? = 1, serial: String? = nil
    ) -> DeliveredReading {
        let description = DeviceDescription(
            address: device.map { DeviceAddress(bits: $0, kind: .public) }, model: "m", serial: serial)
        let reading = reading(number, minute: minute, device: description)
        return DeliveredReading(
            reading: reading, person: person, timestamp: Instant(seconds: 1_700_000_000 + minute * 60))
    }

    private static func states(_ board: Board) -> [String] {
        board.messages().filter { $0.key.contains("/devices/") }.values.sorted()
    }

    @Test("two people on one meter are two devices, and one person on two meters as well")
    func people() {
        var board = Self.board()
        board.show(Self.delivered(1, minute: 1))
        board.show(Self.delivered(2, minute: 2, person: "brown_bear"))
        board.show(Self.delivered(3, minute: 3, device: 2))
        #expect(board.meters.count == 3 && Self.states(board).count == 3)
    }

    @Test("a sensor goes on where the one before it ended")
    func sensors() {
        var board = Self.board()
        board.show(Self.delivered(1, minute: 1, device: nil, serial: "first"))
        board.show(Self.delivered(2, minute: 2, device: nil, serial: "second"))
        #expect(board.meters.count == 1 && Self.states(board).count == 1)
    }

    @Test("ids differ by gateway and say nothing of an address or a person")
    func ids() {
        let device = DeviceDescription(address: DeviceAddress(bits: 0xC0FF_EE00_0001, kind: .public))
        let names = ["a", "b"].map { Naming(gateway: $0, base: "t") }
        let ids = names.map { $0.id(of: device, person: "white_bear") }
        #expect(Set(ids).count == 2 && ids.allSatisfy { $0.count == 12 && $0.allSatisfy(\.isHexDigit) })
        #expect(names[0].client(of: "home").utf8.count == 18)
        #expect(names[0].client(of: "home") != names[0].client(of: "other"))
    }

    @Test("what a broker keeps and is newer stays until something newer comes or it is taken back")
    func kept() throws {
        let newest = Self.delivered(9, minute: 9)
        let state = try HomeAssistant.state(of: newest.reading).text
        var board = Self.board()
        board.show(Self.delivered(1, minute: 1))
        let topic = try #require(board.messages().keys.first { $0.contains("/devices/") })
        board.note(Array(state.utf8), at: topic)
        #expect(Self.states(board).isEmpty)
        board.show(Self.delivered(2, minute: 2))
        #expect(Self.states(board).isEmpty)
        #expect(board.shows(anyOf: [newest.reading.id]))

        var other = board
        other.takeBack([newest.reading.id], newest: [Self.delivered(1, minute: 1)])
        #expect(Self.states(other).count == 1)

        board.show(Self.delivered(10, minute: 10))
        #expect(Self.states(board).count == 1)
    }

    @Test(
        "what a broker keeps that is no state of ours, or an older one, counts for nothing",
        arguments: [
            "", "{}", "[1]", "\u{0}", #"{"measured_at":"yesterday","reading_id":"1"}"#,
            #"{"measured_at":"2001-01-01T00:00:00Z","reading_id":"1"}"#, #"{"measured_at":5,"reading_id":null}"#,
        ])
    func foreign(payload: String) throws {
        var board = Self.board()
        board.show(Self.delivered(1, minute: 1))
        let topic = try #require(board.messages().keys.first { $0.contains("/devices/") })
        board.note(Array(payload.utf8), at: topic)
        #expect(Self.states(board).count == 1)
    }

    @Test(
        "topics that all others can begin with",
        arguments: [
            ("healthrelay", true), ("home/health", true), ("größe", true), ("", false), ("/a", false), ("a/", false),
            ("a//b", false), ("a/#", false), ("+", false), ("$SYS", false), ("a\u{0}b", false), ("a\nb", false),
            (String(repeating: "a", count: 129), false),
        ] as [(String, Bool)])
    func topics(text: String, isGood: Bool) { #expect(MQTTPlace.isTopic(text) == isGood) }
}

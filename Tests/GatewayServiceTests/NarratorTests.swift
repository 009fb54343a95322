import HealthReadings
import ReadingDelivery
import Synchronization
import Testing

@testable import GatewayService

@Suite("What is told of a reading's way", .timeLimit(.minutes(5))) struct NarratorTests {
    /// What a narrator said since it was last looked at.
    private final class Said: Sendable {
        private let lines = Mutex<[String]>([])

        func add(_ line: String) { lines.withLock { $0.append(line) } }

        func take() -> [String] {
            lines.withLock { lines in
                defer { lines = [] }
                return lines
            }
        }
    }

    private static func id(_ number: Int) -> ReadingID { ReadingID(high: 7, low: UInt64(number)) }

    private static func reading(_ number: Int) -> Reading {
        let concentration = Quantity(ExactDecimal(significand: 95), .milligramsPerDecilitre)
        return Reading(
            id: id(number), record: Record(value: .glucose(GlucoseValue(concentration: concentration))),
            device: DeviceDescription(
                address: DeviceAddress("C0:00:00:00:18:08"), model: "accuchek_guide", provider: "accuchek_ble"),
            time: ResolvedTime(instant: Instant(seconds: 1_795_262_400), basis: .corrected),
            receivedAt: Instant(seconds: 1_795_262_400))
    }

    private static func narrator(showsValues: Bool, _ said: Said) -> Narrator {
        Narrator(showsValues: showsValues) { said.add($0) }
    }

    @Test("A reading's values are told until a destination has acknowledged it")
    func tellsTheWay() async {
        let said = Said()
        let narrator = Self.narrator(showsValues: true, said)
        await narrator.stored(.new(Self.reading(1)))
        _ = said.take()
        await narrator.delivery(.readings([Self.id(1)], .posted))
        await narrator.delivery(.readings([Self.id(1)], .setAside(serverSaid: "too odd")))
        await narrator.delivery(.readings([Self.id(1)], .acknowledged))
        await narrator.delivery(.readings([Self.id(1)], .acknowledged))
        let lines = said.take()
        #expect(lines.count == 3)
        #expect(lines.allSatisfy { $0.contains("95 mg/dL") })
        #expect(lines.last?.hasPrefix("acknowledged") == true)
    }

    @Test("Readings that no destination acknowledges are forgotten, the oldest first")
    func forgetsTheOldest() async {
        let said = Said()
        let narrator = Self.narrator(showsValues: true, said)
        for number in 0...Narrator.mostRemembered { await narrator.stored(.new(Self.reading(number))) }
        _ = said.take()
        await narrator.delivery(.readings([Self.id(0)], .posted))
        #expect(said.take() == [])
        await narrator.delivery(.readings([Self.id(Narrator.mostRemembered)], .posted))
        #expect(said.take().count == 1)
    }

    @Test("Where values are not told, the source of a reading is told, and forgotten in the same way")
    func forgetsSources() async {
        let said = Said()
        let narrator = Self.narrator(showsValues: false, said)
        for number in 0...Narrator.mostRemembered { await narrator.stored(.new(Self.reading(number))) }
        #expect(said.take() == [])
        await narrator.delivery(.readings([Self.id(Narrator.mostRemembered)], .sourceChecked))
        await narrator.delivery(.readings([Self.id(0)], .sourceChecked))
        await narrator.delivery(.readings([Self.id(0)], .acknowledged))
        #expect(
            said.take() == [
                "source        accuchek_ble is connected: 1 reading may be sent",
                "source        the source is connected: 1 reading may be sent",
                "acknowledged  1 reading",
            ])
    }
}

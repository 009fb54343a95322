import EmulatedReader
import EncodedSensor
import Foundation
import FreeStyleLibre
import ISO15693Reader
import LibreReader
import Testing

/// A sensor's memory, from an encoder, through an emulated reader, the real libnfc and what reads sensors.
@Suite struct SensorTests {
    private static let sensor = EncodedSensor(age: 4321)
    private static let tag = EmulatedTag(
        memory: sensor.memory, uid: (0..<8).map { UInt8(truncatingIfNeeded: sensor.uid >> (56 - 8 * $0)) },
        patchInformation: sensor.patchInformation)

    @Test("a sensor is read to the octet, on its way disturbed in every way that passes")
    func read() async throws {
        let bench = try Bench(Self.tag)
        bench.emulated.change { $0.garbledExchanges = [3, 9] }
        let scan = try await Libre1Reader(bench.reader).read()
        #expect(scan.memory.octets == Self.sensor.memory && scan.uid.octetsOnAir == Array(Self.tag.uid.reversed()))
        #expect(scan.patchInformation.octets == Self.sensor.patchInformation)
        await bench.reader.close()
    }

    @Test("a fault of tag or reader that stays is the reading's error", arguments: Fault.all)
    func faults(fault: Fault) async throws {
        let bench = try Bench(Self.tag, answerTime: fault.answerTime)
        bench.emulated.change(fault.change)
        var code: String?
        do throws(LibreReadError) { _ = try await Libre1Reader(bench.reader).read() } catch { code = error.code }
        #expect(code == fault.code)
        await bench.reader.close()
    }

    struct Fault: Sendable, CustomTestStringConvertible {
        let code: String
        var answerTime = Duration.seconds(30)
        let change: @Sendable (inout EmulatedReader.Behaviour) -> Void
        var testDescription: String { code }

        static let all = [
            Fault(code: "no_tag") { $0.tag = nil },
            Fault(code: "tag_left") { $0.tag?.leavesAfter = 9 },
            Fault(code: "tag_silent") { $0.tag?.silentBlocks = [7] },
            Fault(code: "bad_crc") { $0.tag?.damagedBlocks = [42] },
            Fault(code: "tag_error") { $0.tag?.refusedBlocks = [3: 0x0F] },
            Fault(code: "reader_cannot_speak_iso15693") { $0.isPlain = true },
            Fault(code: "reader_silent", answerTime: .milliseconds(100)) { $0.hangingExchanges = Set(4...200) },
            Fault(code: "reader_error") { $0.garbledExchanges = Set(4...200) },
            Fault(code: "port_gone") { $0.vanishesAt = 6 },
            Fault(code: "nfc_helper_died") { $0.status = 0x80 },
            Fault(code: "foreign_sensor") { $0.tag?.patchInformation[0] = 0x9D },
            Fault(code: "foreign_sensor") {
                $0.tag?.uid[1] = 0x7A
                $0.tag?.patchInformation = [0xA5, 0x00] + [UInt8](repeating: 0x11, count: 26)
            },
        ]
    }
}

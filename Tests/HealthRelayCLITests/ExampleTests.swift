import EmulatedReader
import EncodedSensor
import Foundation
import Testing

/// The examples that need hardware, at an emulated one. They are built with `HEALTHRELAY_EXAMPLES` set, as `make test` does.
@Suite struct ExampleTests {
    static let executable = Tool.executable.deletingLastPathComponent().appendingPathComponent("ReadLibre")
    static let isBuilt = FileManager.default.isExecutableFile(atPath: executable.path)

    @Test("ReadLibre reads a sensor and prints its values", .enabled(if: isBuilt, "needs HEALTHRELAY_EXAMPLES=1"))
    func readLibre() async throws {
        let (scratch, sensor) = (try Scratch(), EncodedSensor(age: 5021))
        let reader = try EmulatedReader(
            tag: EmulatedTag(
                memory: sensor.memory,
                uid: (0..<8).reversed().map { UInt8(truncatingIfNeeded: sensor.uid >> UInt64(8 * $0)) },
                patchInformation: sensor.patchInformation))
        let result = try await Tool.Running(
            [reader.setting], environment: [:], in: scratch.url, executable: Self.executable
        ).finish()
        #expect(result.status == 0 && result.errors.isEmpty, "\(result.errors)")
        #expect(result.lines.first == "Hold the reader to the sensor.")
        #expect(result.lines.contains("block 43 of 43"))
        #expect(result.lines.contains("sensor 0M0001H7ZXR, active"))
        #expect(
            result.lines.count { $0.wholeMatch(of: /[0-9]{4}-[0-9-]{5}T[0-9:]{8}Z: [0-9]+ mg\/dL/) != nil } > 40,
            "\(result.lines.suffix(5))")
    }
}

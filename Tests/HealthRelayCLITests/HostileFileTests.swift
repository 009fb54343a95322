import Foundation
import Testing

@Suite("Files that were damaged, or made to do harm")
struct HostileFileTests {
    @Test("a sample of changed stores, exports and captures: a named error each, no trap, within time and memory")
    func sample() async throws {
        let result = try await Tool.other(
            "python3",
            [Tool.root.path + "/Tests/Faults/hostile", "--tool", Tool.executable.path, "--count", "24", "--seed", "14"])
        #expect(result.status == 0, "\(result.output) \(result.errors)")
        #expect(result.output.contains("hostile: 24 files"))
    }
}

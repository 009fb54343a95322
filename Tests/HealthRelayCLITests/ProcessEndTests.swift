import Testing

/// How the program ends: other threads of it may still run.
@Suite struct ProcessEndTests {
    @Test(
        "no library cleans up after what other threads may use",
        arguments: [
            (0, ["--version"]), (0, ["--help"]), (0, ["store", "stats"]), (64, ["nonsense"]),
            (66, ["store", "import", "/nonexistent"]),
        ] as [(Int32, [String])])
    func quiet(_ status: Int32, _ arguments: [String]) async throws {
        let scratch = try Scratch()
        // The dynamic linker says so on standard error.
        let result = try await Tool.run(
            arguments + ["--state-dir", scratch.state], environment: ["LD_DEBUG": "files"])
        #expect(result.errors.contains("calling init"), "the linker tells nothing here")
        #expect(!result.errors.contains("calling fini"))
        #expect(result.signal == nil)
        #expect(result.status == status)
    }
}

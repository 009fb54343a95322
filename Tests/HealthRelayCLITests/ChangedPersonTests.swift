import Foundation
import Testing

/// A program that can write the database, and has no key, gives a person another name.
@Suite struct ChangedPersonTests {
    @Test("commands still run: store verify names the row, and what needs the person says that the store is damaged")
    func renamed() async throws {
        let scratch = try Scratch()
        let environment = try await Sandboxed(in: scratch).environment
        func run(_ arguments: [String]) async throws -> Tool.Result {
            try await Tool.run(arguments + ["--json", "--state-dir", scratch.state], environment: environment)
        }
        #expect(try await run(["replay", Tool.fixture("glucose-first-delivery.btsnoop")]).status == 0)
        #expect(try await run(["store", "verify"]).status == 0)
        let script = """
            import sqlite3, sys
            db = sqlite3.connect(sys.argv[1] + "/readings.sqlite")
            db.execute("UPDATE user SET client_user_id = 'brown_bear'")
            db.commit()
            """
        #expect(try await Tool.other("python3", ["-c", script, scratch.state]).status == 0)
        let verified = try await run(["store", "verify"])
        #expect(verified.status == 65)
        #expect(verified.output.contains(#"{"problem":"person_changed","subject":"person 1"}"#), "\(verified.output)")
        let shown = try await run(["user", "show"])
        #expect(shown.status == 65 && shown.errors.contains("store_corrupt"), "\(shown.errors)")
        #expect(shown.errors.contains("person 1 was changed"))
        let sync = try await run(["sync"])
        #expect(sync.status == 65 && sync.errors.contains("store_corrupt"), "\(sync.errors)")
        // Nobody was made beside them under the name of the settings.
        #expect(try await run(["store", "verify"]).output == verified.output)
    }
}

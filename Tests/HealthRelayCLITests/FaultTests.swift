import Foundation
import Testing

/// `watch --faults` of the real program, where there is no Bluetooth.
@Suite struct FaultTests {
    @Test("a bus that is not there is one fault, however long it is looked for; the line has its schema")
    func noBus() async throws {
        let scratch = try Scratch()
        let watch = try Tool.Running(
            ["watch", "--faults", "--json", "--state-dir", scratch.state],
            environment: [
                "DBUS_SYSTEM_BUS_ADDRESS": "unix:path=/nonexistent/bus", "HEALTHRELAY_USER_TIME_ZONE": "Europe/Berlin",
            ], in: scratch.url)
        #expect(await watch.wait { $0.outputText.contains("no_system_bus") }, "\(watch.errorText)")
        try await Task.sleep(for: .seconds(2))
        watch.kill(SIGINT)
        let result = await watch.finish()
        #expect(result.status == 0, "\(result.errors)")
        let lines = result.output.split(separator: "\n")
        #expect(lines.count == 1, "\(result.output)")
        let fault = try Document(String(try #require(lines.first)))["fault"]
        #expect(fault?["subject"]?.plain == "radio" && fault?["name"]?.plain == "unsupported")
        let check = try await Tool.other(
            Tool.root.path + "/Tests/Schemas/check", ["--lines", "watch_fault", watch.output.path])
        #expect(check.status == 0 && check.output.hasPrefix("1 "), "\(check.output) \(check.errors)")
    }

    @Test("--faults and --subscriber do not go together")
    func usage() async throws {
        let scratch = try Scratch()
        let result = try await Tool.run(
            ["watch", "--faults", "--subscriber", "x", "--state-dir", scratch.state], environment: [:])
        #expect(result.status == 64 && result.errors.contains("--faults goes without --subscriber"))
    }
}

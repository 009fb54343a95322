import Foundation
import Testing

extension LabTests {
    /// The examples that need a radio. They are built with `HEALTHRELAY_EXAMPLES` set, as `make test` does.
    @Suite(.enabled(if: Example.areBuilt, "needs HEALTHRELAY_EXAMPLES=1")) struct Examples {
        @Test("Scan finds a meter; PairAndRead pairs it and prints what it holds")
        func pairAndRead() async throws {
            let lab = try await Lab.fresh()
            let meter = try await lab.add(Meters.accuchek(["records": ["count": 5, "seed": 120]]))
            let scan = try await TestGateway.run(Example.url("Scan").path, "5")
            #expect(scan.status == 0 && scan.errors.isEmpty, "\(scan.errors)")
            let found = scan.output.split(separator: "\n").first { $0.hasPrefix(meter.address) }
            #expect(found?.contains("meter+00001808") == true, "\(scan.output)")

            let gateway = try TestGateway()
            let person = Pipe()
            let running = try Running(
                [meter.address, gateway.state], ProcessInfo.processInfo.environment, person.fileHandleForReading,
                of: gateway, executable: Example.url("PairAndRead"))
            let shown = try await meter.passkey()
            try person.fileHandleForWriting.write(contentsOf: Data((shown + "\n").utf8))
            let result = await running.finish()
            #expect(result.status == 0 && result.errors.isEmpty, "\(result.errors)")
            let printed = Document.lines(
                result.output.split(separator: "\n").filter { $0.hasPrefix("{") }.joined(separator: "\n"))
            Comparison.expect(printed, equal: try await meter.readings())
            #expect(printed.count == 5)
            #expect(result.output.hasSuffix("5 records, complete\n"), "\(result.output)")
        }
    }
}

private enum Example {
    static let areBuilt = FileManager.default.isExecutableFile(atPath: url("Scan").path)

    static func url(_ name: String) -> URL {
        TestGateway.executable.deletingLastPathComponent().appendingPathComponent(name)
    }
}

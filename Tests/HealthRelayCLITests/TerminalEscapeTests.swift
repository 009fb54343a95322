import EmulatedRadio
import Foundation
import Testing

/// Names and words from outside on the person's terminal.
@Suite(.timeLimit(.minutes(5))) struct TerminalEscapeTests {
    private static let name = "meter+00001808\u{1B}]0;owned\u{7}\u{9B}2J\u{202E}\nerror: forged"

    /// Whether a text has a character that a terminal obeys.
    private func isClean(_ text: String) -> Bool {
        !text.unicodeScalars.contains {
            ($0.value < 0x20 && $0 != "\n" && $0 != "\t") || (0x7F..<0xA0).contains($0.value) || $0.value == 0x202E
        }
    }

    @Test("a device's name reaches no terminal raw: scan, pair, devices, read, and their JSON")
    func names() async throws {
        let meter = EmulatedMeter("C0:00:00:00:18:08", name: Self.name, pairing: .passkey(12_345))
        let gateway = try await HostedGateway([meter])
        var seen = ""
        for json in [[], ["--json"]] {
            for arguments in [
                ["scan", "--for", "2s"], ["pair", "C0:00:00:00:18:08", "--passkey", "012345"], ["devices"],
                ["read", "C0:00:00:00:18:08"],
            ] {
                let result = try await Tool.run(arguments + json + ["--state-dir", gateway.scratch.state])
                #expect(isClean(result.output) && isClean(result.errors), "\(arguments): \(result)")
                #expect(!result.lines.contains { $0.hasPrefix("error: forged") }, "\(arguments): \(result)")
                #expect(!result.errors.split(separator: "\n").contains { $0.hasPrefix("error: forged") })
                for line in result.lines where !json.isEmpty { _ = try Document(line) }
                seen += result.output
            }
        }
        #expect(seen.contains(#"\u001b]0;owned"#), "\(seen)")
        try await gateway.stop()
    }

    @Test("nor do arguments, file names and the words of an error")
    func errors() async throws {
        let wild = "x\u{1B}]0;owned\u{7}\u{202E}"
        for arguments in [
            ["decode", wild, "00"], ["replay", "/nonexistent/\(wild)"], ["query", "--types", wild], ["query", wild],
            ["run", "--config", "/nonexistent/\(wild)"],
        ] {
            let scratch = try Scratch()
            let result = try await Tool.run(arguments + ["--state-dir", scratch.state])
            #expect(result.status != 0 && isClean(result.errors) && isClean(result.output), "\(arguments): \(result)")
            #expect(result.errors.contains(#"\u001b]0;owned"#), "\(arguments): \(result.errors)")
        }
    }
}

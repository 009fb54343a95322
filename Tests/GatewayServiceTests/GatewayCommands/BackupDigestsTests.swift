import Foundation
import Testing

@testable import GatewayCommands

/// What is known of backups by their names.
@Suite struct BackupDigestsTests {
    @Test("a backup that has no name yet stays known as this gateway's while another one is verified")
    func own() throws {
        let directory = try GatewayBench.scratch()
        defer { try? FileManager.default.removeItem(at: directory) }
        let digests = BackupDigests(in: directory.path)
        try digests.keep("1", of: "first", isOwn: true, among: [String]())
        try digests.keep("2", of: "others", among: ["others"])
        #expect(digests.own == ["first"] && digests.digest(of: "others") == "2")
        try digests.keep("3", of: "first", among: ["first"])
        #expect(digests.own == ["first"] && digests.digest(of: "first") == "3")
        #expect(digests.digest(of: "others") == nil, "it is gone")
        try digests.keep("4", of: "second", isOwn: true, among: ["others"])
        #expect(digests.own == ["second"], "the first is gone")
    }
}

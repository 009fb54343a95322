import Foundation
import Testing

@testable import GatewayCommands

/// What is known of backups by their names.
@Suite struct BackupRecordsTests {
    @Test("a backup that has no name yet stays known as this gateway's while another one is verified")
    func own() throws {
        let directory = try GatewayBench.scratch()
        defer { try? FileManager.default.removeItem(at: directory) }
        let records = BackupRecords(in: directory.path)
        try records.keep("1", of: "first", isOwn: true, among: [String]())
        try records.keep("2", of: "others", among: ["others"])
        #expect(records.own == ["first"] && records.digest(of: "others") == "2")
        try records.keep("3", of: "first", among: ["first"])
        #expect(records.own == ["first"] && records.digest(of: "first") == "3")
        #expect(records.digest(of: "others") == nil, "it is gone")
        try records.keep("4", of: "second", isOwn: true, among: ["others"])
        #expect(records.own == ["second"], "the first is gone")
    }

    @Test("which are on another disk stays known while they are verified; records of before know of none")
    func otherDisk() throws {
        let directory = try GatewayBench.scratch()
        defer { try? FileManager.default.removeItem(at: directory) }
        let former = #"{"former":{"digest":"0","isOwn":true}}"#
        try Data(former.utf8).write(to: directory.appendingPathComponent("backup-digests.json"))
        let records = BackupRecords(in: directory.path)
        #expect(records.own == ["former"] && records.made(onOtherDisk: "/mnt").isEmpty)
        try records.keep("1", of: "first", isOwn: true, otherDisk: "/mnt", among: ["former"])
        try records.keep("2", of: "first", among: ["former", "first"])
        #expect(records.made(onOtherDisk: "/mnt") == ["first"] && records.made(onOtherDisk: "/mnt/b").isEmpty)
        #expect(records.own == ["former", "first"])
    }

    @Test("where that disk was mounted stays known, too")
    func mountPoints() throws {
        let directory = try GatewayBench.scratch()
        defer { try? FileManager.default.removeItem(at: directory) }
        let records = BackupRecords(in: directory.path)
        try records.keep("1", of: "first", isOwn: true, otherDisk: "/mnt/b", mountPoint: "/mnt", among: [String]())
        try records.keep("2", of: "first", among: ["first"])
        #expect(records.mountPoints(of: "/mnt/b") == ["/mnt"] && records.mountPoints(of: "/mnt").isEmpty)
    }
}

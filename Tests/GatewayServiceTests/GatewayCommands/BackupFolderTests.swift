import Foundation
import HealthReadings
import Testing

@testable import GatewayCommands
@testable import GatewaySettings

private let otherDisk = "/dev/shm"

private func hasOtherDisk() -> Bool {
    !areOnOneFileSystem(otherDisk, FileManager.default.temporaryDirectory.path) && access(otherDisk, W_OK) == 0
}

@Suite("The disk of backups", .enabled("needs another file system in /dev/shm") { hasOtherDisk() })
struct BackupFolderTests {
    private static let gateway = "0123456789abcdef"

    /// A place for backups, with a store on a partition of its own, which says that they were on a third disk.
    ///
    /// - Parameter mountPoint: where that was mounted; `nil`: a version that didn't note it has made them.
    private static func with(
        mountPoint: (_ directory: String) -> String?, _ body: (BackupFolder, _ directory: String) async throws -> Void
    ) async throws {
        let scratch = try GatewayBench.scratch()
        let state = otherDisk + "/healthrelay-" + UUID().uuidString
        defer {
            try? FileManager.default.removeItem(at: scratch)
            try? FileManager.default.removeItem(atPath: state)
        }
        let directory = scratch.path + "/backups"
        for path in [state, directory] {
            try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
        }
        try BackupRecords(in: state).keep(
            "0", of: "healthrelay-01234567-20260101T000000Z.export", isOwn: true, otherDisk: directory,
            mountPoint: mountPoint(directory), among: [String]())
        let setting = BackupSetting(directory: directory, interval: 86_400, count: 3, passphraseFile: state + "/none")
        try await body(BackupFolder(setting: setting, gateway: gateway, stateDirectory: state), directory)
    }

    @Test("it is missing below its mount point, also if the store is on a partition of its own")
    func missing() async throws {
        for depth in [0, 1] {
            try await Self.with(mountPoint: { depth == 0 ? $0 : parentDirectory(of: $0) }) { folder, _ in
                #expect(folder.isOnOtherDisk)
                await #expect {
                    _ = try await folder.backups()
                } throws: { error in
                    (error as? Problem)?.code == "backup_disk_missing"
                }
            }
        }
    }

    @Test("another one that is mounted there is taken, and one that says nothing of where it was mounted")
    func present() async throws {
        try await Self.with(mountPoint: { mountPoint(of: $0) }) { folder, _ in
            let found = try await folder.backups()
            #expect(found.isEmpty)
        }
        try await Self.with(mountPoint: { _ in nil }) { folder, _ in
            let found = try await folder.backups()
            #expect(found.isEmpty)
        }
    }

    @Test("a backup of then shows that the disk is there, wherever it is mounted now")
    func known() async throws {
        try await Self.with(mountPoint: { $0 }) { folder, directory in
            let name = "healthrelay-01234567-20260101T000000Z.export"
            try Data("x".utf8).write(to: URL(fileURLWithPath: directory + "/" + name))
            let found = try await folder.backups()
            #expect(found.map(\.name) == [name])
        }
    }

    @Test("a mount point is the topmost directory of the same file system")
    func mountPoints() throws {
        let path = otherDisk + "/healthrelay-" + UUID().uuidString
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
        defer { try? FileManager.default.removeItem(atPath: path) }
        // Where /dev/shm is no mount of its own, it is on that of /dev.
        let mount = areOnOneFileSystem(otherDisk, "/dev") ? "/dev" : otherDisk
        #expect(mountPoint(of: path) == mount && mountPoint(of: "/") == "/")
        #expect(mountPoint(of: path + "/none") == nil)
        let scratch = try GatewayBench.scratch()
        defer { try? FileManager.default.removeItem(at: scratch) }
        // As a mount does it: the same path leads to another disk.
        let link = scratch.path + "/backups"
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: path)
        #expect(mountPoint(of: link) == link)
    }
}

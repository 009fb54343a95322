import EmulatedReader
import Foundation
import Testing

/// What other processes of the gateway's user see of it.
@Suite(.timeLimit(.minutes(5))) struct SeclusionTests {
    private func text(_ path: String) -> String {
        String(decoding: FileManager.default.contents(atPath: path) ?? Data(), as: UTF8.self)
    }

    private func children(of process: Int32) -> [Int32] {
        text("/proc/\(process)/task/\(process)/children").split(separator: " ").compactMap { Int32($0) }
            + ((try? FileManager.default.contentsOfDirectory(atPath: "/proc/\(process)/task")) ?? []).flatMap {
                text("/proc/\(process)/task/\($0)/children").split(separator: " ").compactMap { Int32($0) }
            }
    }

    @Test(
        "the NFC helper gets neither the gateway's credentials, nor its settings, nor a descriptor of its files",
        .enabled("only root may read another's environment once its memory is closed") { geteuid() == 0 })
    func helper() async throws {
        let (scratch, reader) = (try Scratch(), try EmulatedReader())
        let secrets = scratch.url.appendingPathComponent("secrets")
        try FileManager.default.createDirectory(at: secrets, withIntermediateDirectories: true)
        try Data("sk_us_secret".utf8).write(to: secrets.appendingPathComponent("api-key"))
        let run = try Tool.Running(
            ["run", "--sandbox", "--state-dir", scratch.state],
            environment: [
                "CREDENTIALS_DIRECTORY": secrets.path, "HEALTHRELAY_SERVER_API_KEY_FILE": secrets.path + "/api-key",
                "HEALTHRELAY_NFC_READER": reader.setting, "HEALTHRELAY_HTTP_LISTEN": "127.0.0.1:0",
                "HEALTHRELAY_BLUETOOTH_ADAPTER": "none", "SOME_PROGRAMS_TOKEN": "secret",
            ], in: scratch.url)
        var helper: Int32?
        #expect(
            await run.wait { run in
                helper = children(of: run.process.processIdentifier).first {
                    text("/proc/\($0)/comm").hasPrefix("healthrelay-nfc")
                }
                return helper != nil && run.errorText.contains("is ready")
            }, "\(run.errorText)")
        let process = try #require(helper)
        let environment = text("/proc/\(process)/environ")
        #expect(environment.contains("PATH="))
        for name in ["CREDENTIALS_DIRECTORY", "HEALTHRELAY_", "SOME_PROGRAMS_TOKEN", "secret", "HOME"] {
            #expect(!environment.contains(name), "\(name)")
        }
        let descriptors = try FileManager.default.contentsOfDirectory(atPath: "/proc/\(process)/fd").compactMap {
            try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/\(process)/fd/\($0)")
        }
        #expect(!descriptors.isEmpty)
        for path in descriptors {
            let isOwn = ["socket:", "pipe:", "/dev/", "anon_inode:"].contains { path.hasPrefix($0) }
            #expect(isOwn, "\(path)")
        }
        run.kill(SIGTERM)
        #expect(await run.finish().status == 0)
    }

    /// Who owns the files in `/proc` of a process of user 65534: root, where its memory is closed.
    private func owner(_ environment: [String]) async throws -> UInt32? {
        let scratch = try Scratch()
        chmod(scratch.url.path, 0o777)
        let run = try Tool.Running(
            ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] + environment
                + [Tool.executable.path, "sandbox", "--port", "0"],
            environment: [:], in: scratch.url, executable: URL(fileURLWithPath: "/usr/bin/env"))
        #expect(await run.wait { $0.errorText.contains("sandbox at") }, "\(run.errorText)")
        let attributes = try? FileManager.default.attributesOfItem(
            atPath: "/proc/\(run.process.processIdentifier)/environ")
        run.kill(SIGTERM)
        _ = await run.finish()
        return (attributes?[.ownerAccountID] as? NSNumber)?.uint32Value
    }

    @Test(
        "the process's memory is closed to others of its user and leaves no core dump, unless a developer asks",
        .enabled("needs root to run as another user") { geteuid() == 0 })
    func memory() async throws {
        #expect(try await owner([]) == 0)
        #expect(try await owner(["env", "HEALTHRELAY_DUMPABLE=1"]) == 65_534)
    }

    @Test("the unit keeps memory from core dumps and swap, and restarts nothing that trying again does not help")
    func unit() throws {
        let unit = try String(
            contentsOf: Tool.root.appendingPathComponent("Packaging/healthrelay.service"), encoding: .utf8)
        let lines = Set(unit.split(separator: "\n").map(String.init))
        for line in [
            "LimitCORE=0", "MemorySwapMax=0", "SupplementaryGroups=dialout plugdev", "RestartSec=10",
            // As a state directory, a backup disk that is missing would keep the gateway from running.
            "StateDirectory=healthrelay", "ReadWritePaths=-/var/lib/healthrelay-backups",
        ] {
            #expect(lines.contains(line), "\(line)")
        }
        let statuses = try #require(lines.first { $0.hasPrefix("RestartPreventExitStatus=") })
        #expect(statuses == "RestartPreventExitStatus=64 65 66 73 77 78")
    }
}

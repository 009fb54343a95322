import CSandbox
import EmulatedReader
import EncodedSensor
import Foundation
import FreeStyleLibre
import HelperProcesses
import LibreReader
import NFCPipe
import TestSupport
import Testing

@testable import ISO15693Reader

/// The helper program as a process: its life, its death, and its port.
@Suite struct HelperTests {
    @Test("a helper that is killed in the middle of a scan is a named error, and the next scan works: 100 of 100")
    func killed() async throws {
        let sensor = EncodedSensor(age: 5000)
        let bench = try Bench(EmulatedTag(memory: sensor.memory), answerTime: .seconds(60))
        var (named, other) = (0, [String]())
        for round in 0..<100 {
            // The scan is caught at its first request, or after a few blocks.
            let last = 1 + round % 15
            bench.emulated.change { $0.hangingExchanges = [last] }
            let scan = Task { () async -> String? in
                do throws(LibreReadError) { _ = try await Libre1Reader(bench.reader).read() } catch {
                    return error.code
                }
                return nil
            }
            #expect(await eventually { bench.emulated.exchanges >= last })
            // The one it waits for may be the last round's, or its own.
            let helper = try #require(bench.reader.helperIdentifier)
            kill(helper, SIGKILL)
            let code = await scan.value
            if code == "nfc_helper_died" { named += 1 } else { other.append(code ?? "none") }
            bench.emulated.change { $0.hangingExchanges = [] }
            let next = try await Libre1Reader(bench.reader).read()
            #expect(next.memory.octets == sensor.memory)
            #expect(!isThere(helper), "a killed helper was not waited for")
        }
        #expect(named == 100, "\(other)")
        await bench.reader.close()
    }

    @Test("a port belongs to one process; the other is told whose it is, by whichever name it asks")
    func lock() async throws {
        let first = try Bench()
        #expect(await first.error(.inventory) == nil)
        let owner = first.reader.helperIdentifier
        let folder = try Folder()
        let link = folder.url.appendingPathComponent("by:another:name").path
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: first.emulated.path)
        for path in [first.emulated.path, link] {
            let second = try LibNFCTransport(#require(LibNFCReader("pn532_uart:\(path):115200")), program: Helper.path)
            var errors: [ISO15693Error] = []
            do throws(ISO15693Error) { _ = try await second.uid() } catch { errors.append(error) }
            #expect(errors == [.portInUse(path, pid: owner)])
        }
        await first.reader.close()
        let third = try LibNFCTransport(#require(LibNFCReader("pn532_uart:\(link)")), program: Helper.path)
        #expect(try await third.uid() == EmulatedTag.counting.uid)
        await third.close()
    }

    @Test("a port that is not there, is no serial port, or is not for this user has its own error")
    func ports() async throws {
        let folder = try Folder()
        func error(_ path: String, helper: String = Helper.path) async throws -> ISO15693Error? {
            let reader = try LibNFCTransport(#require(LibNFCReader("pn532_uart:\(path):115200")), program: helper)
            do throws(ISO15693Error) { _ = try await reader.uid() } catch { return error }
            return nil
        }
        #expect(try await error("/dev/ttyNone0") == .noReader("/dev/ttyNone0"))
        #expect(try await error("/dev/null") == .noReader("/dev/null"))
        let emulated = try EmulatedReader()
        let port = URL(fileURLWithPath: emulated.path).resolvingSymlinksInPath().path
        let helper: String
        if geteuid() == 0 {
            helper = try folder.program(
                "helper", "exec setpriv --reuid 65534 --regid 65534 --clear-groups \(Helper.path)")
        } else {
            helper = Helper.path
            chmod(port, 0)
        }
        guard case .notPermitted(emulated.path, let mend)? = try await error(emulated.path, helper: helper) else {
            Issue.record("another error")
            return
        }
        #expect(mend.contains("the group `") || mend.contains("udev"))
    }

    @Test(
        "the helper can open devices only, whatever its user may read",
        .enabled("this kernel has no Landlock") { csandbox_landlock_version() > 0 })
    func secluded() throws {
        let folder = try Folder()
        let secret = folder.url.appendingPathComponent("api-key").path
        try Data("sk_us_secret".utf8).write(to: URL(fileURLWithPath: secret))
        let talk = try HelperTalk()
        guard case .failed(.notPermitted(secret, _)) = try talk.ask(.open(reader: "pn532_uart:\(secret):115200")) else {
            Issue.record("\(secret) can be opened")
            return
        }
        guard case .failed(.noPort("/dev/null")) = try talk.ask(.open(reader: "pn532_uart:/dev/null:115200")) else {
            Issue.record("/dev/null cannot be opened")
            return
        }
    }

    @Test("a helper that is missing, not to be run, of another version, or that cannot start says which")
    func missing() async throws {
        let folder = try Folder()
        func error(_ helper: String) async throws -> ISO15693Error? {
            try await Bench(helper: helper).error(.inventory)
        }
        guard case .helperMissing(let why)? = try await error("/nonexistent/healthrelay-nfc") else {
            Issue.record("a helper that is not there was run")
            return
        }
        #expect(why.contains("No such file"))
        let loader = "libnfc.so.6: cannot open shared object file"
        let broken = try folder.program("broken", "echo '\(loader)' >&2; exit 127")
        #expect(try await error(broken) == .helperMissing(loader))
        let other = try folder.program("other", "printf 'hello\\t99\\t1.8.0\\n'; cat")
        #expect(try await error(other) == .helperFailed("it belongs to another version of healthrelay"))
        let talkative = try folder.program("talkative", "echo good morning; cat")
        guard case .helperFailed? = try await error(talkative) else {
            Issue.record("rubbish was understood")
            return
        }
        let short = try folder.program("short", "echo 'no reader for you' >&2; exit 3")
        #expect(try await error(short) == .helperFailed("no reader for you"))
    }

    @Test("the end of the asking process, in whatever way, is the end of its helper", arguments: [false, true])
    func orphaned(isWaiting: Bool) async throws {
        let emulated = try EmulatedReader(tag: .counting)
        if isWaiting { emulated.change { $0.hangingExchanges = [1] } }
        let folder = try Folder()
        let note = folder.url.appendingPathComponent("pid").path
        let program = """
            import subprocess, sys, time
            helper = subprocess.Popen([sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            helper.stdin.write(("open\\t" + sys.argv[2] + "\\nexchange\\t2000\\t260100\\n").encode())
            helper.stdin.flush()
            helper.stdout.readline()
            helper.stdout.readline()
            open(sys.argv[3] + "~", "w").write(str(helper.pid))
            import os; os.rename(sys.argv[3] + "~", sys.argv[3])
            time.sleep(600)
            """
        let parent = Process()
        parent.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        parent.arguments = ["python3", "-c", program, Helper.path, emulated.setting, note]
        try parent.run()
        #expect(await eventually { FileManager.default.fileExists(atPath: note) && emulated.exchanges >= 1 })
        let helper = try #require(Int32(String(contentsOfFile: note, encoding: .utf8)))
        #expect(isThere(helper))
        kill(parent.processIdentifier, SIGKILL)
        // Its new parent waits for it, or does not: a process that has ended has no program any more.
        #expect(
            await eventually {
                (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/\(helper)/exe")) == nil
            })
        let next = try LibNFCTransport(#require(LibNFCReader(emulated.setting)), program: Helper.path)
        #expect(try await next.uid() == EmulatedTag.counting.uid)
        await next.close()
    }

    @Test("no helper is left behind, neither by closing nor by forgetting a reader")
    func zombies() async throws {
        var helpers: [Int32] = []
        for round in 0..<10 {
            let bench = try Bench()
            #expect(await bench.error(.inventory) == nil)
            helpers.append(try #require(bench.reader.helperIdentifier))
            if round % 2 == 0 {
                await bench.reader.close()
                #expect(!isThere(helpers[round]), "closing did not wait for the helper")
            }
        }
        #expect(await eventually { !helpers.contains(where: isThere) })
    }

    @Test("a helper gets none of its parent's descriptors, whatever their number")
    func descriptors() async throws {
        // Without O_CLOEXEC, as a library may leave them; one beyond what select() takes.
        let null = open("/dev/null", O_RDONLY)
        var limit = rlimit()
        getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        let high = fcntl(null, F_DUPFD, Int32(clamping: min(2000, limit.rlim_cur - 1)))
        defer { for descriptor in [null, high] where descriptor >= 0 { close(descriptor) } }
        let bench = try Bench()
        #expect(await bench.error(.inventory) == nil)
        let helper = try #require(bench.reader.helperIdentifier)
        let folder = "/proc/\(helper)/fd"
        let held = try FileManager.default.contentsOfDirectory(atPath: folder)
        let files = held.compactMap { try? FileManager.default.destinationOfSymbolicLink(atPath: "\(folder)/\($0)") }
        #expect(held.count < 12 && !files.contains("/dev/null"), "\(files)")
        await bench.reader.close()
    }

    @Test("the helper answers rubbish with an error and goes on")
    func rubbish() throws {
        let talk = try HelperTalk()
        for line in [
            "", "open", "exchange\t1", "exchange\tx\t00", "exchange\t1\t0", "close\tnow", "\u{0}\u{1}", "öffne",
        ] {
            guard case .failed(.malformed) = try talk.ask(line: line) else {
                Issue.record("'\(line)' was understood")
                continue
            }
        }
        #expect(try talk.ask(.exchange(frame: [0x26, 0x01, 0x00], milliseconds: 1)) == .failed(.notOpen))
        #expect(try talk.ask(.open(reader: "nodriver:/dev/null")) == .failed(.noPort("nodriver:/dev/null")))
        #expect(try talk.ask(.close) == .closed)
        guard case .readers = try talk.ask(.list) else {
            Issue.record("no list")
            return
        }
        #expect(talk.process.finish(within: .seconds(30)) == .exited(0))
    }
}

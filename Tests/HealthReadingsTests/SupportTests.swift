import Foundation
import HealthReadings
import Synchronization
import Testing

@Suite struct SupportTests {
    @Test("octets and numbers have all their digits, in either case")
    func hexadecimal() {
        #expect(UInt8(0x0A).hexadecimal() == "0a" && UInt8(0xAF).hexadecimal(uppercase: true) == "AF")
        #expect(UInt16(0x1808).hexadecimal() == "1808" && UInt32(1).hexadecimal() == "00000001")
        #expect(UInt64.max.hexadecimal(uppercase: true) == String(repeating: "F", count: 16))
        #expect([0, 255, 16].hexadecimal() == "00ff10" && [UInt8]().hexadecimal() == "")
        #expect([0, 255][...].hexadecimal(uppercase: true, separator: " ") == "00 FF")
    }

    @Test("numbers, ids and times are written as they are described")
    func octets() throws {
        forAll(2000) { generator in
            let number = ExactDecimal(
                significand: generator.integer(), exponent: Int16.random(in: -20...4, using: &generator))
            let (wall, instant) = (WallTime(secondsSinceEpoch: generator.integer()), generator.integer())
            let id = ReadingID(high: generator.next(), low: generator.next())
            var octets: [UInt8] = []
            octets.append(number)
            octets.append(literal: " ")
            octets.append(digits: instant)
            octets.append(literal: " ")
            octets.append(wall)
            octets.append(literal: " ")
            octets.append(Instant(microseconds: instant))
            octets.append(literal: " ")
            octets.append(id)
            let texts = "\(number) \(instant) \(wall) \(Instant(microseconds: instant)) \(id)"
            return (String(decoding: octets, as: UTF8.self), texts, about: texts)
        }
        #expect(JSONValue.array([.written(Array("{}".utf8)), 1]).text == "[{},1]")
    }

    @Test("shielded work is finished in a task that is cancelled, and its result and its error come back")
    func shield() async {
        struct Refused: Error {}
        let steps = Steps()
        let task = Task {
            while !Task.isCancelled { await Task.yield() }
            let number = await shieldedFromCancellation {
                steps.note("\(Task.isCancelled)")
                return 7
            }
            steps.note("\(number) \(Task.isCancelled)")
            try await shieldedFromCancellation { throw Refused() }
        }
        task.cancel()
        await #expect(throws: Refused.self) { try await task.value }
        #expect(steps.all == ["false", "7 true"])
    }

    private final class Steps: Sendable {
        private let steps = Mutex<[String]>([])

        var all: [String] { steps.withLock { $0 } }

        func note(_ step: String) { steps.withLock { $0.append(step) } }
    }

    @Test("every listener of a broadcaster gets what is sent from then on, and a busy one the newest")
    func broadcast() async {
        let broadcaster = Broadcaster<Int>()
        #expect(!broadcaster.hasListeners)
        let early = broadcaster.listen(buffering: 10, first: 0)
        broadcaster.send(1)
        let late = broadcaster.listen(buffering: 2)
        for number in 2...5 { broadcaster.send(number) }
        broadcaster.finish()
        #expect(!broadcaster.hasListeners)
        let again = broadcaster.listen(buffering: 10)
        broadcaster.send(6)
        broadcaster.close()
        let closed = broadcaster.listen(buffering: 10, first: 7)
        broadcaster.send(8)
        #expect(await Array(early) == [0, 1, 2, 3, 4, 5])
        #expect(await Array(late) == [4, 5])
        #expect(await Array(again) == [6])
        #expect(await Array(closed) == [7])
    }

    @Test("who follows a broadcaster is called until they leave, and told of its end once")
    func broadcastFollowed() {
        let broadcaster = Broadcaster<Int>()
        let (steps, others) = (Steps(), Steps())
        let leave = broadcaster.follow({ steps.note("\($0)") }, atEnd: { steps.note("end") })
        let leaveToo = broadcaster.follow({ others.note("\($0)") }, atEnd: { others.note("end") })
        broadcaster.send(1)
        leaveToo()
        broadcaster.send(2)
        #expect(broadcaster.hasListeners)
        broadcaster.close()
        broadcaster.send(3)
        #expect(!broadcaster.hasListeners)
        leave()
        leaveToo()
        _ = broadcaster.follow({ others.note("\($0)") }, atEnd: { others.note("closed") })
        broadcaster.send(4)
        #expect(steps.all == ["1", "2", "end"] && others.all == ["1", "closed"])
    }

    @Test("two senders at once are heard in the same order by all, and a listener that leaves is forgotten")
    func broadcastOrder() async {
        let broadcaster = Broadcaster<Int>()
        let (first, second) = (broadcaster.listen(buffering: 20_000), broadcaster.listen(buffering: 20_000))
        do {
            let leaver = Task { for await _ in broadcaster.listen(buffering: 1) {} }
            leaver.cancel()
            await leaver.value
        }
        await withTaskGroup { group in
            for sender in 0..<4 {
                group.addTask { for number in 0..<1000 { broadcaster.send(sender * 1000 + number) } }
            }
        }
        broadcaster.finish()
        let (heard, other) = (await Array(first), await Array(second))
        #expect(heard.count == 4000 && heard == other)
    }

    @Test("what a path names is told apart, links followed, and a directory can be made durable")
    func files() throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("support-\(UUID().uuidString)").path
        defer { try? FileManager.default.removeItem(atPath: folder) }
        #expect(FileKind(at: folder) == .absent && !synchronizeDirectory(folder) && errno == ENOENT)
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: false)
        #expect(FileKind(at: folder) == .directory && synchronizeDirectory(folder))
        let file = folder + "/file"
        #expect(FileManager.default.createFile(atPath: file, contents: nil))
        try FileManager.default.createSymbolicLink(atPath: folder + "/link", withDestinationPath: file)
        #expect(FileKind(at: folder + "/link") == .regular)
        #expect(!synchronizeDirectory(file) && errno == ENOTDIR)
        #expect(mkfifo(folder + "/fifo", 0o600) == 0)
        #expect(FileKind(at: folder + "/fifo") == .special && !FileKind(at: folder + "/fifo").isAbsentOrRegular)
        #expect(FileKind(at: file).isAbsentOrRegular && FileKind(at: folder + "/none").isAbsentOrRegular)
    }

    @Test(
        "subvolumes of one Btrfs are one file system, however they are mounted; a bind mount is its own file system's")
    func subvolumes() {
        let mounts = MountTable(
            """
            26 1 0:31 /@ / rw,relatime shared:1 - btrfs /dev/sda2 rw,subvolid=256,subvol=/@
            36 26 0:31 /@home /home rw,relatime shared:2 - btrfs /dev/sda2 rw,subvolid=257,subvol=/@home
            41 26 8:17 / /mnt/a\\040disk rw,relatime - ext4 /dev/sdb1 rw
            42 26 0:31 /@/var/lib/healthrelay /var/lib/healthrelay rw - btrfs /dev/sda2 rw,subvol=/@
            43

            """)
        let numbers: [Substring] = ["26", "36", "41", "42", "43", "44"]
        #expect(numbers.map { mounts.fileSystem(ofMount: $0) } == ["0:31", "0:31", "8:17", "0:31", nil, nil])
        #expect(MountTable("").fileSystem(ofMount: "26") == nil)
    }

    @Test("the mounts of this machine tell what file system a path is on")
    func mounts() throws {
        let folder = FileManager.default.temporaryDirectory.path
        #expect(areOnOneFileSystem(folder, folder + "/.") && areOnOneFileSystem(folder, "/none"))
        guard FileManager.default.fileExists(atPath: "/proc/self/mountinfo") else { return }
        let mounts = MountTable.current
        #expect(mounts.fileSystem(of: folder) != nil && mounts.fileSystem(of: "/none") == nil)
        #expect(mounts.fileSystem(of: "/proc") != mounts.fileSystem(of: folder))
        #expect(!areOnOneFileSystem("/proc", folder))
    }

    @Test(
        "the directory of a path",
        arguments: [
            ("a", "."), ("/a", "/"), ("/", "/"), ("a/b", "a"), ("/a/b/", "/a"), ("a//b", "a"), ("//a", "/"),
            ("./a", "."),
        ])
    func parents(_ path: String, _ parent: String) { #expect(parentDirectory(of: path) == parent) }
}

extension Array {
    fileprivate init(_ stream: AsyncStream<Element>) async {
        self = []
        for await element in stream { append(element) }
    }
}

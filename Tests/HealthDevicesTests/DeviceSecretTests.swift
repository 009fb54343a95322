import Foundation
import HealthDevices
import HealthReadings
import Testing

/// Where the keys of devices are kept.
@Suite struct DeviceSecretTests {
    private let directory: String
    private let first = DeviceAddress(bits: 0xC0_0000_000001, kind: .random)
    private let second = DeviceAddress(bits: 0xC0_0000_000001, kind: .public)

    init() throws {
        directory =
            FileManager.default.temporaryDirectory
            .appending(path: "secrets-\(ProcessInfo.processInfo.globallyUniqueString)").path
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
    }

    private var path: String { directory + "/" + DeviceSecretFile.fileName }

    @Test("secrets outlast the process, each under its device, in a file that its owner alone may read")
    func kept() async throws {
        let file = DeviceSecretFile(directory: directory)
        #expect(try await file.secret(of: first) == nil)
        try await file.keep([1, 2, 0xFF], of: first)
        try await file.keep([3], of: second)
        let again = DeviceSecretFile(directory: directory)
        #expect(try await again.secret(of: first) == [1, 2, 0xFF])
        #expect(try await again.secret(of: second) == [3])
        let mode = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? NSNumber
        #expect(mode?.intValue == 0o600)
        try await again.keep(nil, of: first)
        #expect(try await file.secret(of: first) == nil)
        #expect(try await file.secret(of: second) == [3])
        #expect(try FileManager.default.contentsOfDirectory(atPath: directory) == [DeviceSecretFile.fileName])
    }

    @Test(
        "a file that cannot be read, or is none of keys, is named, and never written over",
        arguments: ["{", "", "[]", #"{"C0:00:00:00:00:01 random":1}"#, #"{"a":"01","a":"02"}"#])
    func broken(_ content: String) async throws {
        try Data(content.utf8).write(to: URL(filePath: path))
        let file = DeviceSecretFile(directory: directory)
        let failure = DeviceSecretFile.Failure.unreadable(path: path)
        await #expect(throws: failure) { try await file.secret(of: first) }
        await #expect(throws: failure) { try await file.keep([1], of: first) }
        #expect(try Data(contentsOf: URL(filePath: path)) == Data(content.utf8))
    }

    @Test("what is no ordinary file is not opened, which may never end")
    func notOrdinary() async throws {
        #expect(mkfifo(path, 0o600) == 0)
        let file = DeviceSecretFile(directory: directory)
        await #expect(throws: DeviceSecretFile.Failure.unreadable(path: path)) { try await file.secret(of: first) }
        await #expect(throws: DeviceSecretFile.Failure.unreadable(path: path)) { try await file.keep([1], of: first) }
    }

    @Test("the directory is made if it doesn't exist; one that can't be made is named with the reason")
    func directoryMade() async throws {
        let place = directory + "/keys"
        let file = DeviceSecretFile(directory: place)
        try await file.keep(nil, of: first)
        #expect(!FileManager.default.fileExists(atPath: place))
        try await file.keep([7], of: first)
        #expect(try await file.secret(of: first) == [7])
        let mode = try FileManager.default.attributesOfItem(atPath: place)[.posixPermissions] as? NSNumber
        #expect(mode?.intValue == 0o700)
        let nowhere = DeviceSecretFile(directory: directory + "/no/where")
        let failure = await #expect(throws: DeviceSecretFile.Failure.self) { try await nowhere.keep([7], of: first) }
        guard case .notWritten(_, let reason)? = failure else {
            Issue.record("\(String(describing: failure))")
            return
        }
        #expect(reason == "No such file or directory" && failure?.code == "store_io")
    }

    @Test("a file that an earlier version wrote is read, and what is written is the same octets")
    func format() async throws {
        let written = #"{"C0:00:00:00:00:01 public":"03","C0:00:00:00:00:01 random":"0102ff"}"#
        try Data(written.utf8).write(to: URL(filePath: path))
        let file = DeviceSecretFile(directory: directory)
        #expect(try await file.secret(of: first) == [1, 2, 0xFF])
        #expect(try await file.secret(of: second) == [3])
        try await file.keep(nil, of: first)
        try await file.keep([1, 2, 0xFF], of: first)
        #expect(try String(contentsOf: URL(filePath: path), encoding: .utf8) == written)
    }

    @Test("keys of two devices that are paired at once are both kept")
    func together() async throws {
        let file = DeviceSecretFile(directory: directory)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<20 {
                group.addTask {
                    let address = DeviceAddress(bits: UInt64(number), kind: .random)
                    try await file.keep([UInt8(number)], of: address)
                }
            }
            try await group.waitForAll()
        }
        for number in 0..<20 {
            let address = DeviceAddress(bits: UInt64(number), kind: .random)
            #expect(try await file.secret(of: address) == [UInt8(number)])
        }
    }
}

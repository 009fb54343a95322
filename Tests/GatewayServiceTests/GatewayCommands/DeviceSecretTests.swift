import Foundation
import HealthReadings
import Testing

@testable import GatewayCommands
@testable import GatewaySettings

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

    private var path: String { directory + "/" + DeviceSecretFile.name }

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
        #expect(try FileManager.default.contentsOfDirectory(atPath: directory) == [DeviceSecretFile.name])
    }

    @Test("a file that cannot be read is named, and never written over")
    func broken() async throws {
        try Data("{".utf8).write(to: URL(filePath: path))
        let file = DeviceSecretFile(directory: directory)
        await #expect(throws: Problem.self) { try await file.secret(of: first) }
        await #expect(throws: Problem.self) { try await file.keep([1], of: first) }
        #expect(try Data(contentsOf: URL(filePath: path)) == Data("{".utf8))
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

import EmulatedReader
import Foundation
import NFCPipe
import Testing

@testable import ISO15693Reader

/// The helper program, beside the test bundle.
enum Helper {
    static let path = URL(fileURLWithPath: CommandLine.arguments[0]).standardizedFileURL.deletingLastPathComponent()
        .appendingPathComponent("healthrelay-nfc").path
}

/// An emulated reader and a transport to it.
struct Bench {
    let emulated: EmulatedReader
    let reader: LibNFCTransport

    init(_ tag: EmulatedTag? = .counting, helper: String? = nil, answerTime: Duration = .seconds(1)) throws {
        emulated = try EmulatedReader(tag: tag)
        reader = try LibNFCTransport(
            #require(LibNFCReader(emulated.setting)), program: helper ?? Helper.path, answerTime: answerTime)
    }

    /// Asks, and gives the error, where there is one.
    func error(_ request: ISO15693Request) async -> ISO15693Error? {
        do throws(ISO15693Error) {
            _ = try await reader.exchange(request)
            return nil
        } catch {
            return error
        }
    }
}

extension ISO15693Transport {
    /// A sensor's whole memory.
    func memory() async throws(ISO15693Error) -> [UInt8] {
        var memory: [UInt8] = []
        for first in stride(from: UInt8(0), to: 43, by: 3) {
            memory += try await exchange(.readMultipleBlocks(first: first, count: min(3, 43 - first)))
        }
        return memory
    }
}

/// Whether a process is there, as one that runs or one that nobody has waited for.
func isThere(_ process: Int32) -> Bool { access("/proc/\(process)", F_OK) == 0 }

/// A folder that goes with the test.
final class Folder: Sendable {
    let url: URL

    init() throws {
        url = FileManager.default.temporaryDirectory.appendingPathComponent("hr-nfc-\(UUID().uuidString.prefix(8))")
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(at: url) }

    /// A program written as a script of the shell.
    func program(_ name: String, _ script: String) throws -> String {
        let path = url.appendingPathComponent(name).path
        try "#!/bin/sh\n\(script)\n".write(toFile: path, atomically: true, encoding: .utf8)
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: path)
        return path
    }
}

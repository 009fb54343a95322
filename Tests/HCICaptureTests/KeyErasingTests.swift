import Foundation
import HCIMonitor
import HealthReadings
import TestSupport
import Testing

@testable import HCICapture

/// The eraser beside the recorded captures and beside the lab's own, which is written in Python and shares nothing with it.
@Suite("Keys in captures")
struct KeyErasingTests {
    @Test("a recorded capture has no key, so that erasing changes nothing", arguments: FixtureTests.captures)
    func fixtures(_ name: String) throws {
        var reader = try CaptureReader(path: FixtureTests.folder.appending(path: name).path)
        var (eraser, count) = (KeyEraser(), 0)
        while let record = try reader.next() {
            let safe = eraser.erase(record)
            #expect(safe == record, "the record at octet \(record.offset)")
            count += 1
        }
        #expect(count > 50)
    }

    /// A pairing with keys in every place an LE pairing has, on two connections, in fragments of a size.
    private static func pairing(_ size: Int, _ generator: inout SeededGenerator) -> (CaptureBuilder, [[UInt8]]) {
        var builder = CaptureBuilder()
        var secrets: [[UInt8]] = []
        func secret(_ count: Int) -> [UInt8] {
            let octets = (0..<count).map { _ in UInt8.random(in: 1...255, using: &generator) }
            if count >= 8 { secrets.append(octets) }
            return octets
        }
        func command(_ opcode: Int, _ parameters: [UInt8]) {
            builder.add(.command, .sent, little16(opcode) + [UInt8(parameters.count)] + parameters)
        }
        for handle in [64, 65] {
            builder.connect(handle, address: CaptureBuilder.address(UInt8(handle)))
            command(0x2017, secret(32))
            builder.event(0x0E, [1, 0x17, 0x20, 0] + secret(16))
            builder.event(0x0E, [1, 0x18, 0x20, 0] + secret(8))
            builder.event(0x3E, [0x08, 0] + secret(64))
            command(0x2026, secret(64))
            builder.event(0x3E, [0x09, 0] + secret(32))
            for (code, count) in [(3, 16), (4, 16), (6, 16), (7, 10), (8, 16), (10, 16), (12, 64), (13, 16)] {
                for received in [false, true] {
                    builder.l2cap(6, [UInt8(code)] + secret(count), received: received, handle, fragments: size)
                    builder.notify(CaptureBuilder.glucose(code), on: 14, handle)
                }
            }
            builder.l2cap(6, [9, 1] + CaptureBuilder.address(8), received: true, handle, fragments: size)
            command(0x2027, [1] + CaptureBuilder.address(8) + secret(32))
            command(0x2019, little16(handle) + secret(26))
            builder.event(0x3E, [0x05] + little16(handle) + secret(10))
            command(0x201A, little16(handle) + secret(16))
            command(0x040B, CaptureBuilder.address(8) + secret(16))
            builder.event(0x18, CaptureBuilder.address(8) + secret(16) + [4])
            command(0x0430, CaptureBuilder.address(8) + secret(32))
            command(0x0445, CaptureBuilder.address(8) + secret(64))
            builder.event(0x0E, [1, 0x57, 0x0C, 0] + secret(32))
            builder.event(0x0E, [1, 0x7D, 0x0C, 0] + secret(64))
        }
        return (builder, secrets)
    }

    /// Whether half a secret, or half of it backwards, is in a file.
    private static func holds(_ file: [UInt8], _ secret: [UInt8]) -> Bool {
        let text = Data(file)
        return [secret, secret.reversed()].contains { key in
            stride(from: 0, through: key.count - 8, by: 1).contains { text.range(of: Data(key[$0..<($0 + 8)])) != nil }
        }
    }

    private static let python = FixtureTests.tool("python3")

    private func lab(_ script: String, _ arguments: [String]) throws -> String {
        let (process, pipe) = (Process(), Pipe())
        process.executableURL = URL(filePath: try #require(Self.python))
        process.arguments = ["-c", "import sys, pathlib; from lab import btsnoop\n" + script] + arguments
        let lab = FixtureTests.folder.deletingLastPathComponent().appending(path: "Tests/Lab").path
        process.environment = ["PYTHONPATH": lab, "PYTHONDONTWRITEBYTECODE": "1"]
        process.standardOutput = pipe
        try process.run()
        let output = pipe.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        #expect(process.terminationStatus == 0)
        return String(decoding: output, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
    }

    // The lab reads a fragment's channel in its first four octets, and the code in the fifth.
    @Test(
        "what is erased here is what the lab erases, and the lab finds no key in it",
        .enabled(if: python != nil, "python3 is not installed: the two erasers are not compared"),
        arguments: [5, 6, 19, 20, 27, 69, 1000], [BTSnoopDatalink.linuxMonitor, .h4])
    func lab(_ size: Int, _ datalink: BTSnoopDatalink) throws {
        var generator = SeededGenerator(seed: UInt64(size))
        let (builder, secrets) = Self.pairing(size, &generator)
        let raw = try TemporaryFile(builder.btsnoop(datalink))
        let found = try lab(
            "print(len(btsnoop.secrets_in(btsnoop.parse(pathlib.Path(sys.argv[1]).read_bytes())[1])))", [raw.path])
        #expect((Int(found) ?? 0) >= secrets.count)

        var eraser = KeyEraser()
        var reader = try CaptureReader(path: raw.path)
        var safe = CaptureBuilder()
        while let record = try reader.next() {
            let erased = eraser.erase(record)
            safe.records.append(try #require(erased))
        }
        let file = safe.btsnoop(datalink)
        for secret in secrets {
            #expect(!Self.holds(file, secret))
            if size == 1000 { #expect(Self.holds(builder.btsnoop(datalink), secret)) }
        }

        let theirs = try TemporaryFile()
        _ = try lab(
            """
            link, records = btsnoop.parse(pathlib.Path(sys.argv[1]).read_bytes())
            pathlib.Path(sys.argv[2]).write_bytes(btsnoop.build(link, btsnoop.without_keys(records)))
            """, [raw.path, theirs.path])
        #expect(FileManager.default.contents(atPath: theirs.path).map { Array($0) } == file)
    }
}

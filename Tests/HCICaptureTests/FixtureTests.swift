import Foundation
import GATTClient
import HealthReadings
import Testing

@testable import HCICapture

/// The repository's recorded captures, read beside tshark, which shares no code with us.
@Suite("Recorded captures")
struct FixtureTests {
    static let folder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().appending(path: "Fixtures")

    static let captures: [String] =
        ((try? FileManager.default.contentsOfDirectory(atPath: folder.path)) ?? [])
        .filter { $0.hasSuffix(".btsnoop") }.sorted()

    static func tool(_ name: String) -> String? {
        ["/usr/bin/", "/usr/local/bin/", "/bin/"].map { $0 + name }.first(where: FileManager.default.isExecutableFile)
    }

    private func run(_ tool: String, _ arguments: [String]) throws -> String {
        let (process, pipe) = (Process(), Pipe())
        process.executableURL = URL(filePath: tool)
        process.arguments = arguments
        process.standardOutput = pipe
        process.standardError = FileHandle.nullDevice
        try process.run()
        let output = pipe.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        return String(decoding: output, as: UTF8.self)
    }

    /// A line `frame handle pdu` for each value, in the order of the capture.
    private func ours(_ path: String) throws -> [String] {
        var reader = try CaptureReader(path: path)
        var frames: [UInt64: Int] = [:]
        while let record = try reader.next() { frames[record.offset] = frames.count + 1 }
        var found: [(Int, String)] = []
        for entry in try CaptureIndex(path: path).entries {
            var cursor = try ConnectionCursor(entry, readSize: 4096)
            loop: while true {
                switch try cursor.advance() {
                case .value:
                    found.append((frames[cursor.recordOffset] ?? 0, "\(cursor.handle) \(hex(cursor.octets()))"))
                case .write: continue
                case .end: break loop
                }
            }
        }
        return found.sorted { $0.0 < $1.0 }.map { "\($0.0) \($0.1)" }
    }

    /// The same from tshark: once with its own ATT decoder for the frames and handles, once without for the octets.
    private func theirs(_ tshark: String, _ path: String) throws -> [String] {
        let decoded = try run(
            tshark,
            [
                "-r", path, "-Y", "btatt.opcode == 0x1b || btatt.opcode == 0x1d", "-T", "fields", "-e", "frame.number",
                "-e", "btatt.handle",
            ])
        let raw = try run(
            tshark,
            [
                "-r", path, "--disable-protocol", "btatt", "-Y", "btl2cap.cid == 4", "-T", "fields", "-e",
                "frame.number", "-e", "btl2cap.payload",
            ])
        var payloads: [Substring: Substring] = [:]
        for line in raw.split(separator: "\n") {
            let parts = line.split(separator: "\t")
            if parts.count == 2 { payloads[parts[0]] = parts[1] }
        }
        return decoded.split(separator: "\n").map { line in
            let parts = line.split(separator: "\t")
            let handle = parts.count > 1 ? UInt16(parts[1].prefix(6).dropFirst(2), radix: 16) ?? 0 : 0
            return "\(parts[0]) \(handle) \(payloads[parts[0]]?.filter { $0 != ":" }.dropFirst(6) ?? "?")"
        }
    }

    @Test(
        "tshark finds the same values in the same frames",
        .enabled(if: tool("tshark") != nil, "tshark is not installed: captures are not compared with it"),
        arguments: captures)
    func tsharkAgrees(_ name: String) throws {
        let path = Self.folder.appending(path: name).path
        let tshark = try #require(Self.tool("tshark"))
        let expected = try theirs(tshark, path)
        #expect(!expected.isEmpty)
        #expect(try ours(path) == expected)
    }

    @Test(
        "a capture converted by editcap replays the same",
        .enabled(if: tool("editcap") != nil, "editcap is not installed: no conversions are compared"),
        arguments: captures, ["pcap", "nsecpcap", "pcapng"])
    func converted(_ name: String, _ format: String) async throws {
        let path = Self.folder.appending(path: name).path
        let copy = try TemporaryFile()
        _ = try run(try #require(Self.tool("editcap")), ["-F", format, path, copy.path])
        let map = try handles(name)
        let original = await transcript(try ReplayCentral(paths: [path], handleMap: map))
        #expect(await transcript(try ReplayCentral(paths: [copy.path], handleMap: map)) == original)
        #expect(!original.isEmpty)
    }

    private func handles(_ name: String) throws -> HandleMap? {
        let path = Self.folder.appending(path: name.replacing(".btsnoop", with: ".handles.json")).path
        return try FileManager.default.contents(atPath: path).map { try HandleMap(json: Array($0)) }
    }

    /// What the recorded hosts asked by protocols of makers' own, each question with all that came before the next, as
    /// the capture holds it and as its replay answers.
    private func dialogues(_ path: String) async throws -> (recorded: [String], replayed: [String]) {
        let (central, entries) = (try ReplayCentral(paths: [path]), try CaptureIndex(path: path).entries)
        var (recorded, replayed): ([String], [String]) = ([], [])
        var handles: Set<UInt16> = []
        for try await peripheral in central.peripherals() {
            let start = try await peripheral.connect()
            // Microlife's has an assigned number that many makers use as their own.
            let own = try await peripheral.characteristics().filter {
                $0.service?.assignedNumber == nil || $0.service == 0xFFF0
            }
            for each in own { try await peripheral.startNotifying(each) }
            handles.formUnion(own.map(\.valueHandle))
            if let entry = entries.first(where: { $0.start == start }), !handles.isEmpty {
                var cursor = try ConnectionCursor(entry, readSize: 4096)
                loop: while true {
                    switch try cursor.advance() {
                    case .value where handles.contains(cursor.handle): recorded.append(hex(cursor.octets()))
                    case .write:
                        guard let question = own.first(where: { $0.valueHandle == cursor.handle }) else { continue }
                        try await peripheral.write(cursor.octets(), to: question, expectingResponse: false)
                        if case .values(let values) = try await peripheral.nextValues(within: .zero) {
                            replayed += values.map { hex($0.octets) }
                        }
                    case .value: continue
                    case .end: break loop
                    }
                }
            }
            await peripheral.disconnect()
        }
        return (recorded, replayed)
    }

    private struct Expected: Decodable {
        struct Reading: Decodable {
            struct Device: Decodable { var address: String? }
            var device: Device
        }
        var readings: [Reading]
    }

    @Test(
        "every value of a known characteristic is replayed, from the addresses that are expected", arguments: captures)
    func replays(_ name: String) async throws {
        let path = Self.folder.appending(path: name).path
        let central = try ReplayCentral(paths: [path], handleMap: try handles(name))
        let lines = await transcript(central)
        #expect(central.failures.isEmpty)
        #expect(central.warnings.isEmpty, "\(central.warnings)")
        let sidecar = Self.folder.appending(path: name.replacing(".btsnoop", with: ".expected.json")).path
        let json = try #require(FileManager.default.contents(atPath: sidecar), "nothing says what \(name) gives")
        let readings = try JSONDecoder().decode(Expected.self, from: json).readings
        let ways = ["value 2a18", "value 2a35"]
        let records = lines.count { line in ways.contains { line.hasPrefix($0) } }
        // A notification of a continuous sensor holds values, each behind its size.
        let sizes = lines.filter { $0.hasPrefix("value 2aa7") }.reduce(0) { count, line in
            var (count, octets) = (count, line.split(separator: " ")[2])
            while let size = Int(octets.prefix(2), radix: 16), size > 0 {
                octets = octets.dropFirst(2 * size)
                count += 1
            }
            return count
        }
        let dialogues = try await dialogues(path)
        #expect(dialogues.replayed == dialogues.recorded)
        #expect(records + sizes + dialogues.replayed.count >= readings.count)
        let found = Set(lines.filter { $0.hasPrefix("connect") }.map { $0.split(separator: " ")[1] }.map(String.init))
        #expect(Set(readings.compactMap(\.device.address)).isSubset(of: found))
    }
}

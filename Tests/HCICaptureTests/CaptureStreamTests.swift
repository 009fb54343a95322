import HealthReadings
import Testing

@testable import HCICapture

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

@Suite("A capture that is being written")
struct CaptureStreamTests {
    private static let session: CaptureBuilder = {
        var builder = CaptureBuilder()
        builder.delivery(sequences: 1..<4)
        return builder
    }()

    @Test("a stream in pieces of any size is cut into whole records", arguments: [1, 2, 15, 16, 17, 40, 61, 100_000])
    func pieces(_ size: Int) throws {
        let octets = Self.session.btsnoop()
        var stream = BTSnoopStream()
        var file: [UInt8] = []
        for start in stride(from: 0, to: octets.count, by: size) {
            let whole = try stream.take(octets[start..<min(octets.count, start + size)])
            file += whole
            #expect(stream.hasBegun == (start + size >= 16))
            guard stream.hasBegun else { continue }
            let (records, error) = allRecords(file)
            #expect(error == nil && UInt64(records.count) == stream.packets)
        }
        #expect(file == octets && stream.packets == UInt64(Self.session.records.count))
    }

    @Test("the stream's own count of what was lost is kept")
    func dropped() throws {
        var octets = Self.session.btsnoop()
        let records = allRecords(octets).records
        octets[Int(records[1].offset) + 15] = 7
        var stream = BTSnoopStream()
        _ = try stream.take(octets[..<Int(records[2].offset)])
        #expect(stream.dropped == 7)
    }

    @Test("what is no stream of the monitor is refused at its first octets, and a garbage length where it stands")
    func damage() throws {
        for octets in [Array("error".utf8), BTSnoopEncoder.header(.h4), [0]] {
            var stream = BTSnoopStream(named: "helper")
            let error = #expect(throws: CaptureError.self) { _ = try stream.take(octets) }
            guard case .damaged(let damage)? = error else { return #expect(Bool(false)) }
            #expect(damage.offset == 0 && damage.path == "helper")
        }
        var octets = Self.session.btsnoop()
        let second = Int(allRecords(octets).records[1].offset)
        octets[second + 4] = 0x7F
        var stream = BTSnoopStream()
        _ = try stream.take(octets[..<second])
        let error = #expect(throws: CaptureError.self) { _ = try stream.take(octets[second...]) }
        guard case .damaged(let damage)? = error else { return #expect(Bool(false)) }
        #expect(damage.offset == UInt64(second + 4))
    }

    @Test("the length of the whole records at the beginning of some octets")
    func wholeLength() {
        let octets = Self.session.btsnoop()
        let boundaries = allRecords(octets).records.map { Int($0.offset) } + [octets.count]
        for count in 0...octets.count {
            let length = BTSnoopStream.wholeLength(octets, count)
            #expect(length == boundaries.last { $0 <= count } ?? 0)
        }
        let second = boundaries[1]
        #expect(
            BTSnoopStream.wholeLength(Array(octets[second...]), boundaries[2] - second + 5) == boundaries[2] - second)
    }

    @Test("the file is new, its owner's alone, and ends with what was written")
    func file() throws {
        let place = try TemporaryFile()
        let path = place.path + ".new"
        defer { try? FileManager.default.removeItem(atPath: path) }
        var file = try DurableCaptureFile(path: path)
        let octets = Self.session.btsnoop()
        try file.write(Array(octets[..<16]))
        try file.synchronize()
        try file.write(Array(octets[16...]))
        try file.synchronize()
        let length = file.octets
        #expect(length == UInt64(octets.count))
        #expect(FileManager.default.contents(atPath: path).map { Array($0) } == octets)
        #expect(try fileMode(path) == 0o600)
        #expect(throws: CaptureError.cannotOpen(path: path, code: 17)) { _ = try DurableCaptureFile(path: path) }
        #expect(throws: CaptureError.cannotOpen(path: "/nowhere/x", code: 2)) {
            _ = try DurableCaptureFile(path: "/nowhere/x")
        }
        let link = place.path + ".link"
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: "/nowhere/x")
        defer { try? FileManager.default.removeItem(atPath: link) }
        #expect(throws: CaptureError.cannotOpen(path: link, code: 17)) { _ = try DurableCaptureFile(path: link) }
    }
}

import GATTClient
import HealthReadings

@testable import HCICapture

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// A file that lives as long as the test needs it.
final class TemporaryFile: Sendable {
    let path: String

    init(_ octets: [UInt8] = []) throws {
        path = FileManager.default.temporaryDirectory.path + "/hci-\(UInt64.random(in: 0 ... .max))"
        try Data(octets).write(to: URL(filePath: path))
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }
}

func hex(_ octets: [UInt8]) -> String {
    octets.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
}

/// All records up to the end or the damage.
func allRecords(
    _ octets: [UInt8], readSize: Int = CaptureReader.defaultReadSize
) -> (records: [CaptureRecord], error: CaptureError?) {
    var records: [CaptureRecord] = []
    do throws(CaptureError) {
        var reader = try CaptureReader(octets: octets, readSize: readSize)
        while let record = try reader.next() { records.append(record) }
        return (records, nil)
    } catch {
        return (records, error)
    }
}

/// What a reader that wants everything gets: a line for each thing that happens.
func transcript(_ central: ReplayCentral, timeout: Duration = .seconds(30)) async -> [String] {
    var lines: [String] = []
    do {
        for try await peripheral in central.peripherals() {
            lines += try await visit(peripheral, timeout: timeout)
        }
    } catch {
        lines.append("error \(error)")
    }
    return lines
}

/// Enables everything, asks a RACP for all, and pulls to the end.
func visit(_ peripheral: any Peripheral, timeout: Duration = .seconds(30)) async throws -> [String] {
    let advertisement = peripheral.advertisement
    let name = "\(advertisement.address.map(\.description) ?? "-") \(advertisement.name ?? "-")"
    var lines = ["connect \(name) \(try await peripheral.connect())"]
    let characteristics = try await peripheral.characteristics()
    for characteristic in characteristics {
        if let value = try? await peripheral.read(characteristic) {
            lines.append("read \(value.uuid) \(hex(value.octets)) \(value.receivedAt)")
        }
        try await peripheral.startNotifying(characteristic)
    }
    if let control = characteristics.first(where: { $0.uuid == 0x2A52 }) {
        try await peripheral.write([1, 1], to: control, expectingResponse: true)
    }
    loop: while true {
        switch try await peripheral.nextValues(within: timeout) {
        case .values(let values):
            for value in values { lines.append("value \(value.uuid) \(hex(value.octets)) \(value.receivedAt)") }
            if values.last?.uuid == 0x2A52 { break loop }
        case .silence:
            lines.append("silence")
            break loop
        case .disconnected:
            lines.append("disconnected")
            break loop
        }
    }
    await peripheral.disconnect()
    return lines
}

/// The permission bits of a file.
func fileMode(_ path: String) throws -> Int? {
    try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions].flatMap { "\($0)" }.flatMap { Int($0) }
}

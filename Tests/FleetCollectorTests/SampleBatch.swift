import FleetCollector
import FleetDocuments
import Foundation
import HealthReadings

/// Documents as a gateway writes them.
enum SampleBatch {
    static func id(_ index: Int) -> String { String(repeating: "0", count: 24) + String(format: "%08x", index) }

    static func octets(
        _ gateway: String, _ number: Int64, ids: Range<Int>, revision: Int64? = nil, schema: Int = 1,
        value: String = "95", retracted: [Int] = []
    ) -> [UInt8] {
        let readings = ids.map {
            #"{"id":"\#(id($0))","revision":\#(revision ?? number),"kind":"glucose","time":"2026-11-20T12:30:00Z","#
                + #""glucose":{"value":\#(value),"unit":"mg/dL"},"person":"white_bear"}"#
        }
        let gone = retracted.map { #"{"id":"\#(id($0))","revision":\#(revision ?? number)}"# }
        return Array(
            (#"{"schema":\#(schema),"gateway":"\#(gateway)","batch":\#(number),"sent_at":"2026-11-20T12:30:00Z","#
                + #""readings":[\#(readings.joined(separator: ","))],"retracted":[\#(gone.joined(separator: ","))]}"#)
                .utf8)
    }

    static func folder() -> String {
        FileManager.default.temporaryDirectory.path + "/collector-" + UUID().uuidString.prefix(8)
    }

    /// Keeps batches of `gw1`, numbered from 1.
    static func keepMany(_ count: Int, readings: Int, at desk: DocumentDesk) async throws -> [Int64] {
        let gateway = try GatewayID("gw1")
        return try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 1...count {
                group.addTask {
                    let ids = number * readings..<(number + 1) * readings
                    _ = try await desk.keep(octets("gw1", Int64(number), ids: ids), from: gateway)
                }
            }
            try await group.waitForAll()
            return (1...count).map { Int64($0) }
        }
    }
}

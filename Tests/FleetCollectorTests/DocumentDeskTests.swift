import FleetCollector
import FleetDocuments
import FleetStore
import GatewaySettings
import HealthReadings
import Logging
import Testing

@Suite struct DocumentDeskTests {
    private func desk(keys: [OpeningKey] = []) async throws -> DocumentDesk {
        let store = try SQLiteCentralStore(directory: SampleBatch.folder())
        try await store.prepare()
        return DocumentDesk(store: store, keys: keys, logger: Logger(label: "tests") { _ in SwiftLogNoOpLogHandler() })
    }

    @Test func aReceiptNamesEveryReading() async throws {
        let (desk, gateway) = (try await desk(), try GatewayID("gw1"))
        _ = try await desk.keep(SampleBatch.octets("gw1", 1, ids: 0..<3), from: gateway)
        let receipt = try await desk.keep(SampleBatch.octets("gw1", 2, ids: 3..<5, retracted: [0]), from: gateway)
        #expect(receipt.batch == 2 && receipt.failure == nil)
        #expect(receipt.stored.map(\.description) == [3, 4, 0].map(SampleBatch.id))
        let kept = try await desk.store.newest(of: "gw1", limit: 10)
        #expect(kept.filter(\.isRetracted).map(\.id) == [SampleBatch.id(0)])
        #expect(kept.first { $0.isRetracted }?.person == nil)
        #expect(desk.counters.current.stored == 5 && desk.counters.current.revised == 1)
    }

    @Test func aReceiptDoesNotNameWhatWasIgnored() async throws {
        let (desk, gateway) = (try await desk(), try GatewayID("gw1"))
        _ = try await desk.keep(SampleBatch.octets("gw1", 900, ids: 0..<2), from: gateway)
        let receipt = try await desk.keep(SampleBatch.octets("gw1", 5, ids: 1..<3, retracted: [0]), from: gateway)
        #expect(receipt.stored.map(\.description) == [1, 2].map(SampleBatch.id) && receipt.refused.isEmpty)
        #expect(receipt.highestBatch == 900)
        let hello = FleetHello(gateway: gateway, sentAt: Instant(seconds: 1), version: "1", unconfirmed: [5])
        let answer = try await desk.note(Array(hello.document.text.utf8), .hello, from: gateway)
        #expect(answer.highestBatch == 900 && answer.receipts.map(\.highestBatch) == [900])
        let again = try await desk.keep(SampleBatch.octets("gw1", 901, ids: 1..<3, retracted: [0]), from: gateway)
        #expect(again.stored.count == 3 && again.highestBatch == nil)
    }

    @Test func aBatchOfAnotherGatewayIsRefused() async throws {
        let desk = try await desk()
        let gateway = try GatewayID("gw2")
        await #expect { try await desk.keep(SampleBatch.octets("gw1", 1, ids: 0..<1), from: gateway) } throws: {
            error in
            (error as? DocumentFailure)?.code == "other_gateway"
        }
        #expect(try await desk.store.newest(of: nil, limit: 1).isEmpty)
        #expect(desk.counters.current.refused == ["other_gateway": 1])
    }

    @Test func aSealedBatchIsOpenedWithItsKeyAlone() async throws {
        let (key, other, gateway) = (OpeningKey(), OpeningKey(), try GatewayID("gw1"))
        let batch = try FleetBatch(SampleBatch.octets("gw1", 1, ids: 0..<2))
        var octets: [UInt8] = []
        try SealedBatch(batch, to: key.sealingKey).document.write(into: &octets)
        let sealed = octets
        let stranger = try await desk(keys: [other])
        await #expect { try await stranger.keep(sealed, from: gateway) } throws: { error in
            (error as? DocumentFailure)?.code == "other_key"
        }
        let desk = try await desk(keys: [other, key])
        #expect(try await desk.keep(sealed, from: gateway).stored.count == 2)
        #expect(try await desk.store.newest(of: nil, limit: 1).first?.body?.contains("mg/dL") == true)
    }

    @Test func batchesThatComeTogetherAreAllKept() async throws {
        let desk = try await desk()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 1...40 {
                group.addTask {
                    let octets = SampleBatch.octets(
                        "gw\(number % 4)", Int64(number), ids: number * 10..<number * 10 + 10)
                    _ = try await desk.keep(octets, from: try GatewayID("gw\(number % 4)"))
                }
            }
            try await group.waitForAll()
        }
        #expect(try await desk.store.gateways().map(\.stored) == [100, 100, 100, 100])
        #expect(desk.counters.current.receipts == 40)
    }

    @Test func settingsThatAreMisspeltAreErrors() throws {
        let settings = try CollectorSettings(
            text: "ingest: {listen: \"127.0.0.1:9000\"}\nstore: {postgresql: \"host=db\"}\n", path: "f")
        #expect(settings.listen.port == 9000 && settings.postgreSQL == "host=db")
        for (text, words) in [
            ("stor: {}", "f:1: there is no setting `stor`"),
            ("store:\n  postgres: x", "f:2: there is no setting `store.postgres`"),
            ("queue: {prefetch: 0}", "f:1: queue.prefetch: expected a whole number from 1 to 10000"),
            ("queue: {hosts: [\"http://a\"]}", "f: queue.hosts: expected amqps://HOST:PORT, found 'http://a'"),
        ] {
            #expect { try CollectorSettings(text: text, path: "f") } throws: { error in
                (error as? Problem)?.message.contains(words) == true
            }
        }
    }
}

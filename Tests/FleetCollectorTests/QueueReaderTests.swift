import AMQPLink
import FleetCollector
import FleetDocuments
import FleetStore
import HealthReadings
import Logging
import Synchronization
import TestPostgreSQL
import TestRabbitMQ
import TestSupport
import Testing

/// The queue on a real RabbitMQ node.
@Suite(.enabled(if: TestRabbitMQ.isInstalled), .serialized) struct QueueReaderTests {
    private struct Killed: Error {}

    private func desk() async throws -> DocumentDesk {
        let store = try SQLiteCentralStore(directory: SampleBatch.folder())
        try await store.prepare()
        return DocumentDesk(store: store, logger: Self.quiet)
    }

    /// How long a receipt may take on a machine that is busy with all other tests.
    private static let patience = Duration.seconds(300)

    private static var quiet: Logger { Logger(label: "tests") { _ in SwiftLogNoOpLogHandler() } }

    private func plan(_ node: TestRabbitMQ) -> QueueReader.Plan {
        let user = AMQPBroker.Credentials.password(user: "guest", password: "guest")
        let here = AMQPBroker(host: "127.0.0.1", port: node.port, credentials: user)
        // The first node is away: the reader goes on to the next.
        let away = AMQPBroker(host: "127.0.0.1", port: 1, credentials: user)
        var plan = QueueReader.Plan(brokers: [away, here])
        plan.groupSize = 1
        return plan
    }

    @Test func theQueueSurvivesWhatCannotBeTakenAndACollectorThatIsKilled() async throws {
        let node = try TestRabbitMQ()
        let plan = plan(node)
        let gateway = AMQPConnection(to: plan.brokers[1])
        try await gateway.open()
        // The gateway's receipts, and the queues as the first collector would have declared them.
        for (queue, key) in [
            ("mine", "healthrelay.gw1.receipts"), ("readings", "healthrelay.*.readings"),
        ] {
            try await gateway.declare(queue: queue, groupSize: 1, exchange: "amq.topic", routingKey: key)
        }
        try await gateway.consume(queue: "mine", prefetch: 100)
        func send(_ octets: [UInt8]) async throws {
            try await gateway.publish(octets, exchange: "amq.topic", routingKey: "healthrelay.gw1.readings")
        }

        // A collector that ends between its commit and its acknowledgement.
        let desk = try await desk()
        let kills = Mutex(0)
        let reader = QueueReader(plan, desk: desk, logger: Self.quiet) {
            let isFirst = kills.withLock { kills in
                kills += 1
                return kills == 1
            }
            if isFirst { throw Killed() }
        }
        try await send(SampleBatch.octets("gw1", 1, ids: 0..<10))
        let work = Task { try await reader.run() }
        var receipts: [FleetReceipt] = []
        func receipt(_ number: Int64) async throws -> FleetReceipt? {
            let end = ContinuousClock.now + Self.patience
            while ContinuousClock.now < end {
                if let found = receipts.first(where: { $0.batch == number }) { return found }
                for delivery in try await gateway.next(most: 10, within: .seconds(1)) {
                    receipts.append(try FleetReceipt(delivery.body))
                }
            }
            return nil
        }
        #expect(try await receipt(1)?.stored.count == 10)
        #expect(kills.withLock(\.self) >= 2)
        #expect(desk.counters.current.stored == 10 && desk.counters.current.repeated == 10)
        #expect(try await desk.store.gateways().map(\.stored) == [10])

        // What can't be taken is put aside and named, and what is behind it comes through.
        try await send(Array("no document".utf8))
        try await send(SampleBatch.octets("gw9", 2, ids: 0..<1))
        try await send(SampleBatch.octets("gw1", 3, ids: 0..<1, schema: 2))
        try await send(SampleBatch.octets("gw1", 4, ids: 10..<12))
        #expect(try await receipt(4)?.stored.count == 2)
        #expect(try await receipt(3)?.failure?.code == "newer_schema")
        #expect(try await receipt(2)?.failure?.code == "other_gateway")
        let aside = try await desk.store.aside(limit: 10)
        #expect(Set(aside.map(\.reason)) == ["bad_document", "other_gateway", "newer_schema"])
        #expect(aside.contains { $0.octets == Array("no document".utf8) && $0.gateway == "gw1" })
        #expect(try await desk.store.gateways().map(\.stored) == [12])

        // A gateway that has filled its part of the disk is told the same, and what it sends isn't kept.
        for (count, octet) in [(1_000_000, 1), (1_000_000, 2), (1_000_000, 3), (990_000, 4)] as [(Int, UInt8)] {
            let isKept = try await desk.store.putAside(
                AsideDocument(
                    received: Instant(seconds: 1), gateway: "gw1", reason: "bad_document", words: "",
                    octets: [UInt8](repeating: octet, count: count)))
            #expect(isKept)
        }
        let before = desk.counters.current.aside
        try await send(SampleBatch.octets("gw1", 5, ids: 0..<100, schema: 2))
        try await send(SampleBatch.octets("gw1", 6, ids: 12..<13))
        #expect(try await receipt(6)?.stored.count == 1)
        #expect(try await receipt(5)?.failure?.code == "newer_schema")
        #expect(desk.counters.current.dropped == ["newer_schema": 1] && desk.counters.current.aside == before)
        let metrics = CollectorMetrics(store: desk.store, counters: desk.counters, silentAfterMinutes: 45)
        #expect(
            try await metrics.text().contains(
                #"healthrelay_fleet_documents_dropped_total{reason="newer_schema"} 1"# + "\n"))
        #expect(reader.isConnected)
        work.cancel()
        _ = try? await work.value
        await gateway.close()
    }

    @Test(.enabled(if: TestPostgreSQL.isInstalled))
    func aDocumentThatTheDatabaseRefusesWithAnyCodeStopsNobodyElse() async throws {
        let node = try TestRabbitMQ()
        let server = try TestPostgreSQL.shared.get()
        let address = try server.database()
        let store = PostgreSQLCentralStore(address: address)
        try await store.prepare()
        _ = try server.run(
            at: address,
            """
            CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                IF NEW.body::text LIKE '%7777%' THEN RAISE EXCEPTION 'no' USING ERRCODE = '0A000'; END IF;
                RETURN NEW;
            END $$;
            CREATE TRIGGER refuse BEFORE INSERT ON reading FOR EACH ROW EXECUTE FUNCTION refuse()
            """)
        let desk = DocumentDesk(store: store, logger: Self.quiet)
        let plan = plan(node)
        let gateway = AMQPConnection(to: plan.brokers[1])
        try await gateway.open()
        for (queue, key) in [("mine", "healthrelay.*.receipts"), ("readings", "healthrelay.*.readings")] {
            try await gateway.declare(queue: queue, groupSize: 1, exchange: "amq.topic", routingKey: key)
        }
        try await gateway.consume(queue: "mine", prefetch: 100)
        let work = Task { [reader = QueueReader(plan, desk: desk, logger: Self.quiet)] in try await reader.run() }
        func send(_ name: String, _ octets: [UInt8]) async throws {
            try await gateway.publish(octets, exchange: "amq.topic", routingKey: "healthrelay.\(name).readings")
        }
        // Alone it may be the database that is wrong: the document is not lost, and comes again.
        try await send("gw1", SampleBatch.octets("gw1", 1, ids: 0..<1, value: "7777"))
        try await Task.sleep(for: .seconds(2))
        #expect(try await store.aside(limit: 10).isEmpty)
        try await send("gw2", SampleBatch.octets("gw2", 2, ids: 0..<1))
        var receipts: [Int64: FleetReceipt] = [:]
        let end = ContinuousClock.now + Self.patience
        while receipts.count < 2, ContinuousClock.now < end {
            for delivery in try await gateway.next(most: 10, within: .seconds(1)) {
                let receipt = try FleetReceipt(delivery.body)
                receipts[receipt.batch] = receipt
            }
        }
        #expect(receipts[2]?.stored.count == 1)
        #expect(receipts[1]?.failure?.code == "bad_value")
        let aside = try await store.aside(limit: 10)
        #expect(aside.map(\.reason) == ["bad_value"] && aside.map(\.gateway) == ["gw1"])
        #expect(aside.first?.words.contains("0A000") == true)
        work.cancel()
        _ = try? await work.value
        await gateway.close()
        await store.close()
    }

    @Test func aBrokerWhoseDiskIsFullIsReadOnAndSaysThatItTakesNoReceipts() async throws {
        let node = try TestRabbitMQ()
        let (plan, desk) = (plan(node), try await desk())
        let gateway = AMQPConnection(to: plan.brokers[1])
        try await gateway.open()
        for (queue, key) in [
            ("mine", "healthrelay.gw1.receipts"), ("readings", "healthrelay.*.readings"),
        ] {
            try await gateway.declare(queue: queue, groupSize: 1, exchange: "amq.topic", routingKey: key)
        }
        let listener = AMQPConnection(to: plan.brokers[1])
        try await listener.open()
        try await listener.consume(queue: "mine", prefetch: 1000)
        var receipts: Set<Int64> = []
        func receive(_ count: Int) async throws {
            let end = ContinuousClock.now + Self.patience
            while receipts.count < count, ContinuousClock.now < end {
                for delivery in try await listener.next(most: 1000, within: .seconds(1)) {
                    receipts.insert(try FleetReceipt(delivery.body).batch)
                }
            }
        }
        // Each group waits until the test lets it go on.
        let (steps, step) = AsyncStream.makeStream(of: Void.self)
        let (reached, reach) = AsyncStream.makeStream(of: Void.self)
        let count = Mutex(0)
        let reader = QueueReader(plan, desk: desk, logger: Self.quiet) {
            let number = count.withLock { count in
                count += 1
                return count
            }
            guard number == 2 else { return }
            reach.yield()
            _ = await steps.first { _ in true }
        }
        let metrics = CollectorMetrics(
            store: desk.store, counters: desk.counters, silentAfterMinutes: 45,
            isQueueConnected: { reader.isConnected }, isQueueBlocked: { reader.isBlocked })
        let work = Task { try await reader.run() }
        func send(_ numbers: ClosedRange<Int>) async throws {
            for number in numbers {
                try await gateway.publish(
                    SampleBatch.octets("gw1", Int64(number), ids: number..<number + 1), exchange: "amq.topic",
                    routingKey: "healthrelay.gw1.readings")
            }
        }
        // A connection that has published before is blocked at once.
        try await send(1...1)
        try await receive(1)
        #expect(await metrics.health().isWell)
        try await send(2...300)
        _ = await reached.first { _ in true }
        try node.control("set_disk_free_limit", "1000GB")
        step.yield()
        try await until { desk.counters.current.stored == 300 }
        try await until { await !metrics.health().isWell }
        #expect(await metrics.health().document.text.contains(#""queue":"blocked""#))
        #expect(try await metrics.text().contains("healthrelay_fleet_queue_blocked 1\n"))
        // All were acknowledged: nobody gets them once the reader is gone.
        try node.control("set_disk_free_limit", "1MB")
        try await receive(300)
        #expect(receipts.count == 300)
        try await until { await metrics.health().isWell }
        #expect(desk.counters.current.repeated == 0)
        work.cancel()
        _ = try? await work.value
        try await listener.consume(queue: "readings", prefetch: 10)
        #expect(try await listener.next(most: 10, within: .seconds(2)).isEmpty)
        await gateway.close()
        await listener.close()
    }

    @Test func largeDocumentsAndASlowStoreBreakNoConnection() async throws {
        let node = try TestRabbitMQ()
        var plan = plan(node)
        for index in plan.brokers.indices { plan.brokers[index].heartbeat = 1 }
        plan.octets = 3_000_000
        let desk = try await desk()
        let gateway = AMQPConnection(to: self.plan(node).brokers[1])
        try await gateway.open()
        for (queue, key) in [("mine", "healthrelay.gw1.receipts"), ("readings", "healthrelay.*.readings")] {
            try await gateway.declare(queue: queue, groupSize: 1, exchange: "amq.topic", routingKey: key)
        }
        let large = [UInt8](repeating: 120, count: 2_000_000)
        for octets in [large, large, large, SampleBatch.octets("gw1", 5, ids: 0..<1)] {
            try await gateway.publish(octets, exchange: "amq.topic", routingKey: "healthrelay.gw1.readings")
        }
        // What one look takes is bounded, and at least one document.
        let look = AMQPConnection(to: plan.brokers[1])
        try await look.open()
        try await look.consume(queue: "readings", prefetch: 10)
        try await Task.sleep(for: .seconds(1))
        #expect(try await look.next(most: 10, octets: 3_000_000, within: .seconds(20)).count == 2)
        #expect(try await look.next(most: 10, octets: 1, within: .seconds(20)).count == 1)
        await look.close()

        // Each group takes longer than the broker waits for a sign of life.
        let groups = Mutex(0)
        let reader = QueueReader(plan, desk: desk, logger: Self.quiet) {
            groups.withLock { $0 += 1 }
            try await Task.sleep(for: .seconds(6))
        }
        let work = Task { try await reader.run() }
        try await gateway.consume(queue: "mine", prefetch: 10)
        let end = ContinuousClock.now + Self.patience
        var receipts: [FleetReceipt] = []
        while receipts.isEmpty, ContinuousClock.now < end {
            receipts += try await gateway.next(most: 10, within: .seconds(1)).map { try FleetReceipt($0.body) }
        }
        #expect(receipts.map(\.batch) == [5] && receipts.first?.stored.count == 1)
        // None came twice.
        #expect(desk.counters.current.stored == 1 && desk.counters.current.repeated == 0)
        #expect(groups.withLock(\.self) <= 3 && desk.counters.current.aside == ["document_too_large": 3])
        let aside = try await desk.store.aside(limit: 10)
        #expect(aside.map(\.bytes) == [2_000_000] && aside.map(\.octets.count) == [65_536])
        work.cancel()
        _ = try? await work.value
        await gateway.close()
    }

    @Test func aHelloThatNamesManyBatchesIsAnsweredWithTheReceiptOfEachThatIsStored() async throws {
        let node = try TestRabbitMQ()
        let (plan, desk) = (plan(node), try await desk())
        let gateway = AMQPConnection(to: plan.brokers[1])
        try await gateway.open()
        for (queue, key) in [("mine", "healthrelay.gw1.receipts"), ("status", "healthrelay.*.hello")] {
            try await gateway.declare(queue: queue, groupSize: 1, exchange: "amq.topic", routingKey: key)
        }
        try await gateway.consume(queue: "mine", prefetch: 1000)
        let numbers = try await SampleBatch.keepMany(FleetHello.mostBatches - 1, readings: 2, at: desk)
        let work = Task { [reader = QueueReader(plan, desk: desk, logger: Self.quiet)] in try await reader.run() }
        // One of them never came.
        let hello = FleetHello(
            gateway: try GatewayID("gw1"), sentAt: Instant(seconds: 1), version: "1", unconfirmed: numbers + [9_999])
        try await gateway.publish(
            Array(hello.document.text.utf8), exchange: "amq.topic", routingKey: "healthrelay.gw1.hello")
        var receipts: [Int64: Int] = [:]
        // Each look takes what has come by then, which may be one receipt.
        let end = ContinuousClock.now + Self.patience
        while receipts.count < numbers.count, ContinuousClock.now < end {
            for delivery in try await gateway.next(most: 1000, within: .seconds(1)) {
                let receipt = try FleetReceipt(delivery.body)
                receipts[receipt.batch] = receipt.stored.count
            }
        }
        #expect(receipts == Dictionary(uniqueKeysWithValues: numbers.map { ($0, 2) }))
        work.cancel()
        _ = try? await work.value
        await gateway.close()
    }
}

import AsyncHTTPClient
import FleetDocuments
import FleetStore
import Foundation
import GatewaySettings
import HealthReadings
import Logging
import NIOCore
import NIOHTTP1
import NIOSSL

/// Shows a newcomer what the collector does: three simulated gateways post batches to one in a temporary folder.
package struct Demonstration: Sendable {
    private let show: @Sendable (String) -> Void
    private let stays: Bool
    private let pause: Duration

    /// - Parameters:
    ///   - stays: whether the gateways go on sending until the task is cancelled.
    ///   - pause: how long they wait between two rounds then.
    ///   - show: gets the lines.
    package init(stays: Bool = false, pause: Duration = .seconds(5), show: @escaping @Sendable (String) -> Void) {
        self.stays = stays
        self.pause = pause
        self.show = show
    }

    /// Runs it to its end, or until the task is cancelled; the folder is removed.
    package func run() async throws {
        let directory =
            FileManager.default.temporaryDirectory.path + "/healthrelay-fleet-" + UUID().uuidString.prefix(8)
        defer { try? FileManager.default.removeItem(atPath: directory) }
        var settings = CollectorSettings()
        settings.listen = ListenAddress(host: "127.0.0.1", port: 0)
        let store = try SQLiteCentralStore(directory: directory)
        try await store.prepare()
        let (ports, port) = AsyncStream.makeStream(of: Int.self)
        let runner = CollectorRunner(
            settings, directory: directory, logger: Logger(label: "demo") { _ in SwiftLogNoOpLogHandler() })
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                defer { port.finish() }
                try await runner.run(isStoppedBySignals: false) { port.yield($0) }
            }
            group.addTask {
                guard let number = await ports.first(where: { _ in true }) else { return }
                try await play(store, port: number, directory: directory)
            }
            // The end of one of them, or of the task, ends both.
            let ended = await group.nextResult()
            group.cancelAll()
            if case .failure(let error) = ended, !(error is CancellationError) { throw error }
            // A collector that is cancelled says so; that is how this ends.
            while let result = await group.nextResult() {
                if case .failure(let error) = result, !(error is CancellationError) { throw error }
            }
        }
        await store.close()
    }

    private func play(_ store: SQLiteCentralStore, port: Int, directory: String) async throws {
        var tls = TLSConfiguration.makeClientConfiguration()
        tls.trustRoots = .file(directory + "/tls.pem")
        var configuration = HTTPClient.Configuration()
        configuration.tlsConfiguration = tls
        let client = HTTPClient(configuration: configuration)
        do {
            try await play(store, client, "https://localhost:\(port)/v1/readings")
            try await client.shutdown()
        } catch {
            try? await client.shutdown()
            throw error
        }
    }

    private func play(_ store: SQLiteCentralStore, _ client: HTTPClient, _ address: String) async throws {
        show("A collector listens on \(address.dropLast("/v1/readings".count)) and keeps readings in a SQLite file.")
        let now = Instant.systemClock
        var tokens: [String] = []
        let names = ["gw-0001", "gw-0002", "gw-0003"]
        for name in names { tokens.append(try await GatewayTokens(store: store).make(for: name, at: now)) }
        show("\(names.joined(separator: ", ")) each have a token and send two batches of 20 readings.")
        let number = FleetBatch.nextNumber(after: 0, at: now)
        var first: (octets: [UInt8], token: String)?
        for (name, token) in zip(names, tokens) {
            for batch in 0..<2 {
                let octets = try Self.batch(name, number + Int64(batch), from: batch * 20, now)
                first = first ?? (octets, token)
                let answer = try await Self.post(octets, token, client, address)
                guard answer.status == 200 else {
                    throw Problem("demo_failed", .ourFault, "the collector answered \(answer.status): \(answer.text)")
                }
                show("  \(name)  batch \(number + Int64(batch))  →  200, a receipt for 20 readings")
            }
        }
        if let first {
            let repeated = try await Self.post(first.octets, first.token, client, address)
            show("gw-0001 sends its first batch again:  \(repeated.status), and nothing is stored twice.")
            let foreign = try await Self.post(first.octets, tokens[1], client, address)
            show("gw-0002 sends a batch of gw-0001's:   \(foreign.status)")
            show("  \(foreign.text)")
        }
        let metrics = CollectorMetrics(store: store, counters: CollectorCounters(), silentAfterMinutes: 45)
        show("`healthrelay-collector gateways` shows then:")
        for line in GatewayList(try await store.gateways(), metrics: metrics).lines { show("  " + line) }
        show("One of the stored readings:")
        for reading in try await store.newest(of: nil, limit: 1) { show("  " + (reading.body ?? "")) }
        guard stays else {
            show(
                "Nothing of this is left. To look at it in a browser while it runs: `healthrelay-collector demo --stay`."
            )
            show("For a collector of your own: `healthrelay-collector`, then `healthrelay-collector token GATEWAY`.")
            return
        }
        show(
            "They go on sending. Look at \(address.dropLast("v1/readings".count)) in a browser on this machine; Ctrl-C ends it."
        )
        var round: Int64 = 2
        do {
            while true {
                try await Task.sleep(for: pause)
                for (name, token) in zip(names, tokens) {
                    let octets = try Self.batch(name, number + round, from: 0, .systemClock)
                    _ = try await Self.post(octets, token, client, address)
                }
                round += 1
            }
        } catch {
            // A request that is cancelled fails with an error of the client's.
            guard Task.isCancelled else { throw error }
        }
    }

    /// A batch as a gateway writes it, with readings that nobody measured.
    private static func batch(_ gateway: String, _ number: Int64, from first: Int, _ now: Instant) throws -> [UInt8] {
        let readings = (first..<first + 20).map { index in
            let id = Array(gateway.utf8) + [UInt8(truncatingIfNeeded: index)]
            let time = now.advanced(bySeconds: -300 * Int64(index + 1)).flooredToSecond
            return JSONValue.object([
                "id": .string((id + [UInt8](repeating: 0, count: 16)).prefix(16).hexadecimal()),
                "revision": .integer(number), "kind": "glucose", "time": .string(time.description),
                "glucose": .object(["value": .integer(Int64(90 + index)), "unit": "mg/dL"]), "person": "white_bear",
            ])
        }
        return JSONValue.object([
            "schema": 1, "gateway": .string(gateway), "batch": .integer(number), "sent_at": .string(now.description),
            "readings": .array(readings), "retracted": .array([]),
        ]).octets
    }

    private static func post(
        _ octets: [UInt8], _ token: String, _ client: HTTPClient, _ address: String
    ) async throws -> (status: UInt, text: String) {
        var request = HTTPClientRequest(url: address)
        request.method = .POST
        request.headers.add(name: "Authorization", value: "Bearer \(token)")
        request.headers.add(name: "Content-Type", value: "application/json")
        request.body = .bytes(octets)
        let response = try await client.execute(request, timeout: .seconds(30))
        let body = try await response.body.collect(upTo: 1 << 20)
        return (response.status.code, String(decoding: body.readableBytesView, as: UTF8.self))
    }
}

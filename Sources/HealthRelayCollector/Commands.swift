import ArgumentParser
import FleetCollector
import FleetDocuments
import FleetStore
import GatewaySettings
import HealthReadings
import Logging
import UnixSignals

struct Run: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "run",
        abstract: "Receive readings until stopped (the default).",
        discussion: "Without settings it listens on https://127.0.0.1:8490 and keeps readings in a SQLite file.")

    @OptionGroup var common: CommonOptions

    func run() async throws {
        let settings = try common.read()
        common.startLogging(settings)
        try await CollectorRunner(settings, directory: common.directory, logger: Logger(label: "collector")).run()
    }
}

struct Token: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "token",
        abstract: "Make a token with which a gateway may send its readings.")

    @OptionGroup var common: CommonOptions
    @Argument(help: "The gateway's id: letters, digits, - and _, 23 at most. It names no person.")
    var gateway: String
    @Flag(help: "Withdraw every token of the gateway instead.")
    var revoke = false

    func run() async throws {
        let id: GatewayID
        do { id = try GatewayID(gateway) } catch { throw Problem.usage(error.description) }
        let store = try await common.store(try common.read())
        if revoke {
            let count = try await store.removeTokens(of: id.description)
            let document: JSONValue = .object([
                "gateway": .string(id.description), "revoked": .integer(Int64(count)),
            ])
            await store.close()
            Output.data(common.json ? document.text : "\(count) tokens of \(id) withdrawn")
        } else {
            let token = try await GatewayTokens(store: store).make(for: id.description, at: .systemClock)
            let document: JSONValue = .object(["gateway": .string(id.description), "token": .string(token)])
            await store.close()
            Output.data(common.json ? document.text : token)
        }
    }
}

struct Gateways: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "gateways", abstract: "List the gateways and how they are.")

    @OptionGroup var common: CommonOptions

    func run() async throws {
        let settings = try common.read()
        let store = try await common.store(settings)
        let metrics = CollectorMetrics(
            store: store, counters: CollectorCounters(), silentAfterMinutes: settings.silentAfterMinutes)
        let list = GatewayList(try await store.gateways(), metrics: metrics)
        await store.close()
        if common.json {
            Output.data(list.document.text)
        } else {
            for line in list.lines { Output.data(line) }
        }
    }
}

struct Aside: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "aside",
        abstract: "List the documents of the queue that couldn't be taken, the newest first.",
        discussion: """
            Of one gateway \(AsideDocument.mostOfGateway) documents and \
            \(AsideDocument.mostBytesOfGateway / 1_000_000) MB are kept. A line with \(AsideDocument.full) says how \
            many more came.
            """)

    @OptionGroup var common: CommonOptions
    @Option(help: "How many at most.") var limit = 100

    func run() async throws {
        let store = try await common.store(try common.read())
        let documents = try await store.aside(limit: limit)
        await store.close()
        if common.json {
            Output.data(
                JSONValue.object([
                    "documents": .array(
                        documents.map { document in
                            .object([
                                "received": .string(document.received.description),
                                "gateway": .string(document.gateway), "reason": .string(document.reason),
                                "words": .string(document.words), "bytes": .integer(Int64(document.bytes)),
                                "sha256": .optional(document.digest.nonEmpty),
                            ])
                        })
                ]).text)
        } else {
            for document in documents {
                Output.data(
                    "\(document.received)  \(document.gateway)  \(document.reason)  \(document.words)  "
                        + "\(document.bytes) bytes")
            }
        }
    }
}

struct Demo: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "demo",
        abstract: "Show three simulated gateways that send readings to a temporary collector.")

    @Flag(help: "Go on until Ctrl-C, for a look at the page in a browser.")
    var stay = false

    func run() async throws {
        let demonstration = Demonstration(stays: stay) { Output.data($0) }
        // The folder is removed at Ctrl-C too.
        let signals = await UnixSignalsSequence(trapping: .sigint, .sigterm)
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await demonstration.run() }
            group.addTask { for await _ in signals { return } }
            try await group.next()
            group.cancelAll()
        }
    }
}

import DeliveryFixture
import Foundation
import HealthReadings
import ReadingStore
import Testing

@testable import ReadingDelivery
@testable import WebDestinations

/// What `Tests/Webhooks/receiver` says of a request.
private struct Verdict: Decodable {
    var ok: Bool
    var id: String?
    var type: String?
    var why: String?
    var `repeat`: Bool
}

/// A receiver that checks requests with the libraries of Standard Webhooks, CloudEvents, Terra and Open mHealth.
private struct Receiver {
    let port: Int
    private let process: Process
    private let input = Pipe()
    private let output = Pipe()

    init(secret: String) throws {
        process = Process()
        process.executableURL = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .appending(path: "Webhooks/receiver")
        process.arguments = [secret]
        process.standardInput = input
        process.standardOutput = output
        try process.run()
        port = Int(try Self.line(output.fileHandleForReading)) ?? 0
    }

    func verdict() throws -> Verdict {
        try JSONDecoder().decode(Verdict.self, from: Data(try Self.line(output.fileHandleForReading).utf8))
    }

    func stop() {
        try? input.fileHandleForWriting.close()
        process.waitUntilExit()
    }

    private struct Ended: Error {}

    private static func line(_ handle: FileHandle) throws -> String {
        var line = Data()
        while let octet = try handle.read(upToCount: 1), !octet.isEmpty {
            if octet[octet.startIndex] == UInt8(ascii: "\n") { return String(decoding: line, as: UTF8.self) }
            line += octet
        }
        throw Ended()
    }
}

@Suite(
    "Webhooks, as the libraries of others see them",
    .enabled(if: ProcessInfo.processInfo.environment["HEALTHRELAY_WEBHOOKS"] != nil, "`make test` runs them"))
struct WebhookReceiverTests {
    @Test(
        "every event is verified, in both formats, and a wrong key is noticed",
        arguments: [WebhookFormat.standard, .cloudevents])
    func verified(format: WebhookFormat) async throws {
        let receiver = try Receiver(secret: webhookSecret)
        defer { receiver.stop() }
        try await Fixture.with { fixture in
            func worker(_ secret: String) throws -> OutboxWorker {
                fixture.worker(
                    WebhookDestination(
                        name: "study",
                        server: try WebServer(url: "http://127.0.0.1:\(receiver.port)/in", allowsQuery: true),
                        secret: try WebhookSecret(secret), format: format, store: fixture.store,
                        sender: WebhookSender(version: "0.2.0"), allowsPrivate: true, logger: Fixture.quiet),
                    clock: .system)
            }
            let former = "whsec_" + Data(repeating: 9, count: 32).base64EncodedString()
            try await fixture.read(5)
            try await fixture.read(3, kind: .bloodPressure, device: 2, provider: "omron_ble")
            try await fixture.read(2, kind: .weight, device: 3, provider: "manual")
            // While keys are changed a request has both signatures.
            let report = try await worker(webhookSecret + " " + former).syncOnce()
            #expect(report == SyncReport(delivered: 10))
            try await fixture.read(1, from: 2, isFailed: true)
            #expect(try await worker(webhookSecret).syncOnce().retracted == 1)
            let verdicts = try (0..<11).map { _ in try receiver.verdict() }
            #expect(verdicts.allSatisfy { $0.ok && !$0.repeat }, "\(verdicts)")
            let prefix = format == .cloudevents ? "org.healthrelay." : ""
            #expect(verdicts.count { $0.type == prefix + "glucose.created" } == 5)
            #expect(verdicts.count { $0.type == prefix + "blood_pressure.created" } == 3)
            #expect(verdicts.last?.type == prefix + "glucose.retracted")
            try await fixture.store.redeliver(to: "study")
            #expect(try await worker(former).syncOnce().delivered == 0)
            let refused = try receiver.verdict()
            #expect(!refused.ok && refused.why?.contains("No matching signature") == true)
        }
    }

    @Test(
        "every document in the formats of others is verified, and a wrong key is noticed",
        arguments: [(WebhookFormat.openMHealth, 10), (.terra, 4), (.rook, 10)])
    func others(format: WebhookFormat, requests: Int) async throws {
        let (secret, former) =
            format.hasStandardSecret
            ? (webhookSecret, "whsec_" + Data(repeating: 9, count: 32).base64EncodedString())
            : ("signing-secret", "former")
        let receiver = try Receiver(secret: secret)
        defer { receiver.stop() }
        let user = format == .rook ? "white-bear" : Fixture.user
        try await Fixture.with(timeZone: "Europe/Berlin", user: user) { fixture in
            func worker(_ text: String) throws -> OutboxWorker {
                fixture.worker(
                    WebhookDestination(
                        name: "study",
                        server: try WebServer(url: "http://127.0.0.1:\(receiver.port)/in", allowsQuery: true),
                        secret: format.hasStandardSecret
                            ? try WebhookSecret(text) : try WebhookSecret(words: text, atMost: 2),
                        format: format, store: fixture.store,
                        sender: WebhookSender(version: "0.2.0", clientUUID: UUID().uuidString), allowsPrivate: true,
                        logger: Fixture.quiet), clock: .system)
            }
            // The last two are on another day.
            try await fixture.read(3)
            try await fixture.read(2, from: 3000)
            try await fixture.read(3, kind: .bloodPressure, device: 2, provider: "omron_ble")
            try await fixture.read(2, kind: .weight, device: 3, provider: "manual")
            let both = format == .rook ? secret : "\(secret)\n\(former)"
            #expect(try await worker(both).syncOnce() == SyncReport(delivered: 10))
            var verdicts = try (0..<requests).map { _ in try receiver.verdict() }
            #expect(Set(verdicts.compactMap(\.id)).count == requests)
            if format == .terra {
                try await fixture.read(1, from: 2, isFailed: true)
                #expect(try await worker(secret).syncOnce().retracted == 1)
                verdicts.append(try receiver.verdict())
            }
            #expect(verdicts.allSatisfy { $0.ok && !$0.repeat }, "\(verdicts)")
            try await fixture.store.redeliver(to: "study")
            #expect(try await worker(former).syncOnce().delivered == 0)
            let refused = try receiver.verdict()
            #expect(!refused.ok && refused.why?.contains("No matching signature") == true, "\(refused)")
        }
    }
}

import Foundation
import GatewaySettings
import HealthDevices
import HealthReadings
import Synchronization

/// Where the samples of an import go.
public protocol ImportSink: Sendable {
    /// What has to be known before a file is read.
    func begin(person: String?) async throws -> ImportContext
    /// Stores samples, and returns when they are durable.
    func add(_ samples: [ImportedSample]) async throws -> [ImportResult]
    /// Leaves samples that are stored out of figures, unless somebody has decided on them before; returns how many.
    func leaveOut(_ samples: [LeftOutSample]) async throws -> Int
}

/// The gateway in this process.
public struct GatewaySink: ImportSink {
    private let runner: ImportRunner

    /// Makes a sink.
    public init(_ gateway: Gateway) { runner = ImportRunner(gateway: gateway, output: CollectedLines()) }

    /// What has to be known before a file is read.
    public func begin(person: String?) async throws -> ImportContext { try await runner.begin(person) }
    /// Stores samples, and returns when they are durable.
    public func add(_ samples: [ImportedSample]) async throws -> [ImportResult] { try await runner.add(samples) }
    /// Leaves samples that are stored out of figures, unless somebody has decided on them before.
    public func leaveOut(_ samples: [LeftOutSample]) async throws -> Int { try await runner.leaveOut(samples) }
}

/// A running gateway, over its control socket.
public struct ControlSink: ImportSink {
    private let client: ControlClient

    /// Makes a sink.
    public init(_ client: ControlClient) { self.client = client }

    /// What has to be known before a file is read.
    public func begin(person: String?) async throws -> ImportContext { try await ask(.begin(person: person)) }

    /// Stores samples, and returns when they are durable.
    public func add(_ samples: [ImportedSample]) async throws -> [ImportResult] {
        let words: [String] = try await ask(.samples(samples.map { Data($0.octets) }))
        let results = words.compactMap(ImportResult.init(word:))
        guard results.count == samples.count else { throw Self.misunderstood }
        return results
    }

    /// Leaves samples that are stored out of figures, unless somebody has decided on them before.
    public func leaveOut(_ samples: [LeftOutSample]) async throws -> Int { try await ask(.omissions(samples)) }

    private func ask<Answer: Decodable>(_ operation: ImportOperation) async throws -> Answer {
        let lines = CollectedLines()
        try await client.run(OperationRequest(.importing(operation), json: true), output: lines)
        guard let answer = try? JSONDecoder().decode(Answer.self, from: Data(lines.text.utf8)) else {
            throw Self.misunderstood
        }
        return answer
    }

    private static var misunderstood: Problem {
        Problem(
            "gateway_refused", .protocolBroken, "the gateway's answer to an import makes no sense",
            hint: "if it is another version, restart it")
    }
}

/// Nothing is stored: says what would be, but for what is there already.
public struct DrySink: ImportSink {
    private let context: ImportContext
    private let now: Instant

    /// Makes a sink.
    ///
    /// - Parameters:
    ///   - person: the client's id of the person.
    ///   - zone: the person's zone, by its name in the tz database.
    ///   - now: the present time.
    public init(person: String, zone: String, now: Instant) {
        context = ImportContext(person: person, people: [], zones: [.init(begins: .min, name: zone)])
        self.now = now
    }

    /// What has to be known before a file is read.
    public func begin(person: String?) async throws -> ImportContext { context }

    /// What would become of samples in a store without readings.
    public func add(_ samples: [ImportedSample]) async throws -> [ImportResult] {
        let decoder = ModelFrameDecoder()
        return samples.map { sample in
            let exclusion =
                decoder.judged(sample).exclusion ?? ImportedSample.exclusion(of: sample.time.resolved, receivedAt: now)
            return exclusion.map(ImportResult.excluded) ?? .stored
        }
    }

    /// How many samples would be left out in a store without readings.
    public func leaveOut(_ samples: [LeftOutSample]) async throws -> Int { samples.count }
}

/// Keeps what an operation prints.
private final class CollectedLines: OperationOutput {
    private let lines = Mutex<[String]>([])

    var text: String { lines.withLock { $0.joined(separator: "\n") } }

    func data(_ line: String) async throws { lines.withLock { $0.append(line) } }
    func note(_ line: String) async throws {}
}

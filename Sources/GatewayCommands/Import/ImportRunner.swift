import Foundation
import GatewaySettings
import HealthReadings
import ReadingStore

/// Takes the samples of `import`.
struct ImportRunner {
    let gateway: Gateway
    let output: any OperationOutput

    func run(_ operation: ImportOperation) async throws {
        switch operation {
        case .begin(let person): try await answer(begin(person))
        case .samples(let octets):
            guard octets.count <= ImportOperation.most else {
                throw Problem.usage("import: expected at most \(ImportOperation.most) samples at a time")
            }
            let samples = try octets.map { octets in
                switch DecodedFrame(importedSample: Array(octets)) {
                case .imported(let sample): return sample
                case .malformed(let error): throw error
                default: throw Problem("malformed_frame", .badData, "import: expected a sample")
                }
            }
            try await answer(add(samples).map(\.word))
        case .omissions(let samples):
            guard samples.count <= ImportOperation.most else {
                throw Problem.usage("import: expected at most \(ImportOperation.most) samples at a time")
            }
            try await answer(leaveOut(samples))
        }
    }

    func begin(_ person: String?) async throws -> ImportContext {
        if let problem = await gateway.clockProblem() { throw problem }
        // A reading's id names its person: samples of somebody without a name would be stored twice once there is one.
        let user = try await gateway.requireNamedUser(person)
        return ImportContext(
            person: user.clientUserID, people: try await gateway.store.users().map(\.clientUserID),
            zones: try await gateway.store.zones(of: user.key).map { begin, zone in
                ImportContext.Zone(begins: begin.microseconds, name: zone.name)
            })
    }

    func add(_ samples: [ImportedSample]) async throws -> [ImportResult] {
        try await gateway.add(samples).map(ImportResult.init)
    }

    func leaveOut(_ samples: [LeftOutSample]) async throws -> Int {
        if let problem = await gateway.clockProblem() { throw problem }
        var reasons: [ReadingID: String?] = [:]
        for sample in samples {
            guard let id = ReadingID(sample.id) else {
                throw Problem.usage("import: expected the id of a reading, found '\(sample.id.prefix(64))'")
            }
            reasons[id] = .some(sample.reason)
        }
        return try await gateway.store.leaveOutUndecided(reasons, by: "import")
    }

    private func answer(_ value: some Encodable) async throws {
        try await output.data(String(decoding: JSONEncoder().encode(value), as: UTF8.self))
    }
}

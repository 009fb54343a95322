import CloudSources
import Foundation
import GatewaySettings
import HealthReadings
import ReadingStore
import Testing

@testable import GatewayCommands

@Suite("Where a fetch from a cloud begins", .timeLimit(.minutes(5)))
struct CloudRunnerTests {
    /// A household whose current user, in Berlin, has connected WHOOP, and another person, in New York, Garmin.
    private static func household() async throws -> GatewayBench {
        let bench = try await QueryTests.household()
        let folder = bench.gateway.store.directory + "/cloud"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        for (vendor, person) in [(CloudVendor.whoop, "anna"), (CloudVendor.garmin, "ben")] {
            let account = """
                {"format":1,"account":{"contract":"wear_service","service":"http://127.0.0.1:1","app":"app",\
                "person":"\(person)","user":"user","connected_at":"2020-01-01T00:00:00Z"},"pending":[]}
                """
            try account.write(toFile: "\(folder)/\(vendor.rawValue).json", atomically: true, encoding: .utf8)
        }
        return bench
    }

    @Test(
        "a date is a day of the account's person, whoever the current user is",
        arguments: [
            (CloudVendor.whoop, "2026-11-20", "2026-11-19T23:00:00Z"), (.garmin, "2026-11-20", "2026-11-20T05:00:00Z"),
            (.garmin, "2026-11-20T01:00:00Z", "2026-11-20T01:00:00Z"), (.garmin, nil, nil),
        ] as [(CloudVendor, String?, String?)])
    func days(_ vendor: CloudVendor, _ from: String?, _ expected: String?) async throws {
        let bench = try await Self.household()
        let runner = CloudRunner(gateway: bench.gateway, json: true, output: Collected())
        let begin = try await runner.begin(from, of: vendor)
        #expect(begin?.description == expected)
        try await bench.stop()
    }

    @Test("what is no instant is told once, before any cloud is asked")
    func noInstant() async throws {
        let bench = try await Self.household()
        let problem = try await bench.problem(.cloud(.fetch(CloudRequest(from: "yesterday"))))
        #expect(problem.code == "usage" && problem.status == .usage && problem.message.contains("--from"))
        try await bench.stop()
    }
}

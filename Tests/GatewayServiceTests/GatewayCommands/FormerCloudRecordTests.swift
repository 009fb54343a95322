import CloudSources
import Foundation
import HealthReadings
import ReadingStore
import Testing

@testable import GatewayCommands

@Suite("Records of a cloud that an earlier version stored")
struct FormerCloudRecordTests {
    private static let start: Int64 = 1_795_176_000

    /// Decodes as earlier versions did, which took a snapshot's time for UTC, or the beginning of its day for a start with a
    /// fraction, ended a night too early, and didn't know who had typed a pressure.
    private struct EarlierDecoder: FrameDecoding {
        func decode(_ frame: Frame, model: String?) -> DecodedFrame {
            guard case .imported(var sample) = Gateway.decoder.decode(frame, model: model) else { return .nothing }
            sample.isEntered = false
            if sample.recordName?.hasPrefix("healthSnapshot/s-2-/") == true {
                let day = Instant(seconds: FormerCloudRecordTests.start - 43_200)
                sample.time = ImportedTime(day, utcOffsetMinutes: 0, basis: .assumedZone, uncertaintyMinutes: 720)
                sample.updatedAt = day.advanced(bySeconds: 120)
                if sample.end != nil { sample.end = sample.updatedAt }
            } else if sample.recordName?.hasPrefix("healthSnapshot/") == true {
                sample.time = ImportedTime(sample.time.instant, utcOffsetMinutes: 0)
            }
            if sample.kind == .sleep { sample.end = sample.time.instant.advanced(bySeconds: 27_720) }
            return .imported(sample)
        }
    }

    private static let records = [
        (
            "healthSnapshot",
            #"{"summaryId":"s-1","startTimeInSeconds":\#(start),"offsetStartTimeInSeconds":7200,"durationInSeconds":120,"#
                + #""summaries":[{"summaryType":"heart_rate","avgValue":64}]}"#
        ),
        (
            "sleeps",
            #"{"summaryId":"n-1","startTimeInSeconds":\#(start),"startTimeOffsetInSeconds":3600,"durationInSeconds":27720,"#
                + #""sleepLevelsMap":{"awake":[{"startTimeInSeconds":\#(start),"endTimeInSeconds":\#(start + 31_680)}]}}"#
        ),
        (
            "bloodPressures",
            #"{"summaryId":"b-1","measurementTimeInSeconds":\#(start),"measurementTimeOffsetInSeconds":3600,"#
                + #""systolic":120,"diastolic":80,"sourceType":"MANUAL"}"#
        ),
    ]

    @Test(
        "promise 2: what this version reads better is the same reading at the same time, and sound before it comes again"
    )
    func storedBefore() async throws {
        let directory = FileManager.default.temporaryDirectory.appending(path: "former-cloud-\(UUID().uuidString)").path
        defer { try? FileManager.default.removeItem(atPath: directory) }
        func open(_ decoder: any FrameDecoding) async throws -> ReadingStore {
            try await ReadingStore.open(
                directory: directory, decoder: decoder, clientUserID: "ann", timeZone: "Europe/Berlin",
                now: { Instant(seconds: Self.start + 86_400) })
        }
        func add(to store: ReadingStore) async throws -> [Reading] {
            _ = try await store.add(of: "garmin", person: "ann") { now in
                Self.records.flatMap { collection, json in
                    CloudRecord(.garmin, collection, Array(json.utf8), person: "ann").frames(receivedAt: now)
                }
            }
            return try await store.query(ReadingQuery()).readings.sorted { $0.id < $1.id }
        }
        let earlier = try await open(EarlierDecoder())
        let before = try await add(to: earlier)
        #expect(before.count == 4)
        #expect(before.allSatisfy { $0.record.imported?.isEntered == false })
        try earlier.close()

        let store = try await open(Gateway.decoder)
        var findings = try await store.verify()
        #expect(findings.isEmpty)
        let after = try await add(to: store)
        #expect(after.map(\.id) == before.map(\.id) && after.map(\.time) == before.map(\.time))
        let rate = try #require(after.first { $0.kind == .heartRate }?.record)
        #expect(rate.imported?.utcOffsetMinutes == 120)
        #expect(rate.baseTime == WallTime(secondsSinceEpoch: Self.start + 7200))
        #expect(after.first { $0.kind == .sleep }?.record.imported?.end?.seconds == Self.start + 31_680)
        #expect(after.first { $0.kind == .bloodPressure }?.record.imported?.isEntered == true)
        findings = try await store.verify()
        #expect(findings.isEmpty)
        try store.close()
    }

    /// What this version finds in a store that an earlier one filled.
    private static func findings(
        _ fill: (ReadingStore) async throws -> Void
    ) async throws -> [VerificationFinding] {
        let directory = FileManager.default.temporaryDirectory.appending(path: "former-cloud-\(UUID().uuidString)").path
        defer { try? FileManager.default.removeItem(atPath: directory) }
        func open(_ decoder: any FrameDecoding) async throws -> ReadingStore {
            try await ReadingStore.open(
                directory: directory, decoder: decoder, clientUserID: "ann", timeZone: "Europe/Berlin",
                now: { Instant(seconds: Self.start + 86_400) })
        }
        let earlier = try await open(EarlierDecoder())
        try await fill(earlier)
        try earlier.close()
        let store = try await open(Gateway.decoder)
        let findings = try await store.verify()
        try store.close()
        return findings
    }

    @Test("a snapshot is sound that was placed at the beginning of its day because its start has a fraction")
    func placedAtItsDay() async throws {
        let json =
            #"{"summaryId":"s-2-78","calendarDate":"2026-11-20","startTimeInSeconds":\#(Self.start).0,"#
            + #""offsetStartTimeInSeconds":7200,"durationInSeconds":120,"#
            + #""summaries":[{"summaryType":"heart_rate","avgValue":64}]}"#
        let findings = try await Self.findings { store in
            let record = CloudRecord(.garmin, "healthSnapshot", Array(json.utf8), person: "ann")
            _ = try await store.add(of: "garmin", person: "ann") { record.frames(receivedAt: $0) }
            let times = try await store.query(ReadingQuery()).readings.map(\.time.instant?.seconds)
            #expect(times == [Self.start - 43_200, Self.start - 43_200])
        }
        #expect(findings.isEmpty)
    }

    @Test("what another program's file says is compared as it is: it was never read otherwise")
    func file() async throws {
        let kilograms = Quantity(ExactDecimal(significand: 70), .kilograms)
        let sample = ImportedSample(
            person: "ann", provider: "apple_health_kit", isEntered: true,
            value: .vital(VitalValue(kind: .weight, [.init(.weight, kilograms)])),
            time: ImportedTime(Instant(seconds: Self.start), utcOffsetMinutes: 60))
        let findings = try await Self.findings { store in _ = try await store.add([sample]) }
        #expect(findings.map(\.problem) == [.differs])
    }
}

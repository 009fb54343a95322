import EmulatedPhone
import Foundation
import HealthReadings
import Synchronization

@testable import HealthSyncClient

/// A phone with what a test needs to talk to it.
struct Bench {
    let phone: EmulatedPhone
    let client: HealthSyncPhone
    let token: PhoneToken

    /// Noon of 20 November 2026, UTC.
    static let noon = Date(timeIntervalSince1970: 1_795_176_000)

    init(
        _ samples: [PhoneSample] = [], enabled: [String] = ["heartRate", "sleepAnalysis", "sleepREM", "steps"],
        pageSize: Int = 10_000, _ change: (inout HealthSyncLimits) -> Void = { _ in }
    ) async throws {
        var state = EmulatedPhone.State()
        state.samples = samples
        state.enabled = enabled
        phone = try await EmulatedPhone.start(state)
        var limits = HealthSyncLimits()
        limits.pageSize = pageSize
        limits.call = .seconds(5)
        limits.connecting = .seconds(5)
        limits.pause = .milliseconds(10)
        limits.rateWindow = .milliseconds(50)
        change(&limits)
        client = try HealthSyncPhone(PairingPayload(json: phone.showCode()), limits: limits)
        token = try PhoneToken(phone.token()).orThrow()
    }

    /// Heart rates, one every `step` seconds back from noon.
    static func heartRates(_ count: Int, every step: Double = 60) -> [PhoneSample] {
        (0..<count).map { PhoneSample("heartRate", 60 + Double($0 % 40), "count/min", at: noon - Double($0) * step) }
    }

    static func instant(_ date: Date) -> Instant {
        Instant(microseconds: Int64(date.timeIntervalSince1970 * 1_000_000))
    }

    /// The day around noon.
    static let day = instant(noon - 86_400)...instant(noon + 86_400)

    /// Fetches, and returns the samples that came, also if it failed.
    func fetch(
        _ types: [String], in range: ClosedRange<Instant> = Bench.day
    ) async -> (samples: [HealthSyncSample], result: Result<HealthSyncFetch.Summary, any Error>) {
        let received = Mutex<[HealthSyncSample]>([])
        do {
            let summary = try await HealthSyncFetch(client, token).run(types, in: range) { samples in
                received.withLock { $0 += samples }
            }
            return (received.withLock(\.self), .success(summary))
        } catch {
            return (received.withLock(\.self), .failure(error))
        }
    }
}

extension Result where Failure == any Error {
    /// The kind of the phone's error; nil for a success and for other errors.
    var kind: HealthSyncError.Kind? {
        guard case .failure(let error as HealthSyncError) = self else { return nil }
        return error.kind
    }
}

extension Optional {
    struct Missing: Error {}
    func orThrow() throws -> Wrapped {
        guard let self else { throw Missing() }
        return self
    }
}

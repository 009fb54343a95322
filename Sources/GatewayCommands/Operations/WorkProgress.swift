import GatewaySettings
import HealthReadings
import ReadingStore

/// How far work on the whole store has come, and how long it still takes.
public struct WorkProgress: Codable, Sendable, Hashable {
    /// What is being done, by its published name: `checking_readings`, `copying`, …
    public var step: String
    /// How much of it is done.
    public var done: Int64
    /// How much there is to do; nil if that is not known.
    public var total: Int64?
    /// What is counted: `rows` or `bytes`.
    public var unit: String
    /// For how many seconds this step still goes on; nil as long as nobody can tell.
    public var secondsLeft: Int64?

    init(_ progress: StoreProgress, secondsLeft: Int64?) {
        (step, unit) = (progress.step.rawValue, progress.step.unit.rawValue)
        (done, total, self.secondsLeft) = (progress.done, progress.total, secondsLeft)
    }

    /// `checking readings: 120000 of 1000000, 35 s left`.
    public var line: String {
        let title = step.replacing("_", with: " ")
        guard let total else { return title }
        let counts =
            unit == StoreProgress.Unit.bytes.rawValue
            ? "\(done >> 20) of \((total + (1 << 20) - 1) >> 20) MiB" : "\(done) of \(total)"
        return "\(title): \(counts)" + (secondsLeft.map { ", \(Self.words(seconds: $0)) left" } ?? "")
    }

    /// `35 s`, `12 min`, `2 h 5 min`.
    private static func words(seconds: Int64) -> String {
        if seconds < 100 { return "\(seconds) s" }
        let minutes = (seconds + 30) / 60
        return minutes < 100 ? "\(minutes) min" : "\(minutes / 60) h \(minutes % 60) min"
    }

    /// `{"step","done","total","unit","seconds_left"}`.
    public var document: JSONValue {
        .object([
            "step": .string(step), "done": .integer(done), "total": total.map(JSONValue.integer) ?? .null,
            "unit": .string(unit), "seconds_left": secondsLeft.map(JSONValue.integer) ?? .null,
        ])
    }
}

/// Judges from what was done of a step since it began how long the rest takes, and how often to say so.
struct ProgressMeter {
    /// How much is told of one step.
    private static let interval: Duration = .milliseconds(200)
    /// How long it looks before it judges.
    private static let patience: Duration = .seconds(2)

    /// Where the step stood when it was first told of: what was done before says nothing of how fast it goes.
    private var first: (progress: StoreProgress, at: ContinuousClock.Instant)?
    private var told: ContinuousClock.Instant?

    /// Takes a progress.
    ///
    /// - Returns: what to tell; nil if something was told a moment ago.
    mutating func note(_ progress: StoreProgress, at now: ContinuousClock.Instant) -> WorkProgress? {
        if let first, first.progress.step == progress.step, first.progress.done <= progress.done {
            if let told, now - told < Self.interval, progress.done != progress.total { return nil }
        } else {
            first = (progress, now)
        }
        told = now
        return WorkProgress(progress, secondsLeft: secondsLeft(progress, now))
    }

    private func secondsLeft(_ progress: StoreProgress, _ now: ContinuousClock.Instant) -> Int64? {
        guard let first, let total = progress.total, now - first.at >= Self.patience else { return nil }
        let done = progress.done - first.progress.done
        guard done > 0 else { return nil }
        let rest = Double(max(total - progress.done, 0)) * ((now - first.at) / .seconds(1)) / Double(done)
        return rest < 1e9 ? Int64(rest.rounded(.up)) : nil
    }
}

extension OperationOutput {
    /// Does work on the whole store and tells how far it has come. Where nobody is there to see it any more, the work is
    /// cancelled.
    ///
    /// - Parameter work: is given whom to tell.
    public func following<Value: Sendable>(
        _ work: @escaping @Sendable (@escaping StoreProgress.Handler) async throws -> Value
    ) async throws -> Value {
        try await WorkProgress.following(work) { try await progress($0) }
    }
}

extension WorkProgress {
    /// Does work on the whole store and tells how far it has come. Where telling fails, the work is cancelled.
    ///
    /// - Parameters:
    ///   - work: is given whom to tell.
    ///   - tell: takes what is worth telling.
    package static func following<Value: Sendable>(
        _ work: @escaping @Sendable (@escaping StoreProgress.Handler) async throws -> Value,
        tell: @escaping @Sendable (WorkProgress) async throws -> Void
    ) async throws -> Value {
        let (steps, told) = AsyncStream.makeStream(of: StoreProgress.self, bufferingPolicy: .bufferingNewest(1))
        return try await withThrowingTaskGroup(of: Value?.self) { group in
            group.addTask {
                defer { told.finish() }
                return try await work { told.yield($0) }
            }
            group.addTask {
                var meter = ProgressMeter()
                for await step in steps {
                    if let progress = meter.note(step, at: .now) { try await tell(progress) }
                }
                return nil
            }
            var value: Value?
            while let next = try await group.next() { value = next ?? value }
            guard let value else { throw CancellationError() }
            return value
        }
    }
}

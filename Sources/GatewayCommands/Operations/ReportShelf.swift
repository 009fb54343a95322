import HealthFigures
import HealthReadings
import Languages
import ReadingStore

/// Readings that several reports are made of: a page's glucose and sensor report are made of the same ones, and the next page
/// mostly of the same and a few more.
///
/// They are kept for some minutes behind the last page that asked for them. Meanwhile only what came since is read.
package actor ReportShelf {
    /// What readings were read for.
    struct Contents: Hashable {
        var person: UserKey
        var kind: ReadingKind
        /// The days, each with when it begins and ends: a person who has travelled has others.
        var days: [PersonDay]
        /// Which decide on what counts for the first and the last evening.
        var windows: DayWindows
        var language: Language
    }

    /// Readings, and the store as it was when they were read.
    struct Kept: Sendable {
        var readings: ReportReadings
        /// `nil` if something happened while they were read.
        var mark: ReadingsMark?
    }

    private struct Shelf {
        var task: Task<Kept, any Error>
        var generation: Int
        var keeping: Task<Void, Never>?
    }

    /// How many periods of each kind are kept at most: a year of a sensor takes some megabytes.
    private static let most = 4
    private let longest: Duration

    private var shelves: [Contents: Shelf] = [:]
    private var order: [Contents] = []

    /// Makes an empty one.
    ///
    /// - Parameter longest: how long readings are kept behind the last use.
    package init(keepsFor longest: Duration = .seconds(360)) { self.longest = longest }

    /// The readings; those who ask for the same at about the same time share them.
    ///
    /// - Parameters:
    ///   - contents: what they are for.
    ///   - generation: what the store is like.
    ///   - read: reads them anew, or what came since others were read.
    func readings(
        _ contents: Contents, generation: Int, _ read: @escaping @Sendable (Kept?) async throws -> Kept
    ) async throws -> ReportReadings {
        let present = shelves[contents]
        let task: Task<Kept, any Error>
        if let present, present.generation == generation {
            task = present.task
        } else {
            // Whoever no longer waits for it takes it from nobody else.
            task = Task {
                let kept = try? await present?.task.value
                return try await read(kept)
            }
        }
        present?.keeping?.cancel()
        shelves[contents] = Shelf(
            task: task, generation: generation, keeping: Task { await self.forget(contents, behind: task) })
        order.removeAll { $0 == contents }
        order.append(contents)
        let ofKind = order.filter { $0.kind == contents.kind }
        for oldest in ofKind.dropLast(Self.most) { drop(oldest) }
        return try await task.value.readings
    }

    private func forget(_ contents: Contents, behind task: Task<Kept, any Error>) async {
        if case .success = await task.result {
            do { try await Task.sleep(for: longest) } catch { return }
        }
        guard !Task.isCancelled else { return }
        drop(contents)
    }

    private func drop(_ contents: Contents) {
        shelves.removeValue(forKey: contents)?.keeping?.cancel()
        order.removeAll { $0 == contents }
    }
}

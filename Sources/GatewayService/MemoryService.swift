import HelperProcesses
import ReadingStore
import ServiceLifecycle

/// Gives back memory that nobody needs, four times an hour.
///
/// A first count, a backup, an import or a page with much to show takes some megabytes for a moment, and leaves pages of the store in
/// each connection's cache. What lives longer lies between their pieces, so that the allocator would keep them for as long as the
/// gateway runs: a weekly backup added ten megabytes in two months.
struct MemoryService: Service {
    private static let interval: Duration = .seconds(900)

    let store: ReadingStore

    func run() async throws {
        await cancelWhenGracefulShutdown {
            while (try? await Task.sleep(for: Self.interval)) != nil {
                store.releaseMemory { ProcessMemory.giveBack() }
            }
        }
    }
}

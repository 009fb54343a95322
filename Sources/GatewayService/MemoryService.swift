import HelperProcesses
import ServiceLifecycle

/// Gives back memory that was freed, once an hour.
///
/// A backup, an import or a page with much to show takes some megabytes for a moment. What lives longer lies between their pieces,
/// so that the allocator would keep them for as long as the gateway runs: a weekly backup added ten megabytes in two months.
struct MemoryService: Service {
    private static let interval: Duration = .seconds(3600)

    func run() async throws {
        await cancelWhenGracefulShutdown {
            while (try? await Task.sleep(for: Self.interval)) != nil { ProcessMemory.giveBack() }
        }
    }
}

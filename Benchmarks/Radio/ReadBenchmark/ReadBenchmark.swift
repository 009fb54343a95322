import GATTProfiles
import HealthReadings
import Logging
import ReadCourse
import ReadingStore

/// Reads one meter into a store of its own: `read-benchmark ADDRESS DIRECTORY`.
@main
struct ReadBenchmark {
    static func main() async throws {
        let arguments = CommandLine.arguments
        guard arguments.count == 3, let address = DeviceAddress(arguments[1]) else {
            throw BenchmarkError.usage
        }
        let store = try await ReadingStore.open(
            directory: arguments[2], decoder: StandardFrameDecoder(), clientUserID: "bench", timeZone: "Asia/Kolkata",
            logger: Logger(label: "benchmark") { _ in SwiftLogNoOpLogHandler() })
        try await ReadCourse.run(address, journal: store, memory: store, pairings: store)
        try store.close()
    }
}

enum BenchmarkError: Error {
    case usage
}

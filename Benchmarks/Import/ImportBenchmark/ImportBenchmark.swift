import HealthDevices
import HealthReadings
import ReadingImport
import ReadingStore

/// `import-benchmark EXPORT DIRECTORY` stores an export as `healthrelay import` does, in a store in the directory, sealed;
/// `import-benchmark EXPORT` only reads it. Prints the number of readings that are new.
@main enum ImportBenchmark {
    static func main() async throws {
        let arguments = CommandLine.arguments
        guard let zone = ZoneRules.named("Europe/Berlin"), (2...3).contains(arguments.count) else {
            fatalError("import-benchmark EXPORT [DIRECTORY]")
        }
        let rules = ImportRules(person: "white_bear", zones: [(Instant(microseconds: .min), zone)])
        let reader = try ImportFile(path: arguments[1]).reader(rules)
        var store: ReadingStore?
        if arguments.count == 3 {
            store = try await ReadingStore.open(
                directory: arguments[2], decoder: ModelFrameDecoder(), clientUserID: "white_bear",
                timeZone: "Europe/Berlin")
        }
        var batch: [ImportedSample] = []
        var stored = 0
        var isAtEnd = false
        while !isAtEnd {
            switch try reader.next() {
            case .sample(let sample): batch.append(sample)
            case .refused: break
            case nil: isAtEnd = true
            }
            guard batch.count == 2000 || isAtEnd else { continue }
            if let store {
                for outcome in try await store.add(batch) { if case .stored = outcome { stored += 1 } }
            } else {
                stored += batch.count
            }
            batch.removeAll(keepingCapacity: true)
        }
        try store?.close()
        print(stored)
    }
}

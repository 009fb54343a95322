import HealthReadings
import ReadingStore

extension Gateway {
    func run(_ operation: StoreOperation, json: Bool, output: any OperationOutput) async throws {
        switch operation {
        case .stats:
            let stats = try await store.stats()
            if json {
                try await output.data(stats.document.text)
            } else {
                for line in stats.lines { try await output.data(line) }
            }
        case .verify:
            let report = try await store.verify()
            if json {
                try await output.data(report.document.text)
            } else {
                for finding in report.findings { try await output.data(finding.description) }
                try await output.data(
                    "\(report.frames) frames and \(report.readings) readings checked, \(report.findings.count) findings")
            }
            if !report.findings.isEmpty {
                throw Problem(
                    "store_damaged", .badData, "the store has \(report.findings.count) findings",
                    hint: "keep the files; what devices still hold can be read again")
            }
        }
    }
}

import GATTClient
import HealthDevices
import HealthReadings

extension Gateway {
    /// `watch`: readings as they come into the store.
    ///
    /// Where no gateway runs, nothing would come: the paired meters are then read here, as `run` does.
    func watch(_ types: [String], json: Bool, _ output: any OperationOutput) async throws {
        let kinds = try types.isEmpty ? Set(ReadingKind.allCases) : Set(types.map(Self.kind))
        let readings = store.committedReadings()
        try await withThrowingTaskGroup(of: Void.self) { group in
            defer { group.cancelAll() }
            if !isService {
                let manager = try requireManager()
                try await output.note("No gateway runs; the paired meters are read here until this is stopped.")
                group.addTask { try await self.read(manager, telling: output) }
            }
            group.addTask {
                for await batch in readings {
                    for reading in batch where kinds.contains(reading.kind) {
                        try await output.data(json ? reading.document.text : reading.line)
                    }
                }
            }
            try await group.next()
        }
    }
}

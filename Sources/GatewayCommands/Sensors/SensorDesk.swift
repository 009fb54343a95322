import FreeStyleLibre
import HealthReadings
import ISO15693Reader
import LibreReader

/// A reader of sensors, and whose turn it is with it: the gateway that waits for sensors, or a command that asks for one.
package actor SensorDesk {
    package nonisolated let reader: any TagReader
    private var last: Task<Void, Never>?
    /// The sensor that was read and has not left since.
    private var present: SensorUID?

    package init(_ reader: any TagReader) { self.reader = reader }

    /// Does something when everybody who came before is done.
    package func inTurn<Value: Sendable>(_ body: @escaping @Sendable () async throws -> Value) async throws -> Value {
        let previous = last
        let task = Task {
            await previous?.value
            try Task.checkCancellation()
            return try await body()
        }
        last = Task { _ = await task.result }
        return try await withTaskCancellationHandler {
            try await task.value
        } onCancel: {
            task.cancel()
        }
    }

    /// Reads the sensor that is at the reader now.
    ///
    /// - Parameter unlessRead: whether one that was read and has not left since is left alone.
    /// - Returns: the scan and when it was made; nil where the sensor was left alone.
    /// - Throws: `LibreReadError`.
    package func read(
        unlessRead: Bool = false, progress: @escaping @Sendable (Libre1Reader.Progress) -> Void = { _ in }
    ) async throws -> (scan: LibreScan, at: Instant)? {
        try await inTurn { [self] in
            if unlessRead, let present = await present {
                let uid = try? SensorUID(printed: await reader.uid())
                if uid == present { return nil }
            }
            let scan = try await Libre1Reader(reader).read(progress: progress)
            await note(scan.uid)
            return (scan, .systemClock)
        }
    }

    /// Why the reader cannot be used; nil where it can, with a sensor or without.
    package func readerFault() async -> ISO15693Error? {
        do throws(ISO15693Error) {
            _ = try await reader.uid()
            return nil
        } catch {
            return error == .noTag || error == .tagLeft ? nil : error
        }
    }

    /// No sensor is at the reader any more.
    package func left() { present = nil }

    private func note(_ uid: SensorUID) { present = uid }

    /// Lets go of the reader.
    package func close() async { await reader.close() }
}

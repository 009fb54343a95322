import FreeStyleLibre
import GatewaySettings
import HealthReadings
import ISO15693Reader
import LibreReader
import Synchronization

/// What a command asks of sensors.
public enum SensorOperation: Codable, Sendable, Hashable {
    /// Reads the sensor that is held to the reader.
    ///
    /// - reader: in the form of `nfc.reader`; nil for that itself.
    /// - seconds: how long a sensor may take to be held there.
    case read(reader: String?, seconds: Double)
}

/// `libre read`: waits for a sensor, reads it, stores it, and prints it with its readings.
struct SensorRunner {
    let gateway: Gateway
    let json: Bool
    let output: any OperationOutput

    func run(_ operation: SensorOperation) async throws {
        switch operation {
        case .read(let reader, let seconds): try await read(reader, .seconds(seconds))
        }
    }

    private func read(_ reader: String?, _ patience: Duration) async throws {
        let desk = try gateway.sensors.desk(reader)
        let isOwn = reader != nil && reader != gateway.settings["nfc.reader"]
        do {
            try await read(at: desk, patience)
        } catch {
            // The service holds its reader on; a command lets go of it.
            if isOwn || !gateway.isService { await desk.close() }
            throw error
        }
        if isOwn || !gateway.isService { await desk.close() }
    }

    private func read(at desk: SensorDesk, _ patience: Duration) async throws {
        if let problem = await gateway.clockProblem() { throw problem }
        try await output.note("Hold the reader to the sensor, and keep it there until it is read.")
        let end = ContinuousClock.now + patience
        while true {
            try await awaitSensor(at: desk, until: end)
            do {
                guard let (scan, instant) = try await scan(at: desk) else { continue }
                return try await tell(try await gateway.sensors.store(scan, at: instant))
            } catch let error as LibreReadError where error.isAbsence && ContinuousClock.now < end {
                try await output.note("\(error.description); \(error.hint ?? "hold it there again")")
            }
        }
    }

    private func awaitSensor(at desk: SensorDesk, until end: ContinuousClock.Instant) async throws {
        let found = Atomic(false)
        do {
            try await withDeadline(end) {
                _ = try await desk.reader.waitForTag()
                found.store(true, ordering: .relaxed)
            }
        } catch ISO15693Error.cancelled {
            try Task.checkCancellation()
        }
        guard !found.load(ordering: .relaxed) else { return }
        // A reader that does not answer is asked a few times before it says so.
        throw await desk.readerFault() ?? .noTag
    }

    /// Reads it, telling how far it has come.
    private func scan(at desk: SensorDesk) async throws -> (LibreScan, Instant)? {
        let (steps, step) = AsyncStream<Libre1Reader.Progress>.makeStream(bufferingPolicy: .bufferingNewest(1))
        return try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                for await progress in steps {
                    let name = progress.round == 1 ? "sensor" : "sensor, attempt \(progress.round)"
                    try await output.progress(
                        TransferProgress(
                            device: name, received: progress.blocksRead, announced: progress.blocks, unit: "block"))
                }
            }
            let result = await Result { try await desk.read { step.yield($0) } }
            step.finish()
            try await group.waitForAll()
            return try result.get().map { ($0.scan, $0.at) }
        }
    }

    private func tell(_ stored: StoredScan) async throws {
        if json {
            try await output.data(stored.document.text)
        } else {
            try await output.data(stored.scan.line)
            for reading in stored.readings { try await output.data(reading.line) }
        }
        if let warning = stored.scan.warning { try await output.note(warning) }
        if let note = stored.wearerNote(showsName: true) { try await output.note(note) }
        if let fault = stored.fault {
            throw Problem(
                "sensor_memory_damaged", .badData, "\(fault); its octets are kept",
                hint: "hold the reader still at the sensor, away from metal, and scan again")
        }
        try await output.note(
            stored.new == 0 ? "nothing new" : stored.new == 1 ? "1 new reading" : "\(stored.new) new readings")
    }
}

extension LibreReadError {
    /// Whether the sensor was taken away: it may be held there again.
    fileprivate var isAbsence: Bool {
        if case .exchange(let error, _) = self { error == .noTag || error == .tagLeft } else { false }
    }
}

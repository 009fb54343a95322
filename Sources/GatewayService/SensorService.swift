import FreeStyleLibre
import GatewayCommands
import HealthReadings
import ISO15693Reader
import LibreReader
import Logging
import ServiceLifecycle

/// How the NFC reader of a gateway stands.
public enum SensorReaderState: Sendable, Hashable {
    /// Sensors are read when they are held to it: its setting.
    case ready(String)
    /// It cannot be used; it is tried again.
    case unusable(ISO15693Error)
    /// A sensor is held to it, and is not read while this machine's clock is in doubt.
    case waitingForClock(ClockDoubt)

    /// The state on one line for people.
    public var line: String {
        switch self {
        case .ready(let name): "NFC: \(name) is ready; hold a sensor to it to read it."
        case .unusable(let error):
            "NFC: \(error.description); continuing without it" + (error.hint.map { " (\($0))" } ?? "") + "."
        case .waitingForClock(let doubt): "NFC: this machine's clock \(doubt), so no sensor is read."
        }
    }
}

/// Reads each sensor that is held to the reader, once for each time it is there, for as long as the gateway runs.
struct SensorService: Service {
    /// The pauses before a reader that failed is tried again; the last one repeats.
    private static let pauses: [Duration] = [.seconds(1), .seconds(2), .seconds(5), .seconds(15), .seconds(30)]
    /// How often a sensor that is there is read before it is left alone until it is held there again.
    private static let attempts = 5

    let gateway: Gateway
    let desk: SensorDesk
    let name: String
    let narrator: Narrator
    let announce: @Sendable (SensorReaderState) -> Void

    func run() async throws {
        do {
            try await cancelWhenGracefulShutdown { try await attend() }
        } catch is CancellationError {
            // Stopped: what was read is stored.
        }
        await desk.close()
    }

    private func attend() async throws {
        var failures = 0
        var told: SensorReaderState?
        while true {
            try Task.checkCancellation()
            guard
                let error = await attendOnce(ready: {
                    failures = 0
                    if told != .ready(name) { announce(.ready(name)) }
                    told = .ready(name)
                })
            else { continue }
            if case .cancelled = error { throw CancellationError() }
            await desk.left()
            // What passes by itself is told where it does not.
            let state = SensorReaderState.unusable(error)
            if told != state, !error.mayPass || failures > 0 {
                announce(state)
                told = state
            }
            try await Task.sleep(for: Self.pauses[min(failures, Self.pauses.count - 1)])
            failures += 1
        }
    }

    /// Waits for a sensor, reads it, and waits until it has left.
    /// - Returns: what is wrong with the reader; nil where nothing is.
    private func attendOnce(ready: () -> Void) async -> ISO15693Error? {
        do {
            if let fault = await desk.readerFault() { return fault }
            ready()
            _ = try await desk.reader.waitForTag()
            try await gateway.clock.waitUntilTrusted {
                announce($0.map(SensorReaderState.waitingForClock) ?? .ready(name))
            }
            try await read()
            try await desk.reader.waitForTagToLeave()
            await desk.left()
            return nil
        } catch let error as ISO15693Error {
            return error
        } catch {
            return .cancelled
        }
    }

    /// Reads the sensor that is there.
    /// - Throws: `CancellationError`, and what is wrong with the reader itself; what is wrong with the sensor is told.
    private func read() async throws {
        for attempt in 1...Self.attempts {
            do {
                guard let (scan, instant) = try await desk.read(unlessRead: true) else { return }
                return await narrator.sensor(try await gateway.sensors.store(scan, at: instant))
            } catch let error as LibreReadError {
                if case .exchange(.cancelled, _) = error { throw CancellationError() }
                if case .exchange(let reader, _) = error, reader.concernsTheReader { throw reader }
                guard error.mayPass, attempt < Self.attempts else { return await narrator.sensorFailed(error) }
                if case .exchange(.noTag, _) = error { return }
            } catch let error as CancellationError {
                throw error
            } catch {
                // It could not be stored: the sensor keeps eight hours, and is read again when it is held there again.
                gateway.logger.error("a scan could not be stored: \(error)")
                return
            }
        }
    }
}

extension ISO15693Error {
    /// Whether it is the reader that cannot be used, whatever is at it.
    fileprivate var concernsTheReader: Bool {
        switch self {
        case .badReaderName, .noReader, .portInUse, .notPermitted, .portGone, .readerSilent, .cannotSpeakISO15693,
            .helperMissing, .helperDied, .helperFailed, .noPCSCService, .reader:
            true
        case .noTag, .otherTag, .tagLeft, .tagSilent, .tag, .badCRC, .malformedAnswer, .readerCannotAsk, .cancelled:
            false
        }
    }
}

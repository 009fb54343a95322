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
    /// A card that is no sensor is at it, or at another reader that its setting names: a sensor is waited for. Its setting.
    case otherCard(String)
    /// It cannot be used; it is tried again.
    case unusable(ISO15693Error)
    /// A sensor is held to it, and is not read while this machine's clock is in doubt.
    case waitingForClock(ClockDoubt)

    /// The state on one line for people.
    public var line: String {
        switch self {
        case .ready(let name): "NFC: \(name) is ready; hold a sensor to it to read it."
        case .otherCard(let name):
            "NFC: a card that is not a sensor is at \(name); hold a sensor to the reader, away from the card, to read it."
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
    /// How often a sensor that is there cannot be read before that is told. It is tried on as long as it is there.
    private static let attempts = 5
    /// The pause before a sensor that could not be read is tried again, before that is told and afterwards.
    private static let retries = (soon: Duration.milliseconds(300), later: Duration.seconds(2))
    /// How long no sensor answers until the next one to answer is held there anew.
    private static let absence: Duration = .seconds(10)
    /// How often a sensor is read again while the clock is not trusted with it.
    private static let doubtEvery: Duration = .seconds(5)

    /// What has come of reading a sensor.
    private enum Visit {
        /// It is dealt with as long as it is there: it was read, or never will be.
        case done
        /// It could not be read, and may be read the next time.
        case missed(LibreReadError)
        /// It is to be read when the clock is right.
        case doubted
    }

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
        var (failures, misses) = (0, 0)
        var told: SensorReaderState?
        func tell(_ state: SensorReaderState) {
            if told != state { announce(state) }
            told = state
        }
        while true {
            try Task.checkCancellation()
            guard
                let error = await attendOnce(
                    misses: &misses,
                    ready: {
                        failures = 0
                        // Why the last sensor was not read stands until one is read.
                        if case .waitingForClock = told { return }
                        tell(.ready(name))
                    }, tell: tell)
            else { continue }
            // A wait may also end because somebody else's was cancelled.
            if case .cancelled = error { try Task.checkCancellation() }
            await desk.left()
            // What passes by itself is told where it does not.
            let mayPass = error.mayPass || error == .cancelled
            if !mayPass || failures > 0 { tell(.unusable(error)) }
            try await Task.sleep(for: Self.pauses[min(failures, Self.pauses.count - 1)])
            failures += 1
        }
    }

    /// Waits for a sensor and reads it. If it is dealt with, waits until it has left.
    ///
    /// - Parameter misses: how often the sensor that is there could not be read.
    /// - Returns: what is wrong with the reader; nil where nothing is.
    private func attendOnce(
        misses: inout Int, ready: () -> Void, tell: (SensorReaderState) -> Void
    ) async -> ISO15693Error? {
        do {
            switch await desk.readerFault() {
            case nil: ready()
            // A security key or an identity card may stay at another reader, or in another slot of this one.
            case .otherTag?: tell(.otherCard(name))
            case let fault?:
                // A sensor at the edge of the field answers wrongly at times. That says nothing of the reader.
                guard fault.mayBeTheSensors else { return fault }
            }
            let begin = ContinuousClock.now
            _ = try await desk.reader.waitForTag()
            if ContinuousClock.now - begin > Self.absence { misses = 0 }
            try await gateway.clock.waitUntilTrusted {
                tell($0.map(SensorReaderState.waitingForClock) ?? .ready(name))
            }
            switch try await read(tell) {
            case .done:
                misses = 0
                try await desk.reader.waitForTagToLeave()
                await desk.left()
            case .missed(let error):
                misses += 1
                if misses == Self.attempts { await narrator.sensorFailed(error) }
                try await Task.sleep(for: misses < Self.attempts ? Self.retries.soon : Self.retries.later)
            case .doubted: try await Task.sleep(for: Self.doubtEvery)
            }
            return nil
        } catch let error as ISO15693Error {
            return error
        } catch {
            return .cancelled
        }
    }

    /// Reads the sensor that is there.
    /// - Throws: `CancellationError`, and what is wrong with the reader itself; what is wrong with the sensor is told.
    private func read(_ tell: (SensorReaderState) -> Void) async throws -> Visit {
        do {
            guard let (scan, instant) = try await desk.read(unlessRead: true) else { return .done }
            if let doubt = try await gateway.sensors.doubt(of: scan, at: instant) {
                await desk.left()
                tell(.waitingForClock(doubt))
                return .doubted
            }
            let stored = try await gateway.sensors.store(scan, at: instant)
            tell(.ready(name))
            await narrator.sensor(stored)
        } catch let error as LibreReadError {
            if case .exchange(.cancelled, _) = error { throw CancellationError() }
            if case .exchange(let reader, _) = error, reader.concernsTheReader { throw reader }
            if error.mayPass { return .missed(error) }
            await narrator.sensorFailed(error)
        } catch let error as CancellationError {
            throw error
        } catch {
            // It could not be stored: the sensor keeps eight hours, and is read again when it is held there again.
            gateway.logger.error("a scan could not be stored: \(error)")
        }
        return .done
    }
}

extension ISO15693Error {
    /// Whether a sensor that is hard to read brings it.
    fileprivate var mayBeTheSensors: Bool {
        switch self {
        case .tagSilent, .badCRC, .malformedAnswer: true
        default: false
        }
    }

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

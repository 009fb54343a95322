import GATTClient
import GATTProfiles
import HealthReadings

/// One measurement by a QardioArm: started once, followed to its result, and stopped whatever else comes of it.
///
/// What ends a measurement is durable as soon as it has come. The last result counts, once nothing has followed it: then
/// it becomes a frame of its own, and a reading.
struct QardioMeasurement {
    /// The silence after which the last value is taken for the end of the measurement, as LibreArm waits.
    static let quiet: Duration = .milliseconds(1500)
    /// How long the cuff may say nothing before that.
    static let patience: Duration = .seconds(30)
    /// How long a measurement may take: cuffs take less than a minute.
    static let longest: Duration = .seconds(180)
    /// A result sooner than this is none. Owners report such values from cuffs with weak batteries; LibreArm asks for ten
    /// seconds.
    static let shortest: Duration = .seconds(5)
    /// How long the cuff is tried to be reached, to be stopped, where the link is lost.
    static let reconnect: Duration = .seconds(10)

    let link: QardioLink
    let clock: any Clock<Duration>
    let report: @Sendable (MeasurementEvent) async -> Void

    /// What ends the measurement, as far as has come.
    private enum Outcome {
        case result([UInt8], at: Instant, after: Duration)
        case failure(QardioFrame.Failure)
    }

    /// Why nothing more is waited for.
    private enum End {
        case quiet, left, silence, tooLong
        case failed(any Error)
    }

    /// Inflates the cuff, once, and waits for what it measures.
    ///
    /// - Returns: the reading, which is durable.
    /// - Throws: ``ContactFailure`` where there is none, `GATTError` where the cuff cannot be asked, the journal's error,
    ///   `CancellationError`.
    func run(into intake: inout FrameIntake) async throws -> Reading {
        try await link.peripheral.whileNotifying([link.values]) {
            try Task.checkCancellation()
            await report(.inflating)
            try Task.checkCancellation()
            let elapsed = clock.stopwatch()
            var outcome: Outcome?
            let end: End
            do {
                try await link.write(.start)
                end = try await follow(into: &intake, &outcome, elapsed)
            } catch {
                end = .failed(error)
            }
            if case .result(let octets, let instant, let after)? = outcome, after >= Self.shortest {
                // Stored before the cuff is told anything. It has let the air out itself, unless it goes on.
                let reading: Reading
                do { reading = try await store(octets, instant, into: &intake) } catch {
                    await stop()
                    throw error
                }
                switch end {
                // The link may go once everything has been said.
                case .quiet, .left, .failed(GATTError.disconnected): return reading
                case .silence, .tooLong:
                    await stop()
                    return reading
                case .failed(let error):
                    await stop()
                    throw error
                }
            }
            throw await failure(end, outcome)
        }
    }

    /// Takes what comes until something ends the measurement.
    private func follow(
        into intake: inout FrameIntake, _ outcome: inout Outcome?, _ elapsed: @Sendable () -> Duration
    ) async throws -> End {
        while elapsed() < Self.longest {
            try Task.checkCancellation()
            switch try await link.peripheral.nextValues(within: outcome == nil ? Self.patience : Self.quiet) {
            case .silence: return outcome == nil ? .silence : .quiet
            case .disconnected: return .left
            case .values(let values):
                for value in values where value.uuid == Qardio.values {
                    try await take(value, into: &intake, &outcome, elapsed())
                }
            }
        }
        return .tooLong
    }

    private func take(
        _ value: CharacteristicValue, into intake: inout FrameIntake, _ outcome: inout Outcome?, _ after: Duration
    ) async throws {
        let meaning: QardioFrame.Meaning?
        do throws(MalformedFrame) {
            meaning = try QardioFrame(decoding: value.octets).meaning
        } catch {
            meaning = nil
        }
        if case .pressure(let pressure)? = meaning { return await report(.pressure(pressure)) }
        let stored = try await intake.take(
            value.octets, as: .qardioMessage, isRecord: false, receivedAt: value.receivedAt)
        switch meaning {
        case .result: outcome = .result(value.octets, at: value.receivedAt, after: after)
        case .failure(let failure): outcome = .failure(failure)
        case .pressure, nil: break
        }
        if case .malformed(let error)? = stored { await report(.malformed(error)) }
    }

    private func store(
        _ octets: [UInt8], _ instant: Instant, into intake: inout FrameIntake
    ) async throws -> Reading {
        let format = FrameFormat(characteristic: BloodPressureMeasurement.assignedNumber)
        switch try await intake.take(octets, as: format, isRecord: false, receivedAt: instant) {
        case .new(let reading), .revised(let reading), .clash(let reading, _): return reading
        case .repeated, .waiting, .nothing, .malformed, nil:
            throw ContactFailure(
                code: "qardio_no_result", description: "what the cuff has measured cannot be understood; it is kept")
        }
    }

    /// Stops the cuff, and says why there is no reading.
    private func failure(_ end: End, _ outcome: Outcome?) async -> any Error {
        await stop()
        switch (end, outcome) {
        case (.left, nil), (.failed(GATTError.disconnected), nil):
            return ContactFailure.qardioLinkLost(wasStopped: await stopOverNewLink())
        case (.failed(let error), nil): return error
        case (.failed(let error), _) where error as? GATTError != .disconnected: return error
        case (_, .result): return ContactFailure.qardioEndedEarly
        case (_, .failure(let failure)): return ContactFailure(failure)
        case (.tooLong, nil): return ContactFailure.qardioTooLong
        case (_, nil): return ContactFailure.qardioSilent
        }
    }

    /// Lets the air out, also where the task was cancelled.
    private func stop() async {
        let link = link
        await shieldedFromCancellation { try? await link.write(.stop) }
    }

    /// Connects once more, only to let the air out. Nothing is started there.
    private func stopOverNewLink() async -> Bool {
        let (clock, peripheral) = (clock, link.peripheral)
        return await shieldedFromCancellation {
            let stopped = try? await clock.limit(Self.reconnect) {
                _ = try await peripheral.connect()
                guard let link = QardioLink(peripheral, try await peripheral.characteristics()) else { return false }
                try await link.write(.stop)
                return true
            }
            return stopped == true
        }
    }
}

extension ContactFailure {
    private static let again = "Nothing inflates the cuff again by itself: measure again when you are ready"
    private static let open = "open the cuff if it stays tight. \(again)"

    init(_ failure: QardioFrame.Failure) {
        switch failure {
        case .cuffTooLoose:
            self.init(
                code: "qardio_cuff_too_loose", description: "the cuff is too loose, so nothing was measured",
                hint: "put it on so that one finger fits under it. \(Self.again)")
        case .bodyMovement:
            self.init(
                code: "qardio_body_movement", description: "the arm moved, so nothing was measured",
                hint: "sit still, with the arm on a table. \(Self.again)")
        case .unknown:
            self.init(
                code: "qardio_no_result", description: "the cuff ended the measurement without a result",
                hint: "look whether it sits well, keep the arm still, and put new batteries in if it happens again. "
                    + Self.again)
        }
    }

    static let qardioEndedEarly = ContactFailure(
        code: "qardio_ended_early",
        description: "the cuff gave values at once, before it can have measured; they are kept and are no reading",
        hint: "put new batteries in. \(again)")

    static let qardioSilent = ContactFailure(
        code: "qardio_silent", description: "the cuff said nothing for 30 seconds, and was told to stop", hint: open)

    static let qardioTooLong = ContactFailure(
        code: "qardio_too_long", description: "the measurement took more than three minutes, and was stopped",
        hint: open)

    static func qardioLinkLost(wasStopped: Bool) -> ContactFailure {
        ContactFailure(
            code: "qardio_link_lost",
            description: "the connection was lost during the measurement; the cuff "
                + (wasStopped ? "was told to stop over a new one" : "could not be told to stop"),
            hint: open)
    }

    /// The device keeps nothing that could be read.
    static func measuresOnCommand(_ address: DeviceAddress) -> ContactFailure {
        ContactFailure(
            code: "nothing_to_read",
            description: "\(address) keeps no readings: it gives one when it is told to measure",
            hint: "put the cuff on, then `healthrelay measure \(address)`")
    }

    /// The device measures by itself, or not at all.
    static func cannotMeasure(_ address: DeviceAddress?) -> ContactFailure {
        ContactFailure(
            code: "cannot_measure",
            description: "\(address?.description ?? "the device") does not measure when it is told to",
            hint: "only cuffs that `healthrelay catalog` calls a QardioArm do. Measure at the device, then "
                + "`healthrelay read`")
    }
}

import GATTClient
import GATTProfiles
import HealthReadings

/// A connected continuous sensor (Continuous Glucose Monitoring Profile 1.0.2): what it says of itself and its session.
struct ContinuousGlucoseSensor {
    /// How often a value is asked for whose checksum is wrong.
    private static let tries = 3

    let peripheral: any Peripheral
    private let characteristics: [Characteristic]

    /// Nil where the device is none.
    init?(_ peripheral: any Peripheral, _ characteristics: [Characteristic]) {
        guard characteristics.contains(where: { $0.uuid == ContinuousGlucoseSession.measurement }) else { return nil }
        (self.peripheral, self.characteristics) = (peripheral, characteristics)
    }

    /// Reads what is new on it: its session first, then the records as a glucose meter's.
    ///
    /// - Returns: whether everything came that the sensor has.
    /// - Throws: ``TransferError``, ``GATTError``, `CancellationError`, or an error of the journal or the memory. What
    ///   came before is durable.
    func read(
        into intake: inout FrameIntake, memory: any DeviceMemory, model: DeviceModel?, allRecords: Bool
    ) async throws -> Bool {
        let feature = try await feature()
        let hasChecksums = feature?.hasChecksums ?? false
        var session = ContinuousGlucoseSession(
            feature: feature, start: try await start(hasChecksums: hasChecksums)?.dateTime.wallTime)
        let now = try await minute(hasChecksums: hasChecksums)
        if let last = try await memory.lastRecord(of: intake.contact), session.isAnother(than: last, now: now) {
            try await intake.beginSequenceEpoch(in: memory)
        }
        if let clock = now.flatMap(session.clock) { try await intake.note(clock, in: memory) }
        intake.beginSession(session)
        if let controlPoint = characteristics.controlPoint(of: ContinuousGlucoseSession.service) {
            return try await GlucoseTransfer(
                peripheral, characteristics, controlPoint: controlPoint, model: model, session: session,
                allRecords: allRecords
            ).run(into: &intake, memory: memory)
        }
        return try await UnpromptedTransfer(
            peripheral: peripheral, characteristics: characteristics, streams: .continuousGlucose
        ).run(into: &intake, memory: memory)
    }

    /// What the sensor can; nil where it does not tell.
    ///
    /// - Throws: where it could not be asked, too: without their type its values would come as others than before, and
    ///   without their checksums unproven.
    func feature() async throws -> ContinuousGlucoseFeature? {
        // Whether there are checksums is known only from here: it checks its own.
        try await value(ContinuousGlucoseFeature.self, hasChecksum: false, isNeeded: true)?.value
    }

    /// When the session began, and in which zone; nil where the sensor does not tell.
    func start(hasChecksums: Bool) async throws -> ContinuousGlucoseSessionStart? {
        try await value(ContinuousGlucoseSessionStart.self, hasChecksum: hasChecksums)?.value
    }

    /// The minutes since the session began, which are all that the sensor counts; nil where the session was stopped, or the
    /// sensor does not tell.
    func minute(hasChecksums: Bool) async throws -> ContinuousGlucoseMinute? {
        guard let status = try await value(ContinuousGlucoseStatus.self, hasChecksum: hasChecksums),
            !status.value.annunciation.contains(.sessionStopped)
        else { return nil }
        return ContinuousGlucoseMinute(minute: status.value.timeOffset, readAt: status.readAt)
    }

    /// Tells the sensor the time, from which it finds when its session began.
    ///
    /// - Parameter offsetSeconds: seconds that the wall is ahead of UTC.
    /// - Throws: ``ContactFailure`` where it has no such characteristic; ``GATTError`` where it refuses.
    func setTime(_ now: WallTime, offsetSeconds: Int64) async throws {
        guard let characteristic = find(ContinuousGlucoseSessionStart.assignedNumber) else {
            throw ContactFailure(
                code: "clock_cannot_be_set", description: "the sensor has no time that can be set",
                hint: "set it with the program that started its session")
        }
        let quarter: Int64 = 15 * 60
        // Reserved for "unknown" is -128.
        let zone = offsetSeconds % quarter == 0 ? Int8(exactly: offsetSeconds / quarter) ?? -128 : -128
        let octets = ContinuousGlucoseSessionStart(
            dateTime: DateTime(now), zone: LocalTimeInformation(timeZone: zone, dstOffset: 0)
        ).encoded
        let hasChecksums = try await feature()?.hasChecksums ?? false
        try await peripheral.write(
            hasChecksums ? ContinuousGlucoseChecksum.appended(to: octets) : octets, to: characteristic,
            expectingResponse: true)
    }

    private func find(_ number: UInt16) -> Characteristic? {
        characteristics.first { $0.uuid.assignedNumber == number }
    }

    /// Reads a value; nil where the sensor has none, or does not let it be read.
    ///
    /// - Parameter isNeeded: whether it is an error where nobody could ask for it, or it was not answered in time.
    private func value<Value: CharacteristicCoding>(
        _ type: Value.Type, hasChecksum: Bool, isNeeded: Bool = false
    ) async throws -> (value: Value, readAt: Instant)? {
        guard let characteristic = find(Value.assignedNumber) else { return nil }
        var fault: MalformedFrame?
        for _ in 0..<Self.tries {
            let read: CharacteristicValue
            do {
                read = try await peripheral.read(characteristic)
            } catch let error as GATTError where error != .disconnected && !(isNeeded && error == .timedOut) {
                return nil
            } catch RadioError.other where !isNeeded {
                return nil
            }
            do throws(MalformedFrame) {
                let octets =
                    hasChecksum
                    ? try ContinuousGlucoseChecksum.checked(read.octets, "\(characteristic.uuid)") : read.octets
                return (try Value(decoding: octets), read.receivedAt)
            } catch {
                fault = error
            }
        }
        throw TransferError.refused(
            code: "cgm_malformed",
            description: "the sensor's description of itself is invalid: \(fault.map(String.init(describing:)) ?? "")")
    }
}

extension [Characteristic] {
    /// The Record Access Control Point of a service; where a handle map alone names it, of whichever.
    func controlPoint(of service: BluetoothUUID) -> Characteristic? {
        first { $0.uuid == GlucoseTransfer.controlPoint && $0.service == service }
            ?? first { $0.uuid == GlucoseTransfer.controlPoint }
    }
}

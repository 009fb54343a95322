import GATTClient
import GATTProfiles
import HealthReadings

/// What became of setting a device's clock.
public struct ClockSetting: Sendable, Hashable {
    /// The device.
    public var device: DeviceDescription
    /// What its clock showed before; nil where it was never set, or cannot be read.
    public var before: ClockReading?
    /// What was written.
    public var written: WallTime
    /// What it shows now; nil where it cannot be read.
    public var after: ClockReading?

    /// Makes a result.
    public init(device: DeviceDescription, before: ClockReading?, written: WallTime, after: ClockReading?) {
        self.device = device
        self.before = before
        self.written = written
        self.after = after
    }
}

extension MeterReader {
    /// "Data field ignored": a device answers so that has not taken all fields of Current Time, such as the day of the week
    /// (Current Time Service 1.1). Whether it has taken date and time, reading them tells.
    private static let dataFieldIgnored = GATTError.attribute(0x80)
    /// By how many seconds a clock that was just set may differ from what was written.
    private static let settingTolerance: Int64 = 60

    /// Sets a device's clock, because a person asked for it. No record is asked for, and none is lost.
    ///
    /// The clock is read before and after: records the device made by the old one, and gives only later, are placed by
    /// the old one.
    ///
    /// - Parameter wallTime: what a clock in the zone of the device's person shows at an instant.
    /// - Throws: ``ContactFailure`` (`clock_cannot_be_set`, `clock_refused`), ``GATTError``, ``RadioError``,
    ///   ``TransferError``, or the memory's error.
    func setClock(
        of peripheral: any Peripheral, wallTime: @escaping @Sendable (Instant) -> WallTime
    ) async throws -> ClockSetting {
        do {
            let connectedAt = try await peripheral.connect()
            let setting = try await setClock(of: peripheral, connectedAt: connectedAt, wallTime)
            await peripheral.disconnectSurely()
            return setting
        } catch {
            await peripheral.disconnectSurely()
            throw error
        }
    }

    private func setClock(
        of peripheral: any Peripheral, connectedAt: Instant, _ wallTime: @Sendable (Instant) -> WallTime
    ) async throws -> ClockSetting {
        let characteristics = try await peripheral.characteristics()
        let facts = try await DeviceFacts(of: peripheral, characteristics)
        let device = try await describe(peripheral.advertisement, characteristics, facts)
        var contact = try await memory.beginContact(
            with: device, at: connectedAt, clock: facts.clock, batteryPercent: facts.batteryPercent)
        try await leaveIfBarred(contact, peripheral.advertisement)
        // Nothing was read: whether all was read before stays as it is.
        let wasComplete = try await memory.lastRecord(of: contact)?.followsCompleteTransfer ?? true
        var summary = ContactSummary(isComplete: wasComplete, received: 0)
        let result: Result<ClockSetting, any Error>
        do {
            let (setting, clock): (ClockSetting, ClockReading?)
            if let sensor = ContinuousGlucoseSensor(peripheral, characteristics) {
                (setting, clock) = try await set(sensor, device, contact, wallTime)
            } else {
                setting =
                    if let link = OneTouchLink(peripheral, characteristics) {
                        try await set(link, device, &contact, wallTime)
                    } else {
                        try await set(peripheral, characteristics, device, facts.clock, wallTime)
                    }
                clock = setting.after
            }
            if let clock { contact = try await memory.noteClock(clock, in: contact) }
            result = .success(setting)
        } catch {
            summary.error = ContactFailure(error).code
            summary.isComplete = false
            result = .failure(error)
        }
        let (memory, ended, end) = (memory, contact, summary)
        try await shieldedFromCancellation { try await memory.endContact(ended, end) }
        return try result.get()
    }

    /// Current Time (2A2B) where the device has one and takes it, Date Time (2A08) else.
    private func set(
        _ peripheral: any Peripheral, _ characteristics: [Characteristic], _ device: DeviceDescription,
        _ before: ClockReading?, _ wallTime: @Sendable (Instant) -> WallTime
    ) async throws -> ClockSetting {
        let writable = [CurrentTime.assignedNumber, DateTime.assignedNumber].compactMap { number in
            characteristics.first { $0.uuid.assignedNumber == number }
        }
        guard !writable.isEmpty else {
            throw ContactFailure(
                code: "clock_cannot_be_set", description: "the device has no clock that can be set",
                hint: "set it at the device")
        }
        var refusal = GATTError.attribute(0x03)
        for characteristic in writable {
            let now = wallTime(.systemClock)
            let isCurrentTime = characteristic.uuid.assignedNumber == CurrentTime.assignedNumber
            let octets =
                isCurrentTime
                ? CurrentTime(
                    dateTime: DateTime(now), dayOfWeek: now.dayOfWeek, adjustReason: .manualTimeUpdate
                ).encoded : DateTime(now).encoded
            var mayBeIgnored = false
            do {
                try await peripheral.write(octets, to: characteristic, expectingResponse: true)
            } catch let error as GATTError {
                guard case .attribute = error else { throw error }
                refusal = error
                guard isCurrentTime, error == Self.dataFieldIgnored else { continue }
                mayBeIgnored = true
            }
            let value = try? await peripheral.read(characteristic)
            let shown = value.flatMap { value in
                isCurrentTime
                    ? (try? CurrentTime(decoding: value.octets))?.wallTime
                    : (try? DateTime(decoding: value.octets))?.wallTime
            }
            let isTaken =
                shown.map { abs($0.secondsSinceEpoch - now.secondsSinceEpoch) <= Self.settingTolerance } ?? false
            if mayBeIgnored, !isTaken { continue }
            return ClockSetting(
                device: device, before: before, written: now,
                after: shown.flatMap { time in value.map { ClockReading(deviceTime: time, readAt: $0.receivedAt) } })
        }
        throw ContactFailure(
            code: "clock_refused", description: "the device refused to set its clock: \(refusal)",
            hint: "set it at the device")
    }

    private func set(
        _ link: OneTouchLink, _ device: DeviceDescription, _ contact: inout Contact,
        _ wallTime: @Sendable (Instant) -> WallTime
    ) async throws -> ClockSetting {
        let found = try await link.peripheral.whileNotifying([link.answers]) {
            var course = OneTouchLink.Course()
            let before = try await link.clock(&course)
            // The memory may refuse it: this machine's clock is then not to be trusted with the meter's.
            if let before { contact = try await memory.noteClock(before, in: contact) }
            let now = wallTime(.systemClock)
            guard let count = OneTouch.count(now) else {
                throw ContactFailure(
                    code: "clock_cannot_be_set", description: "the meter's clock cannot represent \(now)",
                    hint: "set this machine's clock")
            }
            guard case .answer = try await link.ask(.setTime(count), received: 0, &course) else {
                throw ContactFailure(
                    code: "clock_refused", description: "the meter did not confirm that its clock was set",
                    hint: "set it at the meter")
            }
            try await link.acknowledge(0)
            return (before, now, try await link.clock(&course))
        }
        return ClockSetting(device: device, before: found.0, written: found.1, after: found.2)
    }
}

extension MeterReader {
    /// The clock of a continuous sensor is the start of its session and the minutes since.
    ///
    /// - Returns: what it showed, and the clock by which the session's values are dated. All of them have the start that is
    ///   asked for with them: what the clock showed before dates none. A session that is known by its records keeps its start
    ///   (``ContinuousGlucoseSession/isAnother(than:now:)``), and with it the clock that it had.
    private func set(
        _ sensor: ContinuousGlucoseSensor, _ device: DeviceDescription, _ contact: Contact,
        _ wallTime: @Sendable (Instant) -> WallTime
    ) async throws -> (setting: ClockSetting, clock: ClockReading?) {
        let feature = try await sensor.feature()
        let last = try await memory.lastRecord(of: contact)
        /// What the clock shows, and the clock by which the values are dated.
        func clock() async throws -> (shown: ClockReading?, dating: ClockReading?, isOfKnownSession: Bool) {
            let start = try await sensor.start(hasChecksums: feature?.hasChecksums ?? false)
            var session = ContinuousGlucoseSession(feature: feature, start: start?.dateTime.wallTime)
            let minute = try await sensor.minute(hasChecksums: session.hasChecksums)
            let shown = minute.flatMap(session.clock)
            let isKnown = last.map { !session.isAnother(than: $0, now: minute) && !session.mayBeAnother } ?? false
            return (shown, minute.flatMap(session.clock), isKnown)
        }
        let before = try await clock()
        // The memory may refuse it: this machine's clock is then not to be trusted with the sensor's.
        if before.isOfKnownSession, let dating = before.dating { _ = try await memory.noteClock(dating, in: contact) }
        let moment = Instant.systemClock
        let now = wallTime(moment)
        do {
            try await sensor.setTime(now, offsetSeconds: now.secondsSinceEpoch - moment.seconds)
        } catch GATTError.attribute(let code) {
            throw ContactFailure(
                code: "clock_refused",
                description: "the sensor refused to set its time: \(GATTError.attribute(code))",
                hint: "set it with the program that started its session")
        }
        let after = try await clock()
        return (ClockSetting(device: device, before: before.shown, written: now, after: after.shown), after.dating)
    }
}

extension WallTime {
    /// 1 Monday … 7 Sunday.
    var dayOfWeek: UInt8 {
        // 1970-01-01 was a Thursday.
        let days = (secondsSinceEpoch - (secondsSinceEpoch % 86_400 + 86_400) % 86_400) / 86_400
        return UInt8(((days + 3) % 7 + 7) % 7) + 1
    }
}

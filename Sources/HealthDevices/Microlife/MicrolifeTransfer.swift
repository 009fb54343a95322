import GATTClient
import HealthReadings

/// Reads a Microlife monitor's memory: all records of the user that is chosen at it, then those of the other.
///
/// A memory comes in one answer. It is durable before the next is asked for.
struct MicrolifeTransfer: RecordTransfer {
    let link: MicrolifeLink

    /// Records have no numbers.
    var hasGaps: Bool { false }

    /// Takes what is on the monitor.
    ///
    /// - Returns: whether everything came that the monitor has.
    /// - Throws: ``TransferError``, ``GATTError``, `CancellationError`, or an error of the journal or the memory. What
    ///   came before is durable.
    func run(into intake: inout FrameIntake, memory: any DeviceMemory) async throws -> Bool {
        try await link.peripheral.whileNotifying([link.answers]) {
            let isWhole = try await read(into: &intake)
            await link.end()
            return isWhole
        }
    }

    private func read(into intake: inout FrameIntake) async throws -> Bool {
        let users = try await identity(into: &intake)?.users ?? 1
        await intake.beginCounting(announced: nil)
        guard let chosen = try await history(.history, into: &intake) else { return false }
        var isWhole = true
        for user in UInt8(1)...2 where user <= users && user != chosen {
            // A monitor that shows only the user that is chosen at it has shown everything it shows.
            isWhole = try await history(.history(of: user), of: user, into: &intake) != nil && isWhole
        }
        if isWhole { intake.finishCounting() }
        return isWhole
    }

    /// What the monitor says of itself; `nil` where it says nothing that makes sense.
    private func identity(into intake: inout FrameIntake) async throws -> MicrolifeIdentity? {
        let reply: MicrolifeLink.Reply
        do {
            reply = try await link.ask(.identity, received: 0, tries: 1)
        } catch TransferError.timedOut {
            return nil
        }
        switch reply {
        case .answered(let frame, let message, let instant):
            _ = try await intake.take(microlife: message, [], at: instant)
            return MicrolifeIdentity(frame)
        case .refused(let message, let instant), .malformed(_, let message, let instant):
            _ = try await intake.take(microlife: message, [], at: instant)
            return nil
        }
    }

    /// Takes the records of a user.
    ///
    /// - Parameter other: the user who is asked for, where it is not the one that is chosen at the monitor.
    /// - Returns: whose they are; `nil` where what came is no history.
    private func history(
        _ request: MicrolifeRequest, of other: UInt8? = nil, mayRepeat: Bool = true, into intake: inout FrameIntake
    ) async throws -> UInt8? {
        switch try await link.ask(request, received: intake.received) {
        case .malformed(_, let message, let instant):
            _ = try await intake.take(microlife: message, [], at: instant)
            return nil
        case .refused(let message, let instant):
            _ = try await intake.take(microlife: message, [], at: instant)
            if let other { return other }
            throw TransferError.refused(
                code: "microlife_refused", description: "the monitor does not show its memory; pair it again")
        case .answered(let frame, let message, let instant):
            let history: MicrolifeHistory
            do throws(MalformedFrame) {
                history = try MicrolifeHistory(frame)
            } catch {
                _ = try await intake.take(microlife: message, [], at: instant)
                return nil
            }
            // Another answer than the one that was asked for brings nothing new.
            let isWanted = other == nil || other == history.user
            _ = try await intake.take(microlife: message, isWanted ? history.payloads : [], at: instant)
            guard !history.isMeasuring else {
                throw TransferError.refused(
                    code: "microlife_measuring",
                    description: "the monitor is measuring; it shows its memory when it has done so")
            }
            // It may be the answer before, that has come twice; one that shows only this user shows it again.
            if !isWanted, mayRepeat {
                return try await self.history(request, of: other, mayRepeat: false, into: &intake)
            }
            return history.user
        }
    }
}

extension FrameIntake {
    /// Makes a monitor's message durable, with the records that it brought.
    fileprivate mutating func take(
        microlife message: [UInt8], _ records: [[UInt8]], at instant: Instant
    ) async throws -> [FrameOutcome] {
        try await take(
            message, as: .microlifeMessage, records: records, as: .microlifeRecord, receivedAt: instant)
    }
}

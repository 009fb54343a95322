import GATTClient
import HealthReadings

/// Reads a Microlife monitor's memory: all records of the user that is chosen at it, then those of the other.
///
/// A memory comes in one answer. It is durable before the next is asked for.
///
/// No memory is asked for before the monitor has said what it is: one of the generation before sets its clock by that question.
struct MicrolifeTransfer: RecordTransfer {
    let link: MicrolifeLink
    /// Whether monitors of this name were seen to be of the present generation: one that says nothing of itself is read, too.
    let isOfKnownGeneration: Bool

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
        let identity = try await identity(into: &intake)
        if let side = identity.side, side != MicrolifeFrame.Side.monitor.rawValue {
            await link.end()
            throw TransferError.refused(
                code: "microlife_generation",
                description: "the monitor is of an earlier generation (0x\(side.hexadecimal(uppercase: true))), whose "
                    + "memory cannot be read without setting its clock; nothing was read")
        }
        guard identity.side != nil || isOfKnownGeneration else { return false }
        let users = identity.users ?? 1
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

    /// What the monitor says of itself.
    ///
    /// - Returns: of which generation it is, and how many users it keeps apart; `nil` where it says nothing that makes sense.
    private func identity(into intake: inout FrameIntake) async throws -> (side: UInt8?, users: UInt8?) {
        let reply: MicrolifeLink.Reply
        do {
            reply = try await link.ask(.identity, received: 0)
        } catch TransferError.timedOut where isOfKnownGeneration {
            return (nil, nil)
        }
        switch reply {
        case .answered(let frame, let message, let instant):
            _ = try await intake.take(microlife: message, [], at: instant)
            return (frame.side, MicrolifeIdentity(frame)?.users)
        case .refused(let message, let instant):
            _ = try await intake.take(microlife: message, [], at: instant)
            return (try? MicrolifeFrame(decoding: message).side, nil)
        case .malformed(_, let message, let instant):
            _ = try await intake.take(microlife: message, [], at: instant)
            return (nil, nil)
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

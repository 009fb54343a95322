import GATTClient
import HealthReadings

/// Reads a BP2's list of blood pressures: what its clock shows, then the list, piece by piece.
///
/// Each piece is durable, with the records that are whole by then, before the next is asked for. The list is closed again
/// whatever comes of it, as the monitor shows that it is being read until then.
struct ViatomTransfer: RecordTransfer {
    let link: ViatomLink

    /// Records have no numbers.
    var hasGaps: Bool { false }

    /// Takes what is on the monitor.
    ///
    /// - Returns: whether everything came that the monitor has.
    /// - Throws: ``TransferError``, ``GATTError``, `CancellationError`, or an error of the journal or the memory. What
    ///   came before is durable.
    func run(into intake: inout FrameIntake, memory: any DeviceMemory) async throws -> Bool {
        try await link.peripheral.whileNotifying([link.answers]) {
            var course = ViatomLink.Course()
            try await readClock(&course, into: &intake, memory: memory)
            await intake.beginCounting(announced: nil)
            guard var list = try await open(&course, into: &intake) else { return false }
            let isWhole: Bool
            do {
                isWhole = try await read(&list, &course, into: &intake)
            } catch {
                if case .interrupted? = error as? TransferError { throw error }
                await close(course)
                throw error
            }
            await close(course)
            if isWhole { intake.finishCounting() }
            return isWhole
        }
    }

    private func readClock(
        _ course: inout ViatomLink.Course, into intake: inout FrameIntake, memory: any DeviceMemory
    ) async throws {
        switch try await link.ask(.information, &course, received: 0) {
        case .answered(let payload, let message, let instant):
            try await intake.take(viatom: message, [], at: instant)
            guard intake.contact.clock == nil, let time = ViatomInformation(payload)?.time else { return }
            try await intake.note(ClockReading(deviceTime: time, readAt: instant), in: memory)
        case .refused(_, let message, let instant), .malformed(_, let message, let instant):
            try await intake.take(viatom: message, [], at: instant)
        }
    }

    /// Opens the list; `nil` where what came is no size of one.
    private func open(_ course: inout ViatomLink.Course, into intake: inout FrameIntake) async throws -> ViatomList? {
        let reply: ViatomLink.Reply
        do {
            // Once: a list can be opened once a connection, and is not while the monitor measures.
            reply = try await link.ask(.openPressures, &course, received: 0, tries: 1)
        } catch TransferError.timedOut {
            throw TransferError.refused(
                code: "viatom_measuring",
                description: "the monitor does not open its list; it does not while it measures")
        }
        switch reply {
        case .answered(let payload, let message, let instant):
            try await intake.take(viatom: message, [], at: instant)
            do throws(MalformedFrame) {
                return try ViatomList(payload)
            } catch {
                // Cut where its records don't end, it would give readings that nobody has measured.
                await close(course)
                throw TransferError.refused(code: "viatom_layout", description: "\(error)")
            }
        case .malformed(_, let message, let instant):
            try await intake.take(viatom: message, [], at: instant)
            return nil
        case .refused(let code, let message, let instant):
            try await intake.take(viatom: message, [], at: instant)
            throw TransferError.refused(
                code: "viatom_refused", description: "the monitor does not open its list (code \(code))")
        }
    }

    private func read(
        _ list: inout ViatomList, _ course: inout ViatomLink.Course, into intake: inout FrameIntake
    ) async throws -> Bool {
        while !list.isWhole {
            try Task.checkCancellation()
            let request = ViatomRequest.octets(from: UInt32(list.count))
            switch try await link.ask(request, &course, received: intake.received) {
            case .answered(let payload, let message, let instant):
                try await intake.take(viatom: message, list.take(payload), at: instant)
                // A monitor that has less than it said would be asked for ever.
                if payload.isEmpty { return false }
            case .refused(_, let message, let instant), .malformed(_, let message, let instant):
                try await intake.take(viatom: message, [], at: instant)
                return false
            }
        }
        return true
    }

    private func close(_ course: ViatomLink.Course) async {
        let before = course
        await shieldedFromCancellation {
            var course = before
            _ = try? await link.ask(.close, &course, received: 0, tries: 1)
        }
    }
}

extension FrameIntake {
    /// Makes a device's message durable, with the records that it brought.
    fileprivate mutating func take(viatom message: [UInt8], _ records: [[UInt8]], at instant: Instant) async throws {
        _ = try await take(message, as: .viatomMessage, records: records, as: .viatomPressure, receivedAt: instant)
    }
}

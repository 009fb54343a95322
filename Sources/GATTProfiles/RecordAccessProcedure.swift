import HealthReadings

/// One procedure at the Record Access Control Point, from request to outcome: a value that says what to do next.
///
/// It neither writes nor waits nor keeps time. Its user performs each ``Step`` and tells what came of it:
///
/// ```swift
/// var procedure = RecordAccessProcedure(.report(.all))
/// var step = procedure.begin()
/// while true {
///     switch step {
///     case .write(let octets): // write to 2A52 with response
///         step = procedure.written()
///     case .wait(let duration): // at most that long, then tell one of:
///         step = procedure.received(octets)   // an indication of 2A52
///         step = procedure.receivedRecord()   // a notification of 2A18 or 2A34, made durable already
///         step = procedure.waited(duration)   // nothing came in that time
///         step = procedure.disconnected()
///     case .finished(let outcome):
///         print(outcome)
///         return
///     }
/// }
/// ```
///
/// A device may be silent for ``inactivityTimeout``; each record starts that anew (Glucose Profile 1.0.1, 5.6). Then
/// the procedure is aborted, and ends with a named error. Durations rather than instants are told, so that a clock
/// that jumps ends no transfer.
public struct RecordAccessProcedure: Sendable, Hashable {
    /// What to do next.
    public enum Step: Sendable, Hashable {
        /// Write these octets to 2A52, then call ``RecordAccessProcedure/written()``.
        case write([UInt8])
        /// Wait for values of 2A52 and of the records, at most this long.
        case wait(Duration)
        /// Nothing: the procedure has ended so.
        case finished(RecordAccessOutcome)
    }

    /// How long a device may be silent: 30 s (Glucose Profile 1.0.1, 5.6).
    public static let inactivityTimeout: Duration = .seconds(30)

    /// How long a device has to answer an abort. Records that still come are kept and do not lengthen it, so that a
    /// device that never stops cannot hold the procedure.
    public static let abortTimeout: Duration = .seconds(30)

    private enum State: Sendable, Hashable {
        case ready
        case running
        case aborting(afterTimeout: Bool)
        case finished(RecordAccessOutcome)
    }

    /// What was asked.
    public let request: RecordAccessRequest
    /// How many notifications came.
    public private(set) var recordCount = 0
    /// How many values of 2A52 were no answer to this request: late answers to an earlier one, or malformed.
    public private(set) var strayAnswerCount = 0
    private var state = State.ready
    private var remaining = RecordAccessProcedure.inactivityTimeout

    /// Makes a procedure that has not begun.
    public init(_ request: RecordAccessRequest) { self.request = request }

    /// How it ended; nil while it has not.
    public var outcome: RecordAccessOutcome? {
        if case .finished(let outcome) = state { outcome } else { nil }
    }

    /// Begins: the request is to be written. Has no effect on a procedure that has begun.
    public mutating func begin() -> Step {
        guard state == .ready else { return next }
        state = .running
        return .write(request.encoded)
    }

    /// What ``Step/write(_:)`` asked for was written and acknowledged.
    public mutating func written() -> Step { next }

    /// A record or a context came: the device is active.
    public mutating func receivedRecord() -> Step {
        guard outcome == nil else { return next }
        recordCount += 1
        if state == .running { remaining = Self.inactivityTimeout }
        return next
    }

    /// A value of 2A52 came. One that answers another request, or nothing we know, is counted and changes nothing.
    public mutating func received(_ octets: [UInt8]) -> Step {
        guard outcome == nil else { return next }
        guard let response = try? RecordAccessResponse(decoding: octets) else {
            strayAnswerCount += 1
            return next
        }
        switch response {
        case .numberOfRecords(let count) where isCount:
            state = .finished(.counted(count))
        case .succeeded(request.opCode):
            state = .finished(isCount ? .failed(.countMissing) : .completed)
        case .failed(request.opCode, .noRecordsFound):
            state = .finished(.noRecordsFound)
        case .failed(request.opCode, let error):
            state = .finished(.failed(.refused(error)))
        case .succeeded(RecordAccessRequest.abort.opCode):
            finishAbort(.acknowledged)
        case .failed(RecordAccessRequest.abort.opCode, let error):
            finishAbort(.refused(error))
        case .numberOfRecords, .succeeded, .failed:
            strayAnswerCount += 1
        }
        return next
    }

    /// Nothing of 2A52 and no record came for this long. Several such times add up until something comes.
    public mutating func waited(_ duration: Duration) -> Step {
        guard outcome == nil else { return next }
        remaining -= duration
        guard remaining <= .zero else { return next }
        if case .aborting = state {
            finishAbort(.none)
            return next
        }
        return beginAbort(afterTimeout: true)
    }

    /// Ends the procedure early, because we no longer want or can keep what comes.
    public mutating func abort() -> Step {
        switch state {
        case .ready:
            state = .finished(.failed(.aborted(.none)))
            return next
        case .running: return beginAbort(afterTimeout: false)
        case .aborting, .finished: return next
        }
    }

    /// The device has gone.
    public mutating func disconnected() -> Step {
        if outcome == nil { state = .finished(.failed(.disconnected)) }
        return next
    }

    private var isCount: Bool { if case .count = request { true } else { false } }

    private var next: Step {
        if let outcome { .finished(outcome) } else { .wait(remaining) }
    }

    private mutating func beginAbort(afterTimeout: Bool) -> Step {
        state = .aborting(afterTimeout: afterTimeout)
        remaining = Self.abortTimeout
        return .write(RecordAccessRequest.abort.encoded)
    }

    private mutating func finishAbort(_ answer: RecordAccessFailure.AbortAnswer) {
        guard case .aborting(let afterTimeout) = state else {
            strayAnswerCount += 1
            return
        }
        state = .finished(.failed(afterTimeout ? .timedOut(abort: answer) : .aborted(answer)))
    }
}

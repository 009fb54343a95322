/// How a procedure at the Record Access Control Point ended. Records that came before stay, whatever this says.
public enum RecordAccessOutcome: Sendable, Hashable {
    /// All selected records came.
    case completed
    /// The device has no such record: nothing came, and nothing is wrong.
    case noRecordsFound
    /// The device has this many of the selected records.
    case counted(UInt16)
    /// The procedure did not do what was asked.
    case failed(RecordAccessFailure)
}

/// Why a procedure at the Record Access Control Point did not do what was asked.
public enum RecordAccessFailure: Error, Sendable, Hashable {
    /// What the device said to our abort.
    public enum AbortAnswer: Sendable, Hashable {
        /// It has stopped.
        case acknowledged
        /// It refused.
        case refused(RACPError)
        /// Nothing came.
        case none
    }

    /// The device refused, or stopped, with this response code.
    case refused(RACPError)
    /// The device was silent for ``RecordAccessProcedure/inactivityTimeout``; the procedure was then aborted.
    case timedOut(abort: AbortAnswer)
    /// We ended the procedure.
    case aborted(AbortAnswer)
    /// The device said "success" to a count and gave no number.
    case countMissing
    /// The device has gone.
    case disconnected

    /// The published name: `racp_timed_out`, `racp_procedure_not_completed`, …
    public var code: String {
        switch self {
        case .refused(let error): error.code
        case .timedOut: "racp_timed_out"
        case .aborted: "racp_aborted"
        case .countMissing: "racp_count_missing"
        case .disconnected: "disconnected"
        }
    }
}

extension RecordAccessFailure: CustomStringConvertible {
    /// One line for people.
    public var description: String {
        switch self {
        case .refused(let error): error.description
        case .timedOut(let answer): "the device was silent for 30 seconds; \(answer.description)"
        case .aborted(let answer): "the transfer was ended early; \(answer.description)"
        case .countMissing: "the device did not report its number of records"
        case .disconnected: "the device has disconnected"
        }
    }
}

extension RecordAccessFailure.AbortAnswer: CustomStringConvertible {
    /// Half a line for people.
    public var description: String {
        switch self {
        case .acknowledged: "it was told to stop and did"
        case .refused(let error): "it was told to stop and refused (response code \(error.responseCode))"
        case .none: "it was told to stop and did not answer"
        }
    }
}

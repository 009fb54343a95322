/// How far work on the whole store has come.
public struct StoreProgress: Sendable, Hashable {
    /// What is being done.
    public enum Step: String, Sendable, Hashable, CaseIterable {
        /// Tables of an earlier version are made those of this one. How much there is to do is an estimate.
        case migrating
        /// The pages of the file and its indexes are checked.
        case checkingFile = "checking_file"
        /// Places in the outbox are checked.
        case checkingQueue = "checking_queue"
        /// Readings are compared with their frames.
        case checkingReadings = "checking_readings"
        /// Readings are removed.
        case removing
        /// Rows are sealed with the newest key.
        case sealing
        /// The database is copied.
        case copying
        /// The copy is sealed under a passphrase and handed on.
        case exporting
        /// An export is opened.
        case opening
        /// SQLite writes its files anew. How much there is to do is an estimate.
        case rewriting

        /// What ``StoreProgress/done`` counts.
        public var unit: Unit {
            switch self {
            case .migrating, .copying, .exporting, .opening, .rewriting: .bytes
            case .checkingFile, .checkingQueue, .checkingReadings, .removing, .sealing: .rows
            }
        }
    }

    /// What is counted.
    public enum Unit: String, Sendable, Hashable {
        /// Rows of the store.
        case rows
        /// Bytes of a file.
        case bytes
    }

    /// What is being done.
    public var step: Step
    /// How much of it is done.
    public var done: Int64
    /// How much there is to do; `nil` if that is not known.
    public var total: Int64?

    /// Makes a progress.
    public init(_ step: Step, done: Int64 = 0, of total: Int64? = nil) {
        (self.step, self.done, self.total) = (step, done, total)
    }

    /// Takes what is told, on any thread, and does not keep it waiting.
    public typealias Handler = @Sendable (StoreProgress) -> Void
}

/// Faults to order, so that a client can be tried against a server that fails.
///
/// A specification is a list of faults separated by commas, each a word with options after it:
/// - `status=503` answers that status, without doing anything, with `Retry-After` when `retry-after=SECONDS` is given;
/// - `drop` closes the connection before the request is carried out, `drop=after` once it was carried out and committed;
/// - `truncate` carries the request out, commits it, and closes the connection in the middle of the answer;
/// - `slow=SECONDS` (1 without a value) waits before the request is carried out;
/// - `rate=0.3` strikes that share of the requests (1 without it);
/// - `path=NAME` strikes only requests whose path has that part: `path=temperature`, `path=body`;
/// - `after=N` begins after N requests; `times=N` ends after N strikes.
///
/// Options hold for all faults named. Which requests are struck follows from `seed=N` (0), so that a run can be repeated.
/// Only requests to `/v2` are struck: the inspection endpoints always tell the truth.
public struct FaultPlan: Sendable, Equatable {
    /// When a connection is closed.
    public enum Drop: String, Sendable {
        /// Nothing was done.
        case before
        /// The request was carried out and committed; only its answer is lost.
        case after
    }

    /// The status answered instead, 400 to 599.
    public var status: Int?
    /// Seconds in `Retry-After` beside ``status``.
    public var retryAfter: Int?
    /// Whether and when the connection is closed.
    public var drop: Drop?
    /// Whether the answer is cut in half.
    public var truncates = false
    /// Seconds waited first.
    public var slow: Double?
    /// The part that a request's path must have to be struck; nil: any path.
    public var path: String?
    /// The share of requests struck, 0 to 1.
    public var rate: Double = 1
    /// Requests let through before the first strike.
    public var after = 0
    /// The most strikes; nil is no limit.
    public var times: Int?
    /// What the choice of requests follows from.
    public var seed: UInt64 = 0

    /// Why a specification was not understood.
    public struct Failure: Error, Equatable, CustomStringConvertible {
        /// The part at fault.
        public let part: String
        /// What would have been right.
        public let expected: String

        /// One line for the command line.
        public var description: String { "fault '\(part)': expected \(expected)" }
    }

    /// Reads a specification as of the command line's `--fault`.
    /// - Throws: ``Failure`` naming the part that is wrong.
    public init(_ specification: String) throws(Failure) {
        for part in specification.split(separator: ",", omittingEmptySubsequences: false).map(String.init) {
            let pieces = part.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
            let value = pieces.count > 1 ? pieces[1] : nil
            switch pieces.first {
            case "status": status = try Self.number(part, value, 400...599, "status=400 to 599")
            case "retry-after": retryAfter = try Self.number(part, value, 0...86_400, "retry-after=SECONDS")
            case "path":
                guard let value, !value.isEmpty, !value.contains("/") else {
                    throw Failure(part: part, expected: "path=NAME, one part of a path")
                }
                path = value
            case "after": after = try Self.number(part, value, 0...Int.max, "after=COUNT")
            case "times": times = try Self.number(part, value, 0...Int.max, "times=COUNT")
            case "seed": seed = UInt64(try Self.number(part, value, 0...Int.max, "seed=NUMBER"))
            case "rate": rate = try Self.number(part, value, 0...1, "rate=0 to 1")
            case "slow": slow = try Self.number(part, value ?? "1", 0...3600, "slow or slow=SECONDS")
            case "truncate":
                guard value == nil else { throw Failure(part: part, expected: "truncate, without a value") }
                truncates = true
            case "drop":
                guard let when = Drop(rawValue: value ?? "before") else {
                    throw Failure(part: part, expected: "drop, drop=before or drop=after")
                }
                drop = when
            default:
                throw Failure(
                    part: part,
                    expected: "status=, drop, truncate, slow, rate=, path=, after=, times=, retry-after= or seed=")
            }
        }
        guard status != nil || drop != nil || slow != nil || truncates else {
            throw Failure(part: specification, expected: "at least one of status=, drop, truncate, slow")
        }
    }

    private static func number<Number: LosslessStringConvertible & Comparable>(
        _ part: String, _ text: String?, _ range: ClosedRange<Number>, _ expected: String
    ) throws(Failure) -> Number {
        guard let text, let number = Number(text), range.contains(number) else {
            throw Failure(part: part, expected: expected)
        }
        return number
    }
}

/// Decides request by request whether the plan strikes.
actor FaultDice {
    private let plan: FaultPlan
    private var requests = 0
    private var strikes = 0
    private var state: UInt64

    init(_ plan: FaultPlan) {
        self.plan = plan
        state = plan.seed
    }

    func strike() -> Bool {
        requests += 1
        guard requests > plan.after, strikes < plan.times ?? .max else { return false }
        guard Double(next() >> 11) / Double(1 << 53 as UInt64) < plan.rate else { return false }
        strikes += 1
        return true
    }

    /// SplitMix64 (Steele, Lea and Flood 2014): small, and the same everywhere.
    private func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}

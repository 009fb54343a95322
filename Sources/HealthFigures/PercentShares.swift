import HealthReadings

/// Shares of a whole in per cent, as they are printed: whole numbers that add up to 100.
public struct PercentShares: Sendable, Hashable {
    /// One printed share.
    public struct Share: Sendable, Hashable {
        /// Whole per cent.
        public var percent: Int
        /// Whether it is more than nothing and rounds to nothing: printed as "<1 %".
        public var isBelowOne: Bool

        /// `<1 %`, `12 %`.
        public var text: String { isBelowOne ? "<1 %" : "\(percent) %" }
    }

    /// The shares, by class.
    public let shares: [GlucoseClass: Share]
    /// The weights that the shares are of, in seconds or readings.
    public let weights: [GlucoseClass: Int64]

    /// Computes the shares.
    ///
    /// Each is rounded half to even. What the rounded numbers miss of 100 goes to the class "high", as reports of sensors do it, or to
    /// the largest class if that one can't take it: 1 % doesn't become "<1 %".
    ///
    /// - Parameter weights: seconds or readings of each class.
    /// - Returns: `nil` if all weights are 0.
    public init?(_ weights: [GlucoseClass: Int64]) {
        let total = weights.values.reduce(0, +)
        guard total > 0 else { return nil }
        var whole: [GlucoseClass: Int] = [:]
        for (kind, weight) in weights {
            whole[kind] = Int(Ratio.halfEven(Int128(weight) * 100, Int128(total)))
        }
        let missing = 100 - whole.values.reduce(0, +)
        let high = whole[.high] ?? 0
        let largest = GlucoseClass.allCases.max { weights[$0] ?? 0 < weights[$1] ?? 0 } ?? .target
        let taker = (weights[.high] ?? 0) > 0 && high + missing >= min(high, 1) ? .high : largest
        whole[taker, default: 0] += missing
        self.weights = weights
        shares = whole.reduce(into: [:]) { shares, each in
            shares[each.key] = Share(
                percent: each.value, isBelowOne: each.value == 0 && (weights[each.key] ?? 0) > 0)
        }
    }

    /// The share of one class.
    public subscript(kind: GlucoseClass) -> Share { shares[kind] ?? Share(percent: 0, isBelowOne: false) }

    /// The share of several classes: the sum of what is printed of each.
    public func sum(_ kinds: [GlucoseClass]) -> Share {
        let percent = kinds.reduce(0) { $0 + self[$1].percent }
        return Share(percent: percent, isBelowOne: percent == 0 && kinds.contains { self[$0].isBelowOne })
    }

    /// Whether the shares meet a goal, by their exact size.
    public func meets(_ goal: GlucoseRanges.Goal) -> Bool {
        let part = goal.classes.reduce(0) { $0 + (weights[$1] ?? 0) } * 100
        let bound = Int64(goal.percent) * weights.values.reduce(0, +)
        return goal.isLeast ? part > bound : part < bound
    }
}

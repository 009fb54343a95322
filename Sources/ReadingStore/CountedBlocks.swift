/// What was counted in the blocks of a table, each until one of its rows changes.
struct CountedBlocks<Tally: StoreTally, Rules: Sendable & Hashable>: Sendable {
    /// What was counted, by level.
    struct Counted: Sendable {
        private(set) var levels: [[Int64: Tally]] = RowBlock.Level.allCases.map { _ in [:] }

        subscript(_ level: RowBlock.Level) -> [Int64: Tally] {
            get { levels[level.rawValue] }
            set { levels[level.rawValue] = newValue }
        }
    }

    /// The last commits that changed a block, and with how many commits there were before it was counted.
    private struct Numbered: Sendable {
        var counted: [Int64: (tally: Tally, commits: Int)] = [:]
        var touched: [Int64: Int] = [:]

        func knows(_ number: Int64, sinceAllChanged commits: Int) -> Bool {
            counted[number].map { $0.commits >= max(commits, touched[number] ?? 0) } ?? false
        }

        /// Whether a reader that began behind so many commits sees of it what there is now.
        func isSeen(_ number: Int64, from commits: Int) -> Bool { touched[number] ?? 0 <= commits }

        mutating func keep(_ tallies: [Int64: Tally], at commits: Int) {
            for (number, tally) in tallies where counted[number].map({ $0.commits <= commits }) ?? true {
                counted[number] = (tally, commits)
            }
        }

        /// Forgets what has changed and was not met: it is empty now, and would count as changed for ever.
        mutating func forgetEmpty(besides tallies: [Int64: Tally], at commits: Int, sinceAllChanged: Int) {
            for (number, last) in touched where last <= commits && tallies[number] == nil && counted[number] != nil {
                if !knows(number, sinceAllChanged: sinceAllChanged) { counted[number] = nil }
            }
        }
    }

    /// How many parts are known at most: those of the blocks that change now.
    private static var mostParts: Int { 512 }

    private var rules: Rules?
    /// How often there were other rules.
    private var edition = 0
    private var levels = RowBlock.Level.allCases.map { _ in Numbered() }
    private var allTouched = 0
    /// What was added up last, and how many commits there were before.
    private var sum: (tally: Tally, commits: Int)?
    /// The most commits that there were before something that is kept was counted.
    private var newestKept = 0
    /// The last commit that was noted, whatever it changed.
    private var noted = 0

    /// Whether anything was counted.
    var isBegun: Bool { !levels[RowBlock.Level.block.rawValue].counted.isEmpty }

    /// Notes what a commit has changed.
    ///
    /// - Parameters:
    ///   - changed: the numbers of parts; `nil`: perhaps all.
    ///   - commit: how many commits there are with this one.
    mutating func note(_ changed: Set<Int64>?, by commit: Int) {
        noted = commit
        guard let changed else {
            allTouched = commit
            return
        }
        for part in changed {
            for level in RowBlock.Level.allCases {
                levels[level.rawValue].touched[level.number(ofPart: part)] = commit
            }
        }
    }

    /// The sum of all, if it was added up behind this many commits and there is none more: the rules are then the same too.
    func sum(at commits: Int) -> Tally? {
        sum.flatMap { $0.commits == commits && noted <= commits ? $0.tally : nil }
    }

    /// Tells rules from those that something was counted by before; `nil` if nothing was counted by them last.
    func edition(of rules: Rules) -> Int? { self.rules == rules ? edition : nil }

    /// Has other rules take the place of those that was counted by last, and keeps what was counted.
    ///
    /// - Parameter isSame: whether what was counted, of which it gets the sum, is the same by the other rules.
    mutating func replaceRules(by other: Rules, if isSame: (_ own: Rules, _ counted: Tally) -> Bool) {
        // The sum has to be of everything that was counted.
        guard let own = rules, own != other, let sum, sum.commits >= newestKept, isSame(own, sum.tally) else { return }
        rules = other
        edition += 1
    }

    /// How many of the blocks that were counted have changed since.
    var changedBlocks: Int {
        let blocks = levels[RowBlock.Level.block.rawValue]
        return blocks.counted.keys.count { !blocks.knows($0, sinceAllChanged: allTouched) }
    }

    /// What is known of one, if that is what a reader sees.
    ///
    /// - Parameters:
    ///   - edition: of the rules that it is to be counted by.
    ///   - commits: how many there were before the reader began: what others have counted since may be newer than what it reads.
    func known(_ number: Int64, at level: RowBlock.Level, _ edition: Int?, from commits: Int) -> Tally? {
        let numbered = levels[level.rawValue]
        guard self.edition == edition, knows(number, at: level), allTouched <= commits,
            numbered.isSeen(number, from: commits)
        else { return nil }
        return numbered.counted[number]?.tally
    }

    /// Whether no commit has changed one since it was counted.
    func knows(_ number: Int64, at level: RowBlock.Level) -> Bool {
        levels[level.rawValue].knows(number, sinceAllChanged: allTouched)
    }

    /// Whether one changes: its rows will be counted again soon.
    func changes(_ number: Int64, at level: RowBlock.Level) -> Bool { levels[level.rawValue].touched[number] != nil }

    /// Keeps what was counted.
    ///
    /// - Parameters:
    ///   - sum: of all.
    ///   - commits: how many there were before it was counted.
    mutating func keep(_ counted: Counted, sum: Tally, _ rules: Rules, at commits: Int) {
        if self.sum.map({ $0.commits <= commits }) ?? true { self.sum = (sum, commits) }
        newestKept = max(newestKept, commits)
        if self.rules != rules {
            self.rules = rules
            edition += 1
            for level in levels.indices { levels[level].counted = [:] }
        }
        let part = RowBlock.Level.part
        if levels[part.rawValue].counted.count + counted[part].count > Self.mostParts {
            levels[part.rawValue].counted = [:]
        }
        for level in RowBlock.Level.allCases {
            levels[level.rawValue].keep(counted[level], at: commits)
            // Of parts there are many, and few are known.
            guard level != part else { continue }
            levels[level.rawValue].forgetEmpty(besides: counted[level], at: commits, sinceAllChanged: allTouched)
        }
    }
}

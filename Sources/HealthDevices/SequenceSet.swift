/// The sequence numbers seen: 8 KiB, however many come.
struct SequenceSet: Sendable {
    /// How many different numbers.
    private(set) var count = 0
    private var words: [UInt64] = []

    mutating func insert(_ sequence: UInt16) {
        if words.isEmpty { words = Array(repeating: 0, count: 1024) }
        let bit: UInt64 = 1 << UInt64(sequence & 63)
        guard words[Int(sequence >> 6)] & bit == 0 else { return }
        words[Int(sequence >> 6)] |= bit
        count += 1
    }

    private func contains(_ sequence: UInt16) -> Bool { words[Int(sequence >> 6)] >> UInt64(sequence & 63) & 1 == 1 }

    /// The runs of numbers missing between the lowest and the highest seen.
    ///
    /// Where both 0 and 65535 were seen the numbers have wrapped, and the longest run is what was never used.
    var gaps: [ClosedRange<UInt16>] {
        guard let lowest = words.indices.first(where: { words[$0] != 0 }),
            let highest = words.indices.last(where: { words[$0] != 0 })
        else { return [] }
        let first = UInt16(lowest * 64 + words[lowest].trailingZeroBitCount)
        let last = UInt16(highest * 64 + 63 - words[highest].leadingZeroBitCount)
        var gaps: [ClosedRange<UInt16>] = []
        var missingSince: UInt16?
        for sequence in first...last {
            if !contains(sequence) {
                missingSince = missingSince ?? sequence
            } else if let start = missingSince {
                gaps.append(start...(sequence - 1))
                missingSince = nil
            }
        }
        if first == .min, last == .max, let longest = gaps.indices.max(by: { gaps[$0].count < gaps[$1].count }) {
            gaps.remove(at: longest)
        }
        return gaps
    }
}

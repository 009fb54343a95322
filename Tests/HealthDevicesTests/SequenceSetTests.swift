import Testing

@testable import HealthDevices

@Suite struct SequenceSetTests {
    private func set(_ sequences: [UInt16]) -> SequenceSet {
        sequences.reduce(into: SequenceSet()) { $0.insert($1) }
    }

    @Test("nothing seen has no gaps")
    func empty() { #expect(SequenceSet().gaps == [] && SequenceSet().count == 0) }

    @Test("gaps across the words of the set")
    func words() {
        #expect(set([0, 63, 64, 200]).gaps == [1...62, 65...199])
        #expect(set([65535]).gaps == [] && set([0]).gaps == [])
    }

    @Test("numbers that wrapped have no gap between the newest and the oldest")
    func wrapped() {
        #expect(set([65534, 65535, 0, 1]).gaps == [])
        #expect(set([65533, 65535, 0, 2]).gaps == [1...1, 65534...65534])
    }

    @Test("gaps and numbers seen make up the whole, whatever was seen")
    func property() {
        let seed = UInt64.random(in: .min ... .max)
        var state = seed
        func next() -> UInt64 {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return state >> 33
        }
        for _ in 0..<100 {
            // Without the two ends, which stand for a wrap.
            let sequences = (0..<(next() % 300 + 1)).map { _ in UInt16(1 + next() % 2000) }
            let (lowest, highest) = (sequences.min() ?? 0, sequences.max() ?? 0)
            let set = set(sequences)
            let missing = (lowest...highest).filter { !sequences.contains($0) }
            #expect(set.gaps.flatMap(Array.init) == missing, "seed \(seed)")
            #expect(set.count == Set(sequences).count, "seed \(seed)")
        }
    }
}

import TestSupport
import Testing

extension SeededGenerator {
    /// A whole number of any magnitude: each number of bits is as likely as another.
    mutating func integer() -> Int64 {
        let value = Int64(bitPattern: next())
        return value >> Int64.random(in: 0...63, using: &self)
    }
}

/// Runs a property with a seed of its own each time; a failure shows seed, round and what was compared.
func forAll<Value: Equatable>(
    _ times: Int = 5000, _ property: (inout SeededGenerator) throws -> (Value, Value, about: String)
) rethrows {
    let seed = UInt64.random(in: .min ... .max)
    var generator = SeededGenerator(seed: seed)
    for round in 0..<trials(times) {
        let (found, expected, about) = try property(&generator)
        if found != expected {
            Issue.record("\(about): found \(found), expected \(expected); seed \(seed), round \(round)")
            return
        }
    }
}

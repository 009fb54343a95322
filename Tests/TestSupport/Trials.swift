import Foundation

/// How often a property is tried, of `whole` times. All where the code is optimised; a fifth in a debug build, whose decoders are
/// some ten times slower, unless `HEALTHRELAY_TRIALS=all` asks for all there too (`make test-trials`).
package func trials(_ whole: Int) -> Int { isTriedInPart ? (whole + partOfTrials - 1) / partOfTrials : whole }

/// Each value of a range, or where less is tried each fifth, beginning with another one at each `round`.
package func trials(_ range: ClosedRange<Int>, round: Int) -> StrideThrough<Int> {
    let step = isTriedInPart ? partOfTrials : 1
    return stride(from: range.lowerBound + round % step, through: range.upperBound, by: step)
}

private let partOfTrials = 5

private let isTriedInPart: Bool = {
    #if DEBUG
        ProcessInfo.processInfo.environment["HEALTHRELAY_TRIALS"] != "all"
    #else
        false
    #endif
}()

import CDecode
import GATTProfiles
import HealthReadings

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// Decodes the same records with a plain C decoder and with ours, in turns in one run.
///
/// Bar: ours takes at most 5 times as long as the C decoder for the same fields, and neither decoding the fields nor the
/// whole way to a `Record` (units, plausibility and exclusion included), which the C decoder does not go, asks for
/// memory. The time of a `Record` is shown beside; it moves by a factor of two with the placement of the stack.
@main
enum DecodeBenchmark {
    static let bar = 5.0
    /// Under callgrind, `DecodeBenchmark 1` is enough.
    static let rounds = CommandLine.arguments.dropFirst().first.flatMap { Int($0) } ?? 41
    static let recordCount = 1024
    static let passes = 40

    static func main() {
        var records = Records()
        let glucose = (0..<recordCount).map { _ in records.glucose() }
        let pressure = (0..<recordCount).map { _ in records.bloodPressure() }
        let isGood = [
            compare("2A18", glucose, c: glucoseInC, fields: glucoseFields, record: glucoseRecord),
            compare("2A35", pressure, c: pressureInC, fields: pressureFields, record: pressureRecord),
        ]
        if !isGood.allSatisfy({ $0 }) {
            print("FAILED: the bar is \(bar) times the C decoder and no allocation")
            exit(1)
        }
    }

    /// One contender: decodes a record and returns something that depends on what it found.
    typealias Decoder = ([UInt8]) -> Int64

    static func compare(
        _ name: String, _ records: [[UInt8]], c: @escaping Decoder, fields: @escaping Decoder,
        record: @escaping Decoder
    ) -> Bool {
        for octets in records where c(octets) != fields(octets) || c(octets) != record(octets) {
            print("\(name): the decoders disagree on \(octets)")
            return false
        }
        var best = [Double.infinity, .infinity, .infinity]
        var allocations: [UInt64] = [0, 0, 0]
        var sums: [Int64] = [0, 0, 0]
        for _ in 0..<rounds {
            for (index, decoder) in [c, fields, record].enumerated() {
                let before = allocation_count()
                let start = ContinuousClock.now
                for _ in 0..<passes {
                    for octets in records { sums[index] &+= decoder(octets) }
                }
                let elapsed = start.duration(to: .now)
                allocations[index] += allocation_count() - before
                let nanoseconds =
                    Double(elapsed.components.attoseconds) / 1e9 + Double(elapsed.components.seconds) * 1e9
                best[index] = min(best[index], nanoseconds / Double(passes * records.count))
            }
        }
        for (index, contender) in ["C decoder, -O2", "fields", "record"].enumerated() {
            print(
                "\(name) \(contender): \(tenths(best[index])) ns, \(tenths(best[index] / best[0])) x C,",
                "\(allocations[index]) allocations in \(rounds * passes * records.count) records")
        }
        return sums[0] == sums[1] && sums[0] == sums[2] && best[1] <= bar * best[0] && allocations[1...] == [0, 0]
    }

    static func tenths(_ value: Double) -> Double { (value * 10).rounded() / 10 }
}

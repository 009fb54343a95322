import CLibre
import FreeStyleLibre
import HealthReadings

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// Decodes the same memories of a FreeStyle Libre 1 with a plain C decoder and with ours, in turns in one run: 344 octets
/// to 48 records with calibrated mg/dL, CRCs checked.
///
/// Bar: ours takes at most 5 times as long, the whole way to `Record` in the order of their minutes.
@main
enum LibreBenchmark {
    static let bar = 5.0
    /// Under callgrind, `LibreBenchmark 1` is enough.
    static let rounds = CommandLine.arguments.dropFirst().first.flatMap { Int($0) } ?? 41
    static let passes = 20

    static func main() {
        let memories = (0..<64).map { memory(age: 2000 + 271 * $0) }
        for octets in memories where inC(octets) != ours(octets) || inC(octets) == -1 {
            print("the decoders disagree on \(octets): \(inC(octets)), \(ours(octets))")
            exit(1)
        }
        var best = [Double.infinity, .infinity]
        var sums: [Int64] = [0, 0]
        for _ in 0..<rounds {
            for (index, decoder) in [inC, ours].enumerated() {
                let start = ContinuousClock.now
                for _ in 0..<passes {
                    for octets in memories { sums[index] &+= decoder(octets) }
                }
                let elapsed = start.duration(to: .now).components
                let nanoseconds = Double(elapsed.attoseconds) / 1e9 + Double(elapsed.seconds) * 1e9
                best[index] = min(best[index], nanoseconds / Double(passes * memories.count))
            }
        }
        let ratio = best[1] / best[0]
        print("a sensor's memory, C decoder, -O2: \(Int(best[0])) ns")
        print("a sensor's memory, ours: \(Int(best[1])) ns, \((ratio * 10).rounded() / 10) x C")
        if sums[0] != sums[1] || ratio > bar {
            print("FAILED: the bar is \(bar) times the C decoder")
            exit(1)
        }
    }

    /// A memory with right CRCs, full rings and a value in each record. In every other one the age is a minute ahead of the
    /// trend ring.
    static func memory(age: Int) -> [UInt8] {
        var octets = [UInt8](repeating: 0, count: LibreMemory.size)
        func put(_ value: UInt64, _ count: Int, at place: Int) {
            for octet in 0..<count { octets[place + octet] = UInt8(truncatingIfNeeded: value >> UInt64(8 * octet)) }
        }
        octets[4] = 3
        put(3 | 500 << 3, 2, at: 2)
        octets[26] = UInt8((age - age % 2) % 16)
        octets[27] = UInt8((age - 3) / 15 % 32)
        for record in 0..<48 {
            let glucose = UInt64(800 + (age + 37 * record) % 1500)
            let temperature = UInt64(1650 + (age + record) % 90)
            put(glucose | 0x120 << 14 | temperature << 26 | UInt64(record % 5) << 38, 6, at: 28 + 6 * record)
        }
        put(UInt64(age), 2, at: 316)
        octets[323] = 1
        put(20_880, 2, at: 326)
        put(10 | 6000 << 8 | 1200 << 40 | 2000 << 52, 8, at: 336)
        for part in LibreMemory.Part.allCases {
            let range = part.octets
            put(UInt64(MemoryChecksum.of(octets, (range.lowerBound + 2)..<range.upperBound)), 2, at: range.lowerBound)
        }
        return octets
    }

    /// Each contender folds what it found into one number, so that nothing can be left out and both can be compared.
    @inline(__always)
    static func fold(_ minute: Int, _ isHistory: Bool, _ raw: Int, _ value: Int) -> Int64 {
        Int64((minute * 2 + (isHistory ? 1 : 0)) &* (raw &+ 31 &* value))
    }

    @inline(never)
    static func inC(_ octets: [UInt8]) -> Int64 {
        withUnsafeTemporaryAllocation(of: c_sensor.self, capacity: 1) { sensor in
            guard let out = sensor.baseAddress,
                octets.withUnsafeBufferPointer({ c_decode_libre($0.baseAddress, out) }) == 0
            else { return -1 }
            return withUnsafePointer(to: &out.pointee.records) { tuple in
                tuple.withMemoryRebound(to: c_record.self, capacity: 48) { records in
                    var sum = Int64(out.pointee.age) + Int64(out.pointee.state)
                    for place in 0..<Int(out.pointee.count) {
                        let record = records[place]
                        let raw = Int(record.glucose) &+ Int(record.temperature) &* 3 &+ Int(record.adjustment) &* 5
                        sum &+= fold(
                            Int(record.minute), record.is_history == 1, raw &+ Int(record.quality),
                            record.has_value == 1 ? Int(record.value) : -1)
                    }
                    return sum
                }
            }
        }
    }

    @inline(never)
    static func ours(_ octets: [UInt8]) -> Int64 {
        guard let memory = try? LibreMemory(octets), memory.isHeaderRight, memory.isBodyRight, memory.isFooterRight
        else {
            return -1
        }
        var sum = Int64(memory.ageMinutes ?? 0) + Int64(memory.state?.rawValue ?? 0)
        for record in memory.records {
            guard let facts = record.sensor, case .glucose(let glucose) = record.value else { return -1 }
            let value: Int
            if case .value(let number)? = glucose.concentration?.number {
                value = Int(number.significand)
            } else {
                value = -1
            }
            let raw = Int(facts.glucose) &+ Int(facts.temperature) &* 3 &+ Int(facts.adjustment) &* 5
            sum &+= fold(Int(facts.minute), facts.source == .history, raw &+ Int(facts.quality), value)
        }
        return sum
    }
}

import GATTClient
import HealthDevices
import HealthReadings

/// What matching an advertisement costs with 10, 100, 1,000 and 10,000 models, in one run.
///
/// Bar: with 10,000 models at most twice of what it costs with 10. Names are those that are heard: strangers that part
/// from every entry early, names of models, names that begin like one, and devices without a name.
@main
struct CatalogueBenchmark {
    static func main() {
        let sizes = [10, 100, 1000, 10_000]
        let catalogues = sizes.map { Catalogue(models: models($0)) }
        let heard = sizes.map { advertisements($0) }
        var costs = [Double](repeating: .infinity, count: sizes.count)
        var found = 0
        // In turns, so that what else the machine does hits all of them; the best of each counts.
        for _ in 0..<15 {
            for (place, catalogue) in catalogues.enumerated() {
                let advertisements = heard[place]
                let clock = ContinuousClock()
                let time = clock.measure {
                    for _ in 0..<40 {
                        for advertisement in advertisements where catalogue.model(for: advertisement) != nil {
                            found += 1
                        }
                    }
                }
                costs[place] = min(costs[place], time / .nanoseconds(40 * advertisements.count))
            }
        }
        for (size, cost) in zip(sizes, costs) {
            print(
                "\(size) models: \(Int(cost.rounded())) ns an advertisement, \(hundredths(cost / costs[0])) of 10 models"
            )
        }
        let isMet = (costs.last ?? .infinity) <= 2 * costs[0]
        print("bar (10,000 within 2 x of 10): \(isMet ? "met" : "NOT MET"); \(found) matches")
    }

    private static func hundredths(_ ratio: Double) -> String { String(Double(Int(ratio * 100)) / 100) }

    private static func models(_ count: Int) -> [DeviceModel] {
        (0..<count).map { number in
            DeviceModel(
                id: "model_\(number)", brand: "Brand \(number / 8)", name: "\(number)", kinds: [.glucose],
                names: [number.isMultiple(of: 3) ? .prefixAndDigit(name(number)) : .prefix(name(number) + "_")],
                services: [0x1808], provider: "manual", pairing: .any)
        } + Catalogue.known
    }

    /// Eight letters that differ early.
    private static func name(_ number: Int) -> String {
        let letters = Array("QWZRTPSDFGHJKLYXCVNM")
        var (rest, text) = (number &* 2_654_435_761, "")
        for _ in 0..<8 {
            text.append(letters[Int(UInt(bitPattern: rest) % 20)])
            rest /= 20
        }
        return text
    }

    private static func advertisements(_ count: Int) -> [Advertisement] {
        func advertisement(_ name: String?, _ services: [BluetoothUUID] = []) -> Advertisement {
            Advertisement(address: nil, name: name, services: services, seenAt: Instant(seconds: 0))
        }
        return (0..<1000).map { number in
            switch number % 5 {
            case 0: advertisement("LE-Kitchen \(number)")
            case 1: advertisement(nil, [0x180F, 0xFE9F])
            case 2: advertisement("\(name(number % count))_\(number)")
            case 3: advertisement("\(name(number % count))")
            default: advertisement("meter+\(number)", [0x1808])
            }
        }
    }
}

import FleetDocuments
import HealthReadings
import TestSupport

enum Samples {
    static func gateway() throws -> GatewayID { try GatewayID("ward-7") }
    static let now = Instant(seconds: 1_795_176_000)

    static func reading(_ number: UInt64 = 1, value: Int64 = 1270) -> Reading {
        Reading(
            id: ReadingID(high: 0x0A, low: number),
            record: Record(
                value: .glucose(
                    GlucoseValue(
                        concentration: Quantity(
                            ExactDecimal(significand: value, exponent: -1), .milligramsPerDecilitre))),
                sequence: UInt16(truncatingIfNeeded: number)),
            device: DeviceDescription(
                address: DeviceAddress(bits: 0xC000_0000_1808, kind: .random), model: "accuchek_guide", serial: "123"),
            time: ResolvedTime(instant: now, basis: .corrected), person: "white_bear", receivedAt: now)
    }

    static func batch(_ number: Int64 = 7, of count: UInt64 = 2) throws -> FleetBatch {
        FleetBatch(
            gateway: try gateway(), number: number, sentAt: now,
            readings: (1...count).map { FleetReading(reading($0), revision: number, person: "white_bear") },
            retracted: [FleetRetraction(id: ReadingID(high: 0x0B, low: 1), revision: number)])
    }

    /// A document with a part of its text replaced.
    static func octets(_ document: JSONValue, _ old: String = "", _ new: String = "") -> [UInt8] {
        var text = document.text
        if !old.isEmpty, let range = text.firstRange(of: old) { text.replaceSubrange(range, with: new) }
        return Array(text.utf8)
    }
}

/// Documents with any values that their types can have.
struct GeneratedDocuments {
    private var random: SeededGenerator

    init(seed: UInt64) { random = SeededGenerator(seed: seed) }

    private mutating func chance(_ oneIn: Int) -> Bool { Int.random(in: 0..<oneIn, using: &random) == 0 }
    private mutating func number() -> Int64 { Int64.random(in: 1...FleetSchema.largestNumber, using: &random) }
    private mutating func id() -> ReadingID { ReadingID(high: random.next(), low: random.next()) }
    private mutating func instant() -> Instant {
        Instant(microseconds: Int64.random(in: 0...4_000_000_000_000_000, using: &random))
    }
    private mutating func text(_ range: ClosedRange<Int> = 1...40) -> String {
        let alphabet: [Character] = ["a", "Z", "7", " ", "\"", "\\", "\n", "ß", "\u{1F9EA}", "{", "/"]
        return String(
            (0..<Int.random(in: range, using: &random)).map { _ in alphabet.randomElement(using: &random) ?? "a" })
    }
    private mutating func list<Value>(_ most: Int, _ make: (inout Self) -> Value) -> [Value] {
        (0..<Int.random(in: 0...most, using: &random)).map { _ in make(&self) }
    }

    mutating func gateway() throws -> GatewayID {
        let alphabet = Array("ABCXYZabcxyz0189_-")
        return try GatewayID(
            String(
                (0..<Int.random(in: 1...23, using: &random)).map { _ in alphabet.randomElement(using: &random) ?? "a" })
        )
    }

    mutating func batch() throws -> FleetBatch {
        let number = number()
        let readings = list(40) { made in
            var reading = Samples.reading(made.random.next(), value: Int64.random(in: 0...9999, using: &made.random))
            reading = Reading(
                id: made.id(), record: reading.record, device: reading.device,
                time: ResolvedTime(instant: made.chance(5) ? nil : made.instant(), basis: .corrected),
                receivedAt: reading.receivedAt)
            return FleetReading(reading, revision: made.number(), person: made.chance(4) ? nil : made.text())
        }
        let retracted = list(40) { FleetRetraction(id: $0.id(), revision: $0.number()) }
        return FleetBatch(
            gateway: try gateway(), number: number, sentAt: instant(), readings: readings,
            retracted: readings.isEmpty && retracted.isEmpty ? [FleetRetraction(id: id(), revision: number)] : retracted
        )
    }

    mutating func receipt() throws -> FleetReceipt {
        if chance(5) {
            return FleetReceipt(
                gateway: try gateway(), batch: number(),
                failure: FleetReceipt.Failure(code: text(1...10), message: text()))
        }
        return FleetReceipt(
            gateway: try gateway(), batch: number(), stored: list(50) { $0.id() },
            storedThrough: chance(2) ? number() : nil,
            refused: list(50) { FleetReceipt.Refusal(id: $0.id(), reason: $0.text()) },
            highestBatch: chance(2) ? number() : nil)
    }

    mutating func state() -> FleetConfigurationState {
        FleetConfigurationState(
            version: chance(2) ? nil : number(), applied: chance(2) ? nil : number(),
            hash: chance(2) ? nil : text(1...30),
            state: FleetConfigurationState.State.allCases.randomElement(using: &random) ?? .none,
            refused: list(3) { FleetConfiguration.Refusal(key: $0.text(), reason: $0.text()) },
            reason: chance(2) ? nil : text(1...30))
    }

    mutating func answer() throws -> FleetAnswer {
        let gateway = try gateway()
        var (receipt, configuration) = (try receipt(), try configuration())
        (receipt.gateway, configuration.gateway) = (gateway, gateway)
        return FleetAnswer(
            gateway: gateway, receipts: chance(2) ? [] : [receipt],
            configuration: chance(2) ? nil : configuration, highestBatch: chance(2) ? number() : nil)
    }

    mutating func hello() throws -> FleetHello {
        FleetHello(
            gateway: try gateway(), sentAt: instant(), version: text(1...10), configuration: state(),
            unconfirmed: list(FleetHello.mostBatches) { $0.number() })
    }

    mutating func status() throws -> FleetStatus {
        if chance(8) { return .offline }
        return .online(
            FleetReport(
                gateway: try gateway(), sentAt: instant(), version: text(1...10), build: chance(2) ? nil : text(1...10),
                uptimeSeconds: number(), clock: FleetReport.Clock.allCases.randomElement(using: &random) ?? .unknown,
                backlog: FleetReport.Backlog(
                    waiting: Int(number()), handedOver: Int(number()), refused: Int(number()),
                    oldest: chance(2) ? nil : instant()),
                devices: list(20) {
                    FleetReport.Device(
                        alias: $0.text(),
                        batteryPercent: $0.chance(2) ? nil : Int.random(in: 0...100, using: &$0.random),
                        lastSeen: $0.chance(2) ? nil : $0.instant())
                }, configuration: state()))
    }

    mutating func configuration() throws -> FleetConfiguration {
        var settings: [String: FleetConfiguration.Value] = [:]
        if chance(2) { settings["sync.backfill_days"] = .whole(Int64.random(in: 0...36_500, using: &random)) }
        if chance(2) { settings["cloud.every"] = .text(chance(2) ? "6h" : "90m") }
        if chance(2) { settings["clock.require_sync"] = .flag(chance(2)) }
        if chance(2) { settings["log.level"] = .text("debug") }
        if chance(2) { settings["sources.map"] = .map([text(1...10): text(1...10), "generic": "manual"]) }
        return FleetConfiguration(gateway: try gateway(), version: number(), settings: settings)
    }

    /// Octets with one place changed, cut or repeated.
    mutating func damaged(_ octets: [UInt8]) -> [UInt8] {
        var octets = octets
        let place = Int.random(in: 0..<octets.count, using: &random)
        switch Int.random(in: 0..<4, using: &random) {
        case 0: octets[place] = UInt8.random(in: 0...255, using: &random)
        case 1: octets.removeSubrange(place...)
        case 2: octets.remove(at: place)
        default: octets.insert(octets[place], at: place)
        }
        return octets
    }
}

import DeviceReports
import Foundation
import GATTClient
import HCICapture
import HealthDevices
import HealthReadings
import Synchronization

/// Random numbers that a seed decides.
struct Dice: RandomNumberGenerator, Sendable {
    var state: UInt64

    mutating func next() -> UInt64 {
        state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        return (state ^ state >> 29) &* 0xBF58_476D_1CE4_E5B9
    }
}

/// What reading a device brings.
struct Brought {
    var readings: [Reading] = []
    var malformed = 0

    /// The readings without what a report replaces: which digits they have, and not which numbers.
    var shapes: [String] { readings.map { Self.shape($0.document, nil) }.sorted() }

    private static func shape(_ value: JSONValue, _ key: String?) -> String {
        switch value {
        case .object(let members):
            // The clock in an Omron's memory is hidden, and its records have times of their own.
            let isOmron = value["device"]?["model"]?.text.hasPrefix("\"omron_hem") == true
            let others =
                ["id", "device", "deliveries", "person", "read_at"] + (isOmron ? ["clock", "time_basis"] : [])
            return "{"
                + members.filter { !others.contains($0.key) }
                .map { "\($0.key):\(shape($0.value, $0.key))" }.joined(separator: ",") + "}"
        case .array(let values): return "[" + values.map { shape($0, key) }.joined(separator: ",") + "]"
        case .number(let number): return "decimal\(number.exponent)"
        // A maker's number of a person makes a slot, and becomes another.
        case .integer(let slot) where key == "user" && slot > 3: return "person"
        case .integer where ["seconds", "intensity_percent", "rr_ms", "value"].contains(key): return "integer"
        case .string where ["base_time", "device_time", "time"].contains(key): return "time"
        case .written(let octets): return String(decoding: octets, as: UTF8.self)
        default: return value.text
        }
    }

    /// The measured numbers, in order.
    var numbers: [String] {
        readings.compactMap { reading in
            ["glucose", "blood_pressure"].compactMap { reading.document[$0] }.first { $0 != .null }?.text
        }
    }
}

/// Contacts of the repository's captures, read as if their devices were here.
enum Recorded {
    static let folder = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../Fixtures")
        .standardizedFileURL

    static let names: [String] = ((try? FileManager.default.contentsOfDirectory(atPath: folder.path)) ?? [])
        .filter { $0.hasSuffix(".btsnoop") }.map { String($0.dropLast(8)) }.sorted()

    /// What a person says it is, where no name tells.
    static func model(_ name: String) -> String? { name == "omron-memory" ? "omron_hem7322t" : nil }

    static func read(_ central: ReplayCentral, model: String?, _ recorder: ExchangeRecorder?) async throws -> [Brought]
    {
        var found: [Brought] = []
        for try await peripheral in central.peripherals() {
            guard let zone = ZoneRules.named("UTC") else { break }
            let journal = MemoryJournal(timeZone: zone)
            let malformed = Mutex(0)
            let reader = MeterReader(journal: journal, memory: journal, model: model)
            _ = try await reader.read(recorder?.recording(peripheral) ?? peripheral) { event in
                guard case .stored(let outcomes) = event else { return }
                for case .malformed in outcomes { malformed.withLock { $0 += 1 } }
            }
            found.append(Brought(readings: journal.readings, malformed: malformed.withLock(\.self)))
        }
        return found
    }

    /// The contacts of a capture, and what each brought.
    static func contacts(_ name: String) async throws -> [(exchange: Exchange, brought: Brought)] {
        let handles = folder.appending(path: name + ".handles.json")
        let map = try (try? Data(contentsOf: handles)).map { try HandleMap(json: Array($0)) }
        let central = try ReplayCentral(
            paths: [folder.appending(path: name + ".btsnoop").path], handleMap: map, address: nil)
        let recorder = ExchangeRecorder(readsMore: false, now: { nil })
        let brought = try await read(central, model: model(name), recorder)
        return Array(zip(recorder.exchanges, brought))
    }

    /// What an exchange brings if its capture is replayed.
    static func replay(_ exchange: Exchange, model: String?) async throws -> Brought {
        let central = try ReplayCentral(sources: [.octets(exchange.capture, name: "report")])
        return try await read(central, model: model, nil).first ?? Brought()
    }
}

extension ModelReport {
    /// The report of an exchange, with numbers that a seed repeats.
    static func made(of exchange: Exchange, seed: UInt64) -> ModelReport {
        ModelReport(
            Anonymiser(using: Dice(state: seed)).anonymous(exchange), model: nil,
            course: .init(isComplete: true, records: 0), software: "0")
    }
}

import Foundation
import HealthReadings
import Logging
import ReadingDelivery
import ReadingStore

/// Decodes the tests' own frames: kind (its top bit: a failure; the next: no failure after all; the one below: from a
/// continuous sensor), number, seconds, value; each a 64-bit big-endian word.
package struct TestDecoder: FrameDecoding {
    package init() {}

    /// The samples of a recorded saturation: eight hours.
    package static let nightSamples = 28_800

    package static func frame(
        _ kind: ReadingKind, number: Int, seconds: Int64, value: Int64, ordinal: Int, slot: UInt8? = nil,
        isFailed: Bool = false, isCorrected: Bool = false, isContinuous: Bool = false
    ) -> Frame {
        let codes: [ReadingKind: UInt8] = [
            .glucose: 1, .bloodPressure: 2, .heartRate: 3, .hrv: 4, .spo2: 5, .temperature: 6, .weight: 7,
            .bodyComposition: 8,
        ]
        var payload: [UInt8] = [codes[kind] ?? 0]
        for word in [Int64(number), seconds, value] {
            for shift in stride(from: 56, through: 0, by: -8) {
                payload.append(UInt8(truncatingIfNeeded: word >> Int64(shift)))
            }
        }
        if let slot { payload.append(slot) }
        if isFailed { payload[0] |= 0x80 }
        if isCorrected { payload[0] |= 0x40 }
        if isContinuous { payload[0] |= 0x20 }
        return Frame(
            format: FrameFormat(rawValue: 0x1_0000), payload: payload, receivedAt: Instant(seconds: seconds + 60),
            ordinal: ordinal)
    }

    package func decode(_ frame: Frame, model: String?) -> DecodedFrame {
        if frame.format == .manualEntry { return Self.judged(DecodedFrame(manualEntry: frame.payload)) }
        if frame.format == .figureDecision { return DecodedFrame(figureDecision: frame.payload) }
        let words = (0..<3).map { index in
            frame.payload[(1 + 8 * index)..<(9 + 8 * index)].reduce(Int64(0)) { $0 << 8 | Int64($1) }
        }
        let number = ExactDecimal(significand: words[2])
        let value: RecordValue =
            switch frame.payload[0] & 0x1F {
            case 1:
                .glucose(
                    GlucoseValue(
                        concentration: Quantity(number, .milligramsPerDecilitre),
                        sampleType: frame.payload[0] & 0x20 != 0 ? .interstitialFluid : .capillaryWholeBlood,
                        sampleLocation: frame.payload[0] & 0x20 != 0 ? .subcutaneousTissue : .finger))
            // A minute's samples, a second apart, that rise by one from the value; every tenth is missing.
            case 3:
                .vital(
                    VitalValue(
                        kind: .heartRate, [.init(.heartRate, Quantity(number, .beatsPerMinute))],
                        series: SampleSeries(
                            (0..<60).map { second in
                                SampleSeries.Sample(
                                    milliseconds: second * 1000,
                                    value: second % 10 == 9
                                        ? nil : ExactDecimal(significand: words[2] + Int64(second)), intervals: [1000])
                            })))
            case 4:
                .vital(
                    VitalValue(
                        kind: .hrv,
                        [
                            .init(.rmssd, Self.tenths(words[2], .milliseconds)),
                            .init(.sdnn, Self.tenths(words[2] + 1, .milliseconds)),
                        ], windowSeconds: 300, beats: .init(counted: 300, leftOut: 2)))
            // An oximeter's night, a sample a second.
            case 5:
                .vital(
                    VitalValue(
                        kind: .spo2, [.init(.saturation, Quantity(number, .percent))],
                        series: SampleSeries(
                            (0..<Self.nightSamples).map { second in
                                SampleSeries.Sample(
                                    milliseconds: second * 1000,
                                    value: ExactDecimal(significand: 90 + Int64(second % 10)))
                            })))
            case 6:
                .vital(VitalValue(kind: .temperature, [.init(.temperature, Self.tenths(words[2], .degreesCelsius))]))
            case 7: .vital(VitalValue(kind: .weight, [.init(.weight, Self.tenths(words[2], .kilograms))]))
            case 8: .vital(Self.composition(words[2]))
            default:
                .bloodPressure(
                    BloodPressureValue(
                        systolic: Quantity(number, .millimetresOfMercury),
                        diastolic: Quantity(ExactDecimal(significand: 80), .millimetresOfMercury),
                        meanArterial: Quantity(.notANumber, .millimetresOfMercury)))
            }
        var record = Record(
            value: value, sequence: UInt16(words[0]), baseTime: WallTime(secondsSinceEpoch: words[1]),
            userSlot: frame.payload.count > 25 ? frame.payload[25] : nil)
        if frame.payload[0] & 0x80 != 0 { record.exclusion = .errorRecord }
        return .record(record)
    }

    /// As the gateway's own decoder has it: nobody has more than 50 mmol/L.
    private static func judged(_ decoded: DecodedFrame) -> DecodedFrame {
        guard case .entry(var entry) = decoded, case .glucose(let glucose) = entry.value,
            let concentration = glucose.concentration, concentration.unit == .millimolesPerLitre,
            let number = concentration.number.number, ExactDecimal(significand: 50).isNumericallyLess(than: number)
        else { return decoded }
        entry.exclusion = .implausible
        return .entry(entry)
    }

    private static func tenths(_ value: Int64, _ unit: MeasurementUnit) -> Quantity {
        Quantity(ExactDecimal(significand: value, exponent: -1), unit)
    }

    /// Tenths of per cent of fat, a thousand times tenths of kilograms, where a weight came with it, and ten million times
    /// those of what is no fat.
    private static func composition(_ value: Int64) -> VitalValue {
        var parts = [VitalValue.Measured(.bodyFat, tenths(value % 1000, .percent))]
        if value >= 1000 { parts.append(.init(.weight, tenths(value / 1000 % 10_000, .kilograms))) }
        if value >= 10_000_000 { parts.append(.init(.fatFreeMass, tenths(value / 10_000_000, .kilograms))) }
        return VitalValue(kind: .bodyComposition, parts)
    }
}

/// A store in a folder of its own.
package struct Fixture: Sendable {
    package static let user = "white_bear"
    package static let start: Int64 = 1_700_000_000

    package let store: ReadingStore
    package let folder: String

    package static func with<Result: Sendable>(
        timeZone: String = "UTC", user: String = Fixture.user, _ body: @Sendable (Fixture) async throws -> Result
    ) async throws -> Result {
        let folder = FileManager.default.temporaryDirectory.appending(path: "sync-\(UUID().uuidString)").path
        let fixture = try await open(folder, timeZone: timeZone, user: user)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let result = try await body(fixture)
        try fixture.store.close()
        return result
    }

    /// The store of a folder, which may have been opened before.
    package static func open(
        _ folder: String, timeZone: String = "UTC", user: String = Fixture.user
    ) async throws -> Fixture {
        let store = try await ReadingStore.open(
            directory: folder, decoder: TestDecoder(), clientUserID: user, timeZone: timeZone, logger: quiet,
            now: { Instant(seconds: start + 100_000_000) })
        return Fixture(store: store, folder: folder)
    }

    /// Where readings are appended by ``lines(at:clock:batchLimit:)``, unless a test says otherwise.
    package var path: String { folder + "/readings.jsonl" }

    /// A worker for a file.
    package func lines(
        at path: String? = nil, clock: SyncClock = .system, batchLimit: Int = 4, unwrittenLimit: Int? = nil
    ) -> OutboxWorker {
        worker(
            JSONLinesDestination(name: "file", path: path ?? self.path), clock: clock, batchLimit: batchLimit,
            unwrittenLimit: unwrittenLimit)
    }

    /// A worker that waits after failures without chance.
    package func worker(
        _ destination: any Destination, clock: SyncClock, batchLimit: Int? = nil, unwrittenLimit: Int? = nil
    ) -> OutboxWorker {
        var options = OutboxWorker.Options()
        options.backoff = Backoff(jitter: { 1 })
        if let batchLimit { options.batchLimit = batchLimit }
        if let unwrittenLimit { options.unwrittenLimit = unwrittenLimit }
        return OutboxWorker(store: store, destination: destination, options: options, clock: clock, logger: Self.quiet)
    }

    package static let quiet = Logger(label: "quiet") { _ in SwiftLogNoOpLogHandler() }

    /// Stores readings of one device, one a minute, numbered from `first`.
    package func read(
        _ count: Int, from first: Int = 1, kind: ReadingKind = .glucose, device: UInt64 = 1,
        provider: String = "accuchek_ble", metAt: Int64 = start + 90_000_000, slot: UInt8? = nil,
        isFailed: Bool = false, isCorrected: Bool = false, isContinuous: Bool = false, model: String? = nil,
        battery: UInt8? = nil, value: (Int) -> Int64 = { Int64(80 + $0 % 100) }
    ) async throws {
        let description = DeviceDescription(
            address: DeviceAddress(bits: 0xC000_0000_0000 + device, kind: .random), model: model, provider: provider)
        let contact = try await store.beginContact(
            with: description, at: Instant(seconds: metAt), clock: nil, batteryPercent: battery)
        let frames = (0..<count).map { index in
            TestDecoder.frame(
                kind, number: first + index, seconds: Self.start + Int64(first + index) * 60,
                value: value(first + index),
                ordinal: index, slot: slot, isFailed: isFailed, isCorrected: isCorrected, isContinuous: isContinuous)
        }
        _ = try await store.append(frames, of: contact)
        try await store.endContact(contact, ContactSummary(isComplete: true, received: count))
    }

    /// Adds a person, and gives them every reading.
    ///
    /// - Returns: the person.
    @discardableResult
    package func moveAll(to name: String) async throws -> StoreUser {
        try await store.setPeople([StorePerson(clientUserID: name, timeZone: "UTC", shares: [])])
        guard let person = try await store.user(name) else { throw StoreError.unknown(name) }
        let readings = try await store.query(ReadingQuery()).readings.map(\.id)
        try await store.moveReadings(.readings(readings), to: person.key)
        return person
    }

    /// How much a worker leaves unwritten that is to die at a crash point: one that counts acknowledgements has each batch
    /// written by itself.
    package static func unwrittenLimit(dyingAt point: String) -> Int? {
        point.hasPrefix("acknowledge") && point.contains(":") ? 1 : nil
    }

    package var waiting: Int {
        get async throws { try await store.groupsWaiting().reduce(0) { $0 + $1.count } }
    }

    package var person: StoreUser {
        get async throws { try await store.currentUser() }
    }
}

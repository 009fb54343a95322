import Foundation
import GATTProfiles
import HealthReadings
import ReadingStore
import Testing

@testable import HealthDevices

/// What a model measures decides what can be its glucose: strictly outside by more than one step, in the record's unit.
@Suite struct MeasuringRangeTests {
    private let decoder = ModelFrameDecoder()

    /// 2A18 with this mantissa and exponent, in kg/L or mol/L, and status bits.
    private func frame(
        _ mantissa: Int, _ exponent: Int, molar: Bool = false, status: UInt16? = nil, sequence: UInt16 = 5,
        type: UInt8 = 0x11
    ) -> Frame {
        let raw = UInt16(truncatingIfNeeded: exponent << 12) | UInt16(truncatingIfNeeded: mantissa) & 0xFFF
        var octets: [UInt8] = [0x02 | (molar ? 0x04 : 0) | (status == nil ? 0 : 0x08)]
        octets += [UInt8(truncatingIfNeeded: sequence), UInt8(truncatingIfNeeded: sequence >> 8)]
        octets += [0xEA, 0x07, 11, 20, 12, UInt8(truncatingIfNeeded: sequence % 60), 0]
        octets += [UInt8(truncatingIfNeeded: raw), UInt8(truncatingIfNeeded: raw >> 8), type]
        if let status { octets += [UInt8(truncatingIfNeeded: status), UInt8(truncatingIfNeeded: status >> 8)] }
        return Frame(
            format: FrameFormat(characteristic: 0x2A18), payload: octets,
            receivedAt: Instant(rfc3339: "2026-11-21T10:00:00Z") ?? Instant(seconds: 0), ordinal: 0)
    }

    private func exclusion(_ frame: Frame, _ model: String?) -> Exclusion? {
        guard case .record(let record) = decoder.decode(frame, model: model) else { return .errorRecord }
        return record.exclusion
    }

    @Test(
        "one step outside is a real low or high, more is none of that meter's",
        arguments: [
            // mg/dL: 13 is a ketone of 0.4 mmol/L.
            (13, -5, false, true), (18, -5, false, true), (19, -5, false, false), (20, -5, false, false),
            (600, -5, false, false), (601, -5, false, false), (602, -5, false, true),
            // The same with more digits: 18.9 and 19.0 mg/dL.
            (189, -6, false, true), (190, -6, false, false),
            // mmol/L: 0.9, 0.99, 1.0, 1.1, 33.3, 33.4, 33.5.
            (9, -4, true, true), (99, -5, true, true), (10, -4, true, false), (11, -4, true, false),
            (333, -4, true, false), (334, -4, true, false), (335, -4, true, true),
            // 20 mg/dL sent as 1.11 mmol/L, and 1.1 mmol/L sent as 19.8 and as 20 mg/dL.
            (111, -5, true, false), (198, -6, false, false),
        ] as [(Int, Int, Bool, Bool)])
    func bar(mantissa: Int, exponent: Int, molar: Bool, isExcluded: Bool) {
        let frame = frame(mantissa, exponent, molar: molar)
        #expect(exclusion(frame, "myglucose") == (isExcluded ? .implausible : nil))
        // Where no range is known nothing changes.
        for model in [nil, "generic_glucose", "relion_premier", "unheard_of"] {
            #expect(exclusion(frame, model) == nil)
        }
    }

    @Test("a result that the meter itself calls too high or too low keeps that meaning, and other reasons come first")
    func status() {
        let (high, low) = (UInt16(1 << 5), UInt16(1 << 6))
        #expect(exclusion(frame(620, -5, status: high), "accuchek_guide") == nil)
        #expect(exclusion(frame(620, -5, status: low), "accuchek_guide") == .implausible)
        #expect(exclusion(frame(5, -5, status: low), "accuchek_guide") == nil)
        #expect(exclusion(frame(5, -5, status: high), "accuchek_guide") == .implausible)
        #expect(exclusion(frame(5, -5), "accuchek_guide") == .implausible)
        #expect(exclusion(frame(0x7FE, 0), "accuchek_guide") == .notANumber)
        #expect(exclusion(frame(5, -5, type: 0x1A), "accuchek_guide") == .controlSolution)
        #expect(exclusion(frame(5, -5, status: 1 << 1), "accuchek_guide") == .errorRecord)
        // No lower bound is known for these.
        for model in ["contour_next", "caresens"] {
            #expect(exclusion(frame(3, -5), model) == nil)
            #expect(exclusion(frame(602, -5), model) == .implausible)
        }
    }

    @Test("a OneTouch's record is judged by its range whatever it came by")
    func ownProtocol() {
        for model in Catalogue().models where !model.ranges.isEmpty {
            #expect(decoder.rules(model: model.id) == model.rules && !model.rules.isEmpty)
            #expect(model.ranges.map(\.unit) == [.milligramsPerDecilitre, .millimolesPerLitre])
            #expect(model.kinds == [.glucose] && model.ranges.allSatisfy { !$0.source.isEmpty && $0.kind == .glucose })
            // Both units say the same, to the step of the coarser.
            for (milligrams, millimoles) in zip(
                [model.ranges[0].lowest, model.ranges[0].highest], [model.ranges[1].lowest, model.ranges[1].highest])
            {
                let (one, other) = (milligrams?.approximation, millimoles?.approximation)
                #expect((one == nil) == (other == nil))
                if let one, let other { #expect(abs(one / 18.0156 - other) <= 0.1, "\(model.id)") }
            }
        }
        #expect(decoder.rules(model: nil) == "" && decoder.rules(model: "generic_glucose") == "")
    }

    // MARK: What is stored

    /// A OneTouch's record with this number and value, at 2026-11-20 12:00 and as many minutes.
    private func oneTouch(_ value: UInt16, sequence: UInt8) -> Frame {
        let noon = WallTime("2026-11-20T12:00:00")?.secondsSinceEpoch ?? OneTouch.epoch
        let time = UInt32(noon - OneTouch.epoch) + UInt32(sequence) * 60
        var octets: [UInt8] = [0x06] + (0..<4).map { UInt8(truncatingIfNeeded: time >> (8 * UInt32($0))) }
        octets += [UInt8(truncatingIfNeeded: value), UInt8(truncatingIfNeeded: value >> 8), 0, 0, 0, 0, 0]
        return Frame(
            format: .oneTouchRecord, payload: [sequence, 0] + OneTouchFrame(payload: octets).encoded,
            receivedAt: Instant(rfc3339: "2026-11-21T10:00:00Z") ?? Instant(seconds: 0), ordinal: 0)
    }

    /// Decodes as earlier versions did, which knew no HI and no LO of a OneTouch.
    private struct NumbersDecoder: FrameDecoding {
        /// Whether it knew the model's range.
        let knowsRange: Bool

        func rules(model: String?) -> String { knowsRange ? ModelFrameDecoder().rules(model: model) : "" }

        func decode(_ frame: Frame, model: String?) -> DecodedFrame {
            guard case .record(var record) = ModelFrameDecoder().decode(frame, model: model) else { return .nothing }
            // The second is out of the model's range by more than one step.
            if record.exclusion == .notANumber {
                record.exclusion = knowsRange && frame.payload.first == 2 ? .implausible : nil
            }
            record.status = []
            return .record(record)
        }
    }

    private func readEarlier(_ frames: [Frame], _ directory: String, knowsRange: Bool) async throws {
        let store = try await ReadingStore.open(
            directory: directory, decoder: NumbersDecoder(knowsRange: knowsRange), clientUserID: "white_bear",
            timeZone: "Europe/Berlin")
        try await read(store, "onetouch_verio", frames)
        let excluded = try await excluded(store)
        let expected: [Exclusion] = knowsRange ? [.implausible] : []
        #expect(excluded == expected)
        try store.close()
    }

    @Test("what waits is judged with its status: a OneTouch's HI that an earlier version took for a number")
    func highJudged() async throws {
        let directory = Self.newDirectory()
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let former = [oneTouch(601, sequence: 1), oneTouch(620, sequence: 2), oneTouch(95, sequence: 3)]
        try await readEarlier(former, directory, knowsRange: false)
        let store = try await open(directory)
        #expect(try await waiting(store) == ["95"])
        let readings = try await store.query(ReadingQuery(limit: 100)).readings.filter { $0.excluded == .notANumber }
        #expect(readings.count == 2 && readings.allSatisfy { $0.record.status == .resultTooHigh })
        #expect(try await store.verify().isEmpty)
        try store.close()
    }

    @Test("a OneTouch's HI and LO are none of its numbers; what an earlier version stored of them stays as it was")
    func highAndLow() async throws {
        let directory = Self.newDirectory()
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let former = [oneTouch(601, sequence: 1), oneTouch(620, sequence: 2), oneTouch(95, sequence: 3)]
        try await readEarlier(former, directory, knowsRange: true)
        let store = try await open(directory)
        #expect(try await store.verify().isEmpty)
        try await read(store, "onetouch_verio", former)
        #expect(try await excluded(store) == [.implausible])
        #expect(try await waiting(store) == ["601", "95"])
        try await read(store, "onetouch_verio", [oneTouch(601, sequence: 4), oneTouch(12, sequence: 5)])
        let readings = try await store.query(ReadingQuery(limit: 100)).readings
        func status(_ sequence: UInt16) -> ReadingStatus? {
            readings.first { $0.record.sequence == sequence && $0.excluded == .notANumber }?.record.status
        }
        #expect(readings.count == 5 && status(4) == .resultTooHigh && status(5) == .resultTooLow)
        #expect(try await waiting(store) == ["601", "95"])
        #expect(try await store.verify().isEmpty)
        try store.close()
    }

    private static func newDirectory() -> String {
        FileManager.default.temporaryDirectory.appending(path: "ranges-\(UUID().uuidString)").path
    }

    private func open(_ directory: String, _ catalogue: Catalogue = Catalogue()) async throws -> ReadingStore {
        try await ReadingStore.open(
            directory: directory, decoder: ModelFrameDecoder(catalogue: catalogue), clientUserID: "white_bear",
            timeZone: "Europe/Berlin")
    }

    private func read(_ store: ReadingStore, _ model: String?, _ frames: [Frame]) async throws {
        let contact = try await store.beginContact(
            with: DeviceDescription(address: .device(3), model: model, serial: nil, name: "MyGlucose"),
            at: try #require(Instant(rfc3339: "2026-11-21T09:59:00Z")), clock: nil, batteryPercent: nil)
        _ = try await store.append(frames, of: contact)
        try await store.endContact(contact, ContactSummary(isComplete: true, received: frames.count))
    }

    private func waiting(_ store: ReadingStore) async throws -> [String] {
        var values: [String] = []
        for group in try await store.groupsWaiting() {
            values += try await store.outboxBatch(
                user: group.user, resource: group.resource, provider: group.provider, limit: 100
            ).compactMap {
                if case .glucose(let glucose) = $0.reading.record.value {
                    glucose.concentration?.number.number?.description
                } else {
                    nil
                }
            }
        }
        return values
    }

    private func excluded(_ store: ReadingStore) async throws -> [Exclusion] {
        try await store.query(ReadingQuery(limit: 100)).readings.compactMap(\.excluded)
    }

    private var frames: [Frame] { [frame(13, -5, sequence: 1), frame(95, -5, sequence: 2)] }

    @Test("a device whose model becomes known later: what waits is judged again; what was delivered stays as it is")
    func modelKnownLater() async throws {
        let directory = Self.newDirectory()
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let store = try await open(directory)
        try await read(store, "generic_glucose", frames)
        #expect(try await waiting(store) == ["13", "95"])
        // It is paired, and its name tells the model.
        try await store.notePairing(
            of: DeviceDescription(address: .device(3), model: "myglucose", serial: nil, name: "MyGlucose"), as: .paired)
        #expect(try await waiting(store) == ["95"])
        #expect(try await excluded(store) == [.implausible])
        // Reading the memory again changes nothing.
        try await read(store, "myglucose", frames)
        #expect(try await waiting(store) == ["95"])
        #expect(try await excluded(store) == [.implausible])
        #expect(try await store.verify().isEmpty)
        try store.close()

        let other = Self.newDirectory()
        defer { try? FileManager.default.removeItem(atPath: other) }
        let second = try await open(other)
        try await read(second, "generic_glucose", frames)
        let group = try #require(try await second.groupsWaiting().first)
        let batch = try await second.outboxBatch(
            user: group.user, resource: group.resource, provider: group.provider, limit: 10)
        try await second.acknowledge(batch.map(\.id), at: Instant(seconds: 0))
        try await read(second, "myglucose", frames)
        #expect(try await second.statistics().delivered == 2)
        #expect(try await excluded(second).isEmpty)
        try second.close()
    }

    @Test("a newer program knows the range: what waits is judged when the store opens, and both ways")
    func newerCatalogue() async throws {
        let directory = Self.newDirectory()
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let former = Catalogue(
            models: Catalogue().models.map { model in
                var model = model
                model.ranges = []
                return model
            })
        for round in 0..<2 {
            let older = try await open(directory, former)
            if round == 0 { try await read(older, "myglucose", frames) }
            #expect(try await waiting(older) == ["13", "95"])
            #expect(try await excluded(older).isEmpty)
            try older.close()
            let newer = try await open(directory)
            #expect(try await waiting(newer) == ["95"])
            #expect(try await excluded(newer) == [.implausible])
            #expect(try await newer.verify().isEmpty)
            try newer.close()
        }
    }
}

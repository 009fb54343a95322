import GATTClient
import GATTProfiles
import HealthReadings

@testable import HealthDevices

extension FuzzTarget {
    /// A frame of a model of the catalogue: an octet picks the model, one the characteristic, the value follows.
    static let modelFrame = FuzzTarget(
        "model-frame", longest: 64,
        seeds: { _ in
            let bm85: [UInt8] = [
                0x16, 0x7F, 0x00, 0x4F, 0x00, 0x5F, 0x00, 0xEA, 0x07, 11, 21, 7, 30, 0, 0x00, 0x45, 0x01, 0x00, 0x04,
            ]
            let glucose: [UInt8] = [3, 5, 0, 0xE9, 0x07, 13, 1, 0, 5, 0, 0xC4, 0xFF, 0x5F, 0xB0, 0x11]
            // A spot check and a cuff's record out of a memory: the first of its equals, the characteristic, the value.
            let spot: [UInt8] = [0, 0x5E, 0x2A, 0x11, 97, 0, 72, 0, 0xDF, 0x07, 1, 1, 0, 0, 1]
            let recalled: [[UInt8]] = [[1, 13] + spot, [22, 13, 1, 0x35, 0x2A] + bm85]
            return recalled
                + (0..<24).flatMap { model in [[model, 2] + bm85, [model, 0] + glucose, [model, 1, 2, 5, 0, 6]] }
        }
    ) { octets in
        guard octets.count >= 2 else { return }
        let models = Catalogue().models
        let model = models[Int(octets[0]) % models.count]
        let characteristics: [UInt16] = [0x2A18, 0x2A34, 0x2A35, 0x2A36]
        let format: FrameFormat =
            switch octets[1] {
            case 4: .oneTouchRecord
            case 5: .continuousGlucoseRecord
            case 6: .omronRecord
            case 7: .microlifeRecord
            case 8: .viatomPressure
            case 9: .qardioMessage
            case 10: .o2ringSaturations
            case 11: .o2ringPulses
            case 12: .o2ringMessage
            case 13: .recalledValue
            default: FrameFormat(characteristic: characteristics[Int(octets[1]) % 4])
            }
        let frame = Frame(
            format: format,
            payload: Array(octets.dropFirst(2)), receivedAt: Instant(microseconds: 0), ordinal: 0)
        let decoder = ModelFrameDecoder()
        let decoded = decoder.decode(frame, model: model.id)
        expect(decoded == decoder.decode(frame, model: model.id), "the same frame says two things")
        if case .record(let record) = decoded {
            _ = record.document().text
            if record.exclusion == nil {
                switch record.value {
                case .glucose(let value):
                    expect(value.concentration?.number.number != nil, "a reading without a number is not excluded")
                case .bloodPressure(let value):
                    expect(value.systolic.number.number != nil, "a reading without a number is not excluded")
                default: break
                }
            }
        }
        let formats: [FrameFormat] = [
            .oneTouchRecord, .omronRecord, .microlifeRecord, .viatomPressure, .qardioMessage, .o2ringSaturations,
            .o2ringPulses, .o2ringMessage,
        ]
        if model.quirks.isEmpty, !model.measuresOnCommand, !formats.contains(format) {
            var standard = StandardFrameDecoder().decode(frame, model: nil)
            // What the model can't have measured is excluded.
            if case .record(var record) = standard, let exclusion = model.exclusion(of: record) {
                record.exclusion = exclusion
                standard = .record(record)
            }
            expect(decoded == standard, "a model without quirks is not read by the standard")
        }
    }

    /// A message of a OneTouch meter.
    static let oneTouch = FuzzTarget(
        "onetouch", longest: 64,
        seeds: { _ in
            let payloads: [[UInt8]] = [
                [0x20, 0x02], [0x06, 1, 2, 3, 4], [0x06] + [UInt8](repeating: 1, count: 11), [0x07], [],
            ]
            return payloads.map { OneTouchFrame(payload: $0).encoded }
        }
    ) { octets in
        if let frame = try? OneTouchFrame(decoding: octets) {
            expect(frame.encoded == octets, "a message is not what its encoding says")
        }
        if case .record(let record) = OneTouchRecord.decode([1, 0] + octets) {
            expect(record.exclusion != nil || record.baseTime?.description.isEmpty != true, "a record without text")
            _ = record.document().text
        }
    }

    /// A notification of a continuous sensor: an octet says whether values have checksums, one their type, seven when the
    /// session began; then the notification.
    static let continuousGlucose = FuzzTarget(
        "continuous-glucose", longest: 96,
        seeds: { _ in
            let start: [UInt8] = [0xEA, 0x07, 11, 20, 12, 30, 0]
            let value = ContinuousGlucoseMeasurement(
                concentration: MedFloat16(rawValue: 100), timeOffset: 300, status: 0, calibration: 8, warning: 1,
                trend: MedFloat16(rawValue: 1), quality: MedFloat16(rawValue: 95))
            return [true, false].map { hasChecksum in
                let octets = value.encoded(hasChecksum: hasChecksum)
                return [hasChecksum ? 1 : 0, 0x59] + start + octets + octets
            }
        }
    ) { octets in
        guard octets.count >= 9 else { return }
        let notification = Array(octets.dropFirst(9))
        let parts = ContinuousGlucoseMeasurement.parts(of: notification)
        expect(parts.flatMap(\.self) == notification, "octets of a notification are lost")
        let all = try? ContinuousGlucoseMeasurement.all(in: notification.span.bytes)
        expect(all.map { $0.count == parts.count } ?? true, "a notification is cut in two ways")
        for part in parts {
            let payload = Array(octets.prefix(9)) + part
            let frame = Frame(
                format: .continuousGlucoseRecord, payload: payload, receivedAt: Instant(microseconds: 0), ordinal: 0)
            guard case .record(let record) = StandardFrameDecoder().decode(frame, model: nil) else { continue }
            _ = record.document().text
            guard case .glucose(let value) = record.value else { fatalError("a sensor's value is no glucose") }
            expect(
                record.exclusion != nil || value.concentration?.number.number != nil,
                "a reading without a number is not excluded")
            guard octets[0] & 1 != 0 else { continue }
            var changed = payload
            changed[9 + Int(octets[1]) % part.count] ^= 1
            let other = Frame(
                format: .continuousGlucoseRecord, payload: changed, receivedAt: Instant(microseconds: 0), ordinal: 0)
            if case .record = StandardFrameDecoder().decode(other, model: nil) {
                fatalError("a changed octet passes the checksum")
            }
        }
        // What a sensor says of itself.
        _ = try? ContinuousGlucoseFeature(decoding: notification)
        if let answer = try? ContinuousGlucoseAnswer(decoding: notification) {
            let again = try? ContinuousGlucoseAnswer(decoding: answer.encoded)
            expect(again == answer, "\(answer) is not what its encoding says")
        }
    }

    /// What a strap sends while somebody looks: an octet picks the window; then measurements of 2A37, each behind an octet
    /// of its length and one of how long it took, in tenths of a second, back where the highest bit is set.
    static let strap = FuzzTarget(
        "strap", longest: 512,
        seeds: { _ in
            let beat: [UInt8] = [6, 9, 0x16, 72, 0x66, 0x03, 0x9A, 0x03]
            return [[5] + beat + beat + beat, [60] + beat + [2, 200, 0x04, 0] + beat + beat]
        }
    ) { octets in
        guard let first = octets.first else { return }
        var (rest, now) = (octets.dropFirst(), Int64(1_000_000_000_000))
        var window = HeartRateVariability(windowSeconds: Int(first))
        while rest.count >= 2 {
            let (length, pause) = (Int(rest.removeFirst()), rest.removeFirst())
            now += Int64(pause & 0x7F) * (pause & 0x80 == 0 ? 100_000 : -100_000)
            let value = Array(rest.prefix(length))
            rest = rest.dropFirst(length)
            guard let measurement = try? HeartRateMeasurement(decoding: value) else { continue }
            _ = measurement.record.document().text
            window.add(
                measurement.intervals, at: Instant(microseconds: now), hasContact: measurement.hasContact)
            guard let result = window.result else { continue }
            // Of intervals of 0.2 to 3 s no two are further apart.
            expect(result.count >= 2, "a variability of fewer than two intervals")
            for number in [result.rmssd, result.sdnn] {
                expect((0...2800).contains(number.approximation), "a variability of \(number) ms")
            }
        }
    }

    /// The name and services of an advertisement, and what was found when it was connected.
    static let advertisement = FuzzTarget(
        "advertisement", longest: 64, words: ["meter+", "BLESmart_", "OneTouch", "BM85", "A&D_UA-651BLE", "CareSens"],
        seeds: { _ in ["meter+1", "BM57", "OneTouch 1", "TNG VOICE"].inputs }
    ) { octets in
        let name = String(decoding: octets, as: UTF8.self)
        let advertisement = Advertisement(
            address: nil, name: name, services: octets.first == 1 ? [0x1808] : [], seenAt: Instant(microseconds: 0))
        let catalogue = Catalogue()
        let claimed = catalogue.model(for: advertisement)
        let matching = catalogue.models.contains { $0.names.contains { $0.matches(name) } }
        expect(matching == (claimed?.names.isEmpty == false), "the index and the rules differ on a name")
        let found = catalogue.model(for: advertisement, offering: OfferedServices([]))
        expect(found.map { $0.names.isEmpty } ?? true, "a model without its services is taken at its word")
    }
}

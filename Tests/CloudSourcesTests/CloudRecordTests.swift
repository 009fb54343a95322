import EmulatedCloud
import Foundation
import HealthReadings
import TestSupport
import Testing

@testable import CloudSources

@Suite("A record of a cloud") struct CloudRecordTests {
    private static let date = Date(timeIntervalSince1970: 1_795_176_000)

    private static func samples(
        _ vendor: CloudVendor, _ collection: String, _ json: String, person: String = "ann"
    ) throws -> [String: ImportedSample] {
        let frames = CloudRecord(vendor, collection, Array(json.utf8), person: person)
            .frames(receivedAt: Instant(seconds: 0))
        return try Dictionary(
            uniqueKeysWithValues: frames.map { frame in
                #expect(frame.format == .cloudRecord)
                guard case .imported(let sample) = DecodedFrame(cloudRecord: frame.payload) else {
                    throw Failed()
                }
                #expect(sample.provider == vendor.rawValue && sample.person == person)
                return (sample.recordName?.split(separator: "/").last.map(String.init) ?? "", sample)
            })
    }

    private struct Failed: Error {}

    private func number(_ sample: ImportedSample?, _ part: VitalValue.Part) -> String? {
        guard case .vital(let value)? = sample?.value else { return nil }
        return value[part].map { "\($0.number.number?.description ?? "-") \($0.unit.symbol)" }
    }

    private func kept(_ sample: ImportedSample?) -> KeptSample? {
        guard case .kept(let value)? = sample?.value else { return nil }
        return value
    }

    @Test("a record is its person's, however their name begins", arguments: ["ann", "\u{301}bob", " x", "\u{600}"])
    func people(_ person: String) throws {
        let night = CloudRecords.sleep("n", at: Self.date)
        #expect(try Self.samples(.whoop, "sleep", night, person: person).isEmpty == false)
    }

    @Test("a time zone that can't be read is named; the instant is right all the same")
    func zones() throws {
        let night = CloudRecords.sleep("n", at: Self.date)
        for zone in ["+25:00", "Europe/Berlin", ""] {
            let frames = CloudRecord(
                .whoop, "sleep", Array(night.replacing("+01:00", with: zone).utf8), person: "ann"
            ).frames(receivedAt: Instant(seconds: 0))
            let decoded = frames.map { DecodedFrame(cloudRecord: $0.payload) }
            guard case .imported(let sample)? = decoded.first, case .malformed(let error)? = decoded.last else {
                throw Failed()
            }
            #expect(sample.time.instant == Instant(seconds: 1_795_176_000) && sample.time.utcOffsetMinutes == 0)
            #expect(error.expected == "an offset such as -05:00 in timezone_offset")
        }
    }

    @Test("an end that is none, or before the start, is named", arguments: ["x", "2020-01-01T00:00:00Z", ""])
    func ends(_ end: String) throws {
        let json = #"{"id":"n","start":"2026-11-20T06:30:00Z","end":"\#(end)"}"#
        let frames = CloudRecord(.whoop, "sleep", Array(json.utf8), person: "ann")
            .frames(receivedAt: Instant(seconds: 0))
        #expect(frames.count == 1)
        guard case .malformed(let error)? = frames.first.map({ DecodedFrame(cloudRecord: $0.payload) }) else {
            throw Failed()
        }
        #expect(error.expected == "an end that is a time after its start")
    }

    @Test("a recovery is a variability in milliseconds, a resting heart rate, an oxygenation, and kept itself")
    func recovery() throws {
        let samples = try Self.samples(.whoop, "recovery", CloudRecords.recovery(93845, at: Self.date))
        #expect(samples.count == 4)
        #expect(number(samples["hrv"], .rmssd) == "31.813562 ms")
        // A figure of a night, and no heart rate of a moment: it is delivered nowhere.
        let resting = kept(samples["resting_heart_rate"])
        #expect(resting?.kind == .other && resting?.value.description == "52" && resting?.unit == "bpm")
        #expect(number(samples["spo2"], .saturation) == "95.6875 %")
        #expect(samples["hrv"]?.time.instant == Instant(seconds: 1_795_176_000))
        let record = kept(samples["record"])
        #expect(record?.kind == .other && record?.type == "recovery" && record?.value.description == "66")
        #expect(record?.unit == "%" && record?.metadata["skin_temp_celsius"] == "33.7")
        // One that is not scored yet says nothing.
        #expect(try Self.samples(.whoop, "recovery", CloudRecords.recovery(1, at: Self.date, score: nil)).isEmpty)
        // As a wear service may flatten it.
        let flat = #"{"id":"r","timestamp":"2026-11-20T07:00:00Z","recovery_score":50,"hrv":40,"rhr":55}"#
        let flattened = try Self.samples(.whoop, "recovery", flat)
        #expect(
            number(flattened["hrv"], .rmssd) == "40 ms"
                && kept(flattened["resting_heart_rate"])?.value.description == "55")
    }

    @Test("a night, a workout and a cycle are kept as they came, with their zone")
    func kept() throws {
        let night = try #require(try Self.samples(.whoop, "sleep", CloudRecords.sleep("n", at: Self.date))["record"])
        #expect(night.kind == .sleep && night.time.utcOffsetMinutes == 60 && night.end?.seconds == 1_795_204_800)
        #expect(
            kept(night)?.value.description == "28800"
                && kept(night)?.metadata["total_rem_sleep_time_milli"] == "5879573")
        #expect(kept(night)?.metadata["nap"] == "false" && kept(night)?.metadata["score_state"] == "SCORED")
        let workout = try #require(
            try Self.samples(.whoop, "workouts", CloudRecords.workout("w", at: Self.date))["record"])
        #expect(workout.kind == .activity && workout.time.utcOffsetMinutes == -300)
        #expect(kept(workout)?.type == "workout" && kept(workout)?.metadata["kilojoule"] == "1569.34033203125")
        let cycle = try Self.samples(.whoop, "cycles", CloudRecords.cycle(1, at: Self.date))["record"]
        #expect(kept(cycle)?.type == "cycle" && kept(cycle)?.metadata["strain"] == "5.29")
        #expect(try Self.samples(.whoop, "cycles", CloudRecords.cycle(1, at: Self.date, isOver: false)).isEmpty)
    }

    @Test("Garmin's summaries: steps, nights, variability, weight, oxygenation, pressure, and the rest kept")
    func garmin() throws {
        func samples(_ collection: String, _ members: String) throws -> [String: ImportedSample] {
            try Self.samples(.garmin, collection, CloudRecords.garmin("x-1", at: Self.date, members))
        }
        let daily = try samples(
            "dailies", #""steps":4210,"restingHeartRateInBeatsPerMinute":51,"averageStressLevel":30"#)
        #expect(kept(daily["record"])?.value.description == "4210" && kept(daily["record"])?.unit == "count")
        #expect(daily["record"]?.time.utcOffsetMinutes == 60 && daily["record"]?.end?.seconds == 1_795_176_900)
        #expect(kept(daily["resting_heart_rate"])?.value.description == "51")
        #expect(
            kept(try samples("epochs", #""steps":93,"activityType":"WALKING""#)["record"])?.metadata["activityType"]
                == "WALKING")
        #expect(try samples("sleeps", #""deepSleepDurationInSeconds":3600"#)["record"]?.kind == .sleep)
        #expect(number(try samples("hrv", #""lastNightAvg":44,"weeklyAvg":60"#)["hrv"], .rmssd) == "44 ms")
        // A week's average is no night's.
        #expect(try samples("hrv", #""weeklyAvg":60"#)["hrv"] == nil)
        let body = try samples("bodyComps", #""weightInGrams":70125,"bodyFatInPercent":21.5"#)
        #expect(number(body["weight"], .weight) == "70.125 kg" && number(body["body_fat"], .bodyFat) == "21.5 %")
        #expect(
            number(try samples("pulseox", #""timeOffsetSpo2Values":{"0":97},"onDemand":true"#)["spo2"], .saturation)
                == "97 %")
        #expect(try samples("pulseox", #""timeOffsetSpo2Values":{"0":97,"60":96}"#).keys.sorted() == ["record"])
        let checks = try samples("pulseox", #""timeOffsetSpo2Values":{"0":97,"60":96},"onDemand":true"#)
        #expect(checks.keys.sorted() == ["record", "spo2 0", "spo2 60"])
        #expect(number(checks["spo2 60"], .saturation) == "96 %")
        #expect(checks["spo2 60"]?.time.instant == checks["spo2 0"]?.time.instant.advanced(bySeconds: 60))
        let pressure = try samples("bloodPressures", #""systolic":120,"diastolic":80,"pulse":62"#)
        guard case .bloodPressure(let value)? = pressure["blood_pressure"]?.value else { throw Failed() }
        #expect(value.systolic == Quantity(ExactDecimal(significand: 120), .millimetresOfMercury))
        let snapshot = try samples(
            "healthSnapshot",
            #""summaries":[{"summaryType":"heart_rate","avgValue":64},{"summaryType":"rmssd_hrv","avgValue":38}]"#)
        #expect(number(snapshot["heart_rate"], .heartRate) == "64 bpm" && number(snapshot["hrv"], .rmssd) == "38 ms")
        for collection in ["stressDetails", "userMetrics", "respiration", "skinTemp"] {
            #expect(try samples(collection, #""vo2Max":48.5"#)["record"]?.kind == .other, "\(collection)")
        }
        let day = #"{"summaryId":"u","calendarDate":"2026-11-20","vo2Max":48.5}"#
        let metrics = try Self.samples(.garmin, "userMetrics", day)["record"]
        #expect(metrics?.time.basis == .assumedZone && metrics?.time.uncertaintyMinutes == 720)
    }

    @Test("each value of a spot check has its own time and one reading, however many there are later")
    func spotChecks() throws {
        func record(_ values: String, _ members: String = #","onDemand":true"#) -> CloudRecord {
            let json = CloudRecords.garmin("x-1", at: Self.date, #""timeOffsetSpo2Values":{\#(values)}\#(members)"#)
            return CloudRecord(.garmin, "pulseox", Array(json.utf8), person: "ann")
        }
        /// The seconds from the record's time to each reading that counts once these versions have come.
        func seconds(_ versions: CloudRecord...) throws -> [Int64] {
            var stored: [ReadingID: Int64] = [:]
            for version in versions {
                for retraction in version.retractions(receivedAt: Instant(seconds: 0)) {
                    stored[retraction.reading] = nil
                }
                let json = String(decoding: version.json, as: UTF8.self)
                for sample in try Self.samples(.garmin, "pulseox", json).values where sample.kind == .spo2 {
                    stored[sample.id] = sample.time.instant.seconds - 1_795_176_000
                }
            }
            return stored.values.sorted()
        }
        let (one, two) = (record(#""28800":97"#), record(#""28800":97,"28860":96"#))
        #expect(try seconds(one) == [28_800])
        #expect(try seconds(one, two) == [28_800, 28_860])
        let (first, both) = (record(#""0":97"#), record(#""0":97,"60":96"#))
        #expect(try seconds(first, both) == [0, 60])
        #expect(try seconds(both, first) == [0, 60])
        // Of a night that has only begun the value gives way to the average.
        let night = record(#""28800":97,"28860":96"#, #","averageSpo2":95"#)
        #expect(try seconds(record(#""28800":97"#, ""), night) == [0])
    }

    @Test("each spot check of a day counts: one an hour, and those of the 25th hour")
    func manySpotChecks() throws {
        let seconds = (0..<25).map { Int64($0) * 3600 + 60 }
        let values = seconds.map { #""\#($0)":97"# }.joined(separator: ",")
        let json = CloudRecords.garmin("x-1", at: Self.date, #""timeOffsetSpo2Values":{\#(values)},"onDemand":true"#)
        let checks = try Self.samples(.garmin, "pulseox", json).values.filter { $0.kind == .spo2 }
        #expect(checks.map { $0.time.instant.seconds - 1_795_176_000 }.sorted() == seconds)
    }

    @Test("a health snapshot's offset has another name, and a start may have a fraction")
    func snapshotTimes() throws {
        func time(_ start: String, _ offset: String) throws -> ImportedTime? {
            let json =
                #"{"summaryId":"x-1","calendarDate":"2026-11-20","startTimeInSeconds":\#(start),"#
                + #""durationInSeconds":120,\#(offset),"summaries":[{"summaryType":"heart_rate","avgValue":64}]}"#
            return try Self.samples(.garmin, "healthSnapshot", json)["heart_rate"]?.time
        }
        let expected = ImportedTime(Instant(seconds: 1_795_176_000), utcOffsetMinutes: 120)
        for start in ["1795176000", "1795176000.0", "1795176000.75", "1.795176E9", "1795176000125"] {
            let named = try time(start, #""offsetStartTimeInSeconds":7200"#)
            let usual = try time(start, #""startTimeOffsetInSeconds":7200.0"#)
            #expect(named == expected && usual == expected, "\(start)")
        }
    }

    @Test("a start that can't be read is named, and the record is not placed at the beginning of its day")
    func unreadableStart() throws {
        for start in [#""1795176000""#, "-1", "1e999", "true"] {
            let json =
                #"{"summaryId":"x-1","calendarDate":"2026-11-20","startTimeInSeconds":\#(start),"lastNightAvg":44}"#
            let record = CloudRecord(.garmin, "hrv", Array(json.utf8), person: "ann")
            let frames = record.frames(receivedAt: Instant(seconds: 0))
            guard frames.count == 1, case .malformed(let error) = DecodedFrame(cloudRecord: frames[0].payload) else {
                throw Failed()
            }
            #expect(error.expected == "seconds since 1970 in startTimeInSeconds")
            #expect(record.retractions(receivedAt: Instant(seconds: 0)).isEmpty)
        }
    }

    @Test("a night ends with its last stretch, asleep or awake, and its value is how long the person slept")
    func nights() throws {
        let start = Int64(Self.date.timeIntervalSince1970)
        func night(_ levels: String) throws -> ImportedSample? {
            let members = #""awakeDurationInSeconds":3960,"sleepLevelsMap":{\#(levels)}"#
            let json = CloudRecords.garmin("x-1", at: Self.date, members, seconds: 27_720)
            return try Self.samples(.garmin, "sleeps", json)["record"]
        }
        let whole = try night(
            #""deep":[{"startTimeInSeconds":\#(start),"endTimeInSeconds":\#(start + 27_000)}],"#
                + #""awake":[{"startTimeInSeconds":\#(start + 27_000),"endTimeInSeconds":\#(start + 31_680)}]"#)
        #expect(whole?.end?.seconds == start + 31_680 && kept(whole)?.value.description == "27720")
        for levels in ["", #""deep":[]"#, #""deep":[{"endTimeInSeconds":0}]"#, #""deep":[{"endTimeInSeconds":"x"}]"#] {
            let plain = try night(levels)
            #expect(plain?.end?.seconds == start + 27_720, "\(levels)")
        }
    }

    @Test("a blood pressure that a person typed in says so", arguments: ["MANUAL", "DEVICE"])
    func typed(source: String) throws {
        let members = #""systolic":120,"diastolic":80,"sourceType":"\#(source)""#
        let pressure = try Self.samples(.garmin, "bloodPressures", CloudRecords.garmin("x-1", at: Self.date, members))
        #expect(pressure["blood_pressure"]?.isEntered == (source == "MANUAL"))
    }

    @Test("what is there and is no number is unreadable, and the rest is read; a day without steps has none")
    func noNumbers() throws {
        func decoded(_ vendor: CloudVendor, _ collection: String, _ json: String) -> [DecodedFrame] {
            CloudRecord(vendor, collection, Array(json.utf8), person: "ann").frames(receivedAt: Instant(seconds: 0))
                .map { DecodedFrame(cloudRecord: $0.payload) }
        }
        let text = CloudRecords.recovery(1, at: Self.date).replacing("31.813562", with: #""31.8""#)
        let frames = decoded(.whoop, "recovery", text)
        #expect(frames.count == 4)
        guard case .malformed(let error)? = frames.last else { throw Failed() }
        #expect("\(error)".contains("hrv_rmssd_milli"))
        for steps in [#""steps":null"#, #""calendarDate":"2026-11-20""#] {
            let day = try Self.samples(.garmin, "dailies", CloudRecords.garmin("x", at: Self.date, steps))
            #expect(day.count == 1 && day["record"]?.kind == .other && kept(day["record"])?.value.description == "900")
        }
    }

    @Test("a part that a record lacks is told with the id of the reading that it had, and its frame withdraws that")
    func retractions() throws {
        let json = CloudRecords.recovery(1, at: Self.date, hrv: nil, updated: 60)
        let record = CloudRecord(.whoop, "recovery", Array(json.utf8), person: "ann")
        let former = try Self.samples(.whoop, "recovery", CloudRecords.recovery(1, at: Self.date))
        let retractions = record.retractions(receivedAt: Instant(seconds: 0))
        let hrv = try #require(retractions.first { $0.reading == former["hrv"]?.id })
        #expect(!retractions.contains { $0.reading == former["spo2"]?.id || $0.reading == former["record"]?.id })
        let time = Instant(seconds: Int64(Self.date.timeIntervalSince1970) + 60)
        let withdrawal = EntryWithdrawal(person: "ann", reading: hrv.reading, by: .source(updatedAt: time))
        #expect(DecodedFrame(cloudRecord: hrv.frame.payload) == .withdrawal(withdrawal))
        // Not scored any more: all of it is gone.
        let unscored = CloudRecords.recovery(1, at: Self.date, score: nil, updated: 90)
        let all = CloudRecord(.whoop, "recovery", Array(unscored.utf8), person: "ann")
            .retractions(receivedAt: Instant(seconds: 0)).map(\.reading)
        #expect(Set(all).isSuperset(of: former.values.map(\.id)))
    }

    @Test("the identity is the cloud's own id: another value under it is the same reading, another id or person is not")
    func identity() throws {
        func id(_ json: String, person: String = "ann") throws -> ReadingID? {
            try Self.samples(.whoop, "recovery", json, person: person)["hrv"]?.id
        }
        let first = try id(CloudRecords.recovery(1, at: Self.date))
        #expect(try id(CloudRecords.recovery(1, at: Self.date + 60, hrv: 40)) == first)
        #expect(try id(CloudRecords.recovery(2, at: Self.date)) != first)
        #expect(try id(CloudRecords.recovery(1, at: Self.date), person: "bob") != first)
        let sample = try #require(try Self.samples(.whoop, "sleep", CloudRecords.sleep("n", at: Self.date))["record"])
        #expect(DecodedFrame(importedSample: sample.octets) == .imported(sample))
    }

    @Test("a Garmin summary that covers more is the same record, and newer; a spot check and an epoch are others")
    func grown() throws {
        func sample(_ id: String, _ collection: String = "dailies", seconds: Int) throws -> ImportedSample {
            let json = CloudRecords.garmin(id, at: Self.date, #""steps":1,"lastNightAvg":44"#, seconds: seconds)
            return try #require(try Self.samples(.garmin, collection, json)["record"])
        }
        let (day, noon) = (try sample("x2f-5fe4-15180", seconds: 86_400), try sample("x2f-5fe4-c2c4", seconds: 49_860))
        #expect(day.id == noon.id && day.updatedAt == day.end && noon.updatedAt == noon.end)
        #expect(day.recordName == "dailies/x2f-5fe4-/record" && day.formerName == "dailies/x2f-5fe4-15180/record")
        let former = ImportedSample.id(
            ofRecord: "dailies/x2f-5fe4-15180/record", person: "ann", provider: "garmin", kind: .activity)
        #expect(day.otherIDs == [former])
        // A night may become shorter, so that the last answer counts.
        let night = try sample("x2f-5fe4-7080", "sleeps", seconds: 28_800)
        #expect(night.recordName == "sleeps/x2f-5fe4-/record" && night.updatedAt == nil)
        for (id, collection, seconds) in [
            ("x2f-5fe4-0", "pulseox", 0), ("x2f-5fe4", "pulseox", 86_400), ("x2f-5fe4-6", "epochs", 6),
            ("x2f-5fe4-6", "epochs", 840), ("x2f-384", "hrv", 901),
        ] {
            let other = try sample(id, collection, seconds: seconds)
            #expect(other.recordName == "\(collection)/\(id)/record" && other.formerName == nil)
            #expect(other.updatedAt == nil && other.otherIDs.isEmpty)
        }
    }

    @Test("what can't be read keeps its octets and says why; what is no frame is refused")
    func unreadable() {
        for json in [
            #"{"id":"x"}"#, #"{"start":"2026-11-20T00:00:00Z"}"#, "[]", "{", "", #"{"id":"x","start":"yesterday"}"#,
        ] {
            let frames = CloudRecord(.whoop, "sleep", Array(json.utf8), person: "ann").frames(
                receivedAt: Instant(seconds: 0))
            #expect(frames.count == 1 && frames[0].payload.suffix(json.utf8.count) == Array(json.utf8)[...])
            guard case .malformed = DecodedFrame(cloudRecord: frames[0].payload) else {
                Issue.record("\(json) was read")
                continue
            }
        }
        let frame = CloudRecord(
            .whoop, "sleep", Array(CloudRecords.sleep("n", at: Self.date).utf8), person: "ann"
        ).frames(receivedAt: Instant(seconds: 0))[0]
        for count in frame.payload.indices {
            guard case .malformed = DecodedFrame(cloudRecord: Array(frame.payload[..<count])) else {
                Issue.record("the first \(count) octets were read")
                continue
            }
        }
    }

    @Test("any octets: none traps, and a frame says one thing")
    func mutations() {
        var random = SeededGenerator(seed: 20_261_125)
        let seeds =
            [
                CloudRecords.recovery(1, at: Self.date), CloudRecords.sleep("n", at: Self.date),
                CloudRecords.cycle(3, at: Self.date),
                CloudRecords.garmin("g", at: Self.date, #""steps":1,"timeOffsetSpo2Values":{"0":97}"#),
            ].map { #"{"records":[\#($0)],"cursor":"x"}"# } + ["code=c&state=s", #"{"error":"invalid_grant"}"#]
        let words: [[UInt8]] = [
            "{", "}", "[", "]", "\"", "\\u", "1e999", "-", "null", ",", "\n", "9223372036854775808",
        ]
        .map { Array($0.utf8) }
        for _ in 0..<3000 {
            var octets = Array(seeds.randomElement(using: &random).map { Array($0.utf8) } ?? [])
            for _ in 0..<Int.random(in: 1...5, using: &random) {
                let place = Int.random(in: 0...octets.count, using: &random)
                switch Int.random(in: 0..<4, using: &random) {
                case 0: octets.insert(UInt8.random(in: 0...255, using: &random), at: place)
                case 1 where place < octets.count: octets.remove(at: place)
                case 2: octets.insert(contentsOf: words.randomElement(using: &random) ?? [], at: place)
                default: octets.removeLast(min(octets.count, Int.random(in: 0...20, using: &random)))
                }
            }
            #expect(readCloudAnswer([0] + octets) == nil)
        }
    }
}

import GATTProfiles
import HealthReadings
import Testing

/// The CGM service's values (Continuous Glucose Monitoring Service 1.0.2), from octets written by hand.
@Suite struct ContinuousGlucoseTests {
    private func payload(
        _ value: String, checksum: Bool = false, type: UInt8 = 0x59, start: String = "EA070B140C1E00"
    ) -> [UInt8] {
        [checksum ? 1 : 0, type] + hex(start) + hex(value)
    }

    private func decode(_ payload: [UInt8]) -> DecodedFrame {
        StandardFrameDecoder().decode(
            Frame(
                format: .continuousGlucoseRecord, payload: payload, receivedAt: Instant(seconds: 0), ordinal: 0),
            model: nil)
    }

    private func record(_ payload: [UInt8]) throws -> Record {
        guard case .record(let record) = decode(payload) else { throw NotARecord(decoded: decode(payload)) }
        return record
    }

    private func described(_ characteristic: UInt16, _ octets: String) throws -> String? {
        try StandardFrameDecoder().describe(characteristic: characteristic, octets: hex(octets))?.text
    }

    // MARK: Checksum

    @Test("the checksum is the specification's: its own example, and the catalogue's of CRC algorithms")
    func checksum() throws {
        #expect(ContinuousGlucoseChecksum.appended(to: hex("3E 010203040506070809")).suffix(2) == hex("01 2F"))
        #expect(ContinuousGlucoseChecksum.of(Array("123456789".utf8)) == 0x6F91)
    }

    @Test("no changed octet passes the checksum")
    func changed() {
        forAll(300) { generator in
            let value = generator.octets(Int.random(in: 1...13, using: &generator))
            var octets = ContinuousGlucoseChecksum.appended(to: value)
            guard (try? ContinuousGlucoseChecksum.checked(octets, "x")) == value else { return false }
            octets[Int.random(in: octets.indices, using: &generator)] ^= 1 << UInt8.random(in: 0...7, using: &generator)
            return (try? ContinuousGlucoseChecksum.checked(octets, "x")) == nil
        }
    }

    // MARK: Values

    @Test("a value with everything: 120.5 mg/dL at minute 300, falling, of good quality")
    func whole() throws {
        let value = try ContinuousGlucoseMeasurement(decoding: hex("0D E3 B5F4 2C01 01 08 02 83EF 5F00"))
        #expect(value.concentration.number == decimal(1205, -1) && value.timeOffset == 300)
        #expect(value.trend?.number == decimal(-125, -2) && value.quality?.number == decimal(95))
        #expect(
            value.annunciation.readingStatus.names == [
                "session_stopped", "calibration_required", "above_patient_high",
            ])
    }

    @Test("what a Roche sensor has sent is read as another program shows it, and its checksum holds")
    func logged() throws {
        // Android-nRF-Connect's issue 174: 115 mg/dL at minute 300, with trend, quality and the annunciation's second octet.
        let octets = hex("0D 43 7300 2C01 03 2400 1A00 3E04")
        #expect(ContinuousGlucoseChecksum.appended(to: Array(octets.dropLast(2))) == octets)
        let value = try ContinuousGlucoseMeasurement(decoding: octets)
        #expect(value.concentration.number == decimal(115) && value.timeOffset == 300)
        #expect(value.trend?.number == decimal(36) && value.quality?.number == decimal(26))
        let record = try record(payload("", checksum: true) + octets)
        #expect(record.sequence == 300 && record.exclusion == nil)
        #expect(record.status.names == ["time_synchronization_required", "calibration_not_allowed"])
    }

    @Test("each bit of the annunciation has its name, in its octet; reserved bits have none")
    func annunciation() {
        func names(_ status: UInt8, _ calibration: UInt8, _ warning: UInt8) -> [String] {
            ContinuousGlucoseAnnunciation(status: status, calibration: calibration, warning: warning).readingStatus
                .names
        }
        let status = [
            "session_stopped", "device_battery_low", "sensor_type_incorrect", "sensor_malfunction",
            "device_specific_alert", "general_fault",
        ]
        let calibration = [
            "time_synchronization_required", "calibration_not_allowed", "calibration_recommended",
            "calibration_required", "temperature_too_high", "temperature_too_low",
        ]
        let warning = [
            "below_patient_low", "above_patient_high", "below_hypo", "above_hyper", "rate_of_decrease_exceeded",
            "rate_of_increase_exceeded", "result_too_low", "result_too_high",
        ]
        for bit in 0..<8 {
            #expect(names(1 << bit, 0, 0) == (bit < 6 ? [status[bit]] : []))
            #expect(names(0, 1 << bit, 0) == (bit < 6 ? [calibration[bit]] : []))
            #expect(names(0, 0, 1 << bit) == [warning[bit]])
        }
    }

    @Test("feature, status, start, run time and control point are described with all keys")
    func descriptions() throws {
        #expect(
            try described(0x2AA8, "01 80 01 59 FFFF")
                == #"{"features":["calibration","trend_information","quality"],"sample_type":"interstitial_fluid","sample_location":"subcutaneous_tissue"}"#
        )
        #expect(
            try described(0x2AA9, "0A00 01 01 00")
                == #"{"time_offset_minutes":10,"status":["session_stopped","time_synchronization_required"]}"#)
        #expect(
            try described(0x2AAA, "EA07091C0E051E EC 04")
                == #"{"date_time":"2026-09-28T14:05:30","time_zone_minutes":-300,"dst_offset_minutes":60}"#)
        #expect(try described(0x2AAB, "F000") == #"{"session_run_time_hours":240}"#)
        #expect(
            try described(0x2AAC, "03 05")
                == #"{"response":"communication_interval","communication_interval_minutes":5,"level":null,"request_op_code":null,"response_code":null}"#
        )
        #expect(
            try described(0x2AAC, "15 1EF0")
                == #"{"response":"rate_of_decrease_alert_level","communication_interval_minutes":null,"level":{"value":3.0,"unit":"mg/dL/min"},"request_op_code":null,"response_code":null}"#
        )
        #expect(
            try described(0x2AAC, "1C 02 01")
                == #"{"response":"response_code","communication_interval_minutes":null,"level":null,"request_op_code":2,"response_code":1}"#
        )
        #expect(throws: MalformedFrame.self) { try ContinuousGlucoseAnswer(decoding: hex("02")) }
    }

    @Test("decode(encode(x)) == x")
    func roundTrip() throws {
        try forAll(500) { generator in
            let feature = ContinuousGlucoseFeature(
                rawValue: UInt32.random(in: 0...0xFF_FFFF, using: &generator), typeAndLocation: generator.octet())
            let status = ContinuousGlucoseStatus(
                timeOffset: generator.word(),
                annunciation: .init(rawValue: UInt32.random(in: 0...0xFF_FFFF, using: &generator)))
            let runTime = ContinuousGlucoseRunTime(hours: generator.word())
            let question = ContinuousGlucoseQuestion.allCases.randomElement(using: &generator)
            let answer: ContinuousGlucoseAnswer =
                switch question {
                case .communicationInterval?: .communicationInterval(generator.octet())
                case let alert?: .level(alert, generator.decimal())
                case nil: .response(requestOpCode: generator.octet(), code: generator.octet())
                }
            let record = ContinuousGlucoseRecord(
                hasChecksum: Bool.random(using: &generator), typeAndLocation: generator.octet(),
                sessionStart: generator.dateTime(), value: generator.octets(Int.random(in: 0...15)))
            return try ContinuousGlucoseFeature(decoding: feature.encoded) == feature
                && ContinuousGlucoseStatus(decoding: status.encoded) == status
                && ContinuousGlucoseRunTime(decoding: runTime.encoded) == runTime
                && ContinuousGlucoseAnswer(decoding: answer.encoded) == answer
                && ContinuousGlucoseRecord(payload: record.payload) == record
        }
    }

    @Test("a feature that promises checksums and has a wrong one is refused; without, FFFF stands there")
    func featureChecksum() throws {
        let feature = ContinuousGlucoseFeature(rawValue: ContinuousGlucoseFeature.checksums, typeAndLocation: 0x59)
        var octets = feature.encoded
        #expect(try ContinuousGlucoseFeature(decoding: octets).hasChecksums)
        octets[3] ^= 1
        #expect(throws: MalformedFrame.self) { try ContinuousGlucoseFeature(decoding: octets) }
        #expect(ContinuousGlucoseFeature(rawValue: 0, typeAndLocation: 1).encoded == hex("000000 01 FFFF"))
    }

    @Test("a notification's values are told apart by their sizes; what is no value is the last")
    func parts() {
        func parts(_ text: String) -> [[UInt8]] { ContinuousGlucoseMeasurement.parts(of: hex(text)).map(Array.init) }
        let (one, other) = ("06 00 6400 0500", "08 01 6900 0A00 0100")
        #expect(parts(one) == [hex(one)] && parts(one + other) == [hex(one), hex(other)])
        #expect(parts("") == [[]] && parts("05 00 6400 05") == [hex("05 00 6400 05")])
        #expect(parts(one + "07 00 64") == [hex(one), hex("07 00 64")])
        forAll(500) { generator in
            let octets = generator.octets(Int.random(in: 1...40, using: &generator))
            return ContinuousGlucoseMeasurement.parts(of: octets).flatMap(\.self) == octets
        }
    }

    // MARK: Records

    @Test("a record's number is its minute, its base time the session's start and that minute")
    func records() throws {
        let record = try record(payload("0A 03 6400 2C01 F5EF 5F00"))
        #expect(record.sequence == 300 && record.baseTime?.description == "2026-11-20T17:30:00")
        #expect(record.timeOffsetMinutes == nil && record.exclusion == nil && record.status == [])
        let text = record.document().text
        #expect(text.contains(#""glucose":{"value":100,"unit":"mg/dL"},"sample_type":"interstitial_fluid""#))
        #expect(text.contains(#""sample_location":"subcutaneous_tissue","context":null,"trend":{"value":-0.11,"#))
        #expect(text.contains(#""unit":"mg/dL/min"},"quality":{"value":95,"unit":"%"}"#))
    }

    @Test("without a session's start there is no time; without a feature no type")
    func unknown() throws {
        let record = try record(payload("06 00 6400 2C01", type: 0xFF, start: "00000000000000"))
        #expect(record.sequence == 300 && record.baseTime == nil && record.deviceTime == nil)
        guard case .glucose(let value) = record.value else {
            Issue.record("\(record.value)")
            return
        }
        #expect(value.sampleType == nil && value.sampleLocation == nil && value.continuous != nil)
    }

    @Test(
        "promise 6: what is no value of a person is never delivered",
        arguments: [
            ("06 00 FF07 0500", Exclusion.notANumber), ("06 00 0008 0500", .notANumber),
            ("06 00 0000 0500", .implausible), ("07 80 6400 0500 01", .errorRecord),
            ("07 80 6400 0500 04", .errorRecord), ("07 80 6400 0500 08", .errorRecord),
            ("07 80 6400 0500 20", .errorRecord), ("07 80 6400 0500 02", nil), ("07 80 6400 0500 10", nil),
            ("07 40 6400 0500 3F", nil), ("07 20 6400 0500 FF", nil),
        ] as [(String, Exclusion?)])
    func excluded(value: String, reason: Exclusion?) throws {
        #expect(try record(payload(value)).exclusion == reason)
        #expect(try record(payload("06 00 6400 0500", type: 0x4A)).exclusion == .controlSolution)
    }

    @Test("a value with a checksum is checked, one whose checksum was left out is refused, and its octets are kept")
    func checked() throws {
        let value = ContinuousGlucoseMeasurement(
            concentration: MedFloat16(rawValue: 100), timeOffset: 5, trend: MedFloat16(rawValue: 1))
        let whole = value.encoded(hasChecksum: true)
        #expect(whole.count == 10 && whole[0] == 10)
        let lead = payload("", checksum: true)
        #expect(try record(lead + whole).sequence == 5)
        for place in whole.indices {
            var changed = whole
            changed[place] ^= 0x01
            guard case .malformed = decode(lead + changed) else {
                Issue.record("octet \(place) may change")
                continue
            }
        }
        guard case .malformed(let error) = decode(lead + value.encoded) else {
            Issue.record("a value without its checksum is accepted")
            return
        }
        #expect(error.subject == "CGM Measurement (2AA7)")
        // Who says that there are none gets the two octets passed over.
        #expect(try record(payload("") + whole).sequence == 5)
    }

    @Test("promise 5: short payloads are refused by name")
    func short() throws {
        let whole = payload("0F E3 6400 0500 00 00 00 0100 0100 0000")
        for length in 0..<whole.count {
            guard case .malformed = decode(Array(whole.prefix(length))) else {
                Issue.record("\(length) octets are a record")
                return
            }
        }
        #expect(try record(whole).sequence == 5)
    }
}

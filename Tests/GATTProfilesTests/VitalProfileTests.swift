import GATTProfiles
import HealthReadings
import Testing

@Suite("heart rate, oximeters, thermometers, scales and continuous glucose")
struct VitalProfileTests {
    /// decode(encode(x)) == x, also with reserved octets behind where a value has an end.
    private func check<Value: CharacteristicCoding>(
        hasEnd: Bool = true, _ make: @escaping (inout SeededGenerator) -> Value
    ) throws {
        try forAll { generator in
            let value = make(&generator)
            let longer = value.encoded + generator.octets(hasEnd ? Int.random(in: 1...8, using: &generator) : 0)
            return try Value(decoding: value.encoded) == value && Value(decoding: longer) == value
        }
    }

    private static func status(_ generator: inout SeededGenerator) -> PulseOximeterStatus {
        PulseOximeterStatus(
            measurement: generator.maybe { $0.word() },
            device: generator.maybe { UInt32(truncatingIfNeeded: $0.next()) })
    }

    private static func pair(_ generator: inout SeededGenerator) -> SaturationAndPulse {
        SaturationAndPulse(saturation: generator.decimal(), pulseRate: generator.decimal())
    }

    @Test("2A37") func heartRate() throws {
        try check(hasEnd: false) { generator in
            let isWide = Bool.random(using: &generator)
            return HeartRateMeasurement(
                beatsPerMinute: isWide ? generator.word() : UInt16(generator.octet()), isWide: isWide,
                hasContact: generator.maybe { Bool.random(using: &$0) }, energyExpended: generator.maybe { $0.word() },
                intervals: (0..<Int.random(in: 0...9, using: &generator)).map { _ in generator.word() })
        }
    }

    @Test("2A5E") func spotCheck() throws {
        try check { generator in
            PulseOximeterSpotCheck(
                value: Self.pair(&generator), timeStamp: generator.maybe { $0.dateTime() },
                status: Self.status(&generator), pulseAmplitudeIndex: generator.maybe { $0.decimal() },
                clockIsNotSet: Bool.random(using: &generator))
        }
    }

    @Test("2A5F") func continuous() throws {
        try check { generator in
            PulseOximeterContinuous(
                normal: Self.pair(&generator), fast: generator.maybe { Self.pair(&$0) },
                slow: generator.maybe { Self.pair(&$0) }, status: Self.status(&generator),
                pulseAmplitudeIndex: generator.maybe { $0.decimal() })
        }
    }

    @Test("2A1C") func temperature() throws {
        try check { generator in
            TemperatureMeasurement(
                temperature: MedFloat32(rawValue: UInt32(truncatingIfNeeded: generator.next())),
                isFahrenheit: Bool.random(using: &generator), timeStamp: generator.maybe { $0.dateTime() },
                site: generator.maybe { $0.octet() })
        }
    }

    @Test("2A9D") func weight() throws {
        try check { generator in
            WeightMeasurement(
                isImperial: Bool.random(using: &generator), rawWeight: generator.word(),
                timeStamp: generator.maybe { $0.dateTime() }, userID: generator.maybe { $0.octet() },
                stature: generator.maybe { .init(bodyMassIndex: $0.word(), height: $0.word()) })
        }
    }

    @Test("2A9C") func bodyComposition() throws {
        try check { generator in
            var fields: [BodyCompositionMeasurement.Field: UInt16] = [:]
            for field in BodyCompositionMeasurement.Field.allCases { fields[field] = generator.maybe { $0.word() } }
            return BodyCompositionMeasurement(
                isImperial: Bool.random(using: &generator), rawBodyFat: generator.word(),
                timeStamp: generator.maybe { $0.dateTime() }, userID: generator.maybe { $0.octet() }, fields: fields,
                goesOn: Bool.random(using: &generator))
        }
    }

    private static func glucose(_ generator: inout SeededGenerator) -> ContinuousGlucoseMeasurement {
        ContinuousGlucoseMeasurement(
            concentration: generator.decimal(), timeOffset: generator.word(), status: generator.maybe { $0.octet() },
            calibration: generator.maybe { $0.octet() }, warning: generator.maybe { $0.octet() },
            trend: generator.maybe { $0.decimal() }, quality: generator.maybe { $0.decimal() })
    }

    @Test("2AA7, one and several in a notification, with and without a checksum") func continuousGlucose() throws {
        try check { Self.glucose(&$0) }
        try forAll { generator in
            let values = (0..<Int.random(in: 1...3, using: &generator)).map { _ in Self.glucose(&generator) }
            let hasChecksum = Bool.random(using: &generator)
            let octets = values.flatMap { value in
                var octets = value.encoded
                if hasChecksum { octets = [octets[0] + 2] + octets.dropFirst() + generator.octets(2) }
                return octets
            }
            return try ContinuousGlucoseMeasurement.all(in: octets.span.bytes) == values
        }
    }

    @Test("2AAA") func sessionStart() throws {
        try check {
            ContinuousGlucoseSessionStart(
                dateTime: $0.dateTime(),
                zone: LocalTimeInformation(timeZone: Int8(bitPattern: $0.octet()), dstOffset: $0.octet()))
        }
    }

    @Test(
        "values as published are described with all keys",
        arguments: [
            (
                0x2A37, "16 48 00 04 9A 03",
                #"{"heart_rate":{"value":72,"unit":"bpm"},"rr_ms":[1000.00,900.39],"contact":true,"energy_kj":null}"#
            ),
            (
                0x2A37, "05 2C01",
                #"{"heart_rate":{"value":300,"unit":"bpm"},"rr_ms":[],"contact":false,"energy_kj":null}"#
            ),
            (
                0x2A37, "08 50 6400",
                #"{"heart_rate":{"value":80,"unit":"bpm"},"rr_ms":[],"contact":null,"energy_kj":100}"#
            ),
            (
                0x2A5F, "00 6100 4800",
                #"{"spo2":{"value":97,"unit":"%"},"pulse":{"value":72,"unit":"bpm"},"fast":null,"slow":null,"status":[],"pulse_amplitude_index":null}"#
            ),
            (
                0x2A5E, "07 D1F3 FF07 EA070B140C1E00 0080 008000",
                #"{"spo2":{"value":97.7,"unit":"%"},"pulse":null,"date_time":"2026-11-20T12:30:00","status":["invalid_measurement","sensor_disconnected"],"pulse_amplitude_index":null}"#
            ),
            (
                0x2A1C, "06 6E0100FF EA070B140C1E00 03",
                #"{"temperature":{"value":36.6,"unit":"°C"},"date_time":"2026-11-20T12:30:00","site":"ear"}"#
            ),
            (0x2A1C, "01 FFFF7F00", #"{"temperature":null,"date_time":null,"site":null}"#),
            (
                0x2A9D, "0C 1437 02 E600 2A07",
                #"{"weight":{"value":70.500,"unit":"kg"},"date_time":null,"user":2,"body_mass_index":23.0,"height":{"value":1.834,"unit":"m"}}"#
            ),
            (0x2A9D, "01 FFFF", #"{"weight":null,"date_time":null,"user":null,"body_mass_index":null,"height":null}"#),
            (
                0x2AA7, "06 00 6400 0500",
                #"{"measurements":[{"glucose":{"value":100,"unit":"mg/dL"},"time_offset_minutes":5,"status":null,"calibration":null,"warning":null,"trend":null,"quality":null}]}"#
            ),
        ] as [(UInt16, String, String)])
    func described(characteristic: UInt16, octets: String, text: String) throws {
        #expect(try StandardFrameDecoder().describe(characteristic: characteristic, octets: hex(octets))?.text == text)
    }

    @Test("a composition has each field with its unit, null where it was not sent")
    func composition() throws {
        let octets = hex("1804 E100 401F 5802 B80B")
        let value = try BodyCompositionMeasurement(decoding: octets)
        #expect(value.bodyFat == Quantity(ExactDecimal(significand: 225, exponent: -1), .percent))
        #expect(value.quantity(.basalMetabolism) == Quantity(ExactDecimal(significand: 8000), .kilojoules))
        #expect(value.quantity(.musclePercentage)?.number.number?.description == "60.0")
        #expect(value.quantity(.weight)?.number.number?.description == "15.000" && value.quantity(.height) == nil)
    }

    @Test("promise 5: a short value is refused by name; sizes that cannot be are too")
    func short() {
        for (characteristic, whole): (UInt16, String) in [
            (0x2A37, "09 4800 6400"), (0x2A5E, "0F 6100 4800 EA070B140C1E00 0000 000000 0100"),
            (0x2A5F, "1F 6100 4800 6100 4800 6100 4800 0000 000000 0100"), (0x2A1C, "06 6E0100FF EA070B140C1E00 03"),
            (0x2A9D, "0E 1437 EA070B140C1E00 02 E600 2A07"),
            (0x2A9C, "FE0F E100 EA070B140C1E00 01" + " 0100" + String(repeating: " 0100", count: 8)),
            (0x2AA7, "0F E3 6400 0500 00 00 00 0100 0100 0000"),
        ] {
            let octets = hex(whole)
            for length in 0..<octets.count {
                guard characteristic != 0x2AA7 || length > 0 else { continue }
                #expect(throws: MalformedFrame.self, "\(whole) cut to \(length)") {
                    try StandardFrameDecoder().describe(
                        characteristic: characteristic, octets: Array(octets.prefix(length)))
                }
            }
            #expect(throws: Never.self) {
                try StandardFrameDecoder().describe(characteristic: characteristic, octets: octets)
            }
        }
        for octets in ["", "05 00 6400 0500", "07 00 6400 0500", "06 01 6400 0500", "00 00 6400 0500 00"] {
            #expect(throws: MalformedFrame.self) {
                try ContinuousGlucoseMeasurement.all(in: hex(octets).span.bytes)
            }
        }
    }

    @Test("promise 6: what an oximeter or sensor calls no value is known as such")
    func noValue() {
        #expect(
            PulseOximeterStatus(measurement: 1 << 15).saysNoValue && PulseOximeterStatus(device: 1 << 14).saysNoValue)
        #expect(!PulseOximeterStatus(measurement: 1 << 7, device: 1 << 4).saysNoValue)
        #expect(PulseOximeterStatus(measurement: 1 << 7).names == ["validated_data"])
        var value = ContinuousGlucoseMeasurement(
            concentration: MedFloat16(rawValue: 100), timeOffset: 0, status: 0x02)
        #expect(!value.saysNoValue)
        value.status = 0x08
        #expect(value.saysNoValue)
    }
}

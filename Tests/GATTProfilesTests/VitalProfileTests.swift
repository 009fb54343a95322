import GATTProfiles
import HealthReadings
import TestSupport
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

    /// What a reading's document shows of a record's values.
    private func shown(_ characteristic: UInt16, _ octets: String) throws -> String {
        guard case .object(let members) = try record(characteristic, octets).document() else { return "" }
        let keys = Set([
            "kind", "heart_rate", "rr_ms", "contact", "spo2", "pulse", "temperature", "site", "weight",
            "body_mass_index", "height", "base_time", "user", "excluded",
        ])
        return JSONValue.object(members.filter { keys.contains($0.key) }).text
    }

    @Test(
        "values as published are records with all keys",
        arguments: [
            (
                0x2A37, "16 48 0004 9A03",
                #"{"kind":"heart_rate","base_time":null,"heart_rate":{"value":72,"unit":"bpm"},"rr_ms":[1000.00,900.39],"contact":true,"user":null,"excluded":null}"#
            ),
            (
                0x2A37, "05 2D01",
                #"{"kind":"heart_rate","base_time":null,"heart_rate":{"value":301,"unit":"bpm"},"rr_ms":[],"contact":false,"user":null,"excluded":"implausible"}"#
            ),
            (
                0x2A37, "08 00 6400",
                #"{"kind":"heart_rate","base_time":null,"heart_rate":{"value":0,"unit":"bpm"},"rr_ms":[],"contact":null,"user":null,"excluded":"no_value"}"#
            ),
            (
                0x2A5F, "00 6100 4800",
                #"{"kind":"spo2","base_time":null,"spo2":{"value":97,"unit":"%"},"pulse":{"value":72,"unit":"bpm"},"user":null,"excluded":null}"#
            ),
            (
                0x2A5E, "07 D1F3 FF07 EA070B140C1E00 0080 008000",
                #"{"kind":"spo2","base_time":"2026-11-20T12:30:00","spo2":{"value":97.7,"unit":"%"},"pulse":null,"user":null,"excluded":"error_record"}"#
            ),
            (
                0x2A1C, "06 6E0100FF EA070B140C1E00 03",
                #"{"kind":"temperature","base_time":"2026-11-20T12:30:00","temperature":{"value":36.6,"unit":"°C"},"site":"ear","user":null,"excluded":null}"#
            ),
            (
                0x2A1C, "01 FFFF7F00",
                #"{"kind":"temperature","base_time":null,"temperature":null,"site":null,"user":null,"excluded":"not_a_number"}"#
            ),
            (
                0x2A1C, "01 E70300FF",
                #"{"kind":"temperature","base_time":null,"temperature":{"value":99.9,"unit":"°F"},"site":null,"user":null,"excluded":null}"#
            ),
            (
                0x2A9D, "0C 1437 02 E600 2A07",
                #"{"kind":"weight","base_time":null,"weight":{"value":70.500,"unit":"kg"},"body_mass_index":23.0,"height":{"value":1.834,"unit":"m"},"user":2,"excluded":null}"#
            ),
            (
                0x2A9D, "01 FFFF",
                #"{"kind":"weight","base_time":null,"weight":null,"body_mass_index":null,"height":null,"user":null,"excluded":"error_record"}"#
            ),
        ] as [(UInt16, String, String)])
    func records(characteristic: UInt16, octets: String, text: String) throws {
        #expect(try shown(characteristic, octets) == text)
    }

    @Test("a continuous sensor's values are described with all keys")
    func describedGlucose() throws {
        let text =
            #"{"measurements":[{"glucose":{"value":100,"unit":"mg/dL"},"time_offset_minutes":5,"status":[],"trend":null,"quality":null}]}"#
        #expect(
            try StandardFrameDecoder().describe(characteristic: 0x2AA7, octets: hex("06 00 6400 0500"))?.text == text)
    }

    @Test(
        "promise 6: ranges of what can be a person's have a source, and beyond them values are implausible",
        arguments: [
            (0x2A37, "00 13", false), (0x2A37, "00 14", true), (0x2A37, "01 2C01", true), (0x2A37, "01 2D01", false),
            (0x2A5F, "00 0000 4800", false), (0x2A5F, "00 0100 4800", true), (0x2A5F, "00 6400 4800", true),
            (0x2A5F, "00 6500 4800", false), (0x2A1C, "00 0C000000", false), (0x2A1C, "00 0D000000", true),
            (0x2A1C, "00 2F000000", true), (0x2A1C, "00 30000000", false), (0x2A9D, "00 2700", false),
            (0x2A9D, "00 2800", true), (0x2A9C, "0000 0900", false), (0x2A9C, "0000 0A00", true),
            (0x2A9C, "0000 5303", false),
        ] as [(UInt16, String, Bool)])
    func plausible(characteristic: UInt16, octets: String, isPlausible: Bool) throws {
        #expect(try record(characteristic, octets).exclusion == (isPlausible ? nil : .implausible), "\(octets)")
        // What is kept as it came is not judged.
        let judged = ReadingKind.allCases.filter { !$0.isKept }
        #expect(Set(Plausibility.stated.map(\.kind)) == Set(judged))
        #expect(Plausibility.stated.allSatisfy { !$0.source.isEmpty })
    }

    @Test(
        "promise 6: a variability of the heart rate is at most as far as two beats can differ",
        arguments: [(-1, false), (0, true), (2800, true), (2801, false)] as [(Int64, Bool)])
    func variability(milliseconds: Int64, isPlausible: Bool) {
        let value = VitalValue(
            kind: .hrv, [.init(.rmssd, Quantity(ExactDecimal(significand: milliseconds), .milliseconds))])
        #expect(Plausibility.isPlausible(value) == isPlausible)
    }

    @Test("promise 6: of any frame, what stands beside the main value is within its stated range, or no number")
    func secondary() {
        func quantities(_ record: Record) -> [(SecondaryQuantity, Quantity?)] {
            switch record.value {
            case .glucose(let glucose):
                return [(.trend, glucose.continuous?.trend), (.quality, glucose.continuous?.quality)]
            case .bloodPressure(let pressure):
                return [(.meanPressure, pressure.meanArterial), (.pulse, pressure.pulse)]
            case .vital(let vital):
                let parts: [(SecondaryQuantity, VitalValue.Part)] = [
                    (.bodyMassIndex, .bodyMassIndex), (.height, .height), (.basalMetabolism, .basalMetabolism),
                    (.musclePercentage, .musclePercentage), (.mass, .muscleMass), (.mass, .fatFreeMass),
                    (.mass, .softLeanMass), (.mass, .bodyWaterMass), (.impedance, .impedance), (.pulse, .pulse),
                ]
                return parts.map { ($0, vital[$1]) }
            case .kept: return []
            }
        }
        func isWithin(_ quantity: SecondaryQuantity, _ measured: Quantity?) -> Bool {
            guard let measured, let number = measured.number.number else { return true }
            guard let bounds = quantity.bounds(in: measured.unit) else { return false }
            return !number.isNumericallyLess(than: bounds.lowest) && !bounds.highest.isNumericallyLess(than: number)
        }
        forAll { generator in
            let octets = generator.octets(30)
            return ([0x2A35, 0x2A5E, 0x2A5F, 0x2A9D, 0x2A9C] as [UInt16]).allSatisfy { characteristic in
                guard case .record(let record) = decode(characteristic, octets) else { return true }
                return quantities(record).allSatisfy { isWithin($0.0, $0.1) }
            }
        }
        forAll { generator in
            guard case .glucoseContext(_, let context) = decode(0x2A34, generator.octets(20)) else { return true }
            return isWithin(.carbohydrate, context.carbohydrate?.amount) && isWithin(.hba1c, context.hba1c)
                && isWithin(.medication, context.medication?.amount)
        }
        for quantity in SecondaryQuantity.allCases {
            #expect(!quantity.bounds.isEmpty && !quantity.source.isEmpty, "\(quantity)")
        }
        #expect(Plausibility.statedBeside.count == SecondaryQuantity.allCases.count)
    }

    @Test("each pattern of SFLOAT is scaled, compared and written without a trap")
    func everyShortFloat() {
        for pattern in UInt16.min ... .max {
            guard let number = MedFloat16(rawValue: pattern).number.scaled(byPowerOfTen: 6).number else { continue }
            #expect(number.description.utf8.count < 32 && number.isNumericallyEqual(to: number))
            #expect(
                number.isNumericallyLess(than: ExactDecimal(significand: 1))
                    == (number.significand <= 0 || number.approximation < 1))
        }
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

    @Test("what a Beurer BF105 and a BF600 have sent is read (openScale's issues 635 and 219)")
    func logged() throws {
        let composition = try BodyCompositionMeasurement(decoding: hex("9803 C500 A01B 7C01 3C2F 7420 5212"))
        #expect(composition.bodyFat == Quantity(ExactDecimal(significand: 197, exponent: -1), .percent))
        for (field, digits) in [
            (.basalMetabolism, "7072"), (.musclePercentage, "38.0"), (.softLeanMass, "60.460"),
            (.bodyWaterMass, "41.540"), (.impedance, "469.0"),
        ] as [(BodyCompositionMeasurement.Field, String)] {
            #expect(composition.quantity(field)?.number.number?.description == digits)
        }
        let weight = try record(0x2A9D, "0E F22F E507071715211F 02 D400 A406")
        #expect(weight.baseTime?.description == "2021-07-23T21:33:31" && weight.userSlot == 2)
        let text = weight.document().text
        #expect(text.contains(#""weight":{"value":61.370,"unit":"kg"},"body_mass_index":21.2"#))
        #expect(text.contains(#""height":{"value":1.700,"unit":"m"}"#))
    }

    private func isRefused(_ characteristic: UInt16, _ octets: [UInt8]) -> Bool {
        if characteristic == 0x2AA7 { return (try? ContinuousGlucoseMeasurement.all(in: octets.span.bytes)) == nil }
        return malformed(characteristic, octets) != nil
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
                #expect(isRefused(characteristic, Array(octets.prefix(length))), "\(whole) cut to \(length)")
            }
            #expect(!isRefused(characteristic, octets))
        }
        for octets in ["", "05 00 6400 0500", "07 00 6400 0500", "06 01 6400 0500", "00 00 6400 0500 00"] {
            #expect(throws: MalformedFrame.self) {
                try ContinuousGlucoseMeasurement.all(in: hex(octets).span.bytes)
            }
        }
    }

    @Test(
        "promise 6: each status of an oximeter excludes a saturation, marks it as questionable, or leaves it as it is")
    func statuses() {
        let pair = SaturationAndPulse(saturation: MedFloat16(rawValue: 97), pulseRate: MedFloat16(rawValue: 72))
        func check(_ status: PulseOximeterStatus, excludes: Bool, marks: Bool) {
            let records = [
                PulseOximeterSpotCheck(value: pair, status: status).record,
                PulseOximeterContinuous(normal: pair, status: status).record,
            ]
            let (exclusion, mark): (Exclusion?, ReadingStatus) = (
                excludes ? .errorRecord : nil, marks ? .questionable : []
            )
            for record in records {
                #expect(record.exclusion == exclusion && record.status == mark, "\(status.names)")
            }
            #expect(status.saysNoValue == excludes && status.saysDoubt == marks)
        }
        for bit in UInt16(0)..<16 {
            // Demonstration, testing, calibration ongoing, unavailable, invalid; early estimated, questionable.
            check(
                PulseOximeterStatus(measurement: 1 << bit), excludes: [10, 11, 12, 13, 15].contains(bit),
                marks: [6, 14].contains(bit))
        }
        for bit in UInt32(0)..<24 {
            // Equipment malfunction, sensor unconnected to the user, malfunction, disconnected; what is wrong with the signal.
            check(
                PulseOximeterStatus(device: 1 << bit), excludes: [1, 11, 14, 15].contains(bit),
                marks: (2...10).contains(bit) || [12, 13].contains(bit))
        }
        check(PulseOximeterStatus(measurement: 1 << 7), excludes: false, marks: false)
        #expect(PulseOximeterStatus(measurement: 1 << 7).names == ["validated_data"])
        // One that is both is both.
        check(PulseOximeterStatus(measurement: 1 << 14 | 1 << 15, device: 1 << 4), excludes: true, marks: true)
    }

    @Test("each of the 32 bits of a status has a name of its own, by which it is read")
    func statusNames() throws {
        var names: Set<String> = []
        for bit in UInt32(0)..<32 {
            let status = ReadingStatus(rawValue: 1 << bit)
            let name = try #require(status.names.first, "\(bit)")
            #expect(status.names.count == 1 && ReadingStatus(names: [name]) == status)
            names.insert(name)
        }
        #expect(names.count == 32)
    }
}

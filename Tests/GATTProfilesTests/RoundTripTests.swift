import GATTProfiles
import HealthReadings
import TestSupport
import Testing

@Suite("decode(encode(x)) == x")
struct RoundTripTests {
    /// Encodes, decodes, and does both again with reserved octets behind.
    private func check<Value: CharacteristicCoding>(_ make: @escaping (inout SeededGenerator) -> Value) throws {
        try forAll { generator in
            let value = make(&generator)
            let octets = value.encoded
            let longer = octets + generator.octets(Int.random(in: 1...8, using: &generator))
            return try Value(decoding: octets) == value && Value(decoding: longer) == value
        }
    }

    private static func bloodPressure(_ generator: inout SeededGenerator) -> BloodPressureMeasurement {
        BloodPressureMeasurement(
            unit: Bool.random(using: &generator) ? .kilopascal : .millimetresOfMercury, systolic: generator.decimal(),
            diastolic: generator.decimal(), meanArterialPressure: generator.decimal(),
            timeStamp: generator.maybe { $0.dateTime() }, pulseRate: generator.maybe { $0.decimal() },
            userID: generator.maybe { $0.octet() }, measurementStatus: generator.maybe { $0.word() })
    }

    private static func selection(_ generator: inout SeededGenerator) -> RecordSelection {
        func bound(_ generator: inout SeededGenerator) -> RecordSelection.Bound {
            Bool.random(using: &generator)
                ? .sequenceNumber(generator.word()) : .userFacingTime(generator.dateTime())
        }
        switch Int.random(in: 0..<7, using: &generator) {
        case 0: return .all
        case 1: return .atMost(bound(&generator))
        case 2: return .atLeast(bound(&generator))
        case 3: return .sequenceNumbers(from: generator.word(), to: generator.word())
        case 4: return .userFacingTimes(from: generator.dateTime(), to: generator.dateTime())
        case 5: return .first
        default: return .last
        }
    }

    @Test("2A18") func glucoseMeasurement() throws {
        try check { generator in
            GlucoseMeasurement(
                sequenceNumber: generator.word(), baseTime: generator.dateTime(),
                timeOffset: generator.maybe { Int16(bitPattern: $0.word()) },
                concentration: generator.maybe {
                    GlucoseMeasurement.Concentration(
                        value: $0.decimal(), unit: Bool.random(using: &$0) ? .kilogramsPerLitre : .molesPerLitre,
                        typeAndLocation: $0.octet())
                },
                sensorStatus: generator.maybe { $0.word() }, hasContext: Bool.random(using: &generator))
        }
    }

    @Test("2A34") func glucoseContext() throws {
        try check { generator in
            GlucoseMeasurementContext(
                sequenceNumber: generator.word(), extendedFlags: generator.maybe { $0.octet() },
                carbohydrate: generator.maybe { .init(id: $0.octet(), amount: $0.decimal()) },
                meal: generator.maybe { $0.octet() }, testerAndHealth: generator.maybe { $0.octet() },
                exercise: generator.maybe { .init(duration: $0.word(), intensity: $0.octet()) },
                medication: generator.maybe {
                    .init(
                        id: $0.octet(), amount: $0.decimal(), unit: Bool.random(using: &$0) ? .kilograms : .litres)
                },
                hba1c: generator.maybe { $0.decimal() })
        }
    }

    @Test("2A35") func bloodPressure() throws { try check { Self.bloodPressure(&$0) } }
    @Test("2A36") func cuffPressure() throws { try check { IntermediateCuffPressure(fields: Self.bloodPressure(&$0)) } }
    @Test("2A51") func glucoseFeature() throws { try check { GlucoseFeature(rawValue: $0.word()) } }
    @Test("2A49") func bloodPressureFeature() throws { try check { BloodPressureFeature(rawValue: $0.word()) } }
    @Test("2A08") func dateTime() throws { try check { $0.dateTime() } }
    @Test("2A0F") func localTime() throws {
        try check { LocalTimeInformation(timeZone: Int8(bitPattern: $0.octet()), dstOffset: $0.octet()) }
    }
    @Test("2A19") func battery() throws { try check { BatteryLevel(rawValue: $0.octet()) } }

    @Test("2A2B") func currentTime() throws {
        try check {
            CurrentTime(
                dateTime: $0.dateTime(), dayOfWeek: $0.octet(), fractions256: $0.octet(),
                adjustReason: .init(rawValue: $0.octet()))
        }
    }

    @Test("2A23") func systemID() throws {
        try check {
            SystemID(
                manufacturerIdentifier: $0.next(),
                organizationallyUniqueIdentifier: UInt32(truncatingIfNeeded: $0.next()))
        }
    }

    @Test("2A24 to 2A29") func strings() {
        forAll { generator in
            let scalars = (0..<Int.random(in: 0...20, using: &generator)).compactMap { _ in
                Unicode.Scalar(UInt32.random(in: 1...0x10FFFF, using: &generator))
            }
            let value = DeviceInformationString(text: String(String.UnicodeScalarView(scalars)))
            let padded = value.encoded + [UInt8](repeating: 0, count: Int.random(in: 0...3, using: &generator))
            return DeviceInformationString(decoding: padded).text.unicodeScalars.elementsEqual(scalars)
        }
    }

    @Test("2A52 requests") func requests() throws {
        try check { generator -> RecordAccessRequest in
            switch Int.random(in: 0..<3, using: &generator) {
            case 0: .report(Self.selection(&generator))
            case 1: .count(Self.selection(&generator))
            default: .abort
            }
        }
    }

    @Test("2A52 responses, all 65536 op codes and response codes") func responses() throws {
        try check { RecordAccessResponse.numberOfRecords($0.word()) }
        for request in UInt8.min ... .max {
            for code in UInt8.min ... .max {
                let response = try RecordAccessResponse(decoding: [6, 0, request, code])
                #expect(response.encoded == [6, 0, request, code])
            }
        }
    }
}

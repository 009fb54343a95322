import GATTProfiles
import HealthReadings
import Testing

@Suite("SFLOAT and FLOAT")
struct MedFloatTests {
    /// IEEE 11073-20601, Annex F: value = mantissa × 10^exponent, written down without bit tricks.
    private func model(mantissa: Int, bits: Int, exponent: Int) -> MeasuredNumber {
        let half = 1 << (bits - 1)
        if exponent == 0 {
            switch mantissa {
            case half - 1: return .notANumber
            case half: return .notAtThisResolution
            case half - 2: return .positiveInfinity
            case half + 2: return .negativeInfinity
            case half + 1: return .reserved
            default: break
            }
        }
        return decimal(Int64(mantissa < half ? mantissa : mantissa - 2 * half), Int16(exponent))
    }

    @Test("each of the 65536 SFLOAT patterns means what the standard says, and encodes back to itself")
    func everyPattern() throws {
        for exponent in 0..<16 {
            for mantissa in 0..<4096 {
                let value = MedFloat16(rawValue: UInt16(exponent * 4096 + mantissa))
                let expected = model(mantissa: mantissa, bits: 12, exponent: exponent < 8 ? exponent : exponent - 16)
                guard value.number == expected, try MedFloat16(encoding: value.number) == value else {
                    Issue.record("SFLOAT \(exponent)/\(mantissa): \(value.number), expected \(expected)")
                    return
                }
            }
        }
    }

    @Test(
        "known SFLOAT values",
        arguments: [
            (0xF7FF, decimal(2047, -1)), (0x07FF, .notANumber), (0x0800, .notAtThisResolution),
            (0x07FE, .positiveInfinity), (0x0802, .negativeInfinity), (0x0801, .reserved), (0x17FF, decimal(2047, 1)),
            (0xF800, decimal(-2048, -1)), (0xF7FE, decimal(2046, -1)), (0x0000, decimal(0)), (0xB05F, decimal(95, -5)),
            (0xF072, decimal(114, -1)), (0x0072, decimal(114)), (0xF4F6, decimal(1270, -1)), (0x0FFF, decimal(-1)),
            (0x8001, decimal(1, -8)), (0x7001, decimal(1, 7)),
        ] as [(UInt16, MeasuredNumber)])
    func knownShort(raw: UInt16, number: MeasuredNumber) {
        #expect(MedFloat16(rawValue: raw).number == number)
    }

    @Test(
        "known FLOAT values",
        arguments: [
            (0xFF00_016C, decimal(364, -1)), (0x007F_FFFF, .notANumber), (0x0080_0000, .notAtThisResolution),
            (0x007F_FFFE, .positiveInfinity), (0x0080_0002, .negativeInfinity), (0x0080_0001, .reserved),
            (0xFF7F_FFFF, decimal(8_388_607, -1)), (0x0180_0000, decimal(-8_388_608, 1)), (0x00FF_FFFF, decimal(-1)),
            (0x8000_0001, decimal(1, -128)), (0x7F00_0001, decimal(1, 127)), (0xFE00_0E38, decimal(3640, -2)),
        ] as [(UInt32, MeasuredNumber)])
    func knownLong(raw: UInt32, number: MeasuredNumber) {
        #expect(MedFloat32(rawValue: raw).number == number)
    }

    @Test("each FLOAT pattern encodes back to itself, the neighbours of the special values included")
    func longRoundTrip() throws {
        for raw in (0x007F_FFF0...0x0080_0010) as ClosedRange<UInt32> {
            #expect(try MedFloat32(encoding: MedFloat32(rawValue: raw).number).rawValue == raw)
        }
        try forAll { generator in
            let value = MedFloat32(rawValue: UInt32.random(in: .min ... .max, using: &generator))
            let (mantissa, exponent) = (Int(value.rawValue % 0x100_0000), Int(value.rawValue / 0x100_0000))
            let expected = model(mantissa: mantissa, bits: 24, exponent: exponent < 128 ? exponent : exponent - 256)
            return try value.number == expected && MedFloat32(encoding: value.number) == value
        }
    }

    @Test("2, 2.0 and 2.00 are three encodings and stay three numbers")
    func precision() throws {
        let texts = ["2", "2.0", "2.00"].compactMap { ExactDecimal($0) }
        let encoded = try texts.map { try MedFloat16(encoding: .value($0)) }
        #expect(encoded.map(\.rawValue) == [0x0002, 0xF014, 0xE0C8])
        #expect(encoded.map(\.number) == texts.map(MeasuredNumber.value))
    }

    @Test(
        "a number that does not fit, or would read as a special value, is refused instead of altered",
        arguments: [(2047, 0), (2046, 0), (-2048, 0), (-2047, 0), (-2046, 0), (2048, 1), (-2049, 1), (1, 8), (1, -9)])
    func unencodable(significand: Int64, exponent: Int16) {
        #expect(throws: UnencodableNumber.self) { try MedFloat16(encoding: decimal(significand, exponent)) }
    }

    @Test(
        "the same for FLOAT",
        arguments: [
            (8_388_607, 0), (8_388_606, 0), (-8_388_608, 0), (8_388_608, 1), (-8_388_609, 1), (1, 128), (1, -129),
        ])
    func unencodableLong(significand: Int64, exponent: Int16) {
        #expect(throws: UnencodableNumber.self) { try MedFloat32(encoding: decimal(significand, exponent)) }
    }
}

import GATTProfiles
import HealthReadings
import TestSupport
import Testing

extension SeededGenerator {
    mutating func octets(_ count: Int) -> [UInt8] {
        (0..<count).map { _ in UInt8.random(in: .min ... .max, using: &self) }
    }

    mutating func maybe<Value>(_ value: (inout Self) -> Value) -> Value? {
        Bool.random(using: &self) ? value(&self) : nil
    }

    mutating func word() -> UInt16 { UInt16.random(in: .min ... .max, using: &self) }
    mutating func octet() -> UInt8 { UInt8.random(in: .min ... .max, using: &self) }
    mutating func decimal() -> MedFloat16 { MedFloat16(rawValue: word()) }

    mutating func dateTime() -> DateTime {
        DateTime(year: word(), month: octet(), day: octet(), hour: octet(), minute: octet(), second: octet())
    }
}

/// Runs a property with a seed of its own each time; a failure shows seed and round.
func forAll(_ times: Int = 2000, _ property: (inout SeededGenerator) throws -> Bool) rethrows {
    let seed = UInt64.random(in: .min ... .max)
    var generator = SeededGenerator(seed: seed)
    for round in 0..<trials(times) where try !property(&generator) {
        Issue.record("the property does not hold: seed \(seed), round \(round)")
        return
    }
}

/// Octets written as in documents: `hex("03 01 00")`.
func hex(_ text: String) -> [UInt8] {
    let digits = text.filter { !$0.isWhitespace }
    return stride(from: 0, to: digits.count, by: 2).compactMap { start in
        let from = digits.index(digits.startIndex, offsetBy: start)
        return UInt8(digits[from..<digits.index(from, offsetBy: 2)], radix: 16)
    }
}

func decimal(_ significand: Int64, _ exponent: Int16 = 0) -> MeasuredNumber {
    .value(ExactDecimal(significand: significand, exponent: exponent))
}

/// What the decoder makes of one value.
func decode(_ characteristic: UInt16, _ octets: [UInt8]) -> DecodedFrame {
    StandardFrameDecoder().decode(
        Frame(
            format: FrameFormat(characteristic: characteristic), payload: octets, receivedAt: Instant(seconds: 0),
            ordinal: 0),
        model: nil)
}

/// The record a value is.
func record(_ characteristic: UInt16, _ octets: [UInt8]) throws -> Record {
    guard case .record(let record) = decode(characteristic, octets) else {
        throw NotARecord(decoded: decode(characteristic, octets))
    }
    return record
}

func record(_ characteristic: UInt16, _ text: String) throws -> Record { try record(characteristic, hex(text)) }

struct NotARecord: Error { var decoded: DecodedFrame }

/// The error a value is refused with.
func malformed(_ characteristic: UInt16, _ octets: [UInt8]) -> MalformedFrame? {
    if case .malformed(let error) = decode(characteristic, octets) { error } else { nil }
}

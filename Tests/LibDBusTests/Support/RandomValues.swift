import LibDBus
import TestSupport

/// Values of all types in all containers.
struct RandomValues {
    private indirect enum Shape {
        case basic(Character)
        case variant
        case array(Shape)
        case structure([Shape])
        case dictionary(Character, Shape)

        var signature: String {
            switch self {
            case .basic(let letter): String(letter)
            case .variant: "v"
            case .array(let element): "a" + element.signature
            case .structure(let members): "(" + members.map(\.signature).joined() + ")"
            case .dictionary(let key, let value): "a{\(key)\(value.signature)}"
            }
        }
    }

    var generator: SeededGenerator
    private static let letters = Array("ybnqiuxtdsog")

    init(seed: UInt64) { generator = SeededGenerator(seed: seed) }

    /// Up to five arguments.
    mutating func arguments() -> [DBusValue] { (0..<number(0...5)).map { _ in value() } }

    private mutating func value() -> DBusValue { value(of: shape(depth: 0), depth: 0) }

    private mutating func number(_ range: ClosedRange<Int>) -> Int { .random(in: range, using: &generator) }

    private mutating func shape(depth: Int) -> Shape {
        switch number(0...(depth > 4 ? 5 : 9)) {
        case 6: .array(shape(depth: depth + 1))
        case 7: .structure((0...number(0...3)).map { _ in shape(depth: depth + 1) })
        case 8: .dictionary(Self.letters[number(0...11)], shape(depth: depth + 1))
        case 9: .variant
        default: .basic(Self.letters[number(0...11)])
        }
    }

    private mutating func value(of shape: Shape, depth: Int) -> DBusValue {
        switch shape {
        case .basic(let letter): return basic(letter)
        case .variant:
            return .variant(value(of: self.shape(depth: depth + 1), depth: depth + 1))
        case .array(.basic("y")): return .bytes((0..<number(0...40)).map { _ in UInt8(number(0...255)) })
        case .array(let element):
            return .array(
                (0..<number(0...6)).map { _ in value(of: element, depth: depth + 1) }, of: element.signature)
        case .structure(let members): return .structure(members.map { value(of: $0, depth: depth + 1) })
        case .dictionary(let key, let element):
            var entries: [DBusValue: DBusValue] = [:]
            for _ in 0..<number(0...5) { entries[basic(key)] = value(of: element, depth: depth + 1) }
            return .dictionary(entries, key: String(key), value: element.signature)
        }
    }

    private mutating func basic(_ letter: Character) -> DBusValue {
        let bits = generator.next()
        switch letter {
        case "y": return .byte(UInt8(truncatingIfNeeded: bits))
        case "b": return .bool(bits & 1 == 1)
        case "n": return .int16(Int16(truncatingIfNeeded: bits))
        case "q": return .uint16(UInt16(truncatingIfNeeded: bits))
        case "i": return .int32(Int32(truncatingIfNeeded: bits))
        case "u": return .uint32(UInt32(truncatingIfNeeded: bits))
        case "x": return .int64(Int64(truncatingIfNeeded: bits))
        case "t": return .uint64(bits)
        case "d":
            let value = Double(bitPattern: bits)
            return .double(value.isNaN ? -0.0 : value)
        case "o":
            let steps = (0..<number(0...3)).map { _ in "/dev_\(number(0...99))" }.joined()
            return .objectPath(steps.isEmpty ? "/" : steps)
        case "g": return .signature(["", "s", "a{sv}", "(iai)", "aaaay"][number(0...4)])
        default: return .string(text())
        }
    }

    private mutating func text() -> String {
        var text = String.UnicodeScalarView()
        for _ in 0..<number(0...12) {
            let ranges: [ClosedRange<UInt32>] = [
                1...0x7F, 0x80...0x7FF, 0x800...0xD7FF, 0xE000...0xFFFF, 0x10000...0x10FFFF,
            ]
            let range = ranges[number(0...4)]
            if let scalar = Unicode.Scalar(UInt32.random(in: range, using: &generator)) { text.append(scalar) }
        }
        return String(text)
    }
}

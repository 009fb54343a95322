/// A sample of another program that is kept and exported as it came, and not interpreted: steps, sleep, workouts and whatever
/// else this gateway has no kind for.
///
/// When it begins is the reading's time, and when it ends is in ``ImportFacts/end``.
public struct KeptSample: Sendable, Hashable {
    /// ``ReadingKind/activity``, ``ReadingKind/sleep`` or ``ReadingKind/other``.
    public var kind: ReadingKind
    /// The other program's name of the type: `steps`.
    public var type: String
    /// The value, with the digits that came.
    public var value: ExactDecimal
    /// The unit, as the other program writes it.
    public var unit: String
    /// What came beside it.
    public var metadata: [String: String]

    /// Makes a sample. A kind that is interpreted becomes ``ReadingKind/other``.
    public init(
        kind: ReadingKind, type: String, value: ExactDecimal, unit: String, metadata: [String: String] = [:]
    ) {
        self.kind = kind.isKept ? kind : .other
        self.type = type
        self.value = value.exponent > 0 ? value.multiplied(by: ExactDecimal(significand: 1), places: 0) ?? value : value
        self.unit = unit
        self.metadata = metadata
    }

    /// What the document of a reading shows of it: its kind with `type`, `value`, `unit` and `metadata`.
    var members: [JSONValue.Member] {
        [
            .init(
                kind.rawValue,
                .object([
                    "type": .string(type), "value": .number(value), "unit": .string(unit), "metadata": metadataDocument,
                ]))
        ]
    }

    /// The metadata as an object, the keys in the order of their text: the same metadata is the same text.
    var metadataDocument: JSONValue {
        .object(metadata.sorted { $0.key < $1.key }.map { .init($0.key, .string($0.value)) })
    }
}

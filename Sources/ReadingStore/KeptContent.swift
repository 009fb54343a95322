import HealthReadings

/// A sample that is kept as it came, in a row's content: type, unit, digits, and what came beside it, by key.
extension KeptSample {
    func write(to writer: inout ContentWriter) {
        writer.put(type)
        writer.put(unit)
        writer.put(signed: value.significand)
        writer.put(signed: Int64(value.exponent))
        writer.put(UInt64(metadata.count))
        for (key, text) in metadata.sorted(by: { $0.key < $1.key }) {
            writer.put(key)
            writer.put(text)
        }
    }

    init(kind: ReadingKind, from reader: inout ContentReader) throws {
        guard let type = try reader.text(), let unit = try reader.text() else {
            throw StoreError.corrupt(detail: "a kept sample lacks its type or unit")
        }
        let digits = try reader.signed()
        guard let exponent = Int16(exactly: try reader.signed()), ExactDecimal.storableExponents.contains(exponent)
        else { throw StoreError.corrupt(detail: "a kept sample's value has too many places") }
        var metadata: [String: String] = [:]
        for _ in 0..<(try reader.number(as: UInt8.self)) {
            guard let key = try reader.text(), let text = try reader.text() else {
                throw StoreError.corrupt(detail: "what came beside a kept sample is cut short")
            }
            metadata[key] = text
        }
        self.init(
            kind: kind, type: type, value: ExactDecimal(significand: digits, exponent: exponent), unit: unit,
            metadata: metadata)
    }
}

import HealthReadings

/// The values of a vital sign in a row's content: the count of its quantities, each with what it is; the site. What only
/// live values have is not stored.
extension VitalValue {
    func write(to writer: inout ContentWriter) {
        writer.put(UInt64(quantities.count))
        for measured in quantities {
            writer.put(UInt64(measured.part.rawValue))
            writer.put(measured.quantity)
        }
        writer.put(site)
    }

    init(kind: ReadingKind, from reader: inout ContentReader) throws {
        let count = try reader.number(as: UInt8.self)
        var quantities: [Measured] = []
        for _ in 0..<count {
            let code = try reader.number(as: UInt8.self)
            guard let part = Part(rawValue: code), let quantity = try reader.quantity() else {
                throw StoreError.corrupt(detail: "a vital sign's quantity is \(code)")
            }
            quantities.append(Measured(part, quantity))
        }
        self.init(kind: kind, quantities, site: try reader.text())
    }
}

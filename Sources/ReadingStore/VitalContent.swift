import HealthReadings

/// The values of a vital sign in a row's content: the count of its quantities, each with what it is; the site. Of a
/// recording, behind these, the window with its beats, and the samples; what only live values have is not stored.
extension VitalValue {
    func write(to writer: inout ContentWriter, isRecorded: Bool) {
        writer.put(UInt64(quantities.count))
        for measured in quantities {
            writer.put(UInt64(measured.part.rawValue))
            writer.put(measured.quantity)
        }
        writer.put(site)
        guard isRecorded else { return }
        writer.put(optional: windowSeconds.map(UInt64.init))
        writer.put(optional: beats.map { UInt64($0.counted) })
        writer.put(UInt64(beats?.leftOut ?? 0))
        writer.put(optional: series.map { UInt64($0.octets.count) })
        if let series { writer.put(octets: series.octets) }
    }

    init(kind: ReadingKind, isRecorded: Bool, from reader: inout ContentReader) throws {
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
        guard isRecorded else { return }
        windowSeconds = try reader.optional(as: UInt32.self).map(Int.init)
        let counted = try reader.optional(as: UInt32.self)
        let leftOut = try reader.number(as: UInt32.self)
        beats = counted.map { BeatCount(counted: Int($0), leftOut: Int(leftOut)) }
        guard let length = try reader.optional(as: Int.self) else { return }
        do {
            series = try SampleSeries(octets: try reader.octets(length))
        } catch let error as MalformedFrame {
            throw StoreError.corrupt(detail: "a recording's \(error)")
        }
    }
}

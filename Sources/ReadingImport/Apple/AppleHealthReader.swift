import HealthReadings

/// Reads the `export.xml` of Apple Health.
///
/// Each record is a reading of its own, but for the pressures of a blood pressure: these stand in the file once by
/// themselves and once more in their correlation, and are counted once. Pressures without a correlation are joined where
/// a systolic and a diastolic one have the same source and times.
public final class AppleHealthReader: ImportReader {
    private static let provider = "apple_health_kit"

    /// What was counted until now.
    public private(set) var counts = ImportCounts()
    /// How many octets of the file were read until now.
    public var octetsRead: Int64 { events.octetsRead }
    /// The line of what was found last, from 1.
    public var line: Int { events.line }

    private let events: XMLEvents
    private let rules: ImportRules
    private let names: Names
    private var texts = TextCache()
    private var types = TypeCache()
    private var pressures = LonePressures()
    /// What came of the end of the file.
    private var rest: [ImportItem] = []
    private var damage: ImportDamage?
    private var isAtEnd = false

    private var record: OpenRecord?
    private var correlation: OpenCorrelation?
    /// Whether the root element was seen.
    private var hasRoot = false

    init(_ source: any OctetSource, _ rules: ImportRules) throws(ImportDamage) {
        self.rules = rules
        events = try XMLEvents(ExportOctets(source))
        names = try Names(events)
    }

    /// The next sample, or the next row that can be none; `nil` at the end of the file.
    public func next() throws(ImportDamage) -> ImportItem? {
        while !isAtEnd {
            do throws(ImportDamage) {
                guard let event = try events.next() else {
                    isAtEnd = true
                    break
                }
                if let item = try event == .begin ? begin() : end() { return item }
            } catch {
                // What stands alone until here is joined all the same: it is stored, whatever comes after.
                (damage, isAtEnd) = (error, true)
            }
            if isAtEnd { break }
        }
        if !pressures.isEmpty {
            rest = pressures.take(rules.person, Self.provider).reversed()
            counts.joined += rest.count { if case .sample = $0 { true } else { false } }
        }
        if let item = rest.popLast() { return item }
        if let damage {
            self.damage = nil
            throw damage
        }
        guard hasRoot else {
            throw ImportDamage(.damaged, line: 1, expected: "<HealthData>", found: "no element")
        }
        return nil
    }

    // MARK: Elements

    private func begin() throws(ImportDamage) -> ImportItem? {
        let name = events.elementName
        switch events.depth {
        case 0:
            guard name == names.healthData else {
                let found = name.map { String(cString: $0) } ?? ""
                throw ImportDamage(
                    .unknownFormat, line: events.line, expected: "<HealthData>", found: "<\(found)>",
                    hint: found == "ClinicalDocument"
                        ? "This is export_cda.xml: import export.xml, which stands beside it." : nil)
            }
            hasRoot = true
        case 1:
            if name == names.record {
                counts.read += 1
                return beginRecord()
            }
            if name == names.correlation {
                counts.read += 1
                beginCorrelation()
            } else if name != names.me, name != names.exportDate {
                counts.read += 1
                counts.leave(name.map { String(cString: $0) } ?? "")
            }
        case 2:
            if name == names.metadataEntry {
                heedMetadata()
            } else if name == names.record, correlation != nil {
                beginPart()
            }
        case 3:
            if name == names.metadataEntry, correlation != nil { heedMetadata() }
        default: break
        }
        return nil
    }

    private func end() -> ImportItem? {
        guard events.depth == 1 else { return nil }
        if let record {
            self.record = nil
            return .sample(record.sample)
        }
        if let correlation {
            self.correlation = nil
            return finish(correlation)
        }
        return nil
    }

    private func beginRecord() -> ImportItem? {
        let attributes = RecordAttributes(events.attributes, names)
        guard let type = types.type(attributes.type) else {
            counts.leave(attributes.type.text)
            return nil
        }
        do throws(ImportRefusal) {
            let quantity = try attributes.quantity(as: type)
            let (start, end) = try attributes.times()
            let source = texts.source(attributes.source)
            guard case .single(let kind) = type, let value = AppleType.value(kind, quantity) else {
                let key = LonePressures.Key(source: source, start: start, end: end)
                pressures.add(type, LonePressures.Pressure(key: key, quantity: quantity), line: attributes.line)
                return nil
            }
            record = OpenRecord(
                sample: ImportedSample(
                    person: rules.person, provider: Self.provider, source: source,
                    sourceDevice: texts.device(attributes.device), value: value, time: start, end: end))
            return nil
        } catch {
            return .refused(error)
        }
    }

    private func beginCorrelation() {
        let attributes = RecordAttributes(events.attributes, names)
        let isPressure = attributes.type.withOctets { $0.elementsEqual(AppleType.bloodPressure.utf8) }
        guard isPressure else { return counts.leave(attributes.type.text) }
        correlation = OpenCorrelation(line: attributes.line)
    }

    /// A record within a correlation.
    private func beginPart() {
        let attributes = RecordAttributes(events.attributes, names)
        guard let type = types.type(attributes.type) else { return }
        do throws(ImportRefusal) {
            let quantity = try attributes.quantity(as: type)
            let (start, end) = try attributes.times()
            let key = LonePressures.Key(source: texts.source(attributes.source), start: start, end: end)
            let isTwice: Bool
            switch type {
            case .systolic:
                isTwice = correlation?.systolic != nil
                correlation?.systolic = (quantity, key)
            case .diastolic:
                isTwice = correlation?.diastolic != nil
                correlation?.diastolic = (quantity, key)
            case .single: return
            }
            if isTwice {
                throw ImportRefusal(
                    line: attributes.line, field: "Correlation", expected: "one systolic and one diastolic pressure",
                    found: "two of one")
            }
            correlation?.device = texts.device(attributes.device)
        } catch {
            correlation?.refusal = error
        }
    }

    private func finish(_ correlation: OpenCorrelation) -> ImportItem {
        if let refusal = correlation.refusal { return .refused(refusal) }
        guard let (systolic, key) = correlation.systolic, let (diastolic, other) = correlation.diastolic else {
            let found = correlation.systolic == nil && correlation.diastolic == nil ? "none" : "one"
            return .refused(
                ImportRefusal(
                    line: correlation.line, field: "Correlation", expected: "a systolic and a diastolic pressure",
                    found: found))
        }
        guard systolic.unit == diastolic.unit else {
            return .refused(LonePressures.unitRefusal(correlation.line, systolic, diastolic))
        }
        for (type, quantity, key) in [(AppleType.systolic, systolic, key), (.diastolic, diastolic, other)]
        where pressures.remove(type, LonePressures.Pressure(key: key, quantity: quantity)) { counts.joined += 1 }
        return .sample(
            LonePressures.sample(
                rules.person, Self.provider, systolic, diastolic, key, isEntered: correlation.isEntered,
                device: correlation.device))
    }

    private func heedMetadata() {
        guard record != nil || correlation != nil else { return }
        var (key, value): (XMLEvents.Value?, XMLEvents.Value?)
        for (name, each) in events.attributes {
            if name == names.key { key = each } else if name == names.value { value = each }
        }
        guard let key, let value else { return }
        let isOne = value.withOctets { $0.elementsEqual("1".utf8) }
        key.withOctets { key in
            if key.elementsEqual("HKWasUserEntered".utf8) {
                record?.sample.isEntered = isOne
                correlation?.isEntered = isOne
            } else if key.elementsEqual("HKBloodGlucoseMealTime".utf8), record?.sample.kind == .glucose {
                let isTwo = value.withOctets { $0.elementsEqual("2".utf8) }
                record?.sample.meal = isOne ? "preprandial" : isTwo ? "postprandial" : nil
            }
        }
    }

    private struct OpenRecord {
        var sample: ImportedSample
    }

    private struct OpenCorrelation {
        let line: Int
        var systolic: (Quantity, LonePressures.Key)?
        var diastolic: (Quantity, LonePressures.Key)?
        var device: String?
        var isEntered = false
        var refusal: ImportRefusal?
    }
}

/// The names of elements and attributes, which are compared by their addresses.
private struct Names {
    let healthData, record, correlation, metadataEntry, me, exportDate: UnsafePointer<UInt8>
    let type, sourceName, unit, startDate, endDate, value, device, key: UnsafePointer<UInt8>

    init(_ events: XMLEvents) throws(ImportDamage) {
        healthData = try events.name("HealthData")
        record = try events.name("Record")
        correlation = try events.name("Correlation")
        metadataEntry = try events.name("MetadataEntry")
        me = try events.name("Me")
        exportDate = try events.name("ExportDate")
        type = try events.name("type")
        sourceName = try events.name("sourceName")
        unit = try events.name("unit")
        startDate = try events.name("startDate")
        endDate = try events.name("endDate")
        value = try events.name("value")
        device = try events.name("device")
        key = try events.name("key")
    }
}

/// The attributes of a record, whatever their order.
private struct RecordAttributes {
    var type = XMLEvents.Value.absent
    var source = XMLEvents.Value.absent
    var device = XMLEvents.Value.absent
    var unit = XMLEvents.Value.absent
    var start = XMLEvents.Value.absent
    var end = XMLEvents.Value.absent
    var value = XMLEvents.Value.absent
    var line = 1

    init(_ attributes: XMLEvents.Attributes, _ names: Names) {
        for (name, each) in attributes {
            if name == names.type {
                type = each
                line = each.line ?? line
            } else if name == names.sourceName {
                source = each
            } else if name == names.unit {
                unit = each
            } else if name == names.startDate {
                start = each
            } else if name == names.endDate {
                end = each
            } else if name == names.value {
                value = each
            } else if name == names.device {
                device = each
            }
        }
    }

    func quantity(as type: AppleType) throws(ImportRefusal) -> Quantity {
        guard let number = value.withOctets({ TextValue.decimal($0) }) else {
            throw refusal("value", "a number", value)
        }
        guard let quantity = unit.withOctets({ type.quantity(number, unit: $0) }) else {
            throw refusal("unit", type.units, unit)
        }
        return quantity
    }

    /// The start, and the end of what lasts.
    func times() throws(ImportRefusal) -> (ImportedTime, end: Instant?) {
        guard let first = start.withOctets({ TextValue.time($0) }) else { throw refusal("startDate", Self.date, start) }
        guard end.isThere else { return (first, nil) }
        guard let last = end.withOctets({ TextValue.time($0) }) else { throw refusal("endDate", Self.date, end) }
        guard last.instant >= first.instant else {
            throw refusal("endDate", "no time before startDate \(first.instant)", end)
        }
        return (first, last.instant == first.instant ? nil : last.instant)
    }

    private static let date = "a time such as 2026-11-20 07:30:00 +0100"

    private func refusal(_ field: String, _ expected: String, _ found: XMLEvents.Value) -> ImportRefusal {
        ImportRefusal(
            line: line, field: field, expected: expected, found: found.isThere ? "'\(found.text)'" : "nothing")
    }
}

/// The type of a record, found once for all that follow each other.
private struct TypeCache {
    private var last: [UInt8] = []
    private var type: AppleType?

    mutating func type(_ value: XMLEvents.Value) -> AppleType? {
        value.withOctets { octets in
            guard !octets.elementsEqual(last) else { return type }
            last = Array(octets)
            type = AppleType.records[String(decoding: octets, as: UTF8.self)]
            return type
        }
    }
}

/// Names of sources and devices, made once for all records that follow each other.
private struct TextCache {
    private var sourceOctets: [UInt8] = []
    private var sourceText: String?
    private var deviceOctets: [UInt8] = []
    private var deviceText: String?

    mutating func source(_ value: XMLEvents.Value) -> String? {
        value.withOctets { octets in
            guard !octets.elementsEqual(sourceOctets) else { return sourceText }
            sourceOctets = Array(octets)
            sourceText = octets.isEmpty ? nil : String(decoding: octets, as: UTF8.self)
            return sourceText
        }
    }

    mutating func device(_ value: XMLEvents.Value) -> String? {
        value.withOctets { octets in
            // The address of an object in the phone's memory stands first, and is another in each record.
            let isObject = octets.starts(with: "<<HKDevice".utf8)
            let start = isObject ? octets.firstIndex(of: UInt8(ascii: ">")) ?? octets.startIndex : octets.startIndex
            let lasting = octets[start...]
            guard !lasting.elementsEqual(deviceOctets) else { return deviceText }
            deviceOctets = Array(lasting)
            let text = String(decoding: lasting, as: UTF8.self)
            deviceText = text.isEmpty ? nil : isObject ? Self.name(ofDevice: text) : text
            return deviceText
        }
    }

    /// The name in `<<HKDevice: 0x2833e3a20>, name:Apple Watch, manufacturer:Apple Inc., …>`. The rest changes with each
    /// export.
    private static func name(ofDevice text: String) -> String? {
        guard let start = text.firstRange(of: "name:")?.upperBound else { return nil }
        var name = text[start...]
        for key in [
            "manufacturer", "model", "hardware", "firmware", "software", "localIdentifier", "UDI", "creation date",
        ] {
            if let next = name.firstRange(of: ", \(key):") { name = name[..<next.lowerBound] }
        }
        if name.last == ">" { name = name.dropLast() }
        return String(name)
    }
}

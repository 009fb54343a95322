extension FrameFormat {
    /// A sample out of another program's data: ``ImportedSample/octets``.
    public static let importedSample = FrameFormat(rawValue: 0x1_0030)
}

extension ImportedSample {
    /// The first line of the octets. A number once given is never given again.
    private static let header = "imported sample 1"
    /// More octets than any sample has: its person, provider, source and device may have 200 characters each, and what the
    /// other program sent is kept up to ``longestOriginals``.
    private static let longest = 131_072

    /// The sample's canonical octets: the same sample has the same. UTF-8, a line for each part, its name and a space first.
    public var octets: [UInt8] {
        var octets: [UInt8] = []
        octets.reserveCapacity(320)
        octets += Self.header.utf8
        func put(_ name: StaticString, _ text: String? = nil) {
            octets.append(UInt8(ascii: "\n"))
            octets.append(
                contentsOf: UnsafeBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount))
            guard let text else { return }
            octets.append(UInt8(ascii: " "))
            octets += text.utf8
        }
        put("person", person)
        put("provider", provider)
        if let source { put("source", source) }
        if let sourceDevice { put("device", sourceDevice) }
        if isEntered { put("entered") }
        put("kind", kind.rawValue)
        put("start", String(time.instant.seconds))
        put("basis", time.basis.rawValue)
        if let minutes = time.uncertaintyMinutes { put("uncertainty", String(minutes)) }
        if let minutes = time.utcOffsetMinutes { put("offset", String(minutes)) }
        if let wall = time.localTime { put("local", String(wall.secondsSinceEpoch)) }
        if let end { put("end", String(end.seconds)) }
        for (name, quantity) in quantities {
            if let level = Self.levels.first(where: { $0.number == quantity.number }) {
                put("value", "\(name) \(level.name) \(quantity.unit.symbol)")
            }
            guard let number = quantity.number.digits else { continue }
            put("value", "\(name) \(number) \(quantity.unit.symbol)")
        }
        switch value {
        case .glucose(let glucose):
            if let type = glucose.sampleType { put("sample", type.name) }
            if let location = glucose.sampleLocation { put("location", location.name) }
        case .bloodPressure: break
        case .vital(let vital): if let site = vital.site { put("site", site) }
        case .kept(let kept):
            put("type", kept.type)
            // Digits and power of ten: written out, a very small number has more digits than are read.
            put("number", "\(kept.value.significand) \(kept.value.exponent) \(kept.unit)")
            for (key, value) in kept.metadata.sorted(by: { $0.key < $1.key }) {
                put("key", key)
                put("text", value)
            }
        }
        if let meal { put("meal", meal) }
        if let originalID { put("id", originalID.description) }
        if let deviceTime {
            put("base", String(deviceTime.base.secondsSinceEpoch))
            if let minutes = deviceTime.offsetMinutes { put("base-offset", String(minutes)) }
        }
        if let sequence { put("sequence", String(sequence)) }
        if !status.isEmpty { put("status", status.names.joined(separator: " ")) }
        if isEstimate { put("estimate") }
        if let sensorSource { put("sensor", sensorSource.name) }
        if let updatedAt { put("updated", String(updatedAt.microseconds)) }
        if let distinction { put("distinction", distinction) }
        if let recordName { put("record", recordName) }
        for original in originals { put("original", original) }
        return octets
    }

    /// The frame of the sample.
    public func frame(receivedAt: Instant) -> Frame {
        Frame(format: .importedSample, payload: octets, receivedAt: receivedAt, ordinal: 0)
    }

    /// What a device shows that measured beyond its limits.
    fileprivate static let levels: [(name: String, number: MeasuredNumber)] = [
        ("HI", .positiveInfinity), ("LO", .negativeInfinity),
    ]

    private var quantities: [(name: String, quantity: Quantity)] {
        switch value {
        case .glucose(let glucose): glucose.concentration.map { [("glucose", $0)] } ?? []
        case .bloodPressure(let pressure):
            [("systolic", pressure.systolic), ("diastolic", pressure.diastolic), ("mean", pressure.meanArterial)]
                + (pressure.pulse.map { [("pulse", $0)] } ?? [])
        case .vital(let vital): vital.quantities.map { ($0.part.name, $0.quantity) }
        case .kept: []
        }
    }
}

extension DecodedFrame {
    /// Decodes the payload of a ``FrameFormat/importedSample``; anything but a sample's canonical octets is malformed.
    public init(importedSample payload: [UInt8]) {
        do throws(MalformedFrame) {
            self = .imported(try ImportedSample(decoding: payload))
        } catch {
            self = .malformed(error)
        }
    }
}

extension ImportedSample {
    init(decoding payload: [UInt8]) throws(MalformedFrame) {
        guard payload.count <= Self.longest else {
            throw Self.failure("at most \(Self.longest) octets", Self.longest, "more")
        }
        var lines = payload.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)[...]
        guard let first = lines.popFirst(), first.elementsEqual(Self.header.utf8) else {
            throw Self.failure("\"\(Self.header)\"", 0, "something else")
        }
        var parts = Parts()
        for line in lines {
            guard let text = String(validating: line, as: UTF8.self), parts.take(text) else {
                throw Self.failure("a part of a sample", line.startIndex, "something else")
            }
        }
        guard let sample = parts.sample else {
            throw Self.failure("the person, provider, kind, time and values of a sample", payload.count, "the end")
        }
        let expected = sample.octets
        guard expected == payload else {
            let octet = zip(expected, payload).prefix { $0 == $1 }.count
            throw Self.failure("the canonical form", octet, octet == payload.count ? "the end" : "another octet")
        }
        self = sample
    }

    private static func failure(_ expected: String, _ octet: Int, _ found: String) -> MalformedFrame {
        MalformedFrame(subject: "imported sample", expected: expected, octet: octet, found: found)
    }

    /// What stands in the lines, before it is known to make sense.
    private struct Parts {
        var person: String?
        var provider: String?
        var source: String?
        var device: String?
        var isEntered = false
        var kind: ReadingKind?
        var start: Int64?
        var basis: TimeBasis?
        var uncertainty: Int?
        var offset: Int?
        var local: Int64?
        var end: Int64?
        var values: [(name: String, quantity: Quantity)] = []
        var sampleType: GlucoseSampleType?
        var location: GlucoseSampleLocation?
        var site: String?
        var meal: String?
        var id: ReadingID?
        var base: Int64?
        var baseOffset: Int16?
        var sequence: UInt16?
        var status: ReadingStatus = []
        var isEstimate = false
        var sensorSource: ImportFacts.SensorSource?
        var updatedAt: Int64?
        var distinction: String?
        var record: String?
        var type: String?
        var number: (value: ExactDecimal, unit: String)?
        var keys: [String] = []
        var texts: [String] = []
        var originals: [String] = []

        /// Takes a line; false for one that is no part.
        mutating func take(_ line: String) -> Bool {
            let space = line.utf8.firstIndex(of: UInt8(ascii: " ")) ?? line.endIndex
            let text = space == line.endIndex ? "" : String(line[line.utf8.index(after: space)...])
            switch line[..<space] {
            case "person": person = text
            case "provider": provider = text
            case "source": source = text
            case "device": device = text
            case "entered": isEntered = true
            case "kind": kind = ReadingKind(rawValue: text)
            case "start": start = Int64(text)
            case "basis": basis = TimeBasis(rawValue: text)
            case "uncertainty": uncertainty = Int(text)
            case "offset": offset = Int(text)
            case "local": local = Int64(text)
            case "end": end = Int64(text)
            case "value":
                let words = text.split(separator: " ", maxSplits: 2)
                guard words.count == 3, let unit = MeasurementUnit(symbol: words[2]) else { return false }
                if let level = ImportedSample.levels.first(where: { $0.name == words[1] }) {
                    values.append((String(words[0]), Quantity(level.number, unit)))
                    return true
                }
                guard let number = ExactDecimal(words[1]) else { return false }
                values.append((String(words[0]), Quantity(number, unit)))
            case "sample": sampleType = GlucoseSampleType.allCases.first { $0.name == text }
            case "location": location = GlucoseSampleLocation.allCases.first { $0.name == text }
            case "site": site = text
            case "meal": meal = text
            case "id": id = ReadingID(text)
            case "base": base = Int64(text)
            case "base-offset": baseOffset = Int16(text)
            case "sequence": sequence = UInt16(text)
            case "status":
                guard let bits = ReadingStatus(names: text.split(separator: " ")) else { return false }
                status = bits
            case "estimate": isEstimate = true
            case "sensor": sensorSource = ImportFacts.SensorSource.allCases.first { $0.name == text }
            case "updated": updatedAt = Int64(text)
            case "distinction": distinction = text
            case "record": record = text
            case "type": type = text
            case "number":
                let words = text.split(separator: " ", maxSplits: 2, omittingEmptySubsequences: false)
                guard words.count == 3, let digits = Int64(words[0]), let power = Int16(words[1]),
                    ExactDecimal.storableExponents.contains(power)
                else { return false }
                number = (ExactDecimal(significand: digits, exponent: power), String(words[2]))
            case "key": keys.append(text)
            case "text": texts.append(text)
            case "original": originals.append(text)
            default: return false
            }
            return true
        }

        var sample: ImportedSample? {
            guard let person, let provider, let kind, let start, let time = time(start), let value = value(kind) else {
                return nil
            }
            var sample = ImportedSample(
                person: person, provider: provider, source: source, sourceDevice: device, isEntered: isEntered,
                value: value, time: time, end: end.map(Instant.init(seconds:)), meal: meal, originalID: id,
                deviceTime: base.map {
                    ImportedSample.DeviceTime(base: WallTime(secondsSinceEpoch: $0), offsetMinutes: baseOffset)
                },
                sequence: sequence, status: status, isEstimate: isEstimate, distinction: distinction,
                originals: originals)
            sample.recordName = record
            sample.sensorSource = sensorSource
            sample.updatedAt = updatedAt.map(Instant.init(microseconds:))
            return sample
        }

        private func time(_ start: Int64) -> ImportedTime? {
            guard let basis, basis != .unknown else { return nil }
            if let local {
                guard basis == .assumedZone, offset == nil else { return nil }
                return ImportedTime(WallTime(secondsSinceEpoch: local), Instant(seconds: start), uncertainty)
            }
            return ImportedTime(
                Instant(seconds: start), utcOffsetMinutes: offset, basis: basis, uncertaintyMinutes: uncertainty)
        }

        private func quantity(_ name: String) -> Quantity? { values.first { $0.name == name }?.quantity }

        private func value(_ kind: ReadingKind) -> RecordValue? {
            switch kind {
            case .glucose:
                guard let concentration = quantity("glucose") else { return nil }
                return .glucose(
                    GlucoseValue(concentration: concentration, sampleType: sampleType, sampleLocation: location))
            case .bloodPressure:
                guard let systolic = quantity("systolic"), let diastolic = quantity("diastolic") else { return nil }
                return .bloodPressure(
                    BloodPressureValue(
                        systolic: systolic, diastolic: diastolic,
                        meanArterial: quantity("mean") ?? Quantity(.notANumber, systolic.unit), pulse: quantity("pulse")
                    ))
            case .heartRate, .hrv, .spo2, .temperature, .weight, .bodyComposition:
                let measured = values.compactMap { name, quantity in
                    VitalValue.Part(name: name).map { VitalValue.Measured($0, quantity) }
                }
                guard !measured.isEmpty, measured.count == values.count else { return nil }
                return .vital(VitalValue(kind: kind, measured, site: site))
            case .activity, .sleep, .other:
                guard let type, let number, values.isEmpty, keys.count == texts.count else { return nil }
                let metadata = Dictionary(zip(keys, texts)) { first, _ in first }
                return .kept(
                    KeptSample(kind: kind, type: type, value: number.value, unit: number.unit, metadata: metadata))
            }
        }
    }
}

extension MeasurementUnit {
    private static let bySymbol = Dictionary(uniqueKeysWithValues: allCases.map { ($0.symbol, $0) })

    /// The unit with this symbol; `nil` for any other text.
    public init?(symbol: some StringProtocol) {
        guard let unit = Self.bySymbol[String(symbol)] else { return nil }
        self = unit
    }
}

extension VitalValue.Part {
    private static let byName = Dictionary(uniqueKeysWithValues: allCases.map { ($0.name, $0) })

    /// The part with this name; `nil` for any other text.
    init?(name: String) {
        guard let part = Self.byName[name] else { return nil }
        self = part
    }
}

extension Quantity {
    /// The quantity as imported samples are told apart by: in one unit and rounded, so that it is the same whichever unit
    /// and however many digits a program wrote it with. Finer than any device for the home measures.
    var comparable: Quantity {
        guard let digits = number.digits else { return self }
        func converted(_ value: ExactDecimal?, _ unit: MeasurementUnit) -> Quantity {
            value.map { Quantity($0, unit) } ?? self
        }
        func times(_ factor: Int64, _ exponent: Int16, places: Int16) -> ExactDecimal? {
            digits.multiplied(by: ExactDecimal(significand: factor, exponent: exponent), places: places)
        }
        switch unit {
        case .millimolesPerLitre:
            // A tenth of the molar mass of glucose, 180.156 g/mol.
            return converted(times(180_156, -4, places: 1), .milligramsPerDecilitre)
        case .kilopascal: return converted(times(750_062, -5, places: 1), .millimetresOfMercury)
        case .milligramsPerDecilitre, .millimetresOfMercury, .beatsPerMinute, .milliseconds, .percent:
            return converted(times(1, 0, places: 1), unit)
        case .degreesFahrenheit:
            let above = digits.adding(ExactDecimal(significand: 32), times: -1)
            return converted(above.divided(by: ExactDecimal(significand: 18, exponent: -1), places: 2), .degreesCelsius)
        case .pounds: return converted(times(45_359_237, -8, places: 2), .kilograms)
        case .grams: return converted(times(1, -3, places: 2), .kilograms)
        case .degreesCelsius, .kilograms, .kilogramsPerSquareMetre: return converted(times(1, 0, places: 2), unit)
        case .milligrams, .litres, .millilitres, .metres, .inches, .kilojoules, .ohms, .milligramsPerDecilitrePerMinute:
            return self
        }
    }
}

extension Quantity {
    /// How far a mass may be from the middle between two steps of 10 g for either to be meant, in kg. A weight in pounds with two
    /// decimal places is off by 2.3 g at most.
    private static let doubt = ExactDecimal(significand: 25, exponent: -4)

    /// The other masses that a mass may be taken for when it is written otherwise, in the form of ``comparable``.
    var neighbours: [Quantity] {
        guard let digits = number.digits else { return [] }
        let factor: ExactDecimal
        switch unit {
        case .kilograms: factor = ExactDecimal(significand: 1)
        case .grams: factor = ExactDecimal(significand: 1, exponent: -3)
        case .pounds: factor = ExactDecimal(significand: 45_359_237, exponent: -8)
        default: return []
        }
        guard let mass = digits.multiplied(by: factor, places: 6) else { return [] }
        let bounds = [mass.adding(Self.doubt, times: -1), mass.adding(Self.doubt, times: 1)]
        return bounds.map { Quantity($0, .kilograms).comparable }.filter { $0 != comparable }
    }
}

extension Quantity {
    /// What a glucose that is rounded as meters show it, to whole mg/dL or tenths of mmol/L, may be when it is shown in the other
    /// unit; none for one with more digits.
    ///
    /// Programs take 18 to 18.02 mg/dL for a mmol/L, so that each value has up to three.
    var inOtherUnit: [Quantity] {
        // Half a step in either direction, in whole numbers.
        switch unit {
        case .milligramsPerDecilitre:
            shown(in: .millimolesPerLitre, exponent: -1, steps(places: 0)) { whole in
                let lowest = (1000 * whole + 900) / 1802
                let highest = (10 * whole + 9) / 18
                return lowest...highest
            }
        case .millimolesPerLitre:
            shown(in: .milligramsPerDecilitre, exponent: 0, steps(places: 1)) { tenths in
                let lowest = 18 * tenths / 10
                let highest = (1802 * tenths + 901) / 1000
                return lowest...highest
            }
        default: []
        }
    }

    private func shown(
        in unit: MeasurementUnit, exponent: Int16, _ steps: Int64?, _ range: (Int64) -> ClosedRange<Int64>
    ) -> [Quantity] {
        if [.positiveInfinity, .negativeInfinity].contains(number) { return [Quantity(number, unit)] }
        guard let steps else { return [] }
        return range(steps).map { Quantity(ExactDecimal(significand: $0, exponent: exponent), unit) }
    }

    /// The number in steps of its last decimal place; `nil` if it has more places, or is none.
    private func steps(places: Int16) -> Int64? {
        guard let digits = number.digits,
            let rounded = digits.multiplied(by: ExactDecimal(significand: 1), places: places),
            rounded.isNumericallyEqual(to: digits), (1...10_000).contains(rounded.significand)
        else { return nil }
        return rounded.significand
    }
}

extension ExactDecimal {
    /// The number as kept samples are told apart by: without zeros at its end, which mean nothing there.
    fileprivate var comparable: ExactDecimal {
        var number = self
        while number.exponent < 0, number.significand % 10 == 0 {
            number = ExactDecimal(significand: number.significand / 10, exponent: number.exponent + 1)
        }
        return number
    }
}

extension RecordValue {
    /// Whether a measurement of this value is one of the other: the main values are the same, whatever the unit and whatever
    /// stands beside them.
    package func hasMainValues(of other: RecordValue) -> Bool {
        guard kind == other.kind else { return false }
        switch (comparable, other.comparable) {
        case (.glucose(let ours), .glucose(let theirs)): return ours.concentration == theirs.concentration
        case (.bloodPressure(let ours), .bloodPressure(let theirs)): return ours == theirs
        case (.vital(let ours), .vital(let theirs)): return ours.main == theirs.main
        case (.kept(let ours), .kept(let theirs)): return ours == theirs
        default: return false
        }
    }

    /// Whether another value with the same main values says something else beside them; what one of the two lacks is none.
    func contradicts(_ other: RecordValue) -> Bool {
        func differ<Value: Equatable>(_ ours: Value?, _ theirs: Value?) -> Bool {
            ours.flatMap { ours in theirs.map { ours != $0 } } ?? false
        }
        func differ(_ ours: Quantity?, _ theirs: Quantity?) -> Bool {
            guard let ours, let theirs, ours.number.digits != nil, theirs.number.digits != nil else { return false }
            return ours.comparable != theirs.comparable
        }
        switch (self, other) {
        case (.glucose(let ours), .glucose(let theirs)):
            return differ(ours.sampleType, theirs.sampleType) || differ(ours.sampleLocation, theirs.sampleLocation)
        case (.bloodPressure(let ours), .bloodPressure(let theirs)):
            return differ(ours.meanArterial, theirs.meanArterial) || differ(ours.pulse, theirs.pulse)
        case (.vital(let ours), .vital(let theirs)):
            return VitalValue.Part.allCases.contains { differ(ours[$0], theirs[$0]) }
        default: return false
        }
    }

    /// The value as imported samples are told apart by; see ``Quantity/comparable``.
    var comparable: RecordValue {
        switch self {
        case .glucose(let glucose):
            return .glucose(GlucoseValue(concentration: glucose.concentration?.comparable))
        case .bloodPressure(let pressure):
            return .bloodPressure(
                BloodPressureValue(
                    systolic: pressure.systolic.comparable, diastolic: pressure.diastolic.comparable,
                    meanArterial: Quantity(.notANumber, .millimetresOfMercury), pulse: nil))
        case .vital(let vital):
            return .vital(
                VitalValue(
                    kind: vital.kind, vital.quantities.map { VitalValue.Measured($0.part, $0.quantity.comparable) }))
        case .kept(let sample):
            return .kept(
                KeptSample(kind: sample.kind, type: sample.type, value: sample.value.comparable, unit: sample.unit))
        }
    }
}

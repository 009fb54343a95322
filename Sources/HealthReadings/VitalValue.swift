/// The values of a vital sign that is neither glucose nor blood pressure: a main one, with what was measured beside it.
public struct VitalValue: Sendable, Hashable {
    /// What a quantity is. A number once given is never given again.
    public enum Part: UInt8, Sendable, Hashable, CaseIterable {
        case heartRate = 1
        case saturation, pulse, temperature, weight, bodyMassIndex, height
        case bodyFat, basalMetabolism, musclePercentage, muscleMass, fatFreeMass, softLeanMass, bodyWaterMass, impedance
        case rmssd, sdnn

        /// The name in documents.
        public var name: String {
            switch self {
            case .heartRate: "heart_rate"
            case .saturation: "spo2"
            case .pulse: "pulse"
            case .temperature: "temperature"
            case .weight: "weight"
            case .bodyMassIndex: "body_mass_index"
            case .height: "height"
            case .bodyFat: "body_fat"
            case .basalMetabolism: "basal_metabolism"
            case .musclePercentage: "muscle_percentage"
            case .muscleMass: "muscle_mass"
            case .fatFreeMass: "fat_free_mass"
            case .softLeanMass: "soft_lean_mass"
            case .bodyWaterMass: "body_water_mass"
            case .impedance: "impedance"
            case .rmssd: "rmssd"
            case .sdnn: "sdnn"
            }
        }
    }

    /// One quantity with what it is.
    public struct Measured: Sendable, Hashable {
        /// What it is.
        public var part: Part
        /// How much.
        public var quantity: Quantity

        /// Makes it.
        public init(_ part: Part, _ quantity: Quantity) {
            self.part = part
            self.quantity = quantity
        }
    }

    /// The kind of reading; never glucose or blood pressure.
    public var kind: ReadingKind
    /// The quantities, the one the kind is named for first.
    public private(set) var quantities: [Measured]
    /// Where it was measured, by the specification's name: `ear`; nil where unknown, or without a meaning for the kind.
    public var site: String?
    /// Of a heart rate: the intervals between beats in milliseconds, oldest first.
    public var intervals: [ExactDecimal]
    /// Of a heart rate: whether the strap touches the skin; nil where it cannot tell.
    public var hasContact: Bool?
    /// Of a heart-rate variability: the seconds it covers.
    public var windowSeconds: Int?
    /// Of a kept variability: the beats that it rests on, and how many were left out as none of the heart's own.
    public var beats: BeatCount?
    /// Of a kept heart rate or saturation: the samples whose mean the main quantity is.
    public var series: SampleSeries?

    /// How many intervals between beats a variability rests on.
    public struct BeatCount: Sendable, Hashable {
        /// Intervals that count.
        public var counted: Int
        /// Intervals that a heart cannot have, or that stand out among their neighbours.
        public var leftOut: Int

        /// Makes it.
        public init(counted: Int, leftOut: Int) {
            self.counted = counted
            self.leftOut = leftOut
        }
    }

    /// Makes a value. A quantity beside the main one that cannot be a person's loses its number.
    public init(
        kind: ReadingKind, _ quantities: [Measured], site: String? = nil, intervals: [ExactDecimal] = [],
        hasContact: Bool? = nil, windowSeconds: Int? = nil, beats: BeatCount? = nil, series: SampleSeries? = nil
    ) {
        self.kind = kind
        self.quantities = quantities
        for place in quantities.indices.dropFirst() {
            self.quantities[place].quantity = quantities[place].quantity.judged(as: quantities[place].part.secondary)
        }
        self.site = site
        self.intervals = intervals
        self.hasContact = hasContact
        self.windowSeconds = windowSeconds
        self.beats = beats
        self.series = series
    }

    /// One of the quantities; nil where it was not measured.
    public subscript(part: Part) -> Quantity? { quantities.first { $0.part == part }?.quantity }

    /// The main quantity; nil where there is none.
    public var main: Quantity? { quantities.first?.quantity }

    /// Whether it is of a recording: what it has then, readings of one measurement have not.
    public var isRecorded: Bool { series != nil || beats != nil }

    private func seriesMember(as name: String) -> [JSONValue.Member] {
        series.map { [.init("series", $0.document(as: name))] } ?? []
    }

    /// What a document of its kind shows of it, every key always there.
    var members: [JSONValue.Member] {
        func document(_ part: Part) -> JSONValue.Member { .init(part.name, self[part]?.document ?? .null) }
        func number(_ part: Part) -> JSONValue { self[part]?.number.number.map(JSONValue.number) ?? .null }
        switch kind {
        case .glucose, .bloodPressure, .activity, .sleep, .other: return []
        case .heartRate:
            return [
                document(.heartRate), .init("rr_ms", .array(intervals.map(JSONValue.number))),
                .init("contact", hasContact.map(JSONValue.bool) ?? .null),
            ] + seriesMember(as: "bpm")
        case .hrv:
            var members: [JSONValue.Member] = [
                .init("rmssd", number(.rmssd)), .init("sdnn", number(.sdnn)),
                .init("window_seconds", .optional(windowSeconds)),
            ]
            if let beats {
                members += [
                    .init("beats", .integer(Int64(beats.counted))), .init("left_out", .integer(Int64(beats.leftOut))),
                ]
            }
            return [.init("hrv", .object(members))]
        case .spo2: return [document(.saturation), document(.pulse)] + seriesMember(as: "percent")
        case .temperature: return [document(.temperature), .init("site", .optional(site))]
        case .weight:
            return [
                document(.weight), .init("body_mass_index", number(.bodyMassIndex)), document(.height),
                document(.impedance),
            ]
        case .bodyComposition:
            let others: [Part] = [
                .basalMetabolism, .musclePercentage, .muscleMass, .fatFreeMass, .softLeanMass, .bodyWaterMass,
                .impedance, .weight, .height,
            ]
            return [
                .init("body_composition", self[.bodyFat]?.document ?? .null),
                .init("composition", .object(others.map(document))),
            ]
        }
    }
}

extension VitalValue.Part {
    /// What it is where it stands beside a main value; nil for what is a main value only.
    var secondary: SecondaryQuantity? {
        switch self {
        case .heartRate, .saturation, .temperature, .bodyFat, .rmssd, .sdnn: nil
        case .pulse: .pulse
        case .bodyMassIndex: .bodyMassIndex
        case .height: .height
        case .basalMetabolism: .basalMetabolism
        case .musclePercentage: .musclePercentage
        case .weight, .muscleMass, .fatFreeMass, .softLeanMass, .bodyWaterMass: .mass
        case .impedance: .impedance
        }
    }
}

extension Record {
    /// Whether it is delivered. A heart rate or a variability is only where this gateway has recorded it: another program's
    /// data may have millions.
    public var isDelivered: Bool {
        guard value.kind.isLive else { return value.kind.isDelivered }
        if case .vital(let vital) = value { return vital.isRecorded }
        return false
    }
}

extension VitalValue.Part {
    /// Whether it is the weight, or one that a body composition's weight can be computed from. Scales compute the basal metabolism
    /// from the weight, or from the mass without fat.
    public var revealsWeight: Bool {
        switch self {
        case .weight, .bodyMassIndex, .basalMetabolism, .muscleMass, .fatFreeMass, .softLeanMass, .bodyWaterMass: true
        case .heartRate, .saturation, .pulse, .temperature, .height, .bodyFat, .musclePercentage, .impedance, .rmssd,
            .sdnn:
            false
        }
    }
}

extension Reading {
    /// The reading without the samples of a recording: its mean alone.
    public var withoutSeries: Reading {
        guard case .vital(var value) = record.value, value.series != nil else { return self }
        value.series = nil
        var reading = self
        reading.record.value = .vital(value)
        return reading
    }

    /// The reading for whoever may see body compositions and no weights: without the weight that came with a composition, and
    /// without the masses and the basal metabolism from which it could be computed. Any other reading is as it was.
    public var withholdingWeight: Reading {
        guard case .vital(let value) = record.value, value.kind == .bodyComposition else { return self }
        var reading = self
        reading.record.value = .vital(
            VitalValue(
                kind: value.kind, value.quantities.filter { !$0.part.revealsWeight }, site: value.site,
                intervals: value.intervals, hasContact: value.hasContact, windowSeconds: value.windowSeconds))
        return reading
    }
}

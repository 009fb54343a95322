import HealthFigures
import HealthReadings
import Languages

extension GlucoseClass {
    /// The class in a language.
    public func named(_ words: Language) -> String {
        switch self {
        case .veryLow: words("very low", in: "glucose")
        case .low: words("low", in: "glucose")
        case .target: words("in range")
        case .high: words("high", in: "glucose")
        case .veryHigh: words("very high", in: "glucose")
        }
    }
}

extension GlucoseRanges.Preset {
    func named(_ words: Language) -> String {
        switch self {
        case .standard: words("standard", in: "ranges")
        case .older: words("older", in: "ranges")
        case .pregnancy: words("pregnancy", in: "ranges")
        case .gestational: words("gestational", in: "ranges")
        }
    }
}

extension FigureExclusion {
    /// The reason in a language.
    public func named(_ words: Language) -> String {
        switch self {
        case .leftOut: words("by choice of a person")
        case .excluded(let exclusion): exclusion.named(words)
        }
    }

    /// So many readings with the reason.
    func counted(_ count: Int, _ words: Language) -> String {
        switch self {
        case .leftOut: words("\(count: count, "by choice of a person")")
        case .excluded(let exclusion): exclusion.counted(count, words)
        }
    }
}

extension Exclusion {
    fileprivate func named(_ words: Language) -> String {
        switch self {
        case .errorRecord: words("error record")
        case .noValue: words("no value")
        case .notANumber: words("not a number")
        case .controlSolution: words("control solution")
        case .ketone: words("ketone")
        case .intermediate: words("intermediate")
        case .implausible: words("implausible")
        case .noTime: words("no time")
        case .implausibleTime: words("implausible time")
        case .otherUser: words("other user")
        case .sensorNotActive: words("sensor not active")
        case .superseded: words("superseded")
        case .withdrawn: words("withdrawn")
        }
    }

    fileprivate func counted(_ count: Int, _ words: Language) -> String {
        switch self {
        case .errorRecord: words("\(count: count, "error record")")
        case .noValue: words("\(count: count, "no value")")
        case .notANumber: words("\(count: count, "not a number")")
        case .controlSolution: words("\(count: count, "control solution")")
        case .ketone: words("\(count: count, "ketone")")
        case .intermediate: words("\(count: count, "intermediate")")
        case .implausible: words("\(count: count, "implausible")")
        case .noTime: words("\(count: count, "no time")")
        case .implausibleTime: words("\(count: count, "implausible time")")
        case .otherUser: words("\(count: count, "other user")")
        case .sensorNotActive: words("\(count: count, "sensor not active")")
        case .superseded: words("\(count: count, "superseded")")
        case .withdrawn: words("\(count: count, "withdrawn")")
        }
    }
}

extension Language {
    /// The name of a meal, of a part of the day or of a place of the body; one that is not known stays as it is.
    func name(_ name: String) -> String {
        let words = self
        return switch name {
        case "fasting": words("fasting", in: "meal")
        case "preprandial": words("preprandial", in: "meal")
        case "postprandial": words("postprandial", in: "meal")
        case "casual": words("casual", in: "meal")
        case "bedtime": words("bedtime", in: "meal")
        case "night": words("night")
        case "morning": words("morning")
        case "midday": words("midday")
        case "evening": words("evening")
        case "armpit": words("armpit")
        case "body": words("body")
        case "ear": words("ear")
        case "finger": words("finger")
        case "gastrointestinal_tract": words("gastrointestinal tract")
        case "mouth": words("mouth")
        case "rectum": words("rectum")
        case "toe": words("toe")
        case "tympanum": words("tympanum")
        case "forehead": words("forehead")
        default: isolated(name.replacing("_", with: " "))
        }
    }

    /// What a device is called that has no name of its own: the model's code in words.
    public func model(_ code: String) -> String {
        let words = self
        return switch code {
        case "manual": words("entered by hand")
        case "imported": words("imported")
        default: code.replacing("_", with: " ")
        }
    }

    /// Who left a reading out of figures: a client's name, or this machine.
    func speaker(_ name: String) -> String {
        let words = self
        return switch name {
        case "command": words("by command")
        case "this machine": words("this machine")
        default: name
        }
    }

    /// What a cuff said of a measurement, in the order of its bits.
    func flags(_ status: ReadingStatus) -> [String] {
        let words = self
        return status.names.map { name in
            switch name {
            case "body_movement": words("body movement")
            case "cuff_too_loose": words("cuff too loose")
            case "irregular_pulse": words("irregular pulse")
            case "pulse_rate_too_high": words("pulse rate too high")
            case "pulse_rate_too_low": words("pulse rate too low")
            case "improper_position": words("improper position")
            case "questionable": words("questionable")
            default: name.replacing("_", with: " ")
            }
        }
    }
}

extension Record {
    /// The values on one line for people: `glucose 95 mg/dL`, `blood pressure 127/79 mmHg, pulse 69`.
    ///
    /// - Parameters:
    ///   - words: the language.
    ///   - unit: the unit of a glucose, a blood pressure or a weight, as people read it there; `nil`: as measured.
    public func text(in words: Language, unit: MeasurementUnit? = nil) -> String {
        switch value {
        case .glucose(let glucose):
            guard let value = glucose.concentration?.shown(in: unit).text(in: words) else {
                return words("glucose without a value")
            }
            return words("glucose \(value)")
        case .bloodPressure(let pressure):
            let (systolic, diastolic) = (pressure.systolic.shown(in: unit), pressure.diastolic.shown(in: unit))
            let value = "\(systolic.digits(in: words))/\(diastolic.digits(in: words)) \(systolic.unit.symbol)"
            guard let pulse = pressure.pulse?.digits(in: words) else { return words("blood pressure \(value)") }
            return words("blood pressure \(value), pulse \(pulse)")
        case .vital(let vital): return vital.text(in: words, unit: unit)
        case .kept(let sample): return words.isolated("\(sample.type) \(sample.value) \(sample.unit)")
        }
    }
}

extension VitalValue {
    fileprivate func text(in words: Language, unit: MeasurementUnit?) -> String {
        let value = (kind == .weight ? main?.shown(in: unit) : main)?.text(in: words) ?? "–"
        switch kind {
        case .heartRate: return words("heart rate \(value)")
        case .hrv:
            return words(
                "hrv rmssd \(self[.rmssd]?.text(in: words) ?? "–"), sdnn \(self[.sdnn]?.text(in: words) ?? "–")")
        case .spo2:
            guard let pulse = self[.pulse]?.digits(in: words) else { return words("spo2 \(value)") }
            return words("spo2 \(value), pulse \(pulse)")
        case .temperature: return words("temperature \(value)")
        case .weight: return words("weight \(value)")
        case .bodyComposition: return words("body composition \(value)")
        case .glucose, .bloodPressure, .activity, .sleep, .other:
            return "\(kind.rawValue.replacing("_", with: " ")) \(value)"
        }
    }
}

extension Quantity {
    /// The number as people read it in a unit; as it is where there is no unit or no way to it.
    fileprivate func shown(in target: MeasurementUnit?) -> Quantity {
        guard let target, let number = number.number?.shown(unit, in: target) else { return self }
        return Quantity(number, target)
    }

    fileprivate func text(in words: Language) -> String {
        number.number == nil ? words("not a number") : "\(digits(in: words)) \(unit.symbol)"
    }

    fileprivate func digits(in words: Language) -> String { words.number(number.number) }
}

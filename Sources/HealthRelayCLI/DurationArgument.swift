import ArgumentParser

/// A duration as commands take it: `90`, `30s`, `5m`, `12h`, `90d`; a number alone is seconds.
struct DurationArgument: ExpressibleByArgument {
    /// How long, in seconds.
    let seconds: Double

    init(seconds: Double) { self.seconds = seconds }

    /// As it is typed, for the list of options.
    var defaultValueDescription: String { seconds == seconds.rounded() ? "\(Int(seconds))s" : "\(seconds)s" }

    init?(argument: String) { self.init(argument, days: 366) }

    /// Reads a duration of so many days at most.
    init?(_ argument: String, days: Double) {
        let units: [Character: Double] = ["s": 1, "m": 60, "h": 3600, "d": 86_400]
        var digits = argument[...]
        var factor = 1.0
        if let last = argument.last, let unit = units[last] {
            factor = unit
            digits = argument.dropLast()
        }
        guard !digits.isEmpty, digits.allSatisfy({ $0.isASCII && $0.isNumber || $0 == "." }),
            let number = Double(digits), number * factor <= days * 86_400
        else { return nil }
        seconds = number * factor
    }
}

/// How old what is erased has to be: `30s`, `12h`, `90d`, `26w` or `2y`, up to a hundred years.
///
/// `6m` would be six minutes to a command and six months to a person, and a number alone seconds: what is erased by such a
/// slip cannot be brought back.
struct ErasureAge {
    /// How long, in seconds.
    let seconds: Double

    init?(_ text: String) {
        let units: [Character: Double] = ["s": 1, "h": 3600, "d": 86_400, "w": 7 * 86_400, "y": 365 * 86_400]
        let digits = text.dropLast()
        guard let factor = text.last.flatMap({ units[$0] }), !digits.isEmpty,
            digits.allSatisfy({ $0.isASCII && $0.isNumber || $0 == "." }),
            let number = Double(digits), number * factor <= 36_525 * 86_400
        else { return nil }
        seconds = number * factor
    }
}

/// How old something is: a duration of up to a hundred years.
struct AgeArgument: ExpressibleByArgument {
    /// How long, in seconds.
    let seconds: Double

    init(seconds: Double) { self.seconds = seconds }

    /// As it is typed, for the list of options.
    var defaultValueDescription: String { DurationArgument(seconds: seconds).defaultValueDescription }

    init?(argument: String) {
        guard let duration = DurationArgument(argument, days: 36_525) else { return nil }
        seconds = duration.seconds
    }
}

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

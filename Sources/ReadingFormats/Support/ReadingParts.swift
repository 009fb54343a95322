import HealthFigures
import HealthReadings

extension Reading {
    /// What the reading says beside its main values, by the paths of its own document: formats of few fields name here what
    /// they leave out.
    ///
    /// - Parameter placed: what the format has a place for.
    func omissions(placed: Set<String>) -> [FormatOmission] {
        var parts: [FormatOmission] = []
        func add(_ part: String, _ isThere: Bool = true) {
            if isThere, !placed.contains(part) { parts.append(FormatOmission(.noPlace, of: part)) }
        }
        func add(_ part: String, _ quantity: Quantity?) {
            switch quantity?.number {
            case nil: break
            case .value: add(part)
            case .implausible: parts.append(FormatOmission(.excluded, of: part))
            default: parts.append(FormatOmission(.notANumber, of: part))
            }
        }
        switch record.value {
        case .glucose(let glucose):
            add("sample_type", glucose.sampleType.map { $0 != .reserved } ?? false)
            add("sample_location", glucose.sampleLocation.map { ![.reserved, .notAvailable].contains($0) } ?? false)
            if let context {
                add("context.carbohydrate", context.carbohydrate != nil)
                for (name, text) in [("meal", context.meal), ("tester", context.tester), ("health", context.health)] {
                    add("context.\(name)", text.map { $0 != "not_available" } ?? false)
                }
                add("context.exercise", context.exercise != nil)
                add("context.medication", context.medication != nil)
                add("context.hba1c", context.hba1c)
            }
            add("trend", glucose.continuous?.trend)
            add("quality", glucose.continuous?.quality)
        case .bloodPressure(let pressures):
            add("blood_pressure.mean", pressures.meanArterial)
            add("pulse", pressures.pulse)
        case .vital(let vital):
            for measured in vital.quantities.dropFirst() { add(measured.part.name, measured.quantity) }
            add("site", vital.site.map { $0 != "reserved" } ?? false)
            add("rr_ms", !vital.intervals.isEmpty)
            add("contact", vital.hasContact != nil)
            add("window_seconds", vital.windowSeconds != nil)
            add("series", vital.series != nil)
        case .kept: break
        }
        add("raw", record.sensor != nil)
        add("calibration", record.isEstimate)
        for name in record.status.names { add("status.\(name)") }
        add("time_uncertainty_minutes", time.uncertaintyMinutes != nil)
        return parts
    }

    /// The values of a vital sign that is neither glucose nor blood pressure; `nil` for these.
    var vital: VitalValue? { if case .vital(let value) = record.value { value } else { nil } }

    /// The reading's instant; thrown for what no format writes.
    func deliverableTime() throws(FormatOmission) -> Instant {
        guard excluded == nil else { throw FormatOmission(.excluded) }
        guard let instant = time.instant, (1...9999).contains(WallTime(secondsSinceEpoch: instant.seconds).date.year)
        else { throw FormatOmission(.noTime) }
        return instant.flooredToSecond
    }

    /// How a device is named in one line: its maker and model, or what it calls itself.
    func deviceName(_ facts: DeviceFacts) -> String { device.name(facts) }
}

extension DeviceDescription {
    /// The device in one line: its maker and model, or what it calls itself.
    func name(_ facts: DeviceFacts) -> String {
        [facts.manufacturer, facts.model ?? model ?? name].compactMap(\.self).joined(separator: " ").nonEmpty
            ?? "HealthRelay"
    }
}

/// A number in a format's unit, and what that took.
struct Placed {
    var number: ExactDecimal
    /// Nil if the number is the device's own; else why it is not.
    var change: FormatOmission.Reason?

    /// - Parameters:
    ///   - quantity: what was measured.
    ///   - unit: the format's unit.
    ///   - places: the decimal places that the format has; nil: as many as the device has, and `converted` for what is converted.
    ///   - converted: the decimal places of a number that is converted.
    /// - Returns: `nil` if there is no number, or no conversion.
    init?(_ quantity: Quantity, in unit: MeasurementUnit, places: Int16? = nil, converted: Int16 = 2) {
        guard let own = quantity.number.number else { return nil }
        if quantity.unit == unit {
            guard let places else {
                number = own
                return
            }
            guard let rounded = own.multiplied(by: ExactDecimal(significand: 1), places: places) else { return nil }
            number = rounded
            change = rounded.isNumericallyEqual(to: own) ? nil : .rounded
        } else {
            guard let other = quantity.number(in: unit, places: places ?? converted) else { return nil }
            number = other
            change = .converted
        }
    }
}

import HealthReadings
import Languages
import ReportPages

extension Reading {
    /// The reading on one line for people: when, what, from where, and what keeps it from being delivered.
    public var line: String {
        let when =
            time.instant?.description ?? record.deviceTime.map { "\($0) (zone unknown)" } ?? "time unknown"
        let origin = [device.model, device.address?.description].compactMap(\.self).joined(separator: " ")
        let note = (record.entry?.note ?? record.imported?.source).map { "  (\($0))" } ?? ""
        let fate = excluded.map { " [kept, not sent: \($0.words)]" } ?? outcome.map { " [\($0)]" } ?? ""
        let figures = leftOut.map { " [in no figure\($0.reason.map { ": \($0)" } ?? "")]" } ?? ""
        return "\(when)  \(record.words)  \(origin)\(note)\(fate)\(figures)"
    }

    /// What keeps the reading from its destinations, in a few words; `nil` if nothing does.
    private var outcome: String? {
        let outcomes = deliveries.compactMap { delivery -> String? in
            switch delivery.state {
            case .waiting, .handedOver, .delivered: nil
            case .held(let hold): "\(delivery.destination): \(hold.words)"
            case .refused(let words): "\(delivery.destination): refused: \(words)"
            case .retracted: "\(delivery.destination): retracted"
            }
        }
        return outcomes.isEmpty ? nil : outcomes.joined(separator: "; ")
    }

    /// The columns of `query --format csv`.
    package static let csvHeader =
        "id,kind,time,time_basis,device_time,address,model,serial,provider,sequence,"
        + "glucose_value,glucose_unit,systolic,diastolic,mean,pressure_unit,pulse,user,person,status,excluded,deliveries,value,unit,type,end_time,"
        + "base_time,time_offset_minutes,time_uncertainty_minutes,sample_type,sample_location,source,source_device,entered,utc_offset_minutes,meal,calibration,left_out,left_out_reason,sensor_source"

    /// The columns whose cells are numbers.
    private static let numbers: [Bool] = {
        let names: Set = [
            "sequence", "glucose_value", "systolic", "diastolic", "mean", "pulse", "user", "value",
            "time_offset_minutes",
            "time_uncertainty_minutes", "utc_offset_minutes",
        ]
        return csvHeader.split(separator: ",").map { names.contains(String($0)) }
    }()

    /// The columns of `query --format csv`, in a style.
    package static func csvHeader(_ style: SafeCSV.Style) -> String {
        csvHeader.replacing(",", with: style.separator)
    }

    /// The reading as a line of CSV (RFC 4180).
    package var csv: String { csv(.comma) }

    /// The reading as a line of CSV.
    ///
    /// - Parameter style: how cells and numbers are parted.
    package func csv(_ style: SafeCSV.Style) -> String {
        var cells: [String?] = [
            id.description, kind.rawValue, time.instant?.description, time.basis.rawValue,
            record.deviceTime?.description, device.address?.description, device.model, device.serial, device.provider,
            record.sequence.map { String($0) },
        ]
        switch record.value {
        case .glucose(let glucose):
            let number = glucose.concentration?.number.number
            cells += [number?.description, number == nil ? nil : glucose.concentration?.unit.symbol]
            cells += [nil, nil, nil, nil, nil]
        case .bloodPressure(let pressure):
            cells += [nil, nil]
            cells += [pressure.systolic, pressure.diastolic, pressure.meanArterial].map {
                $0.number.number?.description
            }
            cells += [pressure.systolic.unit.symbol, pressure.pulse?.number.number?.description]
        case .vital(let vital):
            cells += [nil, nil, nil, nil, nil, nil, vital[.pulse]?.number.number?.description]
        case .kept: cells += [nil, nil, nil, nil, nil, nil, nil]
        }
        cells += [
            record.userSlot.map { String($0) }, person, record.status.names.joined(separator: " "), excluded?.rawValue,
            deliveries.map(\.cell).joined(separator: " "),
        ]
        switch record.value {
        case .vital(let vital):
            let number = vital.main?.number.number
            cells += [number?.description, number == nil ? nil : vital.main?.unit.symbol, nil]
        case .kept(let sample): cells += [sample.value.description, sample.unit, sample.type]
        case .glucose, .bloodPressure: cells += [nil, nil, nil]
        }
        let imported = record.imported
        cells += [
            imported?.end?.description, record.baseTime?.description, record.timeOffsetMinutes.map { String($0) },
            time.uncertaintyMinutes.map { String($0) },
        ]
        if case .glucose(let glucose) = record.value {
            cells += [glucose.sampleType?.name, glucose.sampleLocation?.name]
        } else {
            cells += [nil, nil]
        }
        cells += [
            imported?.source, imported?.device, imported.map { String($0.isEntered) },
            imported?.utcOffsetMinutes.map { String($0) },
            context?.meal.flatMap { ManualEntry.meals.contains($0) ? $0 : nil },
            record.isEstimate ? SensorFacts.Calibration.factoryEstimate.name : nil,
            leftOut == nil ? nil : "true", leftOut?.reason,
            record.sensor?.source.name ?? imported?.sensorSource?.name,
        ]
        return zip(cells, Self.numbers).map { cell, isNumber in
            isNumber ? SafeCSV.number(cell ?? "", style) : SafeCSV.text(cell ?? "")
        }.joined(separator: style.separator)
    }
}

extension DestinationDelivery {
    /// `clinic:delivered`, `home:held:no_consent`. The receiver's words are free text and have no place in a list.
    fileprivate var cell: String { "\(destination):\(state.name)" + (hold.map { ":\($0.rawValue)" } ?? "") }
}

extension LiveReading {
    /// The value on one line for people.
    public var line: String {
        let origin = [device.model, device.address?.description].compactMap(\.self).joined(separator: " ")
        let fate = record.exclusion.map { " [\($0.words)]" } ?? ""
        return "\(receivedAt.flooredToSecond)  \(record.words)  \(origin)\(fate)"
    }
}

extension Record {
    /// The values on one line for people: `glucose 95 mg/dL`, `blood pressure 127/79 mmHg, pulse 69`.
    public var words: String { text(in: .english) }
}

extension Exclusion {
    /// The reason in plain words.
    public var words: String { rawValue.replacing("_", with: " ") }
}

extension Hold {
    /// The reason in plain words.
    public var words: String { rawValue.replacing("_", with: " ") }
}

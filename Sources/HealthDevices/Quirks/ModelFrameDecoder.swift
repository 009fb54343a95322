import GATTProfiles
import HealthReadings

/// Decodes frames as their model means them: the standard, with the quirks of the catalogue's entry. Pure.
///
/// Each quirk is looked for in the octets; where it is not found the standard's answer stands. What no standard covers
/// (``OneTouchRecord``) is decoded by its own format, whatever model is named.
public struct ModelFrameDecoder: FrameDecoding {
    private let catalogue: Catalogue
    private let standard = StandardFrameDecoder()

    /// Makes a decoder.
    public init(catalogue: Catalogue = Catalogue()) { self.catalogue = catalogue }

    /// Whether the model's readable clock shows base time.
    public func clockShowsBaseTime(model: String?) -> Bool {
        catalogue.odd(model)?.has(.clockShowsBaseTime) ?? false
    }

    /// Whether the model's contexts may say that their records are ketones.
    public func contextsDecide(model: String?) -> Bool { catalogue.odd(model)?.has(.mealSixIsKetone) ?? false }

    /// Whether the record's context may say that it is a ketone.
    public func awaitsContext(_ frame: Frame, model: String?) -> Bool {
        guard frame.format == FrameFormat(characteristic: GlucoseMeasurement.assignedNumber),
            contextsDecide(model: model)
        else { return false }
        return (try? GlucoseMeasurement(decoding: frame.payload))?.hasContext ?? false
    }

    /// The age by which a record and its context are numbered, where the model numbers so.
    public func passingNumber(of frame: Frame, model: String?) -> UInt16? {
        guard let place = Self.age(of: frame, catalogue.odd(model)) else { return nil }
        return UInt16(frame.payload[place]) | UInt16(frame.payload[place + 1]) << 8
    }

    /// The octets without such an age.
    public func lastingOctets(of frame: Frame, model: String?) -> [UInt8] {
        guard let place = Self.age(of: frame, catalogue.odd(model)) else { return frame.payload }
        var octets = frame.payload
        octets.removeSubrange(place...(place + 1))
        return octets
    }

    /// Where a frame's number stands, which is an age.
    private static func age(of frame: Frame, _ model: DeviceModel?) -> Int? {
        guard model?.has(.numbersByAge) == true, frame.payload.count >= 3,
            frame.format == FrameFormat(characteristic: GlucoseMeasurement.assignedNumber)
                || frame.format == FrameFormat(characteristic: GlucoseMeasurementContext.assignedNumber)
        else { return nil }
        return 1
    }

    /// Decodes one frame of a device of this model (a catalogue id; nil for an unknown one).
    ///
    /// A number that the model cannot have measured excludes its record, whatever it came by.
    public func decode(_ frame: Frame, model: String?) -> DecodedFrame {
        if frame.format == .manualEntry { return DecodedFrame(manualEntry: frame.payload).judged }
        if frame.format == .figureDecision { return DecodedFrame(figureDecision: frame.payload) }
        if frame.format == .importedSample { return DecodedFrame(importedSample: frame.payload).judged }
        if let recorded = DecodedFrame(recorded: frame) { return recorded }
        let decoded = decode(frame, by: catalogue.odd(model), model)
        guard case .record(var record) = decoded, let exclusion = catalogue.odd(model)?.exclusion(of: record) else {
            return decoded
        }
        record.exclusion = exclusion
        return .record(record)
    }

    /// A sample out of another program's data, excluded if nobody can have its value.
    public func judged(_ sample: ImportedSample) -> ImportedSample { sample.judged }

    /// Whether a record may come by the model's own protocol and by the standard one.
    public func comesByTwoProtocols(model: String?) -> Bool { catalogue.odd(model)?.omronMemory != nil }

    /// Whether a frame is a record at an address, which each model means otherwise.
    public func isPlacedByModel(_ frame: Frame) -> Bool { frame.format == .omronRecord }

    /// What the model can measure, and how its memory is laid out.
    public func rules(model: String?) -> String {
        guard let entry = catalogue.odd(model) else { return "" }
        return entry.omronMemory == nil ? entry.rules : "\(entry.rules); memory of \(entry.id)"
    }

    /// What ended a measurement says nothing by itself: a result stands in a frame of its own.
    private static func qardioMessage(_ octets: [UInt8]) -> DecodedFrame {
        do throws(MalformedFrame) {
            _ = try QardioFrame(decoding: octets)
            return .nothing
        } catch {
            return .malformed(error)
        }
    }

    private func decode(_ frame: Frame, by entry: DeviceModel?, _ model: String?) -> DecodedFrame {
        if frame.format == .recalledValue { return RecalledValue.decode(frame) { decode($0, by: entry, model) } }
        if frame.format == .oneTouchRecord { return OneTouchRecord.decode(frame.payload) }
        if frame.format == .omronRecord {
            return entry?.omronMemory?.decode(frame.payload) ?? .malformed(OmronMemory.unknownModel)
        }
        if frame.format == .microlifeRecord { return MicrolifeRecord.decode(frame.payload) }
        if frame.format == .viatomPressure { return ViatomPressure.decode(frame.payload) }
        if frame.format == .o2ringSaturations { return O2RingRecording.decode(frame.payload, as: .saturation) }
        if frame.format == .o2ringPulses { return O2RingRecording.decode(frame.payload, as: .pulse) }
        if frame.format == .o2ringMessage { return O2RingRecording.decode(message: frame.payload) }
        if frame.format == .xiaomiComposition || frame.format == .xiaomiWeight {
            return XiaomiMeasurement.decode(frame.payload, as: frame.format)
        }
        // What a monitor's records are made of; each stands in a frame of its own.
        if frame.format == .qardioMessage { return Self.qardioMessage(frame.payload) }
        if [.omronMessage, .microlifeMessage, .viatomMessage].contains(frame.format) { return .nothing }
        guard let entry, let characteristic = UInt16(exactly: frame.format.rawValue)
        else { return standard.decode(frame, model: model) }
        do throws(MalformedFrame) {
            switch characteristic {
            case GlucoseMeasurement.assignedNumber:
                return try GlucoseMeasurement(decoding: frame.payload).decoded(by: entry)
            case GlucoseMeasurementContext.assignedNumber:
                return try GlucoseMeasurementContext(decoding: frame.payload).decoded(by: entry)
            case BloodPressureMeasurement.assignedNumber where entry.has(.bigEndianPulse):
                return .record(try BloodPressureMeasurement.withBigEndianPulse(frame.payload).record)
            case BloodPressureMeasurement.assignedNumber where entry.measuresOnCommand:
                return .record(try QardioFrame(decoding: frame.payload).record)
            default: return standard.decode(frame, model: model)
            }
        } catch {
            return .malformed(error)
        }
    }
}

extension DecodedFrame {
    /// The frame, an entry or an import of a value that nobody can have marked as implausible.
    fileprivate var judged: DecodedFrame {
        switch self {
        case .entry(var entry):
            if !entry.value.isPlausible { entry.exclusion = .implausible }
            return .entry(entry)
        case .imported(let sample): return .imported(sample.judged)
        default: return self
        }
    }
}

extension ImportedSample {
    fileprivate var judged: ImportedSample {
        var sample = self
        if value.isBeyondLimits {
            sample.exclusion = .notANumber
        } else {
            sample.exclusion = value.isPlausible ? nil : .implausible
        }
        return sample
    }
}

extension RecordValue {
    /// Whether it is the HI or LO of a device that measured beyond its limits.
    fileprivate var isBeyondLimits: Bool {
        guard case .glucose(let glucose) = self else { return false }
        return [.positiveInfinity, .negativeInfinity].contains(glucose.concentration?.number)
    }

    /// Whether somebody can have this value.
    fileprivate var isPlausible: Bool {
        switch self {
        case .glucose(let glucose): glucose.concentration.map(Plausibility.isPlausible(glucose:)) ?? false
        case .bloodPressure(let pressure):
            Plausibility.isPlausible(systolic: pressure.systolic, diastolic: pressure.diastolic)
        case .vital(let vital): Plausibility.isPlausible(vital)
        case .kept: true
        }
    }
}

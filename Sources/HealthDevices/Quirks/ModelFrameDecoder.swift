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

    /// Decodes one frame of a device of this model (a catalogue id; nil for an unknown one).
    public func decode(_ frame: Frame, model: String?) -> DecodedFrame {
        if frame.format == .oneTouchRecord { return OneTouchRecord.decode(frame.payload) }
        guard let entry = catalogue.odd(model), let characteristic = UInt16(exactly: frame.format.rawValue)
        else { return standard.decode(frame, model: model) }
        do throws(MalformedFrame) {
            switch characteristic {
            case GlucoseMeasurement.assignedNumber:
                return try GlucoseMeasurement(decoding: frame.payload).decoded(by: entry)
            case GlucoseMeasurementContext.assignedNumber:
                return try GlucoseMeasurementContext(decoding: frame.payload).decoded(by: entry)
            case BloodPressureMeasurement.assignedNumber where entry.has(.bigEndianPulse):
                return .record(try BloodPressureMeasurement.withBigEndianPulse(frame.payload).record)
            default: return standard.decode(frame, model: model)
            }
        } catch {
            return .malformed(error)
        }
    }
}

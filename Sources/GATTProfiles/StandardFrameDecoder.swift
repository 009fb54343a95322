import HealthReadings

/// Decodes the values of the standard health characteristics, whatever the model.
///
/// Which characteristics are records, contexts and companions, and what reads them, is in ``ServiceProfile``. The
/// measurements of continuous glucose sensors (2AA7) are records together with their session
/// (``ContinuousGlucoseRecord``). Nothing follows from other characteristics.
public struct StandardFrameDecoder: FrameDecoding {
    /// Makes a decoder.
    public init() {}

    /// Decodes one frame; the model is not looked at.
    public func decode(_ frame: Frame, model: String?) -> DecodedFrame {
        if frame.format == .continuousGlucoseRecord {
            do throws(MalformedFrame) {
                return .record(try ContinuousGlucoseRecord(payload: frame.payload).record())
            } catch {
                return .malformed(error)
            }
        }
        if frame.format == .recalledValue { return RecalledValue.decode(frame) { decode($0, model: model) } }
        guard let characteristic = UInt16(exactly: frame.format.rawValue) else { return .nothing }
        return decode(characteristic: characteristic, octets: frame.payload.span.bytes)
    }

    /// Decodes one value of a characteristic with a 16-bit assigned number.
    public func decode(characteristic: UInt16, octets: RawSpan) -> DecodedFrame {
        guard let read = ServiceProfile.decoders[characteristic] else { return .nothing }
        do throws(MalformedFrame) {
            return try read(octets)
        } catch {
            return .malformed(error)
        }
    }
}

extension GlucoseMeasurement: RecordCoding {
    /// The record this is, with the reason why it is never delivered, where its own content gives one.
    @inline(__always)
    public var record: Record {
        // Bits 0 … 11 of Sensor Status Annunciation are those of ReadingStatus; the others are reserved.
        let status = ReadingStatus(rawValue: UInt32(sensorStatus ?? 0) & 0x0FFF)
        let offsetIsUnknown = timeOffset == .max || timeOffset == .min
        let quantity = concentration?.quantity
        return Record(
            value: .glucose(
                GlucoseValue(
                    concentration: quantity, sampleType: concentration?.type,
                    sampleLocation: concentration?.location)),
            sequence: sequenceNumber, baseTime: baseTime.wallTime,
            timeOffsetMinutes: offsetIsUnknown ? nil : timeOffset, timeOffsetIsUnknown: offsetIsUnknown,
            status: status, exclusion: exclusion(quantity, status))
    }

    @inline(__always)
    private func exclusion(_ quantity: Quantity?, _ status: ReadingStatus) -> Exclusion? {
        if let exclusion = MeasurementVerdict(status).exclusion { return exclusion }
        guard let concentration, let quantity else { return .noValue }
        if quantity.number.number == nil { return .notANumber }
        if concentration.type == .controlSolution || concentration.location == .controlSolution {
            return .controlSolution
        }
        return Plausibility.isPlausible(glucose: quantity) ? nil : .implausible
    }
}

extension BloodPressureMeasurement: RecordCoding {
    /// The record this is, with the reason why it is never delivered, where its own content gives one.
    ///
    /// A mean or pulse that is no number leaves the reading as it is.
    @inline(__always)
    public var record: Record {
        let value = BloodPressureValue(
            systolic: pressure(systolic), diastolic: pressure(diastolic), meanArterial: pressure(meanArterialPressure),
            pulse: pulseRate.map { Quantity($0.number, .beatsPerMinute) })
        let verdict = MeasurementVerdict(status)
        return Record(
            value: .bloodPressure(value), baseTime: timeStamp.flatMap(\.wallTime), status: verdict.status,
            userSlot: userID == Self.unknownUser ? nil : userID,
            exclusion: verdict.exclusion ?? exclusion(systolic: value.systolic, diastolic: value.diastolic))
    }

    /// The bits of Measurement Status under their names; reserved bits and pulse-range values are left out.
    public var status: ReadingStatus {
        let bits = measurementStatus ?? 0
        var status = ReadingStatus(rawValue: UInt32(bits & 0b111) << 16)
        switch bits >> 3 & 0b11 {
        case 1: status.insert(.pulseRateTooHigh)
        case 2: status.insert(.pulseRateTooLow)
        default: break
        }
        if bits & 0b10_0000 != 0 { status.insert(.improperPosition) }
        return status
    }

    @inline(__always)
    private func pressure(_ value: MedFloat16) -> Quantity { Quantity(value.number, unit.measurementUnit) }

    @inline(__always)
    private func exclusion(systolic: Quantity, diastolic: Quantity) -> Exclusion? {
        if systolic.number.number == nil || diastolic.number.number == nil { return .notANumber }
        return Plausibility.isPlausible(systolic: systolic, diastolic: diastolic) ? nil : .implausible
    }
}

extension IntermediateCuffPressure {
    /// The record this is: always excluded as `Exclusion.intermediate`.
    ///
    /// That the unused diastolic field is NaN is how 2A36 is meant to be, and no reason of its own.
    public var record: Record {
        var record = fields.record
        record.exclusion = .intermediate
        return record
    }
}

import CDecode
import GATTProfiles
import HealthReadings

// Each contender folds what it found into one number, so that nothing can be left out and all can be compared.

private func fold(_ number: c_number) -> Int64 {
    number.special == 0 ? Int64(number.mantissa) &* 31 &+ Int64(number.exponent) : 1 << 40
}

private func fold(_ number: MeasuredNumber, exponentShift: Int16 = 0) -> Int64 {
    guard case .value(let value) = number else { return 1 << 40 }
    return value.significand &* 31 &+ Int64(value.exponent - exponentShift)
}

private func fold(_ time: WallTime?) -> Int64 { time?.secondsSinceEpoch ?? .min }

// Glucose.

@inline(never)
func glucoseInC(_ octets: [UInt8]) -> Int64 {
    var out = c_glucose()
    guard octets.withUnsafeBufferPointer({ c_decode_glucose($0.baseAddress, $0.count, &out) }) == 0 else { return -1 }
    return Int64(out.sequence) &+ out.base_time &+ Int64(out.has_offset == 1 ? out.time_offset : 0)
        &+ fold(out.concentration) &+ Int64(out.type) &+ Int64(out.location) &+ Int64(out.status)
}

@inline(never)
func decodeGlucose(_ octets: [UInt8]) throws(MalformedFrame) -> GlucoseMeasurement {
    try GlucoseMeasurement(decoding: octets)
}

@inline(never)
func glucoseFields(_ octets: [UInt8]) -> Int64 {
    guard let value = try? decodeGlucose(octets) else { return -1 }
    var sum = Int64(value.sequenceNumber) &+ fold(value.baseTime.wallTime) &+ Int64(value.timeOffset ?? 0)
    if let concentration = value.concentration {
        sum =
            sum &+ fold(concentration.value.number) &+ Int64(concentration.type.rawValue)
            &+ Int64(concentration.location.rawValue)
    }
    return sum &+ Int64(value.sensorStatus ?? 0)
}

@inline(never)
func glucoseRecord(_ octets: [UInt8]) -> Int64 {
    let decoded = StandardFrameDecoder().decode(characteristic: 0x2A18, octets: octets.span.bytes)
    guard case .record(let record) = decoded, case .glucose(let value) = record.value else { return -1 }
    var sum = Int64(record.sequence ?? 0) &+ fold(record.baseTime) &+ Int64(record.timeOffsetMinutes ?? 0)
    if let concentration = value.concentration {
        sum =
            sum
            &+ fold(concentration.number, exponentShift: concentration.unit == .millimolesPerLitre ? 3 : 5)
            &+ Int64(value.sampleType?.rawValue ?? 0) &+ Int64(value.sampleLocation?.rawValue ?? 0)
    }
    return sum &+ Int64(record.status.rawValue)
}

// Blood pressure.

@inline(never)
func pressureInC(_ octets: [UInt8]) -> Int64 {
    var out = c_blood_pressure()
    guard octets.withUnsafeBufferPointer({ c_decode_blood_pressure($0.baseAddress, $0.count, &out) }) == 0 else {
        return -1
    }
    return fold(out.systolic) &+ fold(out.diastolic) &+ fold(out.mean) &+ (out.has_pulse == 1 ? fold(out.pulse) : 0)
        &+ out.time_stamp &+ Int64(out.user)
}

@inline(never)
func decodePressure(_ octets: [UInt8]) throws(MalformedFrame) -> BloodPressureMeasurement {
    try BloodPressureMeasurement(decoding: octets)
}

@inline(never)
func pressureFields(_ octets: [UInt8]) -> Int64 {
    guard let value = try? decodePressure(octets) else { return -1 }
    return fold(value.systolic.number) &+ fold(value.diastolic.number) &+ fold(value.meanArterialPressure.number)
        &+ (value.pulseRate.map { fold($0.number) } ?? 0) &+ fold(value.timeStamp?.wallTime) &+ Int64(value.userID ?? 0)
}

@inline(never)
func pressureRecord(_ octets: [UInt8]) -> Int64 {
    let decoded = StandardFrameDecoder().decode(characteristic: 0x2A35, octets: octets.span.bytes)
    guard case .record(let record) = decoded, case .bloodPressure(let value) = record.value else { return -1 }
    return fold(value.systolic.number) &+ fold(value.diastolic.number) &+ fold(value.meanArterial.number)
        &+ (value.pulse.map { fold($0.number) } ?? 0) &+ fold(record.baseTime) &+ Int64(record.userSlot ?? 0)
}

import HealthReadings

/// A small decoder of 2A18, 2A34 and 2A35 frames as the builders below make them, and of 2AA7 laid out like 2A18.
struct TestDecoder: FrameDecoding {
    /// Refuses everything: a decoder of an older version.
    var knowsNothing = false
    /// The age of every sensor stands still.
    var sensorHasStopped = false
    /// Excludes what a sensor said in a state that is none of measuring; another version may not.
    var heedsState = true
    /// Takes the newest trend record for one of the sensor's age, as earlier versions did.
    var countsTrendFromAge = false
    /// Awaits a context for every third record.
    var awaitsSomeContexts = false
    /// The lowest glucose, in mg/dL, that the meter measures: a rule that another version may not have.
    var lowest: UInt16 = 0

    func rules(model: String?) -> String { lowest > 0 ? "from \(lowest)" : "" }

    func awaitsContext(_ frame: Frame, model: String?) -> Bool {
        awaitsSomeContexts && frame.format.rawValue == 0x2A18 && frame.ordinal % 3 == 0
    }

    func decode(_ frame: Frame, model: String?) -> DecodedFrame {
        if frame.format == .manualEntry { return DecodedFrame(manualEntry: frame.payload) }
        if frame.format == .figureDecision { return DecodedFrame(figureDecision: frame.payload) }
        if frame.format == .importedSample || frame.format == .cloudRecord {
            return DecodedFrame(importedSample: frame.payload)
        }
        let o = frame.payload
        guard !knowsNothing, o.count >= 3 else {
            return .malformed(
                MalformedFrame(subject: "test", expected: "more octets", octet: o.count, found: "the end"))
        }
        func u16(_ at: Int) -> UInt16 { UInt16(o[at]) | UInt16(o[at + 1]) << 8 }
        func time(_ at: Int) -> WallTime? {
            WallTime(
                year: Int(u16(at)), month: Int(o[at + 2]), day: Int(o[at + 3]), hour: Int(o[at + 4]),
                minute: Int(o[at + 5]), second: Int(o[at + 6]))
        }
        func sfloat(_ at: Int) -> MeasuredNumber {
            let raw = u16(at)
            if raw == 0x07FF { return .notANumber }
            let mantissa = Int64(raw & 0xFFF) - (raw & 0x800 != 0 ? 0x1000 : 0)
            let exponent = Int16(raw >> 12) - (raw & 0x8000 != 0 ? 16 : 0)
            return .value(ExactDecimal(significand: mantissa, exponent: exponent))
        }
        switch frame.format.rawValue {
        case 0x2A18, 0x2AA7:
            guard o.count >= 10 else {
                return .malformed(
                    MalformedFrame(subject: "2A18", expected: "10 octets", octet: o.count, found: "the end"))
            }
            var (at, flags) = (10, o[0])
            var record = Record(value: .glucose(GlucoseValue(concentration: nil)), sequence: u16(1), baseTime: time(3))
            if flags & 1 != 0 {
                let offset = Int16(bitPattern: u16(at))
                record.timeOffsetIsUnknown = offset == 0x7FFF || offset == .min
                record.timeOffsetMinutes = record.timeOffsetIsUnknown ? nil : offset
                at += 2
            }
            if flags & 2 != 0 {
                let value = sfloat(at).scaled(byPowerOfTen: flags & 4 != 0 ? 3 : 5)
                record.value = .glucose(
                    GlucoseValue(
                        concentration: Quantity(
                            value, flags & 4 != 0 ? .millimolesPerLitre : .milligramsPerDecilitre),
                        sampleType: GlucoseSampleType(rawValue: o[at + 2] & 15),
                        sampleLocation: GlucoseSampleLocation(rawValue: o[at + 2] >> 4),
                        continuous: frame.format.rawValue == 0x2AA7 ? ContinuousGlucoseFacts() : nil))
                if value.number == nil { record.exclusion = .notANumber }
                if u16(at) & 0xFFF < lowest { record.exclusion = .implausible }
                if o[at + 2] & 15 == 10 { record.exclusion = .controlSolution }
                at += 3
            }
            if flags & 8 != 0 {
                record.status = ReadingStatus(rawValue: UInt32(u16(at)))
                if !record.status.isDisjoint(with: .measurementFailed) { record.exclusion = .errorRecord }
            }
            flags = 0
            return .record(record)
        case 0x2A34:
            var context = GlucoseContext()
            context.meal = ["reserved", "preprandial", "postprandial", "fasting", "casual", "bedtime"][Int(o[3]) % 6]
            if o.count > 4 {
                context.carbohydrate = .init(id: "lunch", amount: Quantity(sfloat(4), .grams))
                context.exercise = .init(seconds: nil, intensityPercent: 40)
                context.hba1c = Quantity(.value(ExactDecimal(significand: 65, exponent: -1)), .percent)
            }
            return .glucoseContext(sequence: u16(1), context)
        case 0x2A35:
            func pressure(_ at: Int) -> Quantity { Quantity(sfloat(at), .millimetresOfMercury) }
            var at = 7
            var record = Record(
                value: .bloodPressure(
                    BloodPressureValue(systolic: pressure(1), diastolic: pressure(3), meanArterial: pressure(5))))
            if o[0] & 2 != 0 {
                record.baseTime = time(at)
                at += 7
            }
            if o[0] & 8 != 0 { record.userSlot = o[at] }
            return .record(record)
        case FrameFormat.libre1Scan.rawValue:
            var scan = SensorScan(serial: "0M000TEST01", ageMinutes: u16(0), isRunning: !sensorHasStopped, records: [])
            for at in stride(from: 2, to: o.count, by: 6) {
                let (glucose, hasError) = (u16(at + 3), o[at + 5] & 1 != 0)
                let (isLagging, isContradictory) = (o[at + 5] & 4 != 0, o[at + 5] & 8 != 0)
                if isContradictory, !countsTrendFromAge { continue }
                scan.records.append(
                    Record(
                        value: .glucose(
                            GlucoseValue(
                                concentration: Quantity(
                                    ExactDecimal(significand: Int64(glucose / 10), exponent: 0), .milligramsPerDecilitre
                                ),
                                sampleType: .interstitialFluid)),
                        exclusion: hasError
                            ? .errorRecord : o[at + 5] & 2 != 0 && heedsState ? .sensorNotActive : nil,
                        sensor: SensorFacts(
                            source: o[at] == 1 ? .trend : .history,
                            minute: u16(at + 1) + (isLagging && countsTrendFromAge ? 1 : 0), glucose: glucose,
                            temperature: 6800, adjustment: -12, quality: 0x120, flags: 2, hasError: hasError,
                            calibration: .factoryEstimate)))
            }
            return .sensor(scan)
        default: return .nothing
        }
    }
}

/// Builds frames.
enum Build {
    static func octets(_ value: UInt16) -> [UInt8] { [UInt8(value & 255), UInt8(value >> 8)] }

    static func octets(_ time: WallTime?) -> [UInt8] {
        guard let time else { return [0, 0, 0, 0, 0, 0, 0] }
        let (date, clock) = (time.date, time.timeOfDay)
        return octets(UInt16(date.year))
            + [date.month, date.day, clock.hour, clock.minute, clock.second].map { UInt8($0) }
    }

    static func wall(_ text: String) -> WallTime { WallTime(text) ?? WallTime(secondsSinceEpoch: 0) }

    static func instant(_ text: String) -> Instant { Instant(rfc3339: text) ?? Instant(microseconds: 0) }

    /// 2A18 in mg/dL; `value` nil is NaN.
    static func glucose(
        _ sequence: UInt16, _ time: String?, _ value: UInt16? = 95, offset: Int16? = nil, status: UInt16? = nil,
        type: UInt8 = 0x11, at received: String = "2026-11-21T10:00:00Z", ordinal: Int = 0,
        characteristic: UInt16 = 0x2A18
    ) -> Frame {
        var payload: [UInt8] = [2 | (offset == nil ? 0 : 1) | (status == nil ? 0 : 8)]
        payload += octets(sequence) + octets(time.map(wall))
        if let offset { payload += octets(UInt16(bitPattern: offset)) }
        payload += octets(value.map { $0 | 0xB000 } ?? 0x07FF) + [type]
        if let status { payload += octets(status) }
        return Frame(
            format: FrameFormat(characteristic: characteristic), payload: payload, receivedAt: instant(received),
            ordinal: ordinal)
    }

    static func context(_ sequence: UInt16, meal: UInt8, rich: Bool = false) -> Frame {
        Frame(
            format: FrameFormat(characteristic: 0x2A34),
            payload: [2] + octets(sequence) + [meal] + (rich ? octets(0xF019) : []),
            receivedAt: instant("2026-11-21T10:00:01Z"), ordinal: 0)
    }

    static func pressure(
        _ systolic: UInt16, _ time: String?, user: UInt8? = nil, at received: String = "2026-11-21T10:00:00.75Z",
        ordinal: Int = 0
    ) -> Frame {
        var payload: [UInt8] = [(time == nil ? 0 : 2) | (user == nil ? 0 : 8)]
        payload += octets(systolic) + octets(80) + octets(0x07FF)
        if let time { payload += octets(wall(time)) }
        if let user { payload.append(user) }
        return Frame(
            format: FrameFormat(characteristic: 0x2A35), payload: payload, receivedAt: instant(received),
            ordinal: ordinal)
    }

    /// A scan of a sensor of this age: the 16 minutes of its trend, and every 15th minute of 8 hours that is three or
    /// more old. A minute's value depends on the minute alone.
    ///
    /// - Parameters:
    ///   - lag: minutes that the newest trend record is behind the age, 0 or 1.
    ///   - isContradictory: whether the trend's index contradicts the age.
    static func scan(
        age: Int, at received: String, failing: Set<Int> = [], inactive: Bool = false, lag: Int = 0,
        isContradictory: Bool = false, value: (_ source: Int, _ minute: Int) -> Int = { 900 + $1 % 500 + $0 }
    ) -> Frame {
        let history = (0..<32).map { (age - 3) / 15 * 15 - 15 * $0 }.filter { $0 >= 0 }
        let trend = (0..<16).map { age - lag - $0 }.filter { $0 >= 0 }
        let records = (history.map { (2, $0) } + trend.map { (1, $0) }).sorted { ($0.1, $0.0) < ($1.1, $1.0) }
        var payload = octets(UInt16(age))
        for (source, minute) in records {
            payload.append(UInt8(source))
            payload += octets(UInt16(minute)) + octets(UInt16(value(source, minute)))
            let trendFlags: UInt8 = source == 1 ? (lag == 1 ? 4 : 0) | (isContradictory ? 8 : 0) : 0
            payload.append((failing.contains(minute) && source == 2 ? 1 : 0) | (inactive ? 2 : 0) | trendFlags)
        }
        return Frame(format: .libre1Scan, payload: payload, receivedAt: instant(received), ordinal: 0)
    }

    static let sensor = DeviceDescription(
        address: nil, model: "libre1", serial: "0M000TEST01", name: "FreeStyle Libre", provider: "freestyle_libre_ble")

    static func device(
        _ address: UInt64? = 0xC000_0000_1808, serial: String? = nil, model: String? = "accuchek_guide",
        provider: String = "accuchek_ble"
    ) -> DeviceDescription {
        DeviceDescription(
            address: address.map { DeviceAddress(bits: $0, kind: .random) }, model: model, serial: serial,
            name: "meter", provider: provider)
    }
}

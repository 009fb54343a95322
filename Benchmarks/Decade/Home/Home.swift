import EncodedSensor
import FreeStyleLibre
import GATTProfiles
import HealthDevices
import HealthReadings

/// A home with two people, and what its devices measure on each day. The same seed gives the same days.
///
/// Anna wears a disposable glucose sensor that measures each minute and is a new device every two weeks; once a year it's
/// one that is scanned three times a day. Ben wears one whose transmitter stays the same, and pauses for two weeks in twenty. Both
/// use the cuff upstairs in the morning and the one downstairs in the evening. Anna pricks her finger three times a day
/// with a meter whose clock runs fast and falls back to 2000 when its battery is changed, and weighs herself. Ben wears a
/// heart-rate strap for half an hour every other day.
public struct Home: Sendable {
    /// The client's ids of the two.
    public static let people = (anna: "anna", ben: "ben")
    /// Where they live.
    public static let zone = "Europe/Berlin"
    /// The end of the last day. It's fixed, so that the same arguments give the same readings.
    public static let end = Instant(seconds: 1_782_864_000)
    /// How many readings a day brings on average; 10 million make ten years.
    public static let readingsPerDay = 2717
    private static let session = 14

    private let seed: UInt64
    private let rules: ZoneRules
    /// The beginning of the first day.
    public let start: Instant

    /// A home that has been measuring for a number of days.
    public init(days: Int, seed: UInt64) throws {
        self.seed = seed
        guard let rules = ZoneRules.named(Self.zone) else { throw HomeError.zone }
        self.rules = rules
        start = Self.end.advanced(bySeconds: -Int64(days) * 86_400)
    }

    /// Who uses which device, as the gateway's settings name them.
    public static var owners: [StoreShare] {
        [
            .init(person: people.ben, address: transmitter.bits, slot: nil),
            .init(person: people.ben, address: strap.bits, slot: nil),
        ]
            + [upstairs, downstairs].flatMap { cuff in
                [
                    StoreShare(person: people.anna, address: cuff.bits, slot: 1),
                    StoreShare(person: people.ben, address: cuff.bits, slot: 2),
                ]
            }
    }

    /// A device, or a slot of it, of a person.
    public struct StoreShare: Sendable {
        /// The client's id of the person.
        public var person: String
        /// The device's address.
        public var address: UInt64
        /// The slot; `nil` for the whole device.
        public var slot: UInt8?
    }

    private static let upstairs = DeviceAddress(bits: 0xC0DE_0000_0001, kind: .random)
    private static let downstairs = DeviceAddress(bits: 0xC0DE_0000_0002, kind: .random)
    private static let meter = DeviceAddress(bits: 0xC0DE_0000_0003, kind: .random)
    private static let scale = DeviceAddress(bits: 0xC0DE_0000_0004, kind: .random)
    private static let strap = DeviceAddress(bits: 0xC0DE_0000_0005, kind: .random)
    /// The sensor that stays the same device, and begins its numbers anew every two weeks.
    public static let transmitter = DeviceAddress(bits: 0xC0DE_0000_0006, kind: .random)
    private static func disposable(_ number: Int) -> DeviceAddress {
        DeviceAddress(bits: 0xC0DE_0001_0000 + UInt64(number), kind: .random)
    }

    // MARK: A day

    /// What a day brings, in the order of time.
    ///
    /// - Parameter minutes: how often the sensors that measure each minute are read: 1440 is once a day.
    public func visits(on day: Int, sensorsEvery minutes: Int) throws -> [Visit] {
        var visits = try [
            cuffs(day, Self.upstairs, atMinute: 370), weight(day), cuffs(day, Self.downstairs, atMinute: 1180),
        ]
        visits.append(try fingerSticks(day))
        if day % 2 == 1 { visits.append(heartRates(day)) }
        if day % 364 >= 182, day % 364 < 196 {
            visits += try scans(day)
        } else {
            visits += try sensor(day, Self.disposable(day / Self.session), number: 7, every: minutes)
        }
        if day / Self.session % 10 != 9 {
            visits += try sensor(day, Self.transmitter, number: 6, every: minutes)
        }
        return visits.sorted { ($0.end, $0.device.address?.bits ?? 0) < ($1.end, $1.device.address?.bits ?? 0) }
    }

    /// What Anna types in on a day.
    public func entries(on day: Int) -> [TypedEntry] {
        guard day % 7 == 1 else { return [] }
        var dice = dice(day, 8)
        return [
            TypedEntry(
                at: instant(day, minute: 1201),
                entry: EntryText(
                    kind: "temperature", value: "36.\(dice.roll(10))", unit: "°C",
                    time: instant(day, minute: 1200).description),
                isWithdrawn: day % 28 == 1)
        ]
    }

    private func dice(_ day: Int, _ device: UInt64) -> Dice { Dice(seed: seed, day: day, device: device) }

    private func instant(_ day: Int, minute: Int, second: Int = 0) -> Instant {
        start.advanced(bySeconds: Int64(day) * 86_400 + Int64(minute) * 60 + Int64(second))
    }

    private func wall(_ instant: Instant, wrongBy seconds: Int64 = 0) -> WallTime {
        WallTime(secondsSinceEpoch: rules.wallTime(at: instant).secondsSinceEpoch + seconds)
    }

    private static func number(_ significand: Int, _ exponent: Int16 = 0) throws -> MedFloat16 {
        try MedFloat16(encoding: .value(ExactDecimal(significand: Int64(significand), exponent: exponent)))
    }

    // MARK: Sensors

    /// A sensor that measures each minute and is read every so many.
    private func sensor(_ day: Int, _ address: DeviceAddress, number: UInt64, every minutes: Int) throws -> [Visit] {
        let first = day / Self.session * Self.session
        let began = instant(first, minute: 0)
        let session = DateTime(wall(began))
        let device = DeviceDescription(address: address, model: "generic_cgm", name: "Sensor", provider: "manual")
        var dice = dice(day, number)
        return try stride(from: 0, to: 1440, by: minutes).map { from in
            let end = instant(day, minute: from + minutes)
            let frames = try (from..<from + minutes).enumerated().map { ordinal, minute in
                let value = 90 + Self.wave(minute + 37 * day, 240) / 2 + dice.roll(9)
                let offset = (day - first) * 1440 + minute
                let measurement = ContinuousGlucoseMeasurement(
                    concentration: try Self.number(value), timeOffset: UInt16(offset),
                    trend: try Self.number(dice.roll(30) - 15, -1))
                return Frame(
                    format: .continuousGlucoseRecord,
                    payload: ContinuousGlucoseRecord(
                        hasChecksum: false, typeAndLocation: 0x59, sessionStart: session, value: measurement.encoded
                    ).payload, receivedAt: end, ordinal: ordinal)
            }
            return Visit(
                device: device, start: end, end: end.advanced(bySeconds: 3),
                clock: ClockReading(
                    deviceTime: wall(began).advanced(byMinutes: (day - first) * 1440 + from + minutes - 1), readAt: end),
                beginsEpoch: day == first && from == 0 && day > 0 && address == Self.transmitter,
                commits: [.init(at: end.advanced(bySeconds: 2), frames: frames)])
        }
    }

    /// Up and down, from 0 to half of the period.
    private static func wave(_ minute: Int, _ period: Int) -> Int {
        let phase = minute % period
        return min(phase, period - phase)
    }

    /// A sensor without a radio, which is scanned three times a day.
    private func scans(_ day: Int) throws -> [Visit] {
        let year = day / 364
        return try [480, 960, 1439].map { minute in
            var sensor = EncodedSensor(age: UInt16((day % 364 - 182) * 1440 + minute))
            sensor.uid = 0xE007_A000_0000_0000 + UInt64(year)
            let serial = try LibreScan(payload: sensor.payload).serial
            let at = instant(day, minute: minute)
            let scan = Frame(format: .libre1Scan, payload: sensor.payload, receivedAt: at, ordinal: 0)
            return Visit(
                device: DeviceDescription(
                    address: nil, model: "freestyle_libre", serial: serial, name: "Libre (the first)",
                    provider: "freestyle_libre_ble"), start: at, end: at.advanced(bySeconds: 1), clock: nil,
                commits: [.init(at: at, frames: [scan])])
        }
    }

    // MARK: Meters

    /// Three records of the day, read in the evening. The clock gains eight seconds a day and begins anew in 2000 every
    /// 400 days; after three days Anna sets it.
    private func fingerSticks(_ day: Int) throws -> Visit {
        var dice = dice(day, 3)
        let at = instant(day, minute: 1230)
        func error(_ instant: Instant) -> Int64 {
            let age = Int64(day % 400)
            guard age < 3, day >= 400 else { return 8 * age }
            let reset = self.instant(day - day % 400, minute: 0)
            return 946_684_800 - rules.wallTime(at: reset).secondsSinceEpoch
        }
        let frames = try [420, 760, 1100].enumerated().map { ordinal, minute in
            let time = instant(day, minute: minute + dice.roll(40), second: dice.roll(60))
            return Frame(
                format: FrameFormat(characteristic: GlucoseMeasurement.assignedNumber),
                payload: GlucoseMeasurement(
                    sequenceNumber: UInt16((3 * day + ordinal) % 65_536),
                    baseTime: DateTime(wall(time, wrongBy: error(time))),
                    concentration: .init(
                        value: try Self.number(85 + dice.roll(90), -5), unit: .kilogramsPerLitre,
                        type: .capillaryPlasma,
                        location: .finger)
                ).encoded, receivedAt: at, ordinal: ordinal)
        }
        return Visit(
            device: DeviceDescription(
                address: Self.meter, model: "accuchek_guide", serial: "4711", name: "meter+47110815",
                provider: "accuchek_ble"),
            start: at, end: at.advanced(bySeconds: 4),
            clock: ClockReading(deviceTime: wall(at, wrongBy: error(at)), readAt: at),
            commits: [.init(at: at.advanced(bySeconds: 2), frames: frames)])
    }

    /// One measurement of each of the two.
    private func cuffs(_ day: Int, _ cuff: DeviceAddress, atMinute minute: Int) throws -> Visit {
        var dice = dice(day, cuff.bits)
        let at = instant(day, minute: minute)
        let frames = try [(UInt8(1), 118), (2, 131)].enumerated().map { ordinal, person in
            let systolic = person.1 + dice.roll(20)
            return Frame(
                format: FrameFormat(characteristic: BloodPressureMeasurement.assignedNumber),
                payload: BloodPressureMeasurement(
                    unit: .millimetresOfMercury, systolic: try Self.number(systolic),
                    diastolic: try Self.number(systolic - 40 - dice.roll(8)),
                    meanArterialPressure: try Self.number(systolic - 27),
                    timeStamp: DateTime(wall(at.advanced(bySeconds: Int64(ordinal) * 180))),
                    pulseRate: try Self.number(58 + dice.roll(20)), userID: person.0
                ).encoded, receivedAt: at.advanced(bySeconds: 300), ordinal: ordinal)
        }
        return Visit(
            device: DeviceDescription(address: cuff, model: "generic_blood_pressure", name: "Cuff", provider: "manual"),
            start: at.advanced(bySeconds: 299), end: at.advanced(bySeconds: 303), clock: nil,
            commits: [.init(at: at.advanced(bySeconds: 300), frames: frames)])
    }

    private func weight(_ day: Int) throws -> Visit {
        var dice = dice(day, 4)
        let at = instant(day, minute: 365)
        let octets = WeightMeasurement(rawWeight: UInt16(14_000 + dice.roll(300)), timeStamp: DateTime(wall(at)))
            .encoded
        return Visit(
            device: DeviceDescription(
                address: Self.scale, model: "generic_weight_scale", name: "Scale", provider: "manual"),
            start: at, end: at.advanced(bySeconds: 3), clock: nil,
            commits: [
                .init(
                    at: at.advanced(bySeconds: 1),
                    frames: [
                        Frame(
                            format: FrameFormat(characteristic: WeightMeasurement.assignedNumber), payload: octets,
                            receivedAt: at, ordinal: 0)
                    ])
            ])
    }

    /// Half an hour at one value a second. Each minute is kept every fifteen seconds while it grows.
    private func heartRates(_ day: Int) -> Visit {
        var dice = dice(day, 5)
        let start = instant(day, minute: 1020)
        var commits: [Visit.Commit] = []
        for minute in 0..<30 {
            let begin = start.advanced(bySeconds: Int64(minute) * 60)
            var block = RecordedBlock(characteristic: HeartRateMeasurement.assignedNumber)
            for second in 0..<60 {
                let rate = 95 + minute + dice.roll(12)
                block.add(
                    HeartRateMeasurement(
                        beatsPerMinute: UInt16(rate), hasContact: true, intervals: [UInt16(61_440 / rate)]
                    ).encoded,
                    atMilliseconds: second * 1000)
                guard second % 15 == 14 else { continue }
                let frame = Frame(format: .heartRateBlock, payload: block.payload, receivedAt: begin, ordinal: minute)
                commits.append(
                    .init(at: begin.advanced(bySeconds: Int64(second) + 1), frames: [frame], isGrowing: second < 59))
            }
        }
        return Visit(
            device: DeviceDescription(
                address: Self.strap, model: "generic_heart_rate", name: "Strap", provider: "manual"),
            start: start, end: start.advanced(bySeconds: 1802), clock: nil, commits: commits)
    }
}

/// Why there is no home.
public enum HomeError: Error {
    /// The system has no time zones.
    case zone
}

/// A reading that came out of another program's data: an export file, or a phone's API.
///
/// A sample takes the same way as what a device sends: its ``octets`` are the payload of a frame, which is stored before
/// anything else happens, and a reading is made of that frame by decoding it. What the other program did not say is `nil`;
/// nothing is filled in.
public struct ImportedSample: Sendable, Hashable {
    /// The client's id of the person whose reading it is; empty for somebody whom nobody has named yet.
    public var person: String
    /// Whose data it is, as a slug: `apple_health_kit`.
    public var provider: String
    /// The app or device that the other program names as the source: `Omron Connect`.
    public var source: String?
    /// The device that the source names in turn, where it does: `HEM-7361T`.
    public var sourceDevice: String?
    /// Whether a person typed it in there, as the other program says.
    public var isEntered: Bool
    /// The values, in the unit and with the digits that were written.
    public var value: RecordValue
    /// When it was measured, or when a measurement that lasts began.
    public var time: ImportedTime
    /// When a measurement that lasts ended, in whole seconds; `nil` if it ended when it began, or nobody said.
    public var end: Instant?
    /// Of a glucose: `preprandial`, `postprandial`, `fasting`, `casual` or `bedtime`.
    public var meal: String?
    /// The id that the reading has at another gateway, whose export it comes from: it keeps that.
    public var originalID: ReadingID?
    /// What the meter's own clock said, as the other gateway's export has it; `nil` where no export does.
    public var deviceTime: DeviceTime?
    /// The number that the meter gave the record, as the other gateway's export has it.
    public var sequence: UInt16?
    /// What the meter said about the record, as the other gateway's export has it.
    public var status: ReadingStatus
    /// Whether the value is the other gateway's estimate of a sensor's raw value: see ``SensorFacts/Calibration/factoryEstimate``.
    public var isEstimate: Bool
    /// Which of a sensor's values it is, where the other program tells them apart; it is no part of what tells samples apart.
    public var sensorSource: ImportFacts.SensorSource?
    /// What tells it apart from an equal sample of the same time: the serial number of a sensor, or which of two hours it is
    /// that a change of clocks repeats.
    public var distinction: String?
    /// What the other program calls the record that it is of, and which part: `sleep/93845/record`. A sample with a name is
    /// told from others by it, not by its time and value: another value under the same name is a revision.
    public var recordName: String? { didSet { recordName = recordName.flatMap(Self.line) } }
    /// What an earlier version of the gateway took for ``recordName``: a reading that is stored by it is this one. `nil` if it
    /// took the same. It is no part of ``octets``.
    public var formerName: String?
    /// When the other program says that it last changed the record; `nil` if it doesn't say. An older version says nothing of a
    /// record that has a newer one, whichever comes first.
    public var updatedAt: Instant?
    /// What the other program sent, a line for each record that the sample was made of: kept in its frame, so that nothing of
    /// it is lost, and no part of what tells samples apart.
    public var originals: [String]
    /// Why the reading is never delivered: its value cannot be a person's. The decoder of its frame sets it; it is no part
    /// of the frame.
    public var exclusion: Exclusion?

    /// What a meter's record says of its time.
    public struct DeviceTime: Sendable, Hashable {
        /// The record's base time.
        public var base: WallTime
        /// The record's time offset, in minutes; `nil` if it has none, or an unknown one.
        public var offsetMinutes: Int16?

        /// Makes a time.
        ///
        /// - Parameters:
        ///   - base: the record's base time.
        ///   - offsetMinutes: the record's time offset, in minutes.
        public init(base: WallTime, offsetMinutes: Int16? = nil) {
            self.base = base
            self.offsetMinutes = offsetMinutes
        }
    }

    /// The most characters of a source, a device or a provider.
    public static let longestText = 200
    /// The most octets of such a text, whatever its characters consist of: all of a sample's have room in a payload.
    private static let mostOctets = 4096

    /// The most octets of ``originals`` that are kept; longer ones are not.
    public static let longestOriginals = 65_536

    /// 1980-01-01T00:00:00Z. People have kept diaries of what they measured at home since before there was Bluetooth; what
    /// is earlier is a clock that was never set, or a zero.
    public static let earliest = Instant(seconds: 315_532_800)

    /// Makes a sample. Texts lose their control characters, and what is longer than ``longestText``.
    public init(
        person: String, provider: String, source: String? = nil, sourceDevice: String? = nil, isEntered: Bool = false,
        value: RecordValue, time: ImportedTime, end: Instant? = nil, meal: String? = nil, originalID: ReadingID? = nil,
        deviceTime: DeviceTime? = nil, sequence: UInt16? = nil, status: ReadingStatus = [], isEstimate: Bool = false,
        distinction: String? = nil, originals: [String] = []
    ) {
        self.person = person
        self.provider = Self.line(provider) ?? "manual"
        self.source = source.flatMap(Self.line)
        self.sourceDevice = sourceDevice.flatMap(Self.line)
        self.isEntered = isEntered
        self.value = Self.lines(value)
        self.time = time
        self.end = end.map(\.flooredToSecond).flatMap { $0 == time.instant ? nil : $0 }
        self.meal = value.kind == .glucose ? meal.flatMap(Self.line) : nil
        self.originalID = originalID
        self.deviceTime = deviceTime
        self.sequence = sequence
        self.status = status
        self.isEstimate = value.kind == .glucose && isEstimate
        self.distinction = distinction.flatMap(Self.line)
        // Between the parts of JSON a line break means nothing, and within them it is escaped.
        let lines = originals.map { original in
            String(String.UnicodeScalarView(original.unicodeScalars.map { $0 == "\n" || $0 == "\r" ? " " : $0 }))
        }
        self.originals = lines.reduce(0) { $0 + $1.utf8.count } <= Self.longestOriginals ? lines : []
    }

    /// The value with texts that are one line each.
    private static func lines(_ value: RecordValue) -> RecordValue {
        guard case .kept(var sample) = value else { return value }
        sample.type = line(sample.type) ?? "unknown"
        sample.unit = line(sample.unit) ?? "1"
        sample.metadata = Dictionary(
            sample.metadata.sorted { $0.key < $1.key }.prefix(mostMetadata).compactMap { key, value in
                line(key).flatMap { key in line(value).map { (key, $0) } }
            }
        ) { first, _ in first }
        return .kept(sample)
    }

    /// The most keys of metadata.
    private static let mostMetadata = 20

    /// The kind of reading.
    public var kind: ReadingKind { value.kind }

    /// What stands for the model of a device where there is none.
    public static let model = "imported"

    /// The device that samples of a provider are stored under: none.
    public static func device(of provider: String) -> DeviceDescription {
        DeviceDescription(address: nil, model: model, provider: provider)
    }

    /// Whether a stored reading is this measurement: its time is the same, and so are its main values, whatever the unit. What
    /// else both of them say is the same, too; either may lack it.
    public func isMeasurement(of reading: Reading) -> Bool {
        reading.time.instant == time.instant && reading.record.value.hasMainValues(of: value)
            && !reading.record.value.contradicts(value)
    }

    /// The id of the reading: the same sample has the same id, however often and by whichever way it comes.
    ///
    /// It is made of the person, the provider, the source, the kind, start, end, values and ``distinction``. Values are compared
    /// in one unit and rounded: 5.6 mmol/L in a file is the 100.89 mg/dL of an API. With a ``recordName`` it is made of the
    /// person, the provider, the kind and that name.
    public var id: ReadingID {
        if let originalID { return originalID }
        if let recordName { return Self.id(ofRecord: recordName, person: person, provider: provider, kind: kind) }
        return ReadingIdentity.imported(self).id(device: nil, kind: kind)
    }

    /// The other ids that a stored reading of this sample may have; none for most samples.
    ///
    /// One is the id by ``formerName``. The others are of the same weight or glucose when it is written with other digits.
    ///
    /// An id is made of the weight in steps of 10 g. A scale with steps of 5 g weighs in the middle between two of them, and
    /// whether that is rounded up or down depends on the unit: 70.005 kg becomes 70.00, and 154.335 lb, as another program
    /// writes it, 70.01.
    ///
    /// LibreView, whose samples have a ``distinction``, rounds a glucose in either unit: 101 mg/dL is 5.6 mmol/L in another file,
    /// and so is 100. These ids are the same sample's only if the stored reading is in the other unit.
    public var otherIDs: [ReadingID] {
        if let formerName { return [Self.id(ofRecord: formerName, person: person, provider: provider, kind: kind)] }
        guard originalID == nil, recordName == nil else { return [] }
        return otherValues.map { value in
            var other = self
            other.value = value
            return other.id
        }
    }

    /// What another program or file may have written for the value.
    private var otherValues: [RecordValue] {
        switch value {
        case .vital(let vital) where vital.kind == .weight:
            (vital[.weight]?.neighbours ?? []).map { neighbour -> RecordValue in
                let quantities = vital.quantities.map { measured in
                    VitalValue.Measured(measured.part, measured.part == .weight ? neighbour : measured.quantity)
                }
                return .vital(VitalValue(kind: .weight, quantities))
            }
        case .glucose(let glucose) where distinction != nil:
            (glucose.concentration?.inOtherUnit ?? []).map { .glucose(GlucoseValue(concentration: $0)) }
        default: []
        }
    }

    /// The id of the reading that a sample of a record with a name has, whatever its value.
    ///
    /// - Parameters:
    ///   - name: see ``recordName``.
    ///   - person: the client's id of the person whose record it is.
    ///   - provider: whose data it is, as a slug.
    ///   - kind: the kind of the reading.
    public static func id(
        ofRecord name: String, person: String, provider: String, kind: ReadingKind
    ) -> ReadingID {
        ReadingIdentity.named(line(name) ?? "", person: person, provider: provider).id(device: nil, kind: kind)
    }

    /// The record that the reading is stored with.
    public var record: Record {
        var record = Record(
            value: value, sequence: sequence, baseTime: deviceTime?.base ?? time.wallTime,
            timeOffsetMinutes: deviceTime?.offsetMinutes, status: status, exclusion: exclusion)
        record.imported = ImportFacts(
            source: source, device: sourceDevice, isEntered: isEntered, end: end,
            utcOffsetMinutes: time.utcOffsetMinutes, hasOriginalID: originalID != nil, isEstimate: isEstimate,
            updatedAt: updatedAt, sensorSource: sensorSource)
        return record
    }

    /// The context that the reading is stored with; `nil` for one without a meal.
    public var context: GlucoseContext? {
        guard let meal else { return nil }
        var context = GlucoseContext()
        context.meal = meal
        return context
    }

    /// Why an imported reading is excluded by its time alone; `nil` for most.
    public static func exclusion(of time: ResolvedTime, receivedAt: Instant) -> Exclusion? {
        guard let instant = time.instant else { return .noTime }
        let latest = receivedAt.advanced(bySeconds: TimeResolution.latestAfterReception)
        return instant >= earliest && instant <= latest ? nil : .implausibleTime
    }

    /// A text on one line; `nil` if nothing is left of it.
    private static func line(_ text: String) -> String? {
        guard
            !text.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7F }) || text.utf8.count > longestText || text.isEmpty
                || text.first == " " || text.last == " "
        else { return text }
        let scalars = text.unicodeScalars.map { $0.value < 0x20 || $0.value == 0x7F ? " " : $0 }
        let words = String(String.UnicodeScalarView(scalars)).split(separator: " ").joined(separator: " ")
        var line = String(words.prefix(longestText)).cut(toOctets: mostOctets)
        // When it is read again, nothing more may be cut off.
        while line.last == " " { line.removeLast() }
        return line.nonEmpty
    }
}

/// When an imported sample was measured, and how the other program wrote it.
public struct ImportedTime: Sendable, Hashable {
    /// The instant, in whole seconds.
    public let instant: Instant
    /// How the instant was found: ``TimeBasis/corrected`` for a time that was written with its offset.
    public let basis: TimeBasis
    /// How far off it can be, in minutes, where that is known to matter.
    public let uncertaintyMinutes: Int?
    /// The offset from UTC that was written, in minutes; `nil` for a time without one.
    public let utcOffsetMinutes: Int?
    /// The wall-clock time that was written without an offset.
    public let localTime: WallTime?

    /// An instant, as a time that was written with its offset from UTC is.
    ///
    /// - Parameters:
    ///   - instant: the instant; its fraction of a second is dropped.
    ///   - utcOffsetMinutes: the offset that was written, in minutes, east positive; `nil` if only the instant is known.
    ///   - basis: how the other program found the instant, where it says so.
    ///   - uncertaintyMinutes: how far off it can be, in minutes, where that is known to matter.
    public init(
        _ instant: Instant, utcOffsetMinutes: Int?, basis: TimeBasis = .corrected, uncertaintyMinutes: Int? = nil
    ) {
        self.instant = instant.flooredToSecond
        self.basis = basis
        self.uncertaintyMinutes = uncertaintyMinutes
        self.utcOffsetMinutes = utcOffsetMinutes
        localTime = nil
    }

    /// A time that was written without an offset, taken to be in a person's zone.
    ///
    /// An hour that is missing moves forward; it and one that is repeated are uncertain.
    ///
    /// - Parameters:
    ///   - wall: the time as it was written.
    ///   - zone: the person's zone.
    ///   - isLater: whether an hour that is repeated is the later one.
    public init(local wall: WallTime, in zone: ZoneRules, isLater: Bool = false) {
        switch zone.moment(wall) {
        case .once(let instant): self.init(wall, instant, nil)
        case .never(let instant): self.init(wall, instant, TimeResolution.changeOfClocksMinutes)
        case .twice(let earlier, let later):
            self.init(wall, isLater ? later : earlier, TimeResolution.changeOfClocksMinutes)
        }
    }

    init(_ wall: WallTime, _ instant: Instant, _ uncertaintyMinutes: Int?) {
        self.instant = instant.flooredToSecond
        basis = .assumedZone
        self.uncertaintyMinutes = uncertaintyMinutes
        utcOffsetMinutes = nil
        localTime = wall
    }

    /// What the clock on the wall showed, as it was written.
    public var wallTime: WallTime {
        localTime
            ?? WallTime(secondsSinceEpoch: instant.seconds).advanced(byMinutes: utcOffsetMinutes ?? 0)
    }

    /// The reading's place in time.
    public var resolved: ResolvedTime {
        ResolvedTime(instant: instant, basis: basis, uncertaintyMinutes: uncertaintyMinutes)
    }
}

/// What is stored with a reading that came out of another program's data; another reading has none.
public struct ImportFacts: Sendable, Hashable {
    /// Which of a sensor's values an imported one is.
    public enum SensorSource: UInt8, Sendable, Hashable, CaseIterable {
        /// One of those a minute that a FreeStyle Libre 1 keeps for 16 minutes.
        case trend = 1
        /// One of those every 15 minutes that it keeps for 8 hours.
        case history
        /// What the sensor showed when a person asked it.
        case scan

        /// The name in documents: `trend`, `history`, `scan`.
        public var name: String {
            switch self {
            case .trend: "trend"
            case .history: "history"
            case .scan: "scan"
            }
        }
    }

    /// The app or device that the other program names as the source.
    public var source: String?
    /// The device that the source names in turn.
    public var device: String?
    /// Whether a person typed it in there, as the other program says.
    public var isEntered: Bool
    /// When a measurement that lasts ended.
    public var end: Instant?
    /// The offset from UTC that its start was written with, in minutes.
    public var utcOffsetMinutes: Int?
    /// Whether it has kept the id that it has at another gateway.
    public var hasOriginalID: Bool
    /// Whether the value is an estimate of a sensor's raw value.
    public var isEstimate: Bool
    /// When the other program says that it last changed the record; `nil` if it doesn't say.
    public var updatedAt: Instant?
    /// Whether the other program has taken the value back, so that the reading is withdrawn until a value comes again.
    public var isRetracted: Bool
    /// Which of a sensor's values it is, where the other program tells them apart.
    public var sensorSource: SensorSource?

    /// Makes facts.
    public init(
        source: String? = nil, device: String? = nil, isEntered: Bool = false, end: Instant? = nil,
        utcOffsetMinutes: Int? = nil, hasOriginalID: Bool = false, isEstimate: Bool = false,
        updatedAt: Instant? = nil, isRetracted: Bool = false, sensorSource: SensorSource? = nil
    ) {
        self.source = source
        self.device = device
        self.isEntered = isEntered
        self.end = end
        self.utcOffsetMinutes = utcOffsetMinutes
        self.hasOriginalID = hasOriginalID
        self.isEstimate = isEstimate
        self.updatedAt = updatedAt
        self.isRetracted = isRetracted
        self.sensorSource = sensorSource
    }

    /// Whether the other program has said what it is of later than that.
    package func isNewer(than other: Instant?) -> Bool {
        guard let updatedAt, let other else { return false }
        return other < updatedAt
    }

    /// What an imported reading shows besides: `imported`, and `calibration` for an estimate.
    var members: [JSONValue.Member] {
        (isEstimate ? [.init("calibration", .string(SensorFacts.Calibration.factoryEstimate.name))] : []) + [
            .init(
                "imported",
                .object([
                    "source": .optional(source), "device": .optional(device), "entered": .bool(isEntered),
                    "end_time": .optional(end?.description), "utc_offset_minutes": .optional(utcOffsetMinutes),
                    "sensor_source": .optional(sensorSource?.name),
                ]))
        ]
    }
}

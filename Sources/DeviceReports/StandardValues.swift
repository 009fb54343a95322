import GATTClient
import GATTProfiles
import HealthReadings

/// What is replaced in the values of standard characteristics. Flags, numbers of records, units, types and status stay.
struct StandardValues {
    let times: ReplacedTimes
    let chance: Chance

    /// Values that say what a device can do, and nothing of a person.
    static let features: Set<BluetoothUUID> = Set(
        ServiceProfile.all.flatMap(\.characteristics).filter { $0.role == .feature }.map(\.uuid)
    ).union([BatteryLevel.uuid])
    /// How long the values are that say what a device can do, or are of its model alone: appearance, connection parameters, PnP
    /// ID, where a strap is worn, how long a sensor runs, its status. What stands behind is not defined, and does not stay.
    private static func length(ofModel uuid: BluetoothUUID, _ octets: [UInt8]) -> Int? {
        switch uuid {
        case 0x2A01, 0x2A49, 0x2A51: 2
        case 0x2A04: 8
        case 0x2A50: 7
        case 0x2A19, 0x2A38: 1
        // With a checksum.
        case 0x2AAB: 4
        case 0x2AA9: 7
        case 0x2AA8: 6
        case 0x2A9B, 0x2A9E: 4
        case 0x2A60: 9
        // Flags, how many types of observations there are, and four octets for each.
        case 0x2BF3: octets.count < 2 ? 2 : 2 + 4 * Int(octets[1])
        default: features.contains(uuid) ? 8 : nil
        }
    }

    /// The value with other numbers and times; `nil` for a characteristic whose fields are not known here.
    func replaced(_ octets: [UInt8], of uuid: BluetoothUUID) -> [UInt8]? {
        guard let number = uuid.assignedNumber else { return nil }
        if let length = Self.length(ofModel: uuid, octets) { return Self.kept(length, of: octets) }
        var fields = ReplacedFields(octets, times, chance)
        switch number {
        case 0x2A18: glucose(&fields)
        case 0x2A34: context(&fields)
        case 0x2A35, 0x2A36: pressure(&fields)
        case 0x2A37: heartRate(&fields)
        case 0x2A5E, 0x2A5F: oximeter(&fields, isSpot: number == 0x2A5E)
        case 0x2A1C, 0x2A1E: temperature(&fields)
        case 0x2A9D: weight(&fields)
        case 0x2A9C: composition(&fields)
        case 0x2AA7: return continuousGlucose(octets)
        case 0x2AAA:
            fields.dateTime(of: .session)
            // Zone and summer time tell where a person lives; unknown ones (80, FF) tell nothing.
            fields.zero(unless: 0x80)
            fields.zero(unless: 0xFF)
            if fields.left == 2 { fields.checksum(like: octets) }
        case 0x2AAC: return sessionControl(octets)
        case 0x2A52: recordAccess(&fields)
        case 0x2A2B:
            fields.dateTime(of: .clock)
            fields.weekday()
            fields.zero(1)
            fields.keep(1)
        case 0x2A08: fields.dateTime(of: .clock)
        case 0x2A14:
            fields.keep(2)
            fields.zero(2)
        case 0x2A0F:
            fields.zero(unless: 0x80)
            fields.zero(unless: 0xFF)
        case 0x2A9F: fields.keep(octets.first == 0x20 ? 3 : 1)
        default: return nil
        }
        fields.zeroRest()
        return fields.octets
    }

    /// So many of the octets, and zeros behind them.
    private static func kept(_ length: Int, of octets: [UInt8]) -> [UInt8] {
        octets.prefix(length) + octets.dropFirst(length).map { _ in 0 }
    }

    // MARK: Records

    private func glucose(_ fields: inout ReplacedFields) {
        let flags = fields.flags()
        fields.keep(2)
        fields.dateTime()
        if flags & 0x01 != 0 { fields.keep(2) }
        if flags & 0x02 != 0 {
            // FFFF stands in place of the value in the empty record behind another.
            fields.float16(flags & 0x04 == 0 ? .perKilogram : .perMole, keepsAllOnes: true)
            fields.keep()
        }
        if flags & 0x08 != 0 { fields.keep(2) }
    }

    private func context(_ fields: inout ReplacedFields) {
        let flags = fields.flags()
        fields.keep(2)
        if flags & 0x80 != 0 { fields.keep() }
        if flags & 0x01 != 0 {
            fields.keep()
            fields.float16(.any)
        }
        if flags & 0x02 != 0 { fields.keep() }
        if flags & 0x04 != 0 { fields.keep() }
        if flags & 0x08 != 0 {
            fields.word(ReplacedNumber(300...3600, within: 1...65_534))
            fields.octet(ReplacedNumber(20...80, within: 1...100))
        }
        if flags & 0x10 != 0 {
            fields.keep()
            fields.float16(.any)
        }
        if flags & 0x40 != 0 { fields.float16(ReplacedNumber(5...8, within: 1...25)) }
    }

    private func pressure(_ fields: inout ReplacedFields) {
        let original = fields.octets
        let flags = fields.flags()
        let inKilopascal = flags & 0x01 != 0
        fields.float16(.systolic(inKilopascal: inKilopascal))
        fields.float16(.diastolic(inKilopascal: inKilopascal))
        fields.float16(.mean(inKilopascal: inKilopascal))
        if flags & 0x02 != 0 { fields.dateTime() }
        if flags & 0x04 != 0, let pulse = Self.bigEndianPulse(original) {
            // A user stands between pulse and status, and the flags do not tell of it.
            var (other, generator) = (fields.octets, chance)
            other[fields.place + 1] = UInt8(
                ReplacedNumber.rate.mantissa(pulse, exponent: 0, highest: 0xFE, using: &generator))
            fields = ReplacedFields(other, times, chance)
            fields.keep(other.count)
            return
        }
        if flags & 0x04 != 0 { fields.float16(.rate) }
        if flags & 0x08 != 0 { fields.keep() }
        if flags & 0x10 != 0 { fields.keep(2) }
    }

    /// The pulse of a record of 2A35 that is an octet longer than its flags say, with its high octet first; `nil` for
    /// another record.
    static func bigEndianPulse(_ octets: [UInt8]) -> Int? {
        guard let flags = octets.first else { return nil }
        let place = 7 + (flags & 0x02 != 0 ? 7 : 0)
        let length =
            place + (flags & 0x04 != 0 ? 2 : 0) + (flags & 0x08 != 0 ? 1 : 0) + (flags & 0x10 != 0 ? 2 : 0)
        guard flags & 0x04 != 0, octets.count == length + 1, octets[place] == 0,
            (20...250).contains(octets[place + 1])
        else { return nil }
        return Int(octets[place + 1])
    }

    private func heartRate(_ fields: inout ReplacedFields) {
        let flags = fields.flags()
        if flags & 0x01 == 0 { fields.octet(.rate) } else { fields.word(.rate) }
        if flags & 0x08 != 0 { fields.word(.any) }
        while flags & 0x10 != 0, fields.left >= 2 {
            fields.word(ReplacedNumber(650...1100, within: 200...3100))
        }
    }

    private func oximeter(_ fields: inout ReplacedFields, isSpot: Bool) {
        let flags = fields.flags()
        let pairs = isSpot ? 1 : 1 + (flags & 0x01 != 0 ? 1 : 0) + (flags & 0x02 != 0 ? 1 : 0)
        for _ in 0..<pairs {
            fields.float16(.saturation)
            fields.float16(.rate)
        }
        if isSpot, flags & 0x01 != 0 { fields.dateTime() }
        let (status, sensor, index): (UInt8, UInt8, UInt8) = isSpot ? (0x02, 0x04, 0x08) : (0x04, 0x08, 0x10)
        if flags & status != 0 { fields.keep(2) }
        if flags & sensor != 0 { fields.keep(3) }
        if flags & index != 0 { fields.float16(.any) }
    }

    private func temperature(_ fields: inout ReplacedFields) {
        let flags = fields.flags()
        fields.float32(flags & 0x01 == 0 ? .celsius : .fahrenheit)
        if flags & 0x02 != 0 { fields.dateTime() }
        if flags & 0x04 != 0 { fields.keep() }
    }

    private static func mass(_ kilograms: ClosedRange<Double>, imperial: Bool) -> ReplacedNumber {
        ReplacedNumber(kilograms, within: 0.2...700, scale: imperial ? 0.01 * 0.453_592_37 : 0.005)
    }

    private static func height(imperial: Bool) -> ReplacedNumber {
        ReplacedNumber(1.6...1.85, within: 0.2...2.8, scale: imperial ? 0.1 * 0.0254 : 0.001)
    }

    private func weight(_ fields: inout ReplacedFields) {
        let flags = fields.flags()
        let imperial = flags & 0x01 != 0
        fields.word(Self.mass(60...85, imperial: imperial))
        if flags & 0x02 != 0 { fields.dateTime() }
        if flags & 0x04 != 0 { fields.keep() }
        if flags & 0x08 != 0 {
            fields.word(ReplacedNumber(20...28, within: 5...250, scale: 0.1))
            fields.word(Self.height(imperial: imperial))
        }
    }

    private func composition(_ fields: inout ReplacedFields) {
        let flags = UInt16(fields.flags()) | UInt16(fields.flags()) << 8
        let imperial = flags & 0x0001 != 0
        fields.word(ReplacedNumber(15...30, within: 1...85, scale: 0.1))
        if flags & 0x0002 != 0 { fields.dateTime() }
        if flags & 0x0004 != 0 { fields.keep() }
        if flags & 0x0008 != 0 { fields.word(ReplacedNumber(5500...7500, within: 1...65_534)) }
        if flags & 0x0010 != 0 { fields.word(ReplacedNumber(30...45, within: 1...100, scale: 0.1)) }
        // Muscle, fat-free, soft lean and water: each less than the weight.
        for bit: UInt16 in [0x0020, 0x0040, 0x0080, 0x0100] where flags & bit != 0 {
            fields.word(Self.mass(30...50, imperial: imperial))
        }
        if flags & 0x0200 != 0 { fields.word(ReplacedNumber(400...600, within: 1...6553, scale: 0.1)) }
        if flags & 0x0400 != 0 { fields.word(Self.mass(60...85, imperial: imperial)) }
        if flags & 0x0800 != 0 { fields.word(Self.height(imperial: imperial)) }
    }

    // MARK: Continuous glucose

    /// Several records may stand in a value, each with its size in front and, of some sensors, its checksum behind.
    private func continuousGlucose(_ octets: [UInt8]) -> [UInt8] {
        var made: [UInt8] = []
        var rest = octets[...]
        while let size = rest.first.map(Int.init), size >= 2, size <= rest.count {
            let record = Array(rest.prefix(size))
            rest = rest.dropFirst(size)
            var fields = ReplacedFields(record, times, chance)
            fields.keep()
            let flags = fields.flags()
            fields.float16(.milligrams)
            fields.keep(2)
            for bit: UInt8 in [0x80, 0x40, 0x20] where flags & bit != 0 { fields.keep() }
            if flags & 0x01 != 0 { fields.float16(.change) }
            if flags & 0x02 != 0 { fields.float16(.any) }
            if fields.left == 2 { fields.checksum(like: record) } else { fields.zeroRest() }
            made += fields.octets
        }
        return made + rest.map { _ in 0 }
    }

    private func sessionControl(_ octets: [UInt8]) -> [UInt8] {
        // Answers and starts, with a checksum, say nothing of a person; everything else has a number in it.
        if octets.first == 0x1A || octets.first == 0x1B { return Self.kept(3, of: octets) }
        if octets.first == 0x1C { return Self.kept(5, of: octets) }
        var fields = ReplacedFields(octets, times, chance)
        fields.keep()
        if fields.left > 2 {
            fields.zero(fields.left - 2)
            fields.checksum(like: octets)
        } else {
            fields.zeroRest()
        }
        return fields.octets
    }

    // MARK: Record access

    private func recordAccess(_ fields: inout ReplacedFields) {
        let head = fields.keep(min(2, fields.left))
        guard fields.left > 0, head.count == 2 else { return }
        switch head[0] {
        // A filter by the numbers of records, of which there are one or two; one by the user's time has times behind it.
        case 0x01, 0x02, 0x04:
            let filter = fields.keep()[0]
            if filter == 1 { fields.keep(min(4, fields.left)) }
            while filter == 2, fields.left >= 7 { fields.dateTime() }
        // How many there are; what was asked for, and what came of it.
        case 0x05, 0x06: fields.keep(min(2, fields.left))
        default: break
        }
    }
}

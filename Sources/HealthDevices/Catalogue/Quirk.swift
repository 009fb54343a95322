/// In what a model differs from the standard, as data.
///
/// A quirk says what to look for; each is looked for in what the device sends, and where it is not found the standard
/// holds. Where each is known from stands with the entries that have it.
public enum Quirk: String, Sendable, Hashable, CaseIterable {
    /// A month of 13 in a record's time is January: the firmware carries wrongly where it subtracts its time offset.
    case monthThirteen = "month_13_is_january"
    /// A context whose meal is the reserved number 6 says that its record is a ketone, ten times the value in mmol/L.
    case mealSixIsKetone = "meal_6_is_ketone"
    /// Each value is sent twice.
    case sendsTwice = "sends_twice"
    /// Records are numbered by age, 0 the newest, and come newest first: a number says nothing of which record it is.
    case numbersByAge = "numbers_by_age"
    /// A full memory adds a record behind its last place that says "high" and was never measured.
    case fullMemoryAddsHigh = "full_memory_adds_high"
    /// Numbers do not follow time, so that the newest number is not the newest record.
    case numbersOutOfOrder = "numbers_out_of_order"
    /// Behind each record comes an empty one, numbered FFFF or with FFFF in place of its value.
    case emptyPartners = "empty_partner_records"
    /// Records from a number on cannot be asked for: all are.
    case readsAll = "no_greater_or_equal"
    /// The clock that can be read shows base time, not what the user sees.
    case clockShowsBaseTime = "clock_shows_base_time"
    /// Records come by a protocol of OneTouch's own.
    case oneTouchProtocol = "onetouch_protocol"
    /// Pulse and status are big-endian, and a user stands between them that the flags do not tell of.
    case bigEndianPulse = "big_endian_pulse"
    /// Indications are lost that are enabled less than 100 ms after the connection.
    case pauseBeforeNotifying = "pause_before_notifying"
    /// The device ends its pairing mode when the host disconnects, and is not heard again before it has measured.
    case leavesAfterBonding = "leaves_after_bonding"
    /// The maker wants the date and time written at each connection. Done where the owner has asked for it, only.
    case wantsDateTime = "wants_date_time"
    /// Only records that were not sent before are sent.
    case sendsUnsentOnly = "sends_unsent_only"
    /// A command of A&D's own has it send all records, also those that were sent before.
    case commandForAll = "command_for_all"
    /// The device sets bits that the specification reserves, and leaves the mean pressure out.
    case reservedBits = "reserved_bits_set"
    /// The device may refuse to have its clock set.
    case refusesClock = "refuses_clock"
    /// Seconds of a record run to 63: the measurement ended in the minute that is stored with it.
    case secondsTo63 = "seconds_to_63"
    /// The battery level (2A19) reads 0 whatever the battery is.
    case batteryReadsZero = "battery_reads_0"

    /// The recorded capture that shows it, of `Fixtures/`. What is a matter of the conversation is shown in one of the
    /// gateway's own.
    public var capture: String {
        switch self {
        case .monthThirteen, .mealSixIsKetone, .sendsTwice: "quirks-caresens"
        case .numbersByAge, .fullMemoryAddsHigh: "quirks-taidoc"
        case .numbersOutOfOrder, .emptyPartners: "quirks-myglucose"
        case .readsAll, .clockShowsBaseTime: "quirks-reads-all"
        case .oneTouchProtocol: "quirks-onetouch"
        case .bigEndianPulse, .pauseBeforeNotifying: "quirks-bm85"
        case .leavesAfterBonding, .wantsDateTime, .sendsUnsentOnly, .commandForAll: "quirks-and"
        case .reservedBits: "quirks-bm96"
        case .refusesClock: "quirks-omron"
        case .secondsTo63, .batteryReadsZero: "omron-memory"
        }
    }

    /// One sentence for the list of devices.
    public var explanation: String {
        switch self {
        case .monthThirteen: "month 13 of a record's time is read as January of the year that was sent"
        case .mealSixIsKetone: "a record whose context has meal 6 is a ketone: kept, never delivered as glucose"
        case .sendsTwice: "values sent twice are one record"
        case .numbersByAge:
            "record numbers are ages (0 is the newest): records are known by time and value instead, and join the "
                + "contexts of the same transfer"
        case .fullMemoryAddsHigh: "the \"high\" record behind place 449 of a full memory is an error record"
        case .numbersOutOfOrder: "numbers do not follow time: all records are read each time"
        case .emptyPartners: "the empty record (FFFF) behind each record is kept and makes no reading"
        case .readsAll: "records from a number on cannot be asked for: all records are read each time"
        case .clockShowsBaseTime: "the readable clock shows base time: records are corrected from their base time"
        case .oneTouchProtocol: "records come by OneTouch's own protocol, one question for each"
        case .bigEndianPulse:
            "where a record is an octet longer than its flags say and the pulse makes sense big-endian, pulse and "
                + "status are read so, with the user between them"
        case .pauseBeforeNotifying: "indications are enabled 100 ms after the connection"
        case .leavesAfterBonding: "disconnected after bonding; the bond proves itself after the next measurement"
        case .wantsDateTime: "date and time are written at each connection where the owner asked for it (`clock.set`)"
        case .sendsUnsentOnly: "each record is sent once"
        case .commandForAll: "`read --all-records` has it send all records again"
        case .reservedBits: "reserved bits are set and the mean is no number: both are accepted"
        case .secondsTo63: "seconds above 59 are read as 59; the octets are kept"
        case .batteryReadsZero: "a battery level of 0 says nothing"
        case .refusesClock: "the clock cannot always be set: `devices set-clock` then says so"
        }
    }
}

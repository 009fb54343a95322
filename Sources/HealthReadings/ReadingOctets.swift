extension Reading {
    /// Appends the octets of ``document``'s text, without building the document: a page of ten thousand readings costs a
    /// third of the time so.
    public func write(into octets: inout [UInt8]) {
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: DocumentWriter.room) { scratch in
            var writer = DocumentWriter(octets: octets, scratch: scratch)
            octets = []
            writer.put(self)
            octets = writer.whole()
        }
    }
}

/// Writes a reading's JSON octet by octet; rare parts are written as their documents are.
///
/// Octets are gathered in a piece of memory that does not move and handed over together: an array that grows by one asks
/// each time whether it is its own.
private struct DocumentWriter {
    /// What a usual reading takes, and more; no more than the compiler takes from the stack.
    static let room = 1024

    private var octets: [UInt8]
    private let scratch: UnsafeMutableBufferPointer<UInt8>
    private var count = 0
    private var lastDate: (number: Int64, date: (year: Int, month: Int, day: Int))?

    init(octets: [UInt8], scratch: UnsafeMutableBufferPointer<UInt8>) {
        self.octets = octets
        self.scratch = scratch
    }

    /// All that was there and was written.
    mutating func whole() -> [UInt8] {
        handOver()
        return octets
    }

    private mutating func handOver() {
        octets.append(contentsOf: UnsafeBufferPointer(rebasing: scratch[..<count]))
        count = 0
    }

    /// Makes room for so many octets, no more than there is in all.
    @inline(__always)
    private mutating func reserve(_ more: Int) { if count + more > scratch.count { handOver() } }

    @inline(__always)
    private mutating func append(_ octet: UInt8) {
        reserve(1)
        scratch[count] = octet
        count += 1
    }

    private mutating func append(_ more: UnsafeBufferPointer<UInt8>) {
        guard more.count <= scratch.count else {
            handOver()
            return octets.append(contentsOf: more)
        }
        reserve(more.count)
        guard let target = scratch.baseAddress, let source = more.baseAddress else { return }
        (target + count).update(from: source, count: more.count)
        count += more.count
    }

    mutating func put(_ reading: Reading) {
        let record = reading.record
        // The kinds that come by the page are written here; the others' documents are short and few.
        if case .vital = record.value { return put(reading.document) }
        literal(#"{"id":"#)
        put(reading.id)
        literal(#","kind":"#)
        put(text: record.value.kind.rawValue)
        literal(#","device":{"address":"#)
        put(reading.device.address)
        literal(#","model":"#)
        put(text: reading.device.model)
        literal(#","serial":"#)
        put(text: reading.device.serial)
        literal(#"},"provider":"#)
        put(text: reading.device.provider)
        literal(#","sequence":"#)
        put(number: record.sequence)
        literal(#","base_time":"#)
        put(record.baseTime)
        literal(#","time_offset_minutes":"#)
        put(number: record.timeOffsetMinutes)
        literal(#","device_time":"#)
        put(record.deviceTime)
        literal(#","time":"#)
        put(reading.time.instant)
        literal(#","time_basis":"#)
        put(text: reading.time.basis.rawValue)
        literal(#","time_uncertainty_minutes":"#)
        put(number: reading.time.uncertaintyMinutes)
        literal(#","clock":"#)
        put(reading.time.clock)
        switch record.value {
        case .glucose(let glucose):
            literal(#","glucose":"#)
            put(glucose.concentration)
            literal(#","sample_type":"#)
            put(text: glucose.sampleType?.name)
            literal(#","sample_location":"#)
            put(text: glucose.sampleLocation?.name)
            literal(#","context":"#)
            if let context = reading.context { put(context.document) } else { literal("null") }
            put(glucose.continuous?.members ?? [])
        case .bloodPressure(let pressure):
            literal(#","blood_pressure":{"systolic":"#)
            put(pressure.systolic)
            literal(#","diastolic":"#)
            put(pressure.diastolic)
            literal(#","mean":"#)
            put(pressure.meanArterial)
            literal(#"},"pulse":"#)
            put(pressure.pulse)
        case .vital: break
        }
        put(record.sensor?.members ?? [])
        literal(#","user":"#)
        put(number: record.userSlot)
        literal(#","status":"#)
        if record.status.isEmpty {
            literal("[]")
        } else {
            put(.array(record.status.names.map(JSONValue.string)))
        }
        putOmissions(of: record, reading.context)
        literal(#","person":"#)
        put(text: reading.person)
        literal(#","excluded":"#)
        put(text: reading.excluded?.rawValue)
        literal(#","deliveries":["#)
        for (place, delivery) in reading.deliveries.enumerated() {
            literal(place == 0 ? #"{"destination":"# : #",{"destination":"#)
            put(text: delivery.destination)
            literal(#","state":"#)
            put(text: delivery.state.name)
            literal(#","reason":"#)
            put(text: delivery.state.reason)
            append(UInt8(ascii: "}"))
        }
        literal("]}")
    }

    private mutating func putOmissions(of record: Record, _ context: GlucoseContext?) {
        let omissions = hasNumbers(record) && context == nil ? [] : record.omissions(context)
        guard !omissions.isEmpty else { return literal(#","omitted":{}"#) }
        literal(#","omitted":"#)
        put(.object(omissions))
    }

    /// Whether all quantities of a usual record have numbers, found without a list of those that have none.
    private func hasNumbers(_ record: Record) -> Bool {
        switch record.value {
        case .glucose(let glucose): glucose.concentration?.number.absence == nil && glucose.continuous == nil
        case .bloodPressure(let pressure):
            pressure.systolic.number.absence == nil && pressure.diastolic.number.absence == nil
                && pressure.meanArterial.number.absence == nil && pressure.pulse?.number.absence == nil
        case .vital: false
        }
    }

    private mutating func literal(_ text: StaticString) {
        append(UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
    }

    private mutating func put(_ members: [JSONValue.Member]) {
        for member in members {
            append(UInt8(ascii: ","))
            put(text: member.key)
            append(UInt8(ascii: ":"))
            put(member.value)
        }
    }

    private mutating func put(_ value: JSONValue) {
        handOver()
        value.write(into: &octets)
    }

    private mutating func put(text: String?) {
        guard var text else { return literal("null") }
        let isPlain = text.withUTF8 { utf8 in
            guard utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x22 && $0 != 0x5C }) else { return false }
            append(UInt8(ascii: "\""))
            append(utf8)
            append(UInt8(ascii: "\""))
            return true
        }
        guard !isPlain else { return }
        handOver()
        JSONValue.write(text, into: &octets)
    }

    private mutating func put(number: (some FixedWidthInteger)?) {
        guard let number else { return literal("null") }
        put(digits: Int64(number))
    }

    private mutating func put(_ address: DeviceAddress?) {
        guard let address else { return literal("null") }
        append(UInt8(ascii: "\""))
        for place in 0..<17 {
            guard place % 3 < 2 else {
                append(UInt8(ascii: ":"))
                continue
            }
            let nibble = UInt8(truncatingIfNeeded: address.bits >> UInt64(44 - 8 * (place / 3) - 4 * (place % 3))) & 15
            append(nibble + (nibble < 10 ? UInt8(ascii: "0") : UInt8(ascii: "A") - 10))
        }
        append(UInt8(ascii: "\""))
    }

    private mutating func put(_ id: ReadingID) {
        append(UInt8(ascii: "\""))
        for half in [id.high, id.low] {
            for place in 0..<16 {
                let nibble = UInt8(truncatingIfNeeded: half >> UInt64(60 - 4 * place)) & 15
                append(nibble + (nibble < 10 ? UInt8(ascii: "0") : UInt8(ascii: "a") - 10))
            }
        }
        append(UInt8(ascii: "\""))
    }

    private mutating func put(_ wall: WallTime?) {
        guard let wall else { return literal("null") }
        append(UInt8(ascii: "\""))
        putParts(of: wall)
        append(UInt8(ascii: "\""))
    }

    private mutating func put(_ instant: Instant?) {
        guard let instant else { return literal("null") }
        guard instant == instant.flooredToSecond else { return put(text: instant.description) }
        append(UInt8(ascii: "\""))
        putParts(of: WallTime(secondsSinceEpoch: instant.seconds))
        append(UInt8(ascii: "Z"))
        append(UInt8(ascii: "\""))
    }

    private mutating func putParts(of wall: WallTime) {
        let (year, month, day) = date(of: wall)
        guard (0...9999).contains(year) else { return put(description: wall.description) }
        let (hour, minute, second) = wall.timeOfDay
        putPair(year / 100)
        putPair(year % 100)
        append(UInt8(ascii: "-"))
        putPair(month)
        append(UInt8(ascii: "-"))
        putPair(day)
        append(UInt8(ascii: "T"))
        putPair(hour)
        append(UInt8(ascii: ":"))
        putPair(minute)
        append(UInt8(ascii: ":"))
        putPair(second)
    }

    /// A reading's times are of one day mostly.
    private mutating func date(of wall: WallTime) -> (year: Int, month: Int, day: Int) {
        let number = wall.secondsSinceEpoch.flooredDivision(by: 86_400)
        if let lastDate, lastDate.number == number { return lastDate.date }
        let date = wall.date
        lastDate = (number, date)
        return date
    }

    private mutating func put(description: String) {
        handOver()
        octets.append(contentsOf: description.utf8)
    }

    private mutating func putPair(_ number: Int) {
        append(UInt8(ascii: "0") + UInt8(truncatingIfNeeded: number / 10))
        append(UInt8(ascii: "0") + UInt8(truncatingIfNeeded: number % 10))
    }

    private mutating func put(_ clock: ClockComparison?) {
        guard let clock else { return literal("null") }
        literal(#"{"difference_seconds":"#)
        put(digits: clock.differenceSeconds)
        literal(#","read_at":"#)
        put(clock.readAt.flooredToSecond)
        append(UInt8(ascii: "}"))
    }

    private mutating func put(_ quantity: Quantity?) {
        guard let quantity, let number = quantity.number.number else { return literal("null") }
        literal(#"{"value":"#)
        put(number)
        literal(#","unit":"#)
        put(text: quantity.unit.symbol)
        append(UInt8(ascii: "}"))
    }

    /// A number with the decimal places that the device sent.
    private mutating func put(_ number: ExactDecimal) {
        let places = -Int(number.exponent)
        guard (0...18).contains(places) else { return put(description: number.description) }
        guard places > 0 else { return put(digits: number.significand) }
        var magnitude = number.significand.magnitude
        if number.significand < 0 { append(UInt8(ascii: "-")) }
        var power: UInt64 = 1
        for _ in 0..<places { power *= 10 }
        put(magnitude: magnitude / power)
        append(UInt8(ascii: "."))
        magnitude %= power
        for _ in 0..<places {
            power /= 10
            append(UInt8(ascii: "0") + UInt8(truncatingIfNeeded: magnitude / power % 10))
        }
    }

    private mutating func put(digits number: Int64) {
        if number < 0 { append(UInt8(ascii: "-")) }
        put(magnitude: number.magnitude)
    }

    private mutating func put(magnitude: UInt64) {
        var power: UInt64 = 1
        while magnitude / power >= 10 { power *= 10 }
        while power > 0 {
            append(UInt8(ascii: "0") + UInt8(truncatingIfNeeded: magnitude / power % 10))
            power /= 10
        }
    }
}

extension Reading {
    /// Appends the octets of ``document``'s text, without building the document: a page of ten thousand readings costs a
    /// third of the time so.
    public func write(into octets: inout [UInt8]) {
        var writer = DocumentWriter(octets: octets)
        octets = []
        writer.put(self)
        octets = writer.octets
    }
}

/// Writes a reading's JSON octet by octet; rare parts are written as their documents are.
private struct DocumentWriter {
    var octets: [UInt8]

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
            put(reading.context?.document ?? .null)
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
        put(record.status.isEmpty ? .array([]) : .array(record.status.names.map(JSONValue.string)))
        literal(#","excluded":"#)
        put(text: reading.excluded?.rawValue)
        literal(#","held":"#)
        put(text: reading.held?.rawValue)
        octets.append(UInt8(ascii: "}"))
    }

    private mutating func literal(_ text: StaticString) {
        octets.append(contentsOf: UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
    }

    private mutating func put(_ members: [JSONValue.Member]) {
        for member in members {
            octets.append(UInt8(ascii: ","))
            put(text: member.key)
            octets.append(UInt8(ascii: ":"))
            put(member.value)
        }
    }

    private mutating func put(_ value: JSONValue) { value.write(into: &octets) }

    private mutating func put(text: String?) {
        guard let text else { return literal("null") }
        JSONValue.write(text, into: &octets)
    }

    private mutating func put(number: (some FixedWidthInteger)?) {
        guard let number else { return literal("null") }
        put(digits: Int64(number))
    }

    private mutating func put(_ address: DeviceAddress?) {
        guard let address else { return literal("null") }
        octets.append(UInt8(ascii: "\""))
        for place in 0..<17 {
            guard place % 3 < 2 else {
                octets.append(UInt8(ascii: ":"))
                continue
            }
            let nibble = UInt8(truncatingIfNeeded: address.bits >> UInt64(44 - 8 * (place / 3) - 4 * (place % 3))) & 15
            octets.append(nibble + (nibble < 10 ? UInt8(ascii: "0") : UInt8(ascii: "A") - 10))
        }
        octets.append(UInt8(ascii: "\""))
    }

    private mutating func put(_ id: ReadingID) {
        octets.append(UInt8(ascii: "\""))
        for half in [id.high, id.low] {
            for place in 0..<16 {
                let nibble = UInt8(truncatingIfNeeded: half >> UInt64(60 - 4 * place)) & 15
                octets.append(nibble + (nibble < 10 ? UInt8(ascii: "0") : UInt8(ascii: "a") - 10))
            }
        }
        octets.append(UInt8(ascii: "\""))
    }

    private mutating func put(_ wall: WallTime?) {
        guard let wall else { return literal("null") }
        octets.append(UInt8(ascii: "\""))
        putParts(of: wall)
        octets.append(UInt8(ascii: "\""))
    }

    private mutating func put(_ instant: Instant?) {
        guard let instant else { return literal("null") }
        guard instant == instant.flooredToSecond else { return put(text: instant.description) }
        octets.append(UInt8(ascii: "\""))
        putParts(of: WallTime(secondsSinceEpoch: instant.seconds))
        octets.append(UInt8(ascii: "Z"))
        octets.append(UInt8(ascii: "\""))
    }

    private mutating func putParts(of wall: WallTime) {
        let (year, month, day) = wall.date
        guard (0...9999).contains(year) else { return octets.append(contentsOf: wall.description.utf8) }
        let (hour, minute, second) = wall.timeOfDay
        putPair(year / 100)
        putPair(year % 100)
        octets.append(UInt8(ascii: "-"))
        putPair(month)
        octets.append(UInt8(ascii: "-"))
        putPair(day)
        octets.append(UInt8(ascii: "T"))
        putPair(hour)
        octets.append(UInt8(ascii: ":"))
        putPair(minute)
        octets.append(UInt8(ascii: ":"))
        putPair(second)
    }

    private mutating func putPair(_ number: Int) {
        octets.append(UInt8(ascii: "0") + UInt8(truncatingIfNeeded: number / 10))
        octets.append(UInt8(ascii: "0") + UInt8(truncatingIfNeeded: number % 10))
    }

    private mutating func put(_ clock: ClockComparison?) {
        guard let clock else { return literal("null") }
        literal(#"{"difference_seconds":"#)
        put(digits: clock.differenceSeconds)
        literal(#","read_at":"#)
        put(clock.readAt.flooredToSecond)
        octets.append(UInt8(ascii: "}"))
    }

    private mutating func put(_ quantity: Quantity?) {
        guard let quantity, let number = quantity.number.number else { return literal("null") }
        literal(#"{"value":"#)
        put(number)
        literal(#","unit":"#)
        put(text: quantity.unit.symbol)
        octets.append(UInt8(ascii: "}"))
    }

    /// A number with the decimal places that the device sent.
    private mutating func put(_ number: ExactDecimal) {
        let places = -Int(number.exponent)
        guard (0...18).contains(places) else { return octets.append(contentsOf: number.description.utf8) }
        guard places > 0 else { return put(digits: number.significand) }
        var magnitude = number.significand.magnitude
        if number.significand < 0 { octets.append(UInt8(ascii: "-")) }
        var power: UInt64 = 1
        for _ in 0..<places { power *= 10 }
        put(magnitude: magnitude / power)
        octets.append(UInt8(ascii: "."))
        magnitude %= power
        for _ in 0..<places {
            power /= 10
            octets.append(UInt8(ascii: "0") + UInt8(truncatingIfNeeded: magnitude / power % 10))
        }
    }

    private mutating func put(digits number: Int64) {
        if number < 0 { octets.append(UInt8(ascii: "-")) }
        put(magnitude: number.magnitude)
    }

    private mutating func put(magnitude: UInt64) {
        var power: UInt64 = 1
        while magnitude / power >= 10 { power *= 10 }
        while power > 0 {
            octets.append(UInt8(ascii: "0") + UInt8(truncatingIfNeeded: magnitude / power % 10))
            power /= 10
        }
    }
}

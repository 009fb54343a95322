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

/// Writes many readings' documents, with commas between them: what they share is made ready once.
public struct ReadingWriter: ~Copyable {
    private let scratch: UnsafeMutableBufferPointer<UInt8>
    private var writer: DocumentWriter
    private var isFirst = true

    /// Makes a writer without readings.
    ///
    /// - Parameter capacity: how many octets are gathered without another copy; more may be.
    public init(capacity: Int) {
        scratch = .allocate(capacity: max(capacity, DocumentWriter.room))
        writer = DocumentWriter(octets: [], scratch: scratch)
    }

    deinit { scratch.deallocate() }

    /// How many octets were written and not taken.
    public var count: Int { writer.length }

    /// Appends a reading's document.
    public mutating func append(_ reading: Reading) {
        if !isFirst { writer.append(UInt8(ascii: ",")) }
        isFirst = false
        writer.put(reading)
    }

    /// Hands over what was written since this was called last.
    public mutating func take<Taken>(_ body: (UnsafeBufferPointer<UInt8>) throws -> Taken) rethrows -> Taken {
        defer { writer.begin() }
        return try writer.withOctets(body)
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
    /// `2026-11-21T` of the day when the device's clock was read, and of the day of the measurement: a page's are of few.
    private var lastDates: (Date?, Date?)
    /// A page's readings are of few devices.
    private var lastDevice: (device: DeviceDescription, octets: [UInt8])?

    init(octets: [UInt8], scratch: UnsafeMutableBufferPointer<UInt8>) {
        self.octets = octets
        self.scratch = scratch
    }

    /// `2026-11-21T`, and the number of the day.
    private struct Date {
        static let length = 11

        var number: Int64
        /// The last five are not used.
        var octets: SIMD16<UInt8>
    }

    /// How much there is.
    var length: Int { octets.count + count }

    /// Begins anew.
    mutating func begin() {
        octets = []
        count = 0
    }

    mutating func withOctets<Result>(_ body: (UnsafeBufferPointer<UInt8>) throws -> Result) rethrows -> Result {
        guard !octets.isEmpty else { return try body(UnsafeBufferPointer(rebasing: scratch[..<count])) }
        handOver()
        return try octets.withUnsafeBufferPointer(body)
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
    mutating func append(_ octet: UInt8) {
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
        switch record.value {
        case .glucose, .bloodPressure: break
        case .vital, .kept: return put(reading.document)
        }
        literal(#"{"id":"#)
        put(reading.id)
        literal(#","kind":"#)
        put(name: record.value.kind.rawValue)
        put(reading.device)
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
        put(name: reading.time.basis.rawValue)
        literal(#","time_uncertainty_minutes":"#)
        put(number: reading.time.uncertaintyMinutes)
        literal(#","clock":"#)
        put(reading.time.clock)
        switch record.value {
        case .glucose(let glucose):
            literal(#","glucose":"#)
            put(glucose.concentration)
            literal(#","sample_type":"#)
            put(name: glucose.sampleType?.name)
            literal(#","sample_location":"#)
            put(name: glucose.sampleLocation?.name)
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
        case .vital, .kept: break
        }
        put(record.sensor?.members ?? [])
        put(record.entry?.members ?? [])
        put(record.imported?.members ?? [])
        put(reading.leftOut?.members ?? [])
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
        put(name: reading.excluded?.rawValue)
        literal(#","deliveries":["#)
        for (place, delivery) in reading.deliveries.enumerated() {
            literal(place == 0 ? #"{"destination":"# : #",{"destination":"#)
            put(text: delivery.destination)
            literal(#","state":"#)
            put(name: delivery.state.name)
            literal(#","reason":"#)
            put(text: delivery.state.reason)
            if let sentTime = delivery.sentTime {
                literal(#","sent_time":"#)
                put(text: sentTime.description)
            }
            append(UInt8(ascii: "}"))
        }
        literal("]}")
    }

    private mutating func put(_ device: DeviceDescription) {
        if let lastDevice, lastDevice.device == device {
            return lastDevice.octets.withUnsafeBufferPointer { append($0) }
        }
        let start = length
        literal(#","device":{"address":"#)
        put(device.address)
        literal(#","model":"#)
        put(text: device.model)
        literal(#","serial":"#)
        put(text: device.serial)
        literal(#"},"provider":"#)
        put(text: device.provider)
        let written = length - start
        // Unless a part of it was handed over.
        lastDevice = written > count ? nil : (device, Array(scratch[count - written..<count]))
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
        case .vital, .kept: false
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

    /// Writes a name of ours, in which nothing needs to be escaped.
    private mutating func put(name: String?) {
        guard var name else { return literal("null") }
        name.withUTF8 { utf8 in
            reserve(utf8.count + 2)
            scratch[count] = UInt8(ascii: "\"")
            if let source = utf8.baseAddress, let target = scratch.baseAddress {
                (target + count + 1).update(from: source, count: utf8.count)
            }
            scratch[count + 1 + utf8.count] = UInt8(ascii: "\"")
            count += utf8.count + 2
        }
    }

    private mutating func put(text: String?) {
        guard var text else { return literal("null") }
        let isPlain = text.withUTF8 { utf8 in
            guard utf8.count + 2 <= scratch.count else { return false }
            reserve(utf8.count + 2)
            var end = count
            scratch[end] = UInt8(ascii: "\"")
            for octet in utf8 {
                guard octet >= 0x20, octet != 0x22, octet != 0x5C else { return false }
                end += 1
                scratch[end] = octet
            }
            scratch[end + 1] = UInt8(ascii: "\"")
            count = end + 2
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
        reserve(34)
        scratch[count] = UInt8(ascii: "\"")
        for place in 0..<32 {
            let half = place < 16 ? id.high : id.low
            let nibble = UInt8(truncatingIfNeeded: half &>> UInt64(60 - 4 * (place & 15))) & 15
            scratch[count + 1 + place] = nibble + (nibble < 10 ? UInt8(ascii: "0") : UInt8(ascii: "a") - 10)
        }
        scratch[count + 33] = UInt8(ascii: "\"")
        count += 34
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
        let number = wall.secondsSinceEpoch.flooredDivision(by: 86_400)
        let date: Date
        if let last = lastDates.0, last.number == number {
            date = last
        } else if let last = lastDates.1, last.number == number {
            date = last
        } else {
            let (year, month, day) = wall.date
            guard (0...9999).contains(year) else { return put(description: wall.description) }
            var octets = SIMD16<UInt8>(repeating: UInt8(ascii: "-"))
            for (place, number) in [(0, year / 100), (2, year % 100), (5, month), (8, day)] {
                octets[place] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: number / 10)
                octets[place + 1] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: number % 10)
            }
            octets[10] = UInt8(ascii: "T")
            date = Date(number: number, octets: octets)
            lastDates = (date, lastDates.0)
        }
        reserve(Date.length + 8)
        UnsafeMutableRawBufferPointer(scratch).storeBytes(of: date.octets, toByteOffset: count, as: SIMD16<UInt8>.self)
        let (hour, minute, second) = wall.timeOfDay
        let start = count + Date.length
        putPair(hour, at: start)
        scratch[start + 2] = UInt8(ascii: ":")
        putPair(minute, at: start + 3)
        scratch[start + 5] = UInt8(ascii: ":")
        putPair(second, at: start + 6)
        count = start + 8
    }

    private mutating func put(description: String) {
        handOver()
        octets.append(contentsOf: description.utf8)
    }

    @inline(__always)
    private func putPair(_ number: Int, at place: Int) {
        scratch[place] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: number / 10)
        scratch[place + 1] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: number % 10)
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
        put(name: quantity.unit.symbol)
        append(UInt8(ascii: "}"))
    }

    /// A number with the decimal places that the device sent.
    private mutating func put(_ number: ExactDecimal) {
        let places = -Int(number.exponent)
        guard (0...18).contains(places) else { return put(description: number.description) }
        guard places > 0 else { return put(digits: number.significand) }
        if number.significand < 0 { append(UInt8(ascii: "-")) }
        // A digit before the point at least, and room for the point.
        reserve(21)
        putDigits(of: number.significand.magnitude, atLeast: places + 1)
        let point = count - places
        for place in stride(from: count, to: point, by: -1) { scratch[place] = scratch[place - 1] }
        scratch[point] = UInt8(ascii: ".")
        count += 1
    }

    private mutating func put(digits number: Int64) {
        if number < 0 { append(UInt8(ascii: "-")) }
        putDigits(of: number.magnitude, atLeast: 1)
    }

    /// Writes a number with zeros before it, if it is too short.
    private mutating func putDigits(of number: UInt64, atLeast fewest: Int) {
        // As many as the greatest number has.
        reserve(20)
        var (rest, digits) = (number, 1)
        while rest >= 10 { (rest, digits) = (rest / 10, digits + 1) }
        digits = max(digits, fewest)
        rest = number
        for place in stride(from: count + digits - 1, through: count, by: -1) {
            scratch[place] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest % 10)
            rest /= 10
        }
        count += digits
    }
}

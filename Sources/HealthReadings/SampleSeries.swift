/// What a device sent while it measured, about once a second, of a minute at most; or what an oximeter has recorded in a night:
/// the samples behind a kept reading whose own value is their mean.
///
/// A day of a strap has 86,400 samples, so they stay in the octets that they are stored as, and are read one after the other
/// when somebody asks for them.
public struct SampleSeries: Sendable, Hashable {
    /// One sample.
    public struct Sample: Sendable, Hashable {
        /// Milliseconds after the reading's time.
        public var milliseconds: Int
        /// The value, in the unit of the reading's main quantity; `nil` where the device sent none that is a person's: a strap
        /// without contact, a saturation that could not be found.
        public var value: ExactDecimal?
        /// Whether the sensor touches the skin; `nil` where it cannot tell.
        public var hasContact: Bool?
        /// The intervals between beats that ended since the sample before, oldest first, in 1/1024 s as they were sent.
        public var intervals: [UInt16]

        /// Makes a sample.
        public init(
            milliseconds: Int, value: ExactDecimal?, hasContact: Bool? = nil, intervals: [UInt16] = []
        ) {
            self.milliseconds = milliseconds
            self.value = value
            self.hasContact = hasContact
            self.intervals = intervals
        }
    }

    /// The samples one after the other: flags; the milliseconds since the sample before; the value; the intervals.
    ///
    /// | part | octets |
    /// |---|---|
    /// | flags | 1: bit 0 value, bit 1 contact known, bit 2 contact, bit 3 exponent, bits 4 to 7 how many intervals (15: the count follows the value) |
    /// | milliseconds | LEB128 |
    /// | value | its digits, zigzag in LEB128; with bit 3 its exponent, zigzag in one octet |
    /// | intervals | 2 each, the low octet first |
    public let octets: [UInt8]
    /// How many samples there are.
    public let count: Int

    /// Makes a series of samples in the order of their times. A sample that lies before the one before it has its time.
    public init(_ samples: some Sequence<Sample>) {
        var (octets, count, last): ([UInt8], Int, Int) = ([], 0, 0)
        for sample in samples {
            let place = Swift.max(sample.milliseconds, last)
            Self.write(sample, after: place - last, into: &octets)
            (count, last) = (count + 1, place)
        }
        self.octets = octets
        self.count = count
    }

    /// Takes the octets of a series.
    ///
    /// - Throws: `MalformedFrame` for octets that ``octets`` did not give.
    public init(octets: [UInt8]) throws(MalformedFrame) {
        var (reader, count) = (Reader(octets), 0)
        while try reader.next() != nil { count += 1 }
        self.octets = octets
        self.count = count
    }

    /// Whether there is no sample.
    public var isEmpty: Bool { count == 0 }

    /// Whether each sample stands in the other series too, which may go on behind them, or have others between them.
    package func isBeginning(of other: SampleSeries) -> Bool {
        guard count <= other.count else { return false }
        if count == other.count { return octets == other.octets }
        var others = other.makeIterator()
        return allSatisfy { sample in
            while let next = others.next(), next.milliseconds <= sample.milliseconds {
                if next == sample { return true }
            }
            return false
        }
    }

    private static func write(_ sample: Sample, after delta: Int, into octets: inout [UInt8]) {
        var flags: UInt8 = UInt8(Swift.min(sample.intervals.count, 15)) << 4
        if sample.value != nil { flags |= 0x01 }
        if let hasContact = sample.hasContact { flags |= hasContact ? 0x06 : 0x02 }
        if let value = sample.value, value.exponent != 0 { flags |= 0x08 }
        octets.append(flags)
        octets.append(leb128: UInt64(delta))
        if let value = sample.value {
            octets.append(leb128: UInt64(bitPattern: value.significand << 1 ^ value.significand >> 63))
            if value.exponent != 0 {
                let exponent = Int8(clamping: value.exponent)
                octets.append(UInt8(bitPattern: exponent << 1 ^ exponent >> 7))
            }
        }
        if sample.intervals.count >= 15 { octets.append(leb128: UInt64(sample.intervals.count)) }
        for interval in sample.intervals {
            octets.append(UInt8(truncatingIfNeeded: interval))
            octets.append(UInt8(truncatingIfNeeded: interval >> 8))
        }
    }
}

extension SampleSeries: Sequence {
    /// Reads the samples one after the other.
    public struct Iterator: IteratorProtocol {
        private var reader: Reader

        fileprivate init(_ octets: [UInt8]) { reader = Reader(octets) }

        /// The next sample.
        public mutating func next() -> Sample? {
            // The octets were read when the series was made.
            (try? reader.next()) ?? nil
        }
    }

    /// Begins with the first sample.
    public func makeIterator() -> Iterator { Iterator(octets) }

    /// A lower bound of ``count``: all.
    public var underestimatedCount: Int { count }

    /// Reads samples from octets that may be anything.
    fileprivate struct Reader {
        private let octets: [UInt8]
        private var place = 0
        private var milliseconds = 0

        init(_ octets: [UInt8]) { self.octets = octets }

        private func failure(_ expected: String) -> MalformedFrame {
            MalformedFrame(
                subject: "series of samples", expected: expected, octet: place,
                found: place < octets.count ? "another" : "the end after \(octets.count) octets")
        }

        private mutating func octet(_ what: String) throws(MalformedFrame) -> UInt8 {
            guard place < octets.count else { throw failure(what) }
            defer { place += 1 }
            return octets[place]
        }

        mutating func next() throws(MalformedFrame) -> Sample? {
            guard place < octets.count else { return nil }
            let flags = try octet("flags")
            guard let delta = octets.leb128(at: &place), delta <= UInt64(Int32.max) else {
                throw failure("milliseconds below 2^31")
            }
            let (time, overflow) = milliseconds.addingReportingOverflow(Int(delta))
            guard !overflow, time <= Int(Int32.max) else { throw failure("an offset below 2^31 ms") }
            milliseconds = time
            var value: ExactDecimal?
            if flags & 0x01 != 0 {
                guard let zigzag = octets.leb128(at: &place) else { throw failure("a value") }
                let digits = Int64(bitPattern: zigzag >> 1) ^ -Int64(bitPattern: zigzag & 1)
                var exponent: Int8 = 0
                if flags & 0x08 != 0 {
                    let zigzag = try octet("an exponent")
                    exponent = Int8(bitPattern: zigzag >> 1) ^ -Int8(bitPattern: zigzag & 1)
                }
                guard (-18...18).contains(exponent) else { throw failure("an exponent from -18 to 18") }
                value = ExactDecimal(significand: digits, exponent: Int16(exponent))
            } else if flags & 0x08 != 0 {
                throw failure("no exponent without a value")
            }
            var count = Int(flags >> 4)
            if count == 15 {
                guard let more = octets.leb128(at: &place), more <= 4096 else {
                    throw failure("at most 4096 intervals")
                }
                count = Int(more)
            }
            guard octets.count - place >= 2 * count else { throw failure("\(count) intervals") }
            var intervals: [UInt16] = []
            if count > 0 {
                intervals.reserveCapacity(count)
                for index in 0..<count {
                    intervals.append(
                        UInt16(octets[place + 2 * index]) | UInt16(octets[place + 2 * index + 1]) << 8)
                }
                place += 2 * count
            }
            return Sample(
                milliseconds: milliseconds, value: value,
                hasContact: flags & 0x02 == 0 ? nil : flags & 0x04 != 0, intervals: intervals)
        }
    }
}

extension [UInt8] {
    /// Appends a number in seven bits an octet, the lowest first; the highest bit says that more follow.
    package mutating func append(leb128 number: UInt64) {
        var rest = number
        while rest >= 0x80 {
            append(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest >>= 7
        }
        append(UInt8(truncatingIfNeeded: rest))
    }

    /// Reads such a number.
    ///
    /// - Parameter place: where it begins; afterwards the octet behind it.
    /// - Returns: `nil` where the octets end within it, or it does not fit 64 bits.
    package func leb128(at place: inout Int) -> UInt64? {
        var (number, shift): (UInt64, UInt64) = (0, 0)
        while place < count, shift < 64 {
            let octet = self[place]
            place += 1
            guard shift < 63 || octet <= 1 else { return nil }
            number |= UInt64(octet & 0x7F) << shift
            guard octet & 0x80 != 0 else { return number }
            shift += 7
        }
        return nil
    }
}

extension SampleSeries {
    /// The samples as documents show them: `offset_seconds`, the value under `name`, and of a strap `rr_ms` and `contact`.
    func document(as name: String) -> JSONValue {
        let milliseconds = ExactDecimal(significand: 1024)
        return .array(
            map { sample in
                var members: [JSONValue.Member] = [
                    .init(
                        "offset_seconds", .number(ExactDecimal(significand: Int64(sample.milliseconds), exponent: -3))),
                    .init(name, sample.value.map(JSONValue.number) ?? .null),
                ]
                if name == "bpm" {
                    members += [
                        .init(
                            "rr_ms",
                            .array(
                                sample.intervals.compactMap {
                                    ExactDecimal(significand: Int64($0) * 1000).divided(by: milliseconds, places: 2)
                                        .map(JSONValue.number)
                                })),
                        .init("contact", sample.hasContact.map(JSONValue.bool) ?? .null),
                    ]
                }
                return .object(members)
            })
    }
}

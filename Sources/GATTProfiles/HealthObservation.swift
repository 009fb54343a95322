import HealthReadings

/// A health observation, the content of Live Health Observations (2B8B). Generic Health Sensor Service 1.0.
///
/// The layout is read as far as independent public implementations agree on it: numeric and compound observations and
/// bundles of these. Attributes as type, length and value, reserved flags and components that are no numbers are
/// refused by name, because what follows them can't be located.
public struct HealthObservation: Sendable, Hashable {
    /// A number with its unit.
    public struct Value: Sendable, Hashable {
        /// The unit's term code (ISO/IEEE 11073-10101, partition 4).
        public var unit: UInt16
        /// The number.
        public var number: MedFloat32

        /// Makes a value.
        public init(unit: UInt16, number: MedFloat32) {
            self.unit = unit
            self.number = number
        }
    }

    /// A part of a compound observation.
    public struct Component: Sendable, Hashable {
        /// What it is: partition and term code (ISO/IEEE 11073-10101).
        public var type: UInt32
        /// How much.
        public var value: Value

        /// Makes a component.
        public init(type: UInt32, value: Value) {
            self.type = type
            self.value = value
        }
    }

    /// What was observed.
    public indirect enum Content: Sendable, Hashable {
        /// One number.
        case numeric(Value)
        /// Several numbers that are one measurement.
        case compound([Component])
        /// Several observations with common fields.
        case bundle([HealthObservation])
        /// Anything else: codes, texts, curves. Its octets are not read.
        case other(kind: UInt8)
    }

    /// What was observed: partition and term code; `nil` if not sent.
    public var type: UInt32?
    /// When; `nil` if not sent.
    public var time: ElapsedTime?
    /// How long the measurement took, in seconds; `nil` if not sent.
    public var duration: MedFloat32?
    /// What the device thinks of it; `nil` if not sent.
    public var status: UInt16?
    /// The observation's number; `nil` if not sent.
    public var id: UInt32?
    /// The index of the person; `nil` if not sent.
    public var person: UInt8?
    /// Codes that say more of it.
    public var supplements: [UInt32]
    /// The numbers of the observations that it was computed from.
    public var sources: [UInt32]
    /// The numbers of the observations that it is a part of.
    public var groups: [UInt32]
    /// What was observed.
    public var content: Content

    /// Makes an observation.
    public init(
        type: UInt32? = nil, time: ElapsedTime? = nil, duration: MedFloat32? = nil, status: UInt16? = nil,
        id: UInt32? = nil, person: UInt8? = nil, supplements: [UInt32] = [], sources: [UInt32] = [],
        groups: [UInt32] = [], content: Content
    ) {
        self.type = type
        self.time = time
        self.duration = duration
        self.status = status
        self.id = id
        self.person = person
        self.supplements = supplements
        self.sources = sources
        self.groups = groups
        self.content = content
    }

    private static let (numeric, compound, bundle): (UInt8, UInt8, UInt8) = (1, 7, 255)
    private static let knownFlags: UInt16 = 0x01FF

    /// Reads an observation.
    ///
    /// - Throws: `MalformedFrame` with the first field that is missing, or that is not read.
    public init(decoding octets: RawSpan) throws(MalformedFrame) {
        var cursor = OctetCursor("Live Health Observations (2B8B)")
        try self.init(octets, after: &cursor, isMember: false)
    }

    private init(_ octets: RawSpan, after cursor: inout OctetCursor, isMember: Bool) throws(MalformedFrame) {
        let kind = try cursor.octet("observation class", of: octets)
        guard !isMember || kind != Self.bundle else {
            throw cursor.unexpected("an observation in a bundle", found: "a bundle")
        }
        let length = Int(try cursor.word("length", of: octets))
        let end = cursor.offset + length
        guard cursor.left(of: octets) >= length else {
            throw cursor.unexpected("\(length) octets to follow", found: "\(cursor.left(of: octets))", back: 2)
        }
        let flags = try cursor.word("flags", of: octets)
        guard flags & ~Self.knownFlags == 0 else {
            throw cursor.unexpected("flags 0 to 8", found: "0x" + String(flags, radix: 16), back: 2)
        }
        func has(_ bit: UInt16) -> Bool { flags >> bit & 1 == 1 }
        type = has(0) ? try cursor.float("observation type", of: octets).rawValue : nil
        time = has(1) ? try ElapsedTime(octets, after: &cursor) : nil
        duration = has(2) ? try cursor.float("measurement duration", of: octets) : nil
        status = has(3) ? try cursor.word("measurement status", of: octets) : nil
        id = has(4) ? try cursor.float("observation id", of: octets).rawValue : nil
        person = has(5) ? try cursor.octet("patient", of: octets) : nil
        supplements = has(6) ? try Self.codes("supplemental information", octets, &cursor) : []
        sources = has(7) ? try Self.codes("derived-from", octets, &cursor) : []
        groups = has(8) ? try Self.codes("member-of", octets, &cursor) : []
        switch kind {
        case Self.numeric: content = .numeric(try Value(octets, after: &cursor))
        case Self.compound: content = .compound(try Self.components(octets, &cursor))
        case Self.bundle: content = .bundle(try Self.members(octets, &cursor))
        default: content = .other(kind: kind)
        }
        guard cursor.offset <= end else {
            let beyond = cursor.offset - end
            throw cursor.unexpected("an end after \(length) octets", found: "\(beyond) more", back: beyond)
        }
        // What a newer device puts behind the fields.
        while cursor.offset < end { _ = try cursor.octet("octet", of: octets) }
    }

    private static func codes(
        _ field: StaticString, _ octets: RawSpan, _ cursor: inout OctetCursor
    ) throws(MalformedFrame) -> [UInt32] {
        let count = try cursor.octet(field, of: octets)
        var codes: [UInt32] = []
        for _ in 0..<count { codes.append(try cursor.float(field, of: octets).rawValue) }
        return codes
    }

    private static func components(
        _ octets: RawSpan, _ cursor: inout OctetCursor
    ) throws(MalformedFrame) -> [Component] {
        let count = try cursor.octet("number of components", of: octets)
        var components: [Component] = []
        for _ in 0..<count {
            let type = try cursor.float("component type", of: octets).rawValue
            let kind = try cursor.octet("component value type", of: octets)
            guard kind == numeric else {
                throw cursor.unexpected("a number (component value type 1)", found: "\(kind)")
            }
            components.append(Component(type: type, value: try Value(octets, after: &cursor)))
        }
        return components
    }

    private static func members(
        _ octets: RawSpan, _ cursor: inout OctetCursor
    ) throws(MalformedFrame) -> [HealthObservation] {
        let count = try cursor.octet("number of observations", of: octets)
        var members: [HealthObservation] = []
        for _ in 0..<count { members.append(try HealthObservation(octets, after: &cursor, isMember: true)) }
        return members
    }

    /// The octets; nothing for what ``Content/other(kind:)`` was.
    public var encoded: [UInt8] {
        var (flags, fields): (UInt16, [UInt8]) = (0, [])
        func put(_ bit: UInt16, _ octets: [UInt8]?) {
            guard let octets else { return }
            flags |= 1 << bit
            fields += octets
        }
        func put(_ bit: UInt16, codes: [UInt32]) {
            guard !codes.isEmpty else { return }
            put(bit, [UInt8(truncatingIfNeeded: codes.count)] + codes.flatMap(\.octets))
        }
        put(0, type?.octets)
        put(1, time?.encoded)
        put(2, duration?.rawValue.octets)
        put(3, status.map { [UInt8(truncatingIfNeeded: $0), UInt8(truncatingIfNeeded: $0 >> 8)] })
        put(4, id?.octets)
        put(5, person.map { [$0] })
        put(6, codes: supplements)
        put(7, codes: sources)
        put(8, codes: groups)
        let kind: UInt8
        switch content {
        case .numeric(let value):
            kind = Self.numeric
            fields += value.encoded
        case .compound(let components):
            kind = Self.compound
            fields.append(UInt8(truncatingIfNeeded: components.count))
            for component in components { fields += component.type.octets + [Self.numeric] + component.value.encoded }
        case .bundle(let members):
            kind = Self.bundle
            fields.append(UInt8(truncatingIfNeeded: members.count))
            for member in members { fields += member.encoded }
        case .other(let other): kind = other
        }
        var octets = [kind]
        octets.append(word: UInt16(truncatingIfNeeded: fields.count + 2))
        octets.append(word: flags)
        return octets + fields
    }
}

extension HealthObservation.Value {
    fileprivate init(_ octets: RawSpan, after cursor: inout OctetCursor) throws(MalformedFrame) {
        unit = try cursor.word("unit", of: octets)
        number = try cursor.float("value", of: octets)
    }

    fileprivate var encoded: [UInt8] {
        [UInt8(truncatingIfNeeded: unit), UInt8(truncatingIfNeeded: unit >> 8)] + number.rawValue.octets
    }
}

extension UInt32 {
    /// The least significant octet first.
    fileprivate var octets: [UInt8] { ([0, 8, 16, 24] as [UInt32]).map { UInt8(truncatingIfNeeded: self >> $0) } }
}

import HealthReadings

/// The memory of a FreeStyle Libre 1: 43 blocks of 8 octets, in three parts of which each has its own CRC.
///
/// Nothing is told of a part whose CRC is wrong. Layout: openfreestyle, LibreMonitor, DiaBLE.
public struct LibreMemory: Sendable, Hashable {
    /// Octets in a memory.
    public static let size = 344
    /// Octets in a block.
    public static let blockSize = 8
    /// Blocks in a memory.
    public static let blockCount = 43

    /// The three parts.
    public enum Part: Sendable, Hashable, CaseIterable {
        /// The state, and half of the calibration.
        case header
        /// The age and the records.
        case body
        /// The region, the life, and the other half of the calibration.
        case footer

        /// The part's octets: two of its CRC, lowest first, and those the CRC is over.
        public var octets: Range<Int> {
            switch self {
            case .header: 0..<24
            case .body: 24..<320
            case .footer: 320..<344
            }
        }

        /// The name in documents.
        public var name: String {
            switch self {
            case .header: "header"
            case .body: "body"
            case .footer: "footer"
            }
        }
    }

    /// The octets as read.
    public let octets: [UInt8]
    /// Whether the header's CRC is right.
    public let isHeaderRight: Bool
    /// Whether the body's CRC is right.
    public let isBodyRight: Bool
    /// Whether the footer's CRC is right.
    public let isFooterRight: Bool

    /// Takes a memory.
    /// - Throws: `MalformedFrame` for another count of octets than 344. A wrong CRC is no error: see ``isRight(_:)``.
    public init(_ octets: [UInt8]) throws(MalformedFrame) {
        guard octets.count == Self.size else {
            throw MalformedFrame(
                subject: "FreeStyle Libre 1 memory", expected: "\(Self.size) octets",
                octet: min(octets.count, Self.size),
                found: octets.count < Self.size ? "the end" : "\(octets.count) octets")
        }
        self.octets = octets
        isHeaderRight = Self.isRight(.header, in: octets)
        isBodyRight = Self.isRight(.body, in: octets)
        isFooterRight = Self.isRight(.footer, in: octets)
    }

    /// Whether a part's CRC is right.
    public func isRight(_ part: Part) -> Bool {
        switch part {
        case .header: isHeaderRight
        case .body: isBodyRight
        case .footer: isFooterRight
        }
    }

    private static func isRight(_ part: Part, in octets: [UInt8]) -> Bool {
        let range = part.octets
        let kept = UInt16(octets[range.lowerBound]) | UInt16(octets[range.lowerBound + 1]) << 8
        return kept == MemoryChecksum.of(octets, (range.lowerBound + 2)..<range.upperBound)
    }

    /// The state; nil where the header's CRC is wrong.
    public var state: SensorState? { isHeaderRight ? SensorState(rawValue: octets[4]) : nil }

    /// What a sensor in the state `failure` has found; nil in another.
    public var failure: SensorFailure? {
        guard state == .failure else { return nil }
        let age = word(at: 7)
        return SensorFailure(code: octets[6], ageMinutes: age == 0 ? nil : age)
    }

    /// Whether a failure is noted, whatever the state; false where the header's CRC is wrong.
    ///
    /// In the same place a sensor notes that its life has come to its end: 3, which is the state that ended, and its life.
    var hasFailureNoted: Bool {
        guard isHeaderRight, octets[6...8].contains(where: { $0 != 0 }) else { return false }
        return octets[6] != SensorState.active.rawValue || word(at: 7) != maximumLifeMinutes
    }

    /// Minutes since the sensor was started; nil where the body's CRC is wrong.
    public var ageMinutes: UInt16? { isBodyRight ? word(at: 316) : nil }

    /// How often the sensor was started; nil where the body's CRC is wrong.
    public var initialisations: UInt8? { isBodyRight ? octets[318] : nil }

    /// The region; nil where the footer's CRC is wrong.
    public var region: SensorRegion? { isFooterRight ? SensorRegion(rawValue: octets[323]) : nil }

    /// The minutes a sensor measures for, 20 160 in fourteen days and mostly some more; nil where the footer's CRC is wrong.
    public var maximumLifeMinutes: UInt16? { isFooterRight ? word(at: 326) : nil }

    /// The minutes that are left of its life, not below 0; nil where the body's or the footer's CRC is wrong.
    public var lifeLeftMinutes: UInt16? {
        guard let age = ageMinutes, let life = maximumLifeMinutes else { return nil }
        return life > age ? life - age : 0
    }

    /// The slot of the trend ring that is written next, 0 … 15; nil where the body's CRC is wrong.
    public var trendIndex: UInt8? { isBodyRight ? octets[26] : nil }

    /// The slot of the history ring that is written next, 0 … 31; nil where the body's CRC is wrong.
    public var historyIndex: UInt8? { isBodyRight ? octets[27] : nil }

    /// The numbers the factory has put in; nil where the header's or the footer's CRC is wrong.
    public var calibration: FactoryCalibration? {
        isHeaderRight && isFooterRight ? FactoryCalibration(memory: octets) : nil
    }

    private func word(at place: Int) -> UInt16 { UInt16(octets[place]) | UInt16(octets[place + 1]) << 8 }
}

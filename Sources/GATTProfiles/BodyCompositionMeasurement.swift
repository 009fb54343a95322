import HealthReadings

/// What a body-composition scale measures: Body Composition Measurement (2A9C), 4 to 30 octets. Body Composition Service
/// 1.0, 3.2.
public struct BodyCompositionMeasurement: CharacteristicCoding {
    /// 2A9C.
    public static let assignedNumber: UInt16 = 0x2A9C
    /// The body fat percentage that says that the measurement failed.
    public static let failed: UInt16 = .max

    /// The optional fields of two octets, in the order in which they are sent; the raw value is the bit of each.
    public enum Field: Int, Sendable, Hashable, CaseIterable {
        /// In kilojoules.
        case basalMetabolism = 3
        /// In 0.1 %.
        case musclePercentage
        /// Masses: in 0.005 kg, or 0.01 lb where imperial.
        case muscleMass, fatFreeMass, softLeanMass, bodyWaterMass
        /// In 0.1 Ω.
        case impedance
        /// As masses.
        case weight
        /// In 0.001 m, or 0.1 in.
        case height
    }

    /// Whether masses and height are imperial.
    public var isImperial: Bool
    /// In 0.1 %; ``failed`` where the measurement failed.
    public var rawBodyFat: UInt16
    /// The scale's clock; nil where none was sent.
    public var timeStamp: DateTime?
    /// The user's slot as sent; 255 is unknown, nil where none was sent.
    public var userID: UInt8?
    /// What else was sent.
    public var fields: [Field: UInt16]
    /// Whether it is one of the two packets of a measurement; see ``joined(with:)``.
    public var goesOn: Bool

    /// Makes a measurement.
    public init(
        isImperial: Bool = false, rawBodyFat: UInt16, timeStamp: DateTime? = nil, userID: UInt8? = nil,
        fields: [Field: UInt16] = [:], goesOn: Bool = false
    ) {
        self.isImperial = isImperial
        self.rawBodyFat = rawBodyFat
        self.timeStamp = timeStamp
        self.userID = userID
        self.fields = fields
        self.goesOn = goesOn
    }

    /// Body fat in per cent; not a number where the measurement failed.
    public var bodyFat: Quantity {
        rawBodyFat == Self.failed
            ? Quantity(.notANumber, .percent)
            : Quantity(ExactDecimal(significand: Int64(rawBodyFat), exponent: -1), .percent)
    }

    /// One of the other fields with its unit; nil where it was not sent.
    public func quantity(_ field: Field) -> Quantity? {
        guard let raw = fields[field] else { return nil }
        let number = Int64(raw)
        switch field {
        case .basalMetabolism: return Quantity(ExactDecimal(significand: number), .kilojoules)
        case .musclePercentage: return Quantity(ExactDecimal(significand: number, exponent: -1), .percent)
        case .muscleMass, .fatFreeMass, .softLeanMass, .bodyWaterMass, .weight:
            return WeightMeasurement.mass(raw, isImperial: isImperial)
        case .impedance: return Quantity(ExactDecimal(significand: number, exponent: -1), .ohms)
        case .height: return WeightMeasurement.height(raw, isImperial: isImperial)
        }
    }

    /// Joins the two packets of a measurement that is too long for one.
    ///
    /// Both say the body fat. Time and user stand in the first alone.
    ///
    /// - Parameter second: the next value.
    /// - Returns: the whole measurement; `nil` if the value is no second packet of this one.
    public func joined(with second: BodyCompositionMeasurement) -> BodyCompositionMeasurement? {
        guard goesOn, second.timeStamp == nil, second.userID == nil, second.isImperial == isImperial,
            second.rawBodyFat == rawBodyFat, !second.fields.isEmpty,
            second.fields.keys.allSatisfy({ fields[$0] == nil })
        else { return nil }
        var whole = self
        for (field, raw) in second.fields { whole.fields[field] = raw }
        whole.goesOn = false
        return whole
    }

    /// Completes a measurement with the time and the user of the weight of the same weighing, where it has none itself.
    ///
    /// Many scales send both with the weight alone.
    ///
    /// - Parameters:
    ///   - weight: a weight that was sent beside it.
    ///   - takingTime: whether it also takes the weight's time, or the user alone because the scale's clock was never set.
    /// - Returns: the measurement; `nil` if the weight is of another weighing, because it has another time, user or weight.
    public func completed(by weight: WeightMeasurement, takingTime: Bool = true) -> BodyCompositionMeasurement? {
        func agree<Value: Equatable>(_ ours: Value?, _ theirs: Value?) -> Bool {
            ours == nil || theirs == nil || ours == theirs
        }
        let ownWeight = isImperial == weight.isImperial ? fields[.weight] : nil
        guard agree(timeStamp, weight.timeStamp), agree(userID, weight.userID), agree(ownWeight, weight.rawWeight)
        else { return nil }
        var whole = self
        if takingTime { whole.timeStamp = timeStamp ?? weight.timeStamp }
        whole.userID = userID ?? weight.userID
        return whole
    }

    /// Reads a measurement.
    public init(decoding octets: RawSpan) throws(MalformedFrame) {
        var cursor = OctetCursor("Body Composition Measurement (2A9C)")
        let flags = try cursor.word("flags", of: octets)
        isImperial = flags & 0x01 != 0
        goesOn = flags & 0x1000 != 0
        rawBodyFat = try cursor.word("body fat percentage", of: octets)
        timeStamp = flags & 0x02 == 0 ? nil : try cursor.dateTime("time stamp", of: octets)
        userID = flags & 0x04 == 0 ? nil : try cursor.octet("user ID", of: octets)
        fields = [:]
        for field in Field.allCases where flags & 1 << UInt16(field.rawValue) != 0 {
            fields[field] = try cursor.word("body composition", of: octets)
        }
    }

    /// 4 to 30 octets.
    public var encoded: [UInt8] {
        var flags: UInt16 = (isImperial ? 0x01 : 0) | (goesOn ? 0x1000 : 0)
        if timeStamp != nil { flags |= 0x02 }
        if userID != nil { flags |= 0x04 }
        for field in fields.keys { flags |= 1 << UInt16(field.rawValue) }
        var octets: [UInt8] = []
        octets.append(word: flags)
        octets.append(word: rawBodyFat)
        if let timeStamp { octets += timeStamp.encoded }
        if let userID { octets.append(userID) }
        for field in Field.allCases { if let raw = fields[field] { octets.append(word: raw) } }
        return octets
    }
}

extension FrameFormat {
    /// A packet of a Body Composition Measurement (2A9C) that came in two, or a measurement whose time and user came with
    /// its weight, as it came. The whole measurement stands in another frame.
    public static let bodyCompositionPart = FrameFormat(rawValue: 0x1_0080)
}

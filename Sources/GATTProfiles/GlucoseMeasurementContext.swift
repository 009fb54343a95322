import HealthReadings

/// What the person told a meter about a glucose record, as it is sent: Glucose Measurement Context (2A34).
///
/// Glucose Service 1.0.1, 3.2. Numbers are kept as sent; ``context`` names them.
public struct GlucoseMeasurementContext: CharacteristicCoding {
    /// 2A34.
    public static let assignedNumber: UInt16 = 0x2A34

    /// Carbohydrate ID and amount.
    public struct Carbohydrate: Sendable, Hashable {
        /// 1 breakfast … 7 brunch.
        public var id: UInt8
        /// Kilograms.
        public var amount: MedFloat16

        /// Makes a carbohydrate intake.
        public init(id: UInt8, amount: MedFloat16) {
            self.id = id
            self.amount = amount
        }
    }

    /// Exercise duration and intensity.
    public struct Exercise: Sendable, Hashable {
        /// Seconds; 65535 is "overrun".
        public var duration: UInt16
        /// Per cent.
        public var intensity: UInt8

        /// Makes an exercise.
        public init(duration: UInt16, intensity: UInt8) {
            self.duration = duration
            self.intensity = intensity
        }
    }

    /// The units a medication is sent in.
    public enum MedicationUnit: Sendable, Hashable, CaseIterable {
        case kilograms
        case litres
    }

    /// Medication ID and amount.
    public struct Medication: Sendable, Hashable {
        /// 1 rapid acting insulin … 5 pre-mixed insulin.
        public var id: UInt8
        /// The amount in ``unit``.
        public var amount: MedFloat16
        /// The unit of ``amount``.
        public var unit: MedicationUnit

        /// Makes a medication.
        public init(id: UInt8, amount: MedFloat16, unit: MedicationUnit) {
            self.id = id
            self.amount = amount
            self.unit = unit
        }
    }

    /// The number of the record this belongs to.
    public var sequenceNumber: UInt16
    /// All bits are reserved; nil where none were sent.
    public var extendedFlags: UInt8?
    /// Nil where none was sent, as for the other fields.
    public var carbohydrate: Carbohydrate?
    /// 1 preprandial … 5 bedtime.
    public var meal: UInt8?
    /// Tester in the low four bits, Health in the high four, in the order in which the specification lists them.
    public var testerAndHealth: UInt8?
    /// Exercise.
    public var exercise: Exercise?
    /// Medication.
    public var medication: Medication?
    /// Glycated haemoglobin in per cent.
    public var hba1c: MedFloat16?

    /// Makes a context.
    public init(
        sequenceNumber: UInt16, extendedFlags: UInt8? = nil, carbohydrate: Carbohydrate? = nil, meal: UInt8? = nil,
        testerAndHealth: UInt8? = nil, exercise: Exercise? = nil, medication: Medication? = nil,
        hba1c: MedFloat16? = nil
    ) {
        self.sequenceNumber = sequenceNumber
        self.extendedFlags = extendedFlags
        self.carbohydrate = carbohydrate
        self.meal = meal
        self.testerAndHealth = testerAndHealth
        self.exercise = exercise
        self.medication = medication
        self.hba1c = hba1c
    }

    /// Reads a context.
    public init(decoding octets: RawSpan) throws(MalformedFrame) {
        var cursor = OctetCursor("Glucose Measurement Context (2A34)")
        let flags = try cursor.octet("flags", of: octets)
        self.init(sequenceNumber: try cursor.word("sequence number", of: octets))
        if flags & 0x80 != 0 { extendedFlags = try cursor.octet("extended flags", of: octets) }
        if flags & 0x01 != 0 {
            carbohydrate = Carbohydrate(
                id: try cursor.octet("carbohydrate ID", of: octets),
                amount: try cursor.decimal("carbohydrate", of: octets))
        }
        if flags & 0x02 != 0 { meal = try cursor.octet("meal", of: octets) }
        if flags & 0x04 != 0 { testerAndHealth = try cursor.octet("tester and health", of: octets) }
        if flags & 0x08 != 0 {
            exercise = Exercise(
                duration: try cursor.word("exercise duration", of: octets),
                intensity: try cursor.octet("exercise intensity", of: octets))
        }
        if flags & 0x10 != 0 {
            medication = Medication(
                id: try cursor.octet("medication ID", of: octets),
                amount: try cursor.decimal("medication", of: octets),
                unit: flags & 0x20 == 0 ? .kilograms : .litres)
        }
        if flags & 0x40 != 0 { hba1c = try cursor.decimal("HbA1c", of: octets) }
    }

    /// 3 to 17 octets.
    public var encoded: [UInt8] {
        var flags: UInt8 = extendedFlags == nil ? 0 : 0x80
        if carbohydrate != nil { flags |= 0x01 }
        if meal != nil { flags |= 0x02 }
        if testerAndHealth != nil { flags |= 0x04 }
        if exercise != nil { flags |= 0x08 }
        if let medication { flags |= medication.unit == .litres ? 0x30 : 0x10 }
        if hba1c != nil { flags |= 0x40 }
        var octets = [flags]
        octets.append(word: sequenceNumber)
        if let extendedFlags { octets.append(extendedFlags) }
        if let carbohydrate {
            octets.append(carbohydrate.id)
            octets.append(word: carbohydrate.amount.rawValue)
        }
        if let meal { octets.append(meal) }
        if let testerAndHealth { octets.append(testerAndHealth) }
        if let exercise {
            octets.append(word: exercise.duration)
            octets.append(exercise.intensity)
        }
        if let medication {
            octets.append(medication.id)
            octets.append(word: medication.amount.rawValue)
        }
        if let hba1c { octets.append(word: hba1c.rawValue) }
        return octets
    }
}

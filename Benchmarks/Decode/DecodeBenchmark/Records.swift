import GATTProfiles

/// SplitMix64: the same records on every machine.
struct SeededGenerator: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ mixed >> 30) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ mixed >> 27) &* 0x94D0_49BB_1331_11EB
        return mixed ^ mixed >> 31
    }
}

/// Records as meters and cuffs send them: dates that exist, values of people, optional fields now and then.
struct Records {
    private var generator = SeededGenerator(state: 0x2A18)

    private mutating func number(_ range: ClosedRange<Int>) -> Int { .random(in: range, using: &generator) }

    private mutating func dateTime() -> DateTime {
        DateTime(
            year: UInt16(number(2020...2030)), month: UInt8(number(1...12)), day: UInt8(number(1...28)),
            hour: UInt8(number(0...23)), minute: UInt8(number(0...59)), second: UInt8(number(0...59)))
    }

    mutating func glucose() -> [UInt8] {
        let isMolar = number(0...3) == 0
        let digits = UInt16(isMolar ? number(20...250) : number(40...400))
        return GlucoseMeasurement(
            sequenceNumber: UInt16(number(0...65535)), baseTime: dateTime(),
            timeOffset: number(0...1) == 0 ? nil : Int16(number(-720...720)),
            concentration: GlucoseMeasurement.Concentration(
                value: MedFloat16(rawValue: (isMolar ? 0xC000 : 0xB000) | digits),
                unit: isMolar ? .molesPerLitre : .kilogramsPerLitre, typeAndLocation: 0x11),
            sensorStatus: number(0...1) == 0 ? nil : 0, hasContext: number(0...1) == 0
        ).encoded
    }

    mutating func bloodPressure() -> [UInt8] {
        func decimal(_ digits: Int) -> MedFloat16 { MedFloat16(rawValue: 0xF000 | UInt16(digits)) }
        return BloodPressureMeasurement(
            unit: .millimetresOfMercury, systolic: decimal(number(900...1800)), diastolic: decimal(number(500...900)),
            meanArterialPressure: number(0...1) == 0 ? .notANumber : decimal(number(600...1000)),
            timeStamp: number(0...3) == 0 ? nil : dateTime(), pulseRate: decimal(number(400...1500)),
            userID: number(0...1) == 0 ? nil : UInt8(number(0...3)), measurementStatus: UInt16(number(0...63))
        ).encoded
    }
}

import HealthReadings

/// A code of a code system.
struct FHIRCoding: Sendable, Hashable {
    var system: String
    var code: String
    var display: String?

    /// ISO/IEEE 11073-10101: `partition × 65536 + term`, in decimal, with the reference identifier.
    static func mdc(_ code: Int, _ name: String) -> FHIRCoding {
        FHIRCoding(system: "urn:iso:std:iso:11073:10101", code: String(code), display: name)
    }

    static func loinc(_ code: String) -> FHIRCoding { FHIRCoding(system: "http://loinc.org", code: code) }

    /// A bit of an 11073 status word, numbered from its most significant one.
    static func bit(_ code: String, _ name: String) -> FHIRCoding {
        FHIRCoding(system: "http://terminology.hl7.org/CodeSystem/ASN1ToHL7", code: code, display: name)
    }

    var json: JSONValue {
        .object(
            of: JSONValue.Member("system", .string(system)), JSONValue.Member("code", .string(code)),
            .optional("display", display))
    }

    /// A CodeableConcept of one concept in several systems.
    static func concept(_ codings: [FHIRCoding], text: String? = nil) -> JSONValue {
        .object(of: .list("coding", codings.map(\.json)), .optional("text", text))
    }
}

/// An identifier that is searched for.
struct FHIRIdentifier: Sendable, Hashable {
    var type: FHIRCoding?
    var system: String
    var value: String

    var json: JSONValue {
        .object(
            of: type.map { JSONValue.Member("type", FHIRCoding.concept([$0])) },
            JSONValue.Member("system", .string(system)), JSONValue.Member("value", .string(value)))
    }

    /// `identifier=system|value`, as a query.
    var query: String { "identifier=\(Self.parameter(system))|\(Self.parameter(value))" }

    /// A resource's own UUID as a business identifier. Its type keeps it apart from the guide's identifier of a measurement,
    /// which has none.
    init(_ uuid: NameUUID) {
        type = FHIRCoding(system: "http://terminology.hl7.org/CodeSystem/v2-0203", code: "RI")
        system = "urn:ietf:rfc:3986"
        value = uuid.urn
    }

    init(type: FHIRCoding? = nil, system: String, value: String) {
        self.type = type
        self.system = system
        self.value = value
    }

    /// A part of a token: what search gives a meaning is escaped (FHIR R4, 3.1.1.4.1), and then what a URL does.
    private static func parameter(_ text: String) -> String {
        var query = ""
        for octet in text.utf8 {
            if [UInt8(ascii: "\\"), UInt8(ascii: ","), UInt8(ascii: "$"), UInt8(ascii: "|")].contains(octet) {
                query += "%5C"
            }
            switch octet {
            case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
                UInt8(ascii: "~"), UInt8(ascii: ":"), UInt8(ascii: "/"):
                query.unicodeScalars.append(Unicode.Scalar(octet))
            default: query += "%" + octet.hexadecimal(uppercase: true)
            }
        }
        return query
    }
}

extension Quantity {
    /// A Quantity with its UCUM code; nil if there is no number.
    ///
    /// Units are those of the vital signs profiles: a height in metres is written in centimetres, with the same digits.
    var fhirQuantity: JSONValue? {
        guard let number = number.number else { return nil }
        let (value, unit, code) = fhirUnit(number)
        return .object([
            "value": .number(value), "unit": .string(unit), "system": "http://unitsofmeasure.org",
            "code": .string(code),
        ])
    }

    private func fhirUnit(_ number: ExactDecimal) -> (ExactDecimal, unit: String, code: String) {
        switch unit {
        case .milligramsPerDecilitre: (number, "mg/dL", "mg/dL")
        case .millimolesPerLitre: (number, "mmol/L", "mmol/L")
        case .millimetresOfMercury: (number, "mmHg", "mm[Hg]")
        case .kilopascal: (number, "kPa", "kPa")
        case .beatsPerMinute: (number, "beats/minute", "/min")
        case .grams: (number, "g", "g")
        case .kilograms: (number, "kg", "kg")
        case .milligrams: (number, "mg", "mg")
        case .litres: (number, "L", "L")
        case .millilitres: (number, "mL", "mL")
        case .percent: (number, "%", "%")
        case .degreesCelsius: (number, "°C", "Cel")
        case .degreesFahrenheit: (number, "°F", "[degF]")
        case .pounds: (number, "lb", "[lb_av]")
        case .metres: (number.scaled(byPowerOfTen: 2), "cm", "cm")
        case .inches: (number, "in", "[in_i]")
        case .kilojoules: (number, "kJ", "kJ")
        case .ohms: (number, "Ohm", "Ohm")
        case .milliseconds: (number, "ms", "ms")
        case .kilogramsPerSquareMetre: (number, "kg/m2", "kg/m2")
        case .milligramsPerDecilitrePerMinute: (number, "mg/dL/min", "mg/dL/min")
        }
    }

    /// Why there is no number, as a concept of FHIR; nil if there is one.
    var fhirAbsence: JSONValue? {
        let code: String
        switch number {
        case .value: return nil
        case .notANumber: code = "not-a-number"
        case .positiveInfinity: code = "positive-infinity"
        case .negativeInfinity: code = "negative-infinity"
        // The code system has no code for these; the guide names the general one.
        case .notAtThisResolution, .reserved, .implausible: code = "error"
        }
        return Self.fhirAbsence(code)
    }

    /// A reason of FHIR's own code system.
    static func fhirAbsence(_ code: String) -> JSONValue {
        FHIRCoding.concept([
            FHIRCoding(system: "http://terminology.hl7.org/CodeSystem/data-absent-reason", code: code)
        ])
    }
}

import HealthReadings

/// A question at the CGM Specific Ops Control Point (2AAC). Continuous Glucose Monitoring Service 1.0.2, 3.7.
///
/// There are deliberately only questions: nothing here starts or stops a session, calibrates, or sets an alert.
public enum ContinuousGlucoseQuestion: UInt8, Sendable, Hashable, CaseIterable {
    /// How often values are sent while somebody listens.
    case communicationInterval = 0x02
    case patientHighAlert = 0x08
    case patientLowAlert = 0x0B
    case hypoAlert = 0x0E
    case hyperAlert = 0x11
    case rateOfDecreaseAlert = 0x14
    case rateOfIncreaseAlert = 0x17

    /// The name in documents.
    public var name: String {
        switch self {
        case .communicationInterval: "communication_interval"
        case .patientHighAlert: "patient_high_alert_level"
        case .patientLowAlert: "patient_low_alert_level"
        case .hypoAlert: "hypo_alert_level"
        case .hyperAlert: "hyper_alert_level"
        case .rateOfDecreaseAlert: "rate_of_decrease_alert_level"
        case .rateOfIncreaseAlert: "rate_of_increase_alert_level"
        }
    }

    /// The op code of its answer.
    var answerCode: UInt8 { rawValue + 1 }
}

/// An answer at the CGM Specific Ops Control Point (2AAC). Continuous Glucose Monitoring Service 1.0.2, 3.7.
public enum ContinuousGlucoseAnswer: CharacteristicCoding {
    /// 2AAC.
    public static let assignedNumber: UInt16 = 0x2AAC

    /// Minutes between values; 0 where they are not sent, 255 for as often as the sensor can.
    case communicationInterval(UInt8)
    /// An alert's level in mg/dL, or its rate in mg/dL per minute.
    case level(ContinuousGlucoseQuestion, MedFloat16)
    /// Response Code (1C): how the request with this op code ended. 1 success, 2 op code not supported, 3 invalid operand,
    /// 4 procedure not completed, 5 parameter out of range.
    case response(requestOpCode: UInt8, code: UInt8)

    /// Reads an answer. A checksum behind it is accepted, not checked.
    public init(decoding octets: RawSpan) throws(MalformedFrame) {
        var cursor = OctetCursor("CGM Specific Ops Control Point answer (2AAC)")
        let opCode = try cursor.octet("op code", of: octets)
        if opCode == 0x1C {
            self = .response(
                requestOpCode: try cursor.octet("request op code", of: octets),
                code: try cursor.octet("response code", of: octets))
            return
        }
        guard let question = ContinuousGlucoseQuestion.allCases.first(where: { $0.answerCode == opCode }) else {
            throw cursor.unexpected("the op code of an answer that is known", found: hexadecimal(opCode))
        }
        self =
            question == .communicationInterval
            ? .communicationInterval(try cursor.octet("communication interval", of: octets))
            : .level(question, try cursor.decimal("alert level", of: octets))
    }

    /// Two or three octets, without a checksum.
    public var encoded: [UInt8] {
        switch self {
        case .communicationInterval(let minutes): [ContinuousGlucoseQuestion.communicationInterval.answerCode, minutes]
        case .level(let question, let level):
            [question.answerCode, UInt8(level.rawValue & 0xFF), UInt8(level.rawValue >> 8)]
        case .response(let requestOpCode, let code): [0x1C, requestOpCode, code]
        }
    }
}

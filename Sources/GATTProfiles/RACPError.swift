/// Why a device did not do what was asked at its Record Access Control Point: the response codes by name.
///
/// Glucose Service 1.0.1, 3.4.1.3 and the GATT Specification Supplement, Record Access Control Point. Code 6 is an
/// error on the wire and an empty success in effect: ``RecordAccessOutcome/noRecordsFound``.
public enum RACPError: Error, Sendable, Hashable {
    /// 2: the request's op code is unknown to the device.
    case opCodeNotSupported
    /// 3: the operator does not belong to the op code.
    case invalidOperator
    /// 4: the device does not know the operator.
    case operatorNotSupported
    /// 5: the operand does not fit the operator.
    case invalidOperand
    /// 6: there is no such record.
    case noRecordsFound
    /// 7: the procedure could not be aborted.
    case abortUnsuccessful
    /// 8: the procedure ended before it was complete.
    case procedureNotCompleted
    /// 9: the device does not know the operand's filter.
    case operandNotSupported
    /// A code the specification reserves: 0 and 10 … 255.
    case reserved(UInt8)

    /// The error with this response code; nil for 1, which is success.
    public init?(responseCode: UInt8) {
        switch responseCode {
        case 1: return nil
        case 2: self = .opCodeNotSupported
        case 3: self = .invalidOperator
        case 4: self = .operatorNotSupported
        case 5: self = .invalidOperand
        case 6: self = .noRecordsFound
        case 7: self = .abortUnsuccessful
        case 8: self = .procedureNotCompleted
        case 9: self = .operandNotSupported
        default: self = .reserved(responseCode)
        }
    }

    /// The code on the wire.
    public var responseCode: UInt8 {
        switch self {
        case .opCodeNotSupported: 2
        case .invalidOperator: 3
        case .operatorNotSupported: 4
        case .invalidOperand: 5
        case .noRecordsFound: 6
        case .abortUnsuccessful: 7
        case .procedureNotCompleted: 8
        case .operandNotSupported: 9
        case .reserved(let code): code
        }
    }

    /// The published name: `racp_op_code_not_supported`, …
    public var code: String {
        switch self {
        case .opCodeNotSupported: "racp_op_code_not_supported"
        case .invalidOperator: "racp_invalid_operator"
        case .operatorNotSupported: "racp_operator_not_supported"
        case .invalidOperand: "racp_invalid_operand"
        case .noRecordsFound: "racp_no_records_found"
        case .abortUnsuccessful: "racp_abort_unsuccessful"
        case .procedureNotCompleted: "racp_procedure_not_completed"
        case .operandNotSupported: "racp_operand_not_supported"
        case .reserved: "racp_reserved_response_code"
        }
    }
}

extension RACPError: CustomStringConvertible {
    /// One line for people.
    public var description: String {
        let reason =
            switch self {
            case .opCodeNotSupported: "it does not support the request"
            case .invalidOperator: "the operator does not fit the request"
            case .operatorNotSupported: "it does not support the operator"
            case .invalidOperand: "the operand does not fit the operator"
            case .noRecordsFound: "it has no such record"
            case .abortUnsuccessful: "it could not abort"
            case .procedureNotCompleted: "it stopped before it was finished"
            case .operandNotSupported: "it does not support the filter"
            case .reserved: "its reason is not in the specification"
            }
        return "the device refused at its record access control point: \(reason) (response code \(responseCode))"
    }
}

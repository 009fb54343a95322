import FreeStyleLibre
import ISO15693Reader

/// Why a sensor was not read.
public enum LibreReadError: Error, Sendable, Hashable {
    /// The reader, or the way to the sensor, failed; with the first block that was being read, if one was.
    case exchange(ISO15693Error, block: UInt8?)
    /// The tag at the reader is no FreeStyle Libre.
    case notASensor(SensorUID)
    /// It is a FreeStyle Libre of another model.
    case foreignSensor(ForeignSensor)
    /// The reader cannot ask for the model, and what was read is not the memory of a FreeStyle Libre 1.
    case unknownModel(SensorUID)
    /// Another sensor was at the reader at the end than at the beginning: what was read may be of both.
    case sensorSwapped(first: SensorUID, last: SensorUID)
}

extension LibreReadError: CustomStringConvertible {
    /// The published snake_case code.
    public var code: String {
        switch self {
        case .exchange(let error, _): error.code
        case .notASensor: "not_a_sensor"
        case .foreignSensor: "foreign_sensor"
        case .unknownModel: "unknown_sensor_model"
        case .sensorSwapped: "sensor_swapped"
        }
    }

    /// One line for people. It shows no UID: those are for the log at debug.
    public var description: String {
        switch self {
        case .exchange(let error, nil): error.description
        case .exchange(let error, let block?): "\(error) (block \(block) of \(LibreMemory.blockCount))"
        case .notASensor: "the tag at the reader is not a FreeStyle Libre"
        case .foreignSensor(let sensor): sensor.description
        case .unknownModel:
            "this reader cannot ask for the sensor's model, and its memory is not that of the first FreeStyle Libre"
        case .sensorSwapped: "another sensor came to the reader during the scan; nothing is kept"
        }
    }

    /// What to do next.
    public var hint: String? {
        switch self {
        case .exchange(let error, _): error.hint
        case .notASensor: "hold the reader to the sensor, away from cards and other tags"
        case .foreignSensor: nil
        case .unknownModel:
            "a Libre 2 or newer cannot be read; if it is a first Libre, try again, or use another reader"
        case .sensorSwapped: "hold the reader to one sensor until it is read"
        }
    }

    /// Whether it may go well when the sensor is read again without another thing changed.
    public var mayPass: Bool {
        switch self {
        case .exchange(let error, _): error.mayPass || error == .tagLeft || error == .noTag
        case .unknownModel, .sensorSwapped: true
        case .notASensor, .foreignSensor: false
        }
    }
}

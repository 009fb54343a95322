import GATTClient
import HealthDevices

extension AdapterState {
    /// How the radio stands, on one line for people.
    public var line: String {
        switch self {
        case .ready(let adapter):
            "Bluetooth: \(adapter.name) is ready; paired meters are read when they come into range."
        case .unusable(let error):
            "Bluetooth: \(error); continuing without it" + (error.hint.map { " (\($0))" } ?? "") + "."
        }
    }
}

import HealthDevices

extension DeviceFault {
    /// The fault on one line for people.
    package var line: String {
        var whose = ""
        if case .device(let address) = subject { whose = "\(address): " }
        guard isStanding else { return "\(whose)passed: \(failure.description)" }
        return "\(whose)\(failure.description)" + (failure.hint.map { " (\($0))" } ?? "")
    }
}

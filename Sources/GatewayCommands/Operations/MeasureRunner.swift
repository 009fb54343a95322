import GatewaySettings
import HealthDevices
import HealthReadings
import Synchronization

/// `measure`: has a cuff inflate and measure, shows the pressure, and prints the reading.
struct MeasureRunner {
    let gateway: Gateway
    let json: Bool
    let output: any OperationOutput

    /// What is told while the cuff measures.
    private enum Told: Sendable {
        case note(String)
        case pressure(CuffPressure)
    }

    func run(_ operation: MeasureOperation) async throws {
        let address = try DeviceAddress.argument(operation.address)
        let manager = try gateway.requireManager()
        if let problem = await gateway.clockProblem() { throw problem }
        try await output.note("Waiting for \(address) …")
        let reading = try await measure(address, within: .seconds(operation.seconds), manager)
        try await output.data(json ? reading.document.text : reading.line)
    }

    /// Measures, and tells of it beside that: a terminal that takes nothing must not keep the cuff from being stopped. Where
    /// nobody is there any more to be told, the cuff is stopped.
    private func measure(
        _ address: DeviceAddress, within timeout: Duration, _ manager: DevicesManager
    ) async throws -> Reading {
        let (told, continuation) = AsyncStream.makeStream(of: Told.self, bufferingPolicy: .bufferingNewest(8))
        return try await withThrowingTaskGroup(of: Reading?.self) { group in
            group.addTask {
                for await one in told {
                    switch one {
                    case .note(let line): try await output.note(line)
                    case .pressure(let pressure): try await output.pressure(pressure)
                    }
                }
                return nil
            }
            group.addTask {
                defer { continuation.finish() }
                let name = Mutex(address.description)
                return try await manager.measure(address, within: timeout) { event in
                    switch event {
                    case .began(let contact):
                        if let known = contact.device.name { name.withLock { $0 = known } }
                    case .inflating:
                        continuation.yield(
                            .note(
                                "\(name.withLock(\.self)): the cuff inflates now. Sit still. Ctrl-C lets the air out."))
                    case .pressure(let pressure):
                        guard let number = pressure.number.number else { return }
                        continuation.yield(
                            .pressure(
                                CuffPressure(
                                    device: name.withLock(\.self), value: number.description,
                                    unit: pressure.unit.symbol)))
                    case .malformed(let error):
                        continuation.yield(
                            .note("\(name.withLock(\.self)): malformed; its octets are kept: \(error)"))
                    }
                }
            }
            var reading: Reading?
            while let ended = try await group.next() {
                if let ended { reading = ended }
            }
            guard let reading else { throw CancellationError() }
            return reading
        }
    }
}

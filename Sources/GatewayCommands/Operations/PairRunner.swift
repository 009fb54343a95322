import GATTClient
import HealthDevices
import HealthReadings

/// `pair`: makes a bond with a meter and proves it.
struct PairRunner {
    let gateway: Gateway
    let json: Bool
    let output: any OperationOutput

    func run(_ operation: PairOperation) async throws {
        let address = try DeviceAddress.argument(operation.address)
        let manager = try gateway.requireManager()
        let agent = OperatorAgent(output, gateway.catalogue)
        let device: PairedDevice
        do {
            device = try await manager.pair(
                address, within: .seconds(operation.seconds), repair: operation.repair, model: operation.model,
                agent: agent
            ) { progress in
                guard let line = progress.line else { return }
                try? await output.note(line)
            }
        } catch {
            try Task.checkCancellation()
            // That nobody could type the digits is what to mend; that they were not typed follows from it.
            throw agent.reason ?? error
        }
        if let whatToPress = device.whatToPress {
            try await output.note("The bond will be tested when the device is next heard: \(whatToPress).")
        }
        guard !json else { return try await output.data(device.document.text) }
        try await output.data(device.line)
    }
}

extension PairedDevice {
    /// `{address, model, paired, proven}`.
    var document: JSONValue {
        .object([
            "address": .string(address.description), "model": .optional(model?.id), "paired": .bool(isPaired),
            "proven": .bool(isProven),
        ])
    }

    /// What the pairing came to, on one line for people.
    fileprivate var line: String {
        let title = [name, model.map { "[\($0.id)]" }].compactMap(\.self).joined(separator: " ")
        let bond =
            model?.pairing == DeviceModel.Pairing.none
            ? "paired, without a bond: it makes none"
            : isProven ? "paired, and the bond holds" : "paired; the bond is not proven yet"
        return "\(address)  \(title)  \(wasPaired ? "already " : "")\(bond)"
    }
}

extension PairingProgress {
    /// What happens, for the person who waits; nil where the result says it.
    fileprivate var line: String? {
        switch self {
        case .alreadyPaired(let address): "\(address) is already paired; testing the bond …"
        case .waitingForDevice(let address): "Looking for \(address) …"
        case .bondRemoved(let address): "Removed this machine's bond with \(address)."
        case .pairing(let found): "Pairing with \(found.advertisement.title) …"
        case .bonded: "Bonded. Testing the bond …"
        case .read(let summary):
            "Read \(summary.received) \(summary.received == 1 ? "record" : "records")"
                + (summary.error.map { ", then: \($0)." } ?? ".")
        case .waitingForReconnect(_, let whatToPress): "If nothing happens, \(whatToPress)."
        case .proven: nil
        }
    }
}

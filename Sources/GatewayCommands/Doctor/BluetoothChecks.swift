import GATTClient
import GatewaySettings

extension Doctor {
    /// The adapter, and whether the system bus lets this user speak to the Bluetooth service.
    func bluetoothChecks() async -> (adapter: DoctorCheck, bus: DoctorCheck) {
        guard let radio else {
            let why = "left alone: `bluetooth.adapter` is none"
            return (.good("adapter", why), .good("bus_policy", why))
        }
        switch await Self.firstState(of: radio) {
        case .ready(let adapter):
            let address = adapter.address.map { " (\($0))" } ?? ""
            return (
                .good("adapter", "\(adapter.name)\(address) is ready"),
                .good("bus_policy", "the system bus permits this user to use Bluetooth")
            )
        case .unusable(let error):
            let problem = Problem(error)
            switch error {
            case .noBus, .notPermitted:
                return (
                    .bad("adapter", problem.status, "unknown: the Bluetooth service cannot be asked", mend: nil),
                    .bad("bus_policy", problem)
                )
            case .noService:
                return (.bad("adapter", problem), .good("bus_policy", "the system bus answers"))
            default:
                return (
                    .bad("adapter", problem), .good("bus_policy", "the system bus permits this user to use Bluetooth")
                )
            }
        case nil:
            let silence = "the Bluetooth service did not answer within \(Self.radioPatience.components.seconds) s"
            return (
                .bad("adapter", .tryAgain, silence, mend: "restart it: `systemctl restart bluetooth`"),
                .good("bus_policy", "unknown: the Bluetooth service does not answer")
            )
        }
    }

    private static func firstState(of radio: any Radio) async -> AdapterState? {
        await withTaskGroup(of: AdapterState?.self) { group in
            defer { group.cancelAll() }
            group.addTask {
                for await state in radio.adapterStates() { return state }
                return nil
            }
            group.addTask {
                try? await Task.sleep(for: radioPatience)
                return nil
            }
            return await group.next() ?? nil
        }
    }
}

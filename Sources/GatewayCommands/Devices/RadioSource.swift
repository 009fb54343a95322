import BlueZCentral
import GATTClient
import GatewaySettings
import Logging
import Synchronization

/// The gateway's radio, made when it is first needed: most commands leave Bluetooth alone.
public final class RadioSource: Sendable {
    /// Makes a radio; nil where the settings say that there shall be none.
    public typealias Factory = @Sendable (Settings, Logger) -> (any Radio)?

    private enum State {
        case unmade
        case made((any Radio)?)
    }

    private let make: @Sendable () -> (any Radio)?
    private let state = Mutex(State.unmade)

    init(_ settings: Settings, _ logger: Logger, _ factory: @escaping Factory) {
        make = { factory(settings, logger) }
    }

    /// The radio; nil where the settings say that there shall be none.
    var radio: (any Radio)? {
        state.withLock { state in
            if case .made(let radio) = state { return radio }
            let radio = make()
            state = .made(radio)
            return radio
        }
    }

    /// The radio, or the problem that there shall be none.
    func requireRadio() throws(Problem) -> any Radio {
        guard let radio else { throw Self.leftAlone }
        return radio
    }

    private static let leftAlone = Problem(
        "bluetooth_disabled", .configuration, "the settings disable Bluetooth: `bluetooth.adapter` is none",
        hint: "remove that setting")

    /// Lets go of the radio, where one was made.
    func close() async {
        guard case .made(let radio) = state.withLock(\.self) else { return }
        await (radio as? BlueZRadio)?.close()
    }

    /// BlueZ, on the adapter the settings name; nil where they say `none`.
    public static let system: Factory = { settings, logger in
        let adapter = settings["bluetooth.adapter"]
        return adapter == "none" ? nil : BlueZRadio(adapter: adapter, logger: logger)
    }
}

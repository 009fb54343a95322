import GATTClient

/// Microlife's own service: requests are written to one characteristic, answers notified by another.
package enum Microlife {
    static let service: BluetoothUUID = 0xFFF0
    package static let answers: BluetoothUUID = 0xFFF1
    package static let requests: BluetoothUUID = 0xFFF2
}

/// What is written to a Microlife monitor: the one type that ``MicrolifeLink`` takes.
///
/// Its constructors are all that there is. None sets the clock of a monitor of the present generation, names its users or clears
/// its memory: the maker's own app finds everything as it was. On the generation before, the question for a memory is one to set the
/// clock, too: ``MicrolifeTransfer`` asks which generation it is first.
struct MicrolifeRequest: Sendable, Hashable {
    let frame: MicrolifeFrame

    private init(_ command: MicrolifeFrame.Command, _ data: [UInt8] = []) {
        frame = MicrolifeFrame(.host, command.rawValue, data)
    }

    /// Asks who the users are, and what the monitor is.
    static let identity = MicrolifeRequest(.identity)
    /// Asks for the whole memory of the user that is chosen at the monitor.
    static let history = MicrolifeRequest(.history, [UInt8](repeating: 0, count: 6) + [0xFD])
    /// Asks for the whole memory of a user, from 1.
    static func history(of user: UInt8) -> MicrolifeRequest {
        MicrolifeRequest(.history, [UInt8](repeating: 0, count: 6) + [user])
    }
    /// Tells the monitor that nothing more is asked.
    static let disconnect = MicrolifeRequest(.disconnect)
}

import GATTClient

/// Viatom's own service, which Wellue, Checkme and Lepu devices have too.
package enum Viatom {
    static let service = BluetoothUUID(high: 0x1483_9AC4_7D7E_415C, low: 0x9A42_1673_40CF_2339)
    package static let requests = BluetoothUUID(high: 0x8B00_ACE7_EB0B_49B0, low: 0xBBE9_9AEE_0A26_E1A3)
    package static let answers = BluetoothUUID(high: 0x0734_594A_A8E7_4B1A, low: 0xA6B1_CD52_4305_9A57)
}

/// What is written to a BP2: the one type that ``ViatomLink`` takes.
///
/// Its constructors are all that there is. Other commands of such a monitor inflate its cuff, erase its memory, reset it,
/// or show the password of its owner's network; none can be made of this type.
struct ViatomRequest: Sendable, Hashable {
    let command: UInt8
    let payload: [UInt8]

    private init(_ command: UInt8, _ payload: [UInt8] = []) { (self.command, self.payload) = (command, payload) }

    /// Asks what the monitor is, and what its clock shows.
    static let information = ViatomRequest(0xE1)
    /// Opens the list of blood pressures to be read; the answer is its size.
    static let openPressures = ViatomRequest(
        0xF2, Array("bp2nibp.list".utf8) + [UInt8](repeating: 0, count: 8))
    /// Asks for the octets of the open list from an offset.
    static func octets(from offset: UInt32) -> ViatomRequest {
        ViatomRequest(0xF3, (0..<4).map { UInt8(truncatingIfNeeded: offset >> (8 * UInt32($0))) })
    }
    /// Closes the open list.
    static let close = ViatomRequest(0xF4)

    /// The message that asks it.
    ///
    /// - Parameter number: which message of the connection it is; its answer has the same.
    func frame(number: UInt8) -> ViatomFrame {
        ViatomFrame(command: command, direction: ViatomFrame.fromHost, number: number, payload: payload)
    }
}

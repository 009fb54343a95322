import Foundation
import Synchronization

/// A broker that says what a test has it say: for answers that no real one can be brought to give.
package final class ScriptedBroker: Sendable {
    /// What it does.
    package struct Script: Sendable {
        /// The whole CONNACK to a client of MQTT 5; `nil`: the connection is closed without an answer.
        package var connackFive: [UInt8]? = [0x20, 0x03, 0x00, 0x00, 0x00]
        /// The whole CONNACK to a client of MQTT 3.1.1; `nil`: the connection is closed without an answer.
        package var connackThree: [UInt8]? = [0x20, 0x02, 0x00, 0x00]
        /// The reasons in the PUBACKs to clients of MQTT 5, one after the other; then always the last one.
        package var reasons: [UInt8] = [0]
        /// How many PUBACKs are held back until there are so many. They then come in reverse.
        package var gathers = 1

        /// For which PUBLISHes the connection is closed without an answer.
        package var ends: @Sendable ([UInt8]) -> Bool = { _ in false }

        /// What comes in place of the first PUBACK, before the connection is closed.
        package var farewell: [UInt8]?

        package init() {}
    }

    private struct State {
        var reasons: [UInt8]
        var connects: [UInt8] = []
        var unanswered = 0
        var mostUnanswered = 0
        var publishes: [[UInt8]] = []
    }

    package var port: UInt16 { listener.port }
    private let listener: ListeningSocket
    private let script: Script
    private let state: Mutex<State>

    package init(_ script: Script) throws {
        listener = try ListeningSocket(on: 0)
        self.script = script
        state = Mutex(State(reasons: script.reasons))
        Thread.detachNewThread { [weak self, listener] in
            while let client = listener.accept() {
                Thread.detachNewThread { [weak self] in
                    self?.serve(client)
                    close(client)
                }
            }
        }
    }

    deinit { listener.end() }

    /// The versions of the CONNECTs that came: 5 or 4.
    package var connects: [UInt8] { state.withLock(\.connects) }
    /// How many PUBLISHes waited for an answer at the same time.
    package var mostUnanswered: Int { state.withLock(\.mostUnanswered) }
    /// The PUBLISHes that came, whole.
    package var publishes: [[UInt8]] { state.withLock(\.publishes) }

    private func serve(_ client: Int32) {
        var (packets, isFive, held) = (PacketReader(), false, [[UInt8]]())
        while let octets = CuttingProxy.read(client) {
            for packet in packets.packets(octets) {
                switch packet[0] >> 4 {
                case 1:
                    isFive = packet[8] == 5
                    state.withLock { $0.connects.append(packet[8]) }
                    guard let answer = isFive ? script.connackFive : script.connackThree else { return }
                    guard CuttingProxy.write(answer, to: client) else { return }
                case 3 where script.ends(packet): return
                case 3:
                    held.append(acknowledge(packet, isFive: isFive))
                    if let farewell = script.farewell {
                        _ = CuttingProxy.write(farewell, to: client)
                        return
                    }
                    guard held.count >= script.gathers else { continue }
                    for answer in held.reversed() {
                        state.withLock { $0.unanswered -= 1 }
                        guard CuttingProxy.write(answer, to: client) else { return }
                    }
                    held = []
                case 8:
                    let granted: [UInt8] =
                        isFive ? [0x90, 0x04, packet[2], packet[3], 0, 1] : [0x90, 0x03, packet[2], packet[3], 1]
                    guard CuttingProxy.write(granted, to: client) else { return }
                case 10:
                    let ended: [UInt8] =
                        isFive ? [0xB0, 0x04, packet[2], packet[3], 0, 0] : [0xB0, 0x02, packet[2], packet[3]]
                    guard CuttingProxy.write(ended, to: client) else { return }
                case 12: guard CuttingProxy.write([0xD0, 0x00], to: client) else { return }
                case 14: return
                default: break
                }
            }
        }
    }

    private func acknowledge(_ packet: [UInt8], isFive: Bool) -> [UInt8] {
        let reason = state.withLock { state in
            state.publishes.append(packet)
            state.unanswered += 1
            state.mostUnanswered = max(state.mostUnanswered, state.unanswered)
            let reason = state.reasons.first ?? 0
            if state.reasons.count > 1 { state.reasons.removeFirst() }
            return reason
        }
        var place = 1
        while packet[place] & 0x80 != 0 { place += 1 }
        place += 1
        place += 2 + Int(packet[place]) << 8 + Int(packet[place + 1])
        let number = [packet[place], packet[place + 1]]
        return isFive ? [0x40, 0x03] + number + [reason] : [0x40, 0x02] + number
    }
}

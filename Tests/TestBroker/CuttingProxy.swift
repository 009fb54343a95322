import Foundation
import Synchronization

/// Stands between a client and a broker on loopback and cuts connections at chosen packets of the broker's.
package final class CuttingProxy: Sendable {
    /// When a connection is cut.
    package enum Cut: Sendable {
        /// Never.
        case never
        /// In place of the next PUBACK.
        case beforeAcknowledgement
        /// Behind the next PUBACK, which the client may have read or not.
        case afterAcknowledgement
        /// Nothing comes through any more, and nothing is closed.
        case silence
    }

    private struct State {
        var cut = Cut.never
        var cuts = 0
        var connections: [Int32] = []
    }

    package var port: UInt16 { listener.port }
    private let listener: ListeningSocket
    private let broker: UInt16
    private let state = Mutex(State())

    /// - Parameter broker: the broker's port.
    package init(to broker: UInt16) throws {
        listener = try ListeningSocket(on: 0)
        self.broker = broker
        Thread.detachNewThread { [weak self, listener] in
            while let client = listener.accept() { self?.serve(client) }
        }
    }

    deinit { listener.end() }

    /// How often a connection was cut.
    package var cuts: Int { state.withLock(\.cuts) }

    /// Has the next connection, or the present one, cut.
    package func cut(_ cut: Cut) { state.withLock { $0.cut = cut } }

    /// Cuts every connection now.
    package func cutAll() {
        for connection in state.withLock({ $0.connections }) { shutdown(connection, Int32(SHUT_RDWR)) }
    }

    private func serve(_ client: Int32) {
        guard let server = TCPPort.connect(to: broker) else {
            close(client)
            return
        }
        state.withLock { $0.connections += [client, server] }
        let ends = Mutex(2)
        let done: @Sendable () -> Void = { [weak self] in
            shutdown(client, Int32(SHUT_RDWR))
            shutdown(server, Int32(SHUT_RDWR))
            guard
                ends.withLock({ ends in
                    ends -= 1
                    return ends == 0
                })
            else { return }
            self?.state.withLock { state in state.connections.removeAll { $0 == client || $0 == server } }
            close(client)
            close(server)
        }
        Thread.detachNewThread { [weak self] in
            while let octets = Self.read(client) {
                if self?.isSilent == true { continue }
                guard Self.write(octets, to: server) else { break }
            }
            done()
        }
        Thread.detachNewThread { [weak self] in
            var packets = PacketReader()
            reading: while let octets = Self.read(server) {
                for packet in packets.packets(octets) {
                    switch self?.decide(packet) ?? .never {
                    case .never: guard Self.write(packet, to: client) else { break reading }
                    case .beforeAcknowledgement: break reading
                    case .afterAcknowledgement:
                        _ = Self.write(packet, to: client)
                        break reading
                    case .silence: continue
                    }
                }
            }
            done()
        }
    }

    private var isSilent: Bool { state.withLock { if case .silence = $0.cut { true } else { false } } }

    private func decide(_ packet: [UInt8]) -> Cut {
        state.withLock { state in
            switch state.cut {
            case .silence: return .silence
            case .never: return .never
            case .beforeAcknowledgement, .afterAcknowledgement:
                guard packet[0] >> 4 == 4 else { return .never }
                state.cuts += 1
                defer { state.cut = .never }
                return state.cut
            }
        }
    }

    static func read(_ descriptor: Int32) -> [UInt8]? {
        var buffer = [UInt8](repeating: 0, count: 65_536)
        let count = Foundation.read(descriptor, &buffer, buffer.count)
        return count > 0 ? Array(buffer[..<count]) : nil
    }

    static func write(_ octets: [UInt8], to descriptor: Int32) -> Bool {
        var rest = octets[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            guard count > 0 else { return false }
            rest = rest.dropFirst(count)
        }
        return true
    }
}

/// Cuts a stream of bytes into MQTT's packets.
struct PacketReader {
    private var rest: [UInt8] = []

    mutating func packets(_ octets: [UInt8]) -> [[UInt8]] {
        rest += octets
        var packets: [[UInt8]] = []
        while let count = Self.length(rest), rest.count >= count {
            packets.append(Array(rest[..<count]))
            rest.removeFirst(count)
        }
        return packets
    }

    /// The length of the first packet with its header; `nil` if that is not known yet.
    private static func length(_ octets: [UInt8]) -> Int? {
        var (length, place) = (0, 1)
        while place < octets.count {
            length |= Int(octets[place] & 0x7F) << (7 * (place - 1))
            place += 1
            if octets[place - 1] & 0x80 == 0 { return place + length }
        }
        return nil
    }
}

import Crypto
import Foundation
import GatewayCommands
import HealthReadings
import LocalAccess
import ReadingStore
import Synchronization

/// Where a stream of events is: what of the store's changes it has had, and what of the ring.
struct EventPlace: Sendable, Hashable {
    /// The newest change that was sent or passed over.
    var change: ChangePosition
    /// The newest event of the ring.
    var ring: UInt64
}

/// The ids of events: a client that comes back with one goes on behind it, whatever has been restarted meanwhile.
///
/// A client for the household gets the place in the clear. Those of one person's clients are sealed under a key that is kept
/// with the clients: gaps between numbers would tell how much others measure. An event has the same id each time it is sent.
final class EventCursors: Sendable {
    /// What an id says.
    struct Found: Hashable {
        var change: ChangePosition
        /// The ring's process and place; `nil` for a change, which is in any.
        var ring: (epoch: UInt32, number: UInt64)? {
            epoch == 0 ? nil : (epoch, number)
        }
        fileprivate var epoch: UInt32
        fileprivate var number: UInt64
    }

    private let clients: AccessStore
    private let key = Mutex<SymmetricKey?>(nil)

    init(_ clients: AccessStore) { self.clients = clients }

    /// The id of a change, or with a place in the ring of an event that is in no store.
    ///
    /// - Parameter person: whose client listens; `nil` for one of the household.
    func text(
        _ change: ChangePosition, ring: (epoch: UInt32, number: UInt64)? = nil, for person: UserKey?
    ) async throws -> String {
        guard let person else {
            let place = ring.map { "-" + String($0.epoch, radix: 16) + "-\($0.number)" } ?? ""
            return change.description + place
        }
        var octets = Data(change.feed.utf8.prefix(Self.feedLength))
        octets.append(contentsOf: [UInt8](repeating: UInt8(ascii: "0"), count: Self.feedLength - octets.count))
        func append(_ number: some FixedWidthInteger) {
            withUnsafeBytes(of: number.bigEndian) { octets.append(contentsOf: $0) }
        }
        append(change.number)
        append(ring?.epoch ?? 0)
        append(ring?.number ?? 0)
        let key = await requireKey()
        let label = Self.label(person)
        // Derived from what is sealed, so that equal events have equal ids; nothing else is ever sealed under it.
        let code = HMAC<SHA256>.authenticationCode(for: Data("nonce ".utf8) + label + octets, using: key)
        let nonce = try AES.GCM.Nonce(data: Data(code).prefix(12))
        let sealed = try AES.GCM.seal(octets, using: key, nonce: nonce, authenticating: label)
        return (sealed.combined ?? Data()).hexadecimal()
    }

    /// What an id says; `nil` for one that this gateway did not give to a client of the person, or an earlier version did.
    func found(in text: String, for person: UserKey?) async throws -> Found? {
        // The beginning is nobody's secret.
        if text == ChangePosition.beginning.description { return Found(change: .beginning, epoch: 0, number: 0) }
        guard let person else { return Self.clear(text) }
        guard text.utf8.count == 2 * (Self.length + 28), let octets = [UInt8](hexadecimal: text),
            let box = try? AES.GCM.SealedBox(combined: octets),
            let opened = try? AES.GCM.open(box, using: await requireKey(), authenticating: Self.label(person)),
            opened.count == Self.length
        else { return nil }
        func number(at place: Int, _ count: Int) -> UInt64 {
            opened.dropFirst(place).prefix(count).reduce(0) { $0 << 8 | UInt64($1) }
        }
        guard let change = Int64(exactly: number(at: Self.feedLength, 8)) else { return nil }
        return Found(
            change: ChangePosition(
                feed: String(decoding: opened.prefix(Self.feedLength), as: UTF8.self), number: change),
            epoch: UInt32(truncatingIfNeeded: number(at: Self.feedLength + 8, 4)),
            number: number(at: Self.feedLength + 12, 8))
    }

    private static func clear(_ text: String) -> Found? {
        let parts = text.split(separator: "-", omittingEmptySubsequences: false)
        guard text.utf8.count <= 80, parts.count == 2 || parts.count == 4,
            let change = ChangePosition(parts[..<2].joined(separator: "-"))
        else { return nil }
        guard parts.count == 4 else { return Found(change: change, epoch: 0, number: 0) }
        guard let epoch = UInt32(parts[2], radix: 16), epoch > 0, let number = UInt64(parts[3]) else { return nil }
        return Found(change: change, epoch: epoch, number: number)
    }

    private static let feedLength = 12
    private static let length = feedLength + 20
    private static func label(_ person: UserKey) -> Data { Data("person \(person.rawValue)".utf8) }

    private func requireKey() async -> SymmetricKey {
        if let key = key.withLock(\.self) { return key }
        // A full disk keeps nobody from reading: ids are then good until the gateway stops.
        let kept =
            (try? await clients.secret("event ids")).map { SymmetricKey(data: $0) } ?? SymmetricKey(size: .bits256)
        return key.withLock { key in
            if let key { return key }
            key = kept
            return kept
        }
    }
}

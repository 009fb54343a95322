import Foundation
import HealthReadings
import LocalAccess
import NIOHTTP1
import ReadingStore
import Synchronization
import Testing

@testable import GatewayCommands

/// A gateway with several people: each has a meter, and all share a cuff by its slots.
final class Household: Sendable {
    let api: APIBench
    let people: [String]
    private let count = Mutex(0)

    /// - Parameter size: how many people; the first is the current user.
    init(_ size: Int, tls: Bool = true) async throws {
        people = (0..<size).map { "person-\($0)" }
        api = try await APIBench(tls: tls, captures: [], settings: ["http.local": "session"])
        let store = api.gateway.store
        _ = try await store.setCurrentUser(people[0], timeZone: "Europe/Berlin")
        try await store.setPeople(
            people.enumerated().map { number, name in
                var shares = [StorePerson.Share(address: Self.cuff.bits, slot: UInt8(number + 1))]
                if number > 0 { shares.append(.init(address: Self.meter(number).bits, slot: nil)) }
                return StorePerson(clientUserID: name, timeZone: "Europe/Berlin", shares: shares)
            })
    }

    static let cuff = DeviceAddress(bits: 0xC000_0000_00FF, kind: .random)
    static func meter(_ person: Int) -> DeviceAddress {
        DeviceAddress(bits: 0xC000_0000_0100 + UInt64(person), kind: .random)
    }

    func key(_ person: Int) async throws -> UserKey {
        try #require(try await api.gateway.store.user(people[person])).key
    }

    func token(_ scope: AccessScope, _ person: Int?) async throws -> String {
        try await api.token(for: try #require(AccessGrant(scope, person: person.map { people[$0] })))
    }

    func get(_ path: String, _ token: String) async throws -> APIBench.Answer { try await api.send(path, token: token) }

    /// A person measures glucose with their own meter.
    func glucose(_ person: Int) async throws -> ReadingID {
        let number = next()
        return try await measure(
            Self.meter(person), 0x2A18,
            [0x02, number, 0x00, 0xEA, 0x07, 0x0B, 0x14, 0x0C, number / 60, number % 60, 0xC3, 0xA7, 0x11])
    }

    /// Somebody measures with the cuff that is shared; a slot beyond the people's is nobody's.
    func pressure(slot: Int) async throws -> ReadingID {
        let number = next()
        return try await measure(
            Self.cuff, 0x2A35,
            [
                0x0A, 0x7F, 0x00, 0x4F, 0x00, 0x5F, 0x00, 0xEA, 0x07, 0x0B, 0x14, 0x0D, number / 60, number % 60,
                UInt8(slot),
            ])
    }

    private func next() -> UInt8 {
        count.withLock { count in
            count += 1
            return UInt8(count)
        }
    }

    private func measure(_ address: DeviceAddress, _ characteristic: UInt16, _ octets: [UInt8]) async throws
        -> ReadingID
    {
        let (store, now) = (api.gateway.store, Instant.systemClock)
        let device = DeviceDescription(address: address, model: nil, serial: nil, name: "Meter \(address)")
        let contact = try await store.beginContact(with: device, at: now, clock: nil, batteryPercent: nil)
        let frame = Frame(
            format: FrameFormat(characteristic: characteristic), payload: octets, receivedAt: now, ordinal: 0)
        let outcomes = try await store.append([frame], of: contact)
        try await store.endContact(contact, ContactSummary(isComplete: true, announced: 1, received: 1))
        return try #require(outcomes.first?.changedReading).id
    }

    func run(_ operation: GatewayCommands.Operation) async throws -> String {
        let output = Collected()
        try await api.gateway.run(OperationRequest(operation, json: true), output: output)
        return output.text
    }

    func stop() async throws { try await api.stop() }
}

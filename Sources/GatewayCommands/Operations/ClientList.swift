import Foundation
import GatewaySettings
import HealthReadings
import LocalAccess
import ReadingStore

/// Who may use a gateway over the network: the list of the door that is open, else that of the state directory.
struct ClientList {
    let gateway: Gateway

    /// Runs something with the list.
    func using<Value>(_ body: (AccessStore) async throws -> Value) async throws -> Value {
        if let door = gateway.door { return try await body(door.clients) }
        let clients: AccessStore
        do {
            clients = try AccessStore(directory: gateway.store.directory)
        } catch let error as AccessError {
            throw Problem(error)
        }
        defer { try? clients.close() }
        return try await body(clients)
    }

    /// The time by which tokens end to be good. By a clock in the future everybody's would seem to have ended, and
    /// nobody would be put out.
    func time() async -> Date {
        if let door = gateway.door { return await door.time() }
        return Date(timeIntervalSince1970: TimeInterval(await gateway.clock.judgingTime().seconds))
    }
}

import LibDBus
import Synchronization
import TestBus
import Testing

@testable import HealthSyncClient

/// Discovery against Avahi's interface on a real message bus. No network is asked.
@Suite("Looking for phones", .enabled(if: TestBus.isInstalled, "dbus-daemon is not installed"), .timeLimit(.minutes(5)))
struct DiscoveryTests {
    private func look(on bus: TestBus, for time: Duration = .seconds(1)) async throws -> [FoundPhone] {
        let found = Mutex<[FoundPhone]>([])
        try await PhoneDiscovery.look(on: .address(bus.address), for: time) { phone in
            found.withLock { $0.append(phone) }
        }
        return found.withLock(\.self)
    }

    @Test("phones are told of as they are found, also those that Avahi knew before it was asked")
    func found() async throws {
        let bus = try await TestBus.start()
        let avahi = try await Avahi(on: bus)
        let phones = try await look(on: bus)
        #expect(
            phones == [
                FoundPhone(name: "Ann's iPhone", host: "Anns-iPhone.local", address: "192.168.1.20", port: 49213),
                FoundPhone(name: "Ann's iPhone", host: "Anns-iPhone.local", address: "fe80::1%3", port: 49213),
            ])
        #expect(avahi.asked.withLock(\.self) == "_healthsync._tcp")
        await avahi.connection.close()
    }

    @Test("a service that has gone before it could be asked is left out")
    func gone() async throws {
        let bus = try await TestBus.start()
        let avahi = try await Avahi(on: bus, answers: false)
        #expect(try await look(on: bus).isEmpty)
        await avahi.connection.close()
    }

    @Test("without Avahi and without a bus the error says so")
    func missing() async throws {
        let bus = try await TestBus.start()
        await #expect(throws: PhoneDiscovery.Failure.noAvahi) { _ = try await look(on: bus) }
        let failure = await #expect(throws: PhoneDiscovery.Failure.self) {
            try await PhoneDiscovery.look(on: .address("unix:path=/nonexistent/bus"), for: .seconds(1)) { _ in }
        }
        #expect(failure?.code == "no_message_bus")
    }
}

/// The part of Avahi's interface that a search uses.
private final class Avahi: Sendable {
    let connection: DBusConnection
    let asked: Mutex<String?>

    init(on bus: TestBus, answers: Bool = true) async throws {
        let connection = try await DBusConnection.open(.address(bus.address))
        self.connection = connection
        asked = Mutex(nil)
        try await connection.export("/", interface: "org.freedesktop.Avahi.Server") { [weak self] call in
            switch call.member {
            case "ServiceBrowserNew":
                self?.asked.withLock { $0 = call.arguments[2].stringValue }
                for interface in [2, 3] as [Int32] {
                    try await connection.emitSignal(
                        "/browser", "org.freedesktop.Avahi.ServiceBrowser", "ItemNew",
                        [
                            .int32(interface), .int32(0), .string("Ann's iPhone"), .string("_healthsync._tcp"),
                            .string("local"), .uint32(0),
                        ])
                }
                return [.objectPath("/browser")]
            case "ResolveService":
                guard answers else {
                    throw DBusError.remote(name: "org.freedesktop.Avahi.TimeoutError", message: "Timeout reached")
                }
                let isLink = call.arguments[0].intValue == 3
                return [
                    call.arguments[0], .int32(0), call.arguments[2], call.arguments[3], .string("local"),
                    .string("Anns-iPhone.local"), .int32(0), .string(isLink ? "fe80::1" : "192.168.1.20"),
                    .uint16(49213), .array([], of: "ay"), .uint32(0),
                ]
            default: return []
            }
        }
        let answer = try await connection.call(
            "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "RequestName",
            [.string("org.freedesktop.Avahi"), .uint32(0)])
        #expect(answer.first?.intValue == 1)
    }
}

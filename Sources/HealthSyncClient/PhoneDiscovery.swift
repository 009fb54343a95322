import HealthReadings
import LibDBus

/// A server of the app's routes that the local network tells of.
public struct FoundPhone: Sendable, Hashable {
    /// The service's name: the phone's.
    public var name: String
    /// The name of the host: `Anns-iPhone.local`.
    public var host: String
    /// An address of the host; one of the local link has its interface behind a `%`.
    public var address: String
    /// The port.
    public var port: Int
}

/// Looks for phones on the local network (`_healthsync._tcp`, DNS-SD), through Avahi.
public enum PhoneDiscovery {
    /// Why nothing can be looked for.
    public enum Failure: Error, Sendable, Hashable, CustomStringConvertible {
        /// There is no message bus, and why.
        case noBus(String)
        /// Avahi isn't installed or doesn't run.
        case noAvahi
        /// Avahi failed, in its words.
        case failed(String)

        /// The error's published name.
        public var code: String {
            switch self {
            case .noBus: "no_message_bus"
            case .noAvahi: "no_avahi"
            case .failed: "discovery_failed"
            }
        }

        /// One line for people.
        public var description: String {
            switch self {
            case .noBus(let words): "cannot look for phones: \(words)"
            case .noAvahi: "cannot look for phones: Avahi doesn't run on this machine"
            case .failed(let words): "cannot look for phones: \(words)"
            }
        }
    }

    /// The service's type, as the app announces itself.
    static let type = "_healthsync._tcp"
    private static let avahi = "org.freedesktop.Avahi"
    private static let server = "org.freedesktop.Avahi.Server"
    private static let browser = "org.freedesktop.Avahi.ServiceBrowser"

    /// Looks for phones for a while.
    ///
    /// - Parameters:
    ///   - bus: the bus that Avahi is on: the system's.
    ///   - duration: how long to look. Answers of phones that sleep take seconds.
    ///   - receive: is told of each phone when it is found, and again if its port or address has changed.
    /// - Throws: ``Failure``, or what `receive` throws.
    public static func look(
        on bus: DBusAddress = .system, for duration: Duration, receive: @Sendable (FoundPhone) async throws -> Void
    ) async throws {
        let connection: DBusConnection
        do throws(DBusError) {
            connection = try await DBusConnection.open(bus)
        } catch {
            if case .cancelled = error { throw CancellationError() }
            throw Failure.noBus(error.description)
        }
        do {
            try await look(on: connection, for: duration, receive)
        } catch {
            await connection.close()
            throw (error as? DBusError).map(failure) ?? error
        }
        await connection.close()
    }

    private static func failure(_ error: DBusError) -> any Error {
        switch error {
        case .cancelled: CancellationError()
        case .remote("org.freedesktop.DBus.Error.ServiceUnknown", _),
            .remote("org.freedesktop.DBus.Error.NameHasNoOwner", _),
            .remote("org.freedesktop.DBus.Error.Spawn.ServiceNotFound", _),
            .remote("org.freedesktop.systemd1.NoSuchUnit", _):
            Failure.noAvahi
        default: Failure.failed(error.description)
        }
    }

    private enum Event: Sendable {
        case found([DBusValue])
        case failed(String)

        init?(_ signal: borrowing DBusSignal) {
            let arguments = signal.arguments()
            switch signal.member {
            case "ItemNew": self = .found(arguments)
            case "Failure": self = .failed(arguments.first?.stringValue ?? "it gave no reason")
            default: return nil
            }
        }
    }

    private static func look(
        on connection: DBusConnection, for duration: Duration, _ receive: @Sendable (FoundPhone) async throws -> Void
    ) async throws {
        // Avahi tells of what it knows before it answers with the browser's path: the rule comes first, for any path.
        let events = try await connection.signals(DBusMatch(sender: avahi, interface: browser)) { Event($0) }
        let answer = try await connection.call(
            avahi, "/", server, "ServiceBrowserNew",
            [.int32(-1), .int32(-1), .string(type), .string(""), .uint32(0)])
        guard case .objectPath(let path)? = answer.first else {
            throw Failure.failed("Avahi named no browser")
        }
        let closing = Task {
            try await Task.sleep(for: duration)
            await connection.close()
        }
        defer { closing.cancel() }
        var found: Set<FoundPhone> = []
        do {
            for try await burst in events {
                for event in burst {
                    switch event {
                    case .failed(let words): throw Failure.failed(words)
                    case .found(let item):
                        guard let phone = try await resolve(item, on: connection), found.insert(phone).inserted else {
                            continue
                        }
                        try await receive(phone)
                    }
                }
            }
        } catch DBusError.disconnected {
            // The time is over, unless the bus went away, which this isn't told from: what was found stands.
            return
        }
        try Task.checkCancellation()
        _ = try? await connection.call(avahi, path, browser, "Free")
    }

    /// Asks for address and port; `nil` for a service that has gone or doesn't answer.
    private static func resolve(_ item: [DBusValue], on connection: DBusConnection) async throws -> FoundPhone? {
        guard item.count >= 5, let interface = item[0].intValue.flatMap({ Int32(exactly: $0) }),
            let family = item[1].intValue.flatMap({ Int32(exactly: $0) }), let name = item[2].stringValue,
            let type = item[3].stringValue, let domain = item[4].stringValue
        else { return nil }
        let answer: [DBusValue]
        do throws(DBusError) {
            answer = try await connection.call(
                avahi, "/", server, "ResolveService",
                [
                    .int32(interface), .int32(family), .string(name), .string(type), .string(domain), .int32(-1),
                    .uint32(0),
                ], timeout: .seconds(6))
        } catch {
            switch error {
            case .remote, .timedOut: return nil
            default: throw error
            }
        }
        guard answer.count >= 9, let host = answer[5].stringValue, let address = answer[7].stringValue,
            let port = answer[8].intValue, (1...65535).contains(port)
        else { return nil }
        let isOfLink = address.lowercased().hasPrefix("fe80:")
        let place = isOfLink && interface >= 0 ? "\(address)%\(interface)" : address
        return FoundPhone(name: name, host: host, address: place, port: port)
    }
}

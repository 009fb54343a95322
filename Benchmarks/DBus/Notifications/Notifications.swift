import Glibc
import LibDBus

/// `notifications send COUNT BURST MICROSECONDS`, `notifications read` and `notifications read-elsewhere`, on the bus of
/// DBUS_SYSTEM_BUS_ADDRESS (see ../run.sh).
@main
enum Notifications {
    static func main() async throws {
        let arguments = CommandLine.arguments.dropFirst()
        let numbers = arguments.dropFirst().compactMap { Int($0) }
        let connection = try await DBusConnection.open(.system)
        switch (arguments.first, numbers.count) {
        case ("send", 3):
            let interval = Duration.microseconds(numbers[2])
            try await Sender(connection: connection, count: numbers[0], burst: numbers[1], interval: interval).serve()
        case ("read", 0): try await Reader(connection: connection, isNeighbour: true).run()
        case ("read-elsewhere", 0): try await Reader(connection: connection, isNeighbour: false).run()
        default: exit(64)
        }
    }
}

import DeliveryBacklog
import Glibc
import LibDBus

/// `notifications send COUNT BURST MICROSECONDS`, `notifications read`, `notifications read-elsewhere`, and
/// `notifications read-delivering DIRECTORY KIND=URL…`, on the bus of DBUS_SYSTEM_BUS_ADDRESS (see ../run.sh and
/// ../busy.sh). `notifications deliver DIRECTORY KIND=URL…` delivers alone, until it is ended.
@main
enum Notifications {
    static func main() async throws {
        let arguments = CommandLine.arguments.dropFirst()
        let (mode, rest) = (arguments.first, Array(arguments.dropFirst()))
        switch (mode, rest.count) {
        case ("send", 3):
            let numbers = rest.compactMap { Int($0) }
            guard numbers.count == 3 else { exit(64) }
            try await Sender(
                connection: try await .open(.system), count: numbers[0], burst: numbers[1],
                interval: .microseconds(numbers[2])
            ).serve()
        case ("read", 0): try await read(isNeighbour: true)
        case ("read-elsewhere", 0): try await read(isNeighbour: false)
        case ("read-delivering", 2...):
            try await read(
                isNeighbour: true, beside: try await Deliveries(rest[0], to: rest[1...].map { try Sink($0) }))
        case ("deliver", 2...):
            let deliveries = try await Deliveries(rest[0], to: rest[1...].map { try Sink($0) })
            deliveries.start()
            print("ready")
            fflush(nil)
            await deliveries.finished()
        default: exit(64)
        }
    }

    private static func read(isNeighbour: Bool, beside deliveries: Deliveries? = nil) async throws {
        let reader = Reader(connection: try await .open(.system), isNeighbour: isNeighbour, deliveries: deliveries)
        try await reader.run()
    }
}

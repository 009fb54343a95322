import GATTProfiles
import Glibc
import HealthReadings
import LibDBus

/// Reads the notifications with our own library, the way the gateway does: decoded on the event loop to what they are of
/// and their octets, handed over by the burst, and there decoded to records.
struct Reader {
    private struct Notification: Sendable {
        var isMeasurement: Bool
        var octets: [UInt8]
    }

    private struct Tally: Sendable {
        var count = 0
        var sum: Int64 = 0
        var bursts = 0
        private let decoder = StandardFrameDecoder()

        /// - Returns: whether the transfer is over.
        mutating func add(_ burst: [Notification]) -> Bool {
            bursts += 1
            for notification in burst {
                if !notification.isMeasurement { return true }
                let decoded = decoder.decode(characteristic: 0x2A18, octets: notification.octets.span.bytes)
                guard case .record(let record) = decoded, case .glucose(let value) = record.value else { continue }
                count += 1
                sum += Int64(record.sequence ?? 0) + (record.baseTime?.secondsSinceEpoch ?? 0)
                sum += Int64(record.timeOffsetMinutes ?? 0)
                if case .value(let number)? = value.concentration?.number { sum += number.significand }
            }
            return false
        }
    }

    let connection: DBusConnection
    /// Whether the bursts are taken on the event loop's thread, or on the pool's.
    let isNeighbour: Bool

    func run() async throws {
        let match = DBusMatch(
            sender: "org.bluez", pathNamespace: Layout.device, interface: Layout.properties,
            member: "PropertiesChanged", arg0: Layout.characteristic)
        let signals = try await connection.signals(match) { signal -> Notification? in
            let isMeasurement = signal.pathEquals(Layout.measurement)
            guard isMeasurement || signal.pathEquals(Layout.control) else { return nil }
            var found: Notification?
            signal.forEachChangedProperty { property in
                guard property.isNamed("Value"), let octets = property.bytes else { return }
                found = Notification(isMeasurement: isMeasurement, octets: octets)
            }
            return found
        }
        for path in [Layout.measurement, Layout.control] {
            _ = try await connection.call("org.bluez", path, Layout.characteristic, "StartNotify")
        }
        let before = Self.cpu()
        _ = try await connection.call(
            "org.bluez", Layout.control, Layout.characteristic, "WriteValue", [.bytes([1, 1]), .properties([:])])
        let tally =
            isNeighbour
            ? try await withTaskExecutorPreference(connection.taskExecutor) { try await Self.read(signals) }
            : try await Self.read(signals)
        let used = Self.cpu() - before
        print(
            #"{"count": \#(tally.count), "sum": \#(tally.sum), "microseconds": \#(used), "bursts": \#(tally.bursts)}"#)
        await connection.close()
    }

    private static func read(_ signals: DBusSignals<Notification>) async throws -> Tally {
        var tally = Tally()
        for try await burst in signals where tally.add(burst) { break }
        return tally
    }

    /// Microseconds of processor this process has used.
    private static func cpu() -> Int {
        var usage = rusage()
        getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
        return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1_000_000 + usage.ru_utime.tv_usec
            + usage.ru_stime.tv_usec
    }
}

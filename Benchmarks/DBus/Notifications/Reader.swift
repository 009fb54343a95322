import DeliveryBacklog
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

    /// What was used between two moments.
    private struct Usage {
        /// Microseconds of the processor: of the whole process, and of the thread that reads the bus.
        var process: Int
        var thread: Int
        /// Microseconds that went by.
        var elapsed: Int

        static var now: Usage {
            var usage = rusage()
            getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
            return Usage(
                process: (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1_000_000 + usage.ru_utime.tv_usec
                    + usage.ru_stime.tv_usec,
                thread: microseconds(CLOCK_THREAD_CPUTIME_ID), elapsed: microseconds(CLOCK_MONOTONIC))
        }

        private static func microseconds(_ clock: clockid_t) -> Int {
            var time = timespec()
            clock_gettime(clock, &time)
            return time.tv_sec * 1_000_000 + time.tv_nsec / 1000
        }

        static func - (later: Usage, earlier: Usage) -> Usage {
            Usage(
                process: later.process - earlier.process, thread: later.thread - earlier.thread,
                elapsed: later.elapsed - earlier.elapsed)
        }
    }

    let connection: DBusConnection
    /// Whether the bursts are taken on the event loop's thread, or on the pool's.
    let isNeighbour: Bool
    /// What the same process delivers meanwhile.
    let deliveries: Deliveries?

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
        deliveries?.start()
        let (tally, used) =
            isNeighbour
            ? try await withTaskExecutorPreference(connection.taskExecutor) { try await measured(signals) }
            : try await measured(signals)
        let delivered = deliveries?.delivered.description ?? "[]"
        print(
            #"{"count": \#(tally.count), "sum": \#(tally.sum), "microseconds": \#(used.process), "#
                + #""thread": \#(used.thread), "elapsed": \#(used.elapsed), "bursts": \#(tally.bursts), "#
                + #""delivered": \#(delivered)}"#)
        await connection.close()
    }

    /// Asks for the records and reads them.
    private func measured(_ signals: DBusSignals<Notification>) async throws -> (Tally, Usage) {
        let before = Usage.now
        _ = try await connection.call(
            "org.bluez", Layout.control, Layout.characteristic, "WriteValue", [.bytes([1, 1]), .properties([:])])
        let tally = try await Self.read(signals)
        return (tally, Usage.now - before)
    }

    private static func read(_ signals: DBusSignals<Notification>) async throws -> Tally {
        var tally = Tally()
        for try await burst in signals where tally.add(burst) { break }
        return tally
    }
}

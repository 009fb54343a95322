import DeliveryBacklog
import Foundation
import ReadingDelivery

/// `delivery-benchmark fill DIRECTORY READINGS KIND=URL…` stores readings that wait for sinks, and
/// `delivery-benchmark drain DIRECTORY READINGS KIND=URL` delivers them to one, acknowledgements recorded.
///
/// The two are processes of their own, so that what filling the store took is not counted as delivery's. The second prints
/// a line of JSON: readings, seconds, seconds of the processor for delivering alone, and the most memory that the process
/// had until a quarter was delivered and until the end, in kB.
@main
struct DeliveryBenchmark {
    static func main() async throws {
        let arguments = Array(CommandLine.arguments.dropFirst())
        switch arguments.first {
        case "fill" where arguments.count > 3:
            guard let count = Int(arguments[2]) else { return usage() }
            try await Backlog.fill(arguments[1], count, for: arguments[3...].map { try Sink($0) })
        case "drain" where arguments.count == 4:
            guard let count = Int(arguments[2]) else { return usage() }
            try await drain(arguments[1], count, to: Sink(arguments[3]))
        default: usage()
        }
    }

    private static func usage() {
        print("delivery-benchmark fill DIRECTORY READINGS KIND=URL… | drain DIRECTORY READINGS KIND=URL")
        exit(64)
    }

    private static func drain(_ directory: String, _ count: Int, to sink: Sink) async throws {
        let store = try await Backlog.open(directory)
        let worker = try Backlog.worker(store, to: sink)
        let events = worker.events()
        let quarter = Task {
            var done = 0
            for await case .readings(let ids, .acknowledged) in events {
                done += ids.count
                if done >= count / 4 { break }
            }
            return peak()
        }
        let clock = ContinuousClock()
        let (start, before) = (clock.now, processorSeconds())
        let report = await worker.syncOnce()
        let (elapsed, used) = ((clock.now - start) / .seconds(1), processorSeconds() - before)
        guard report.failure == nil, report.delivered == count else {
            let reason = report.failure?.message ?? "held: \(report.held)"
            FileHandle.standardError.write(Data("delivered \(report.delivered): \(reason)\n".utf8))
            exit(1)
        }
        print(
            #"{"delivered": \#(report.delivered), "seconds": \#(elapsed), "processor": \#(used), "#
                + #""quarter": \#(await quarter.value), "peak": \#(peak())}"#)
        try store.close()
    }

    /// Seconds of the processor that this process has used, all its threads.
    private static func processorSeconds() -> Double {
        var usage = rusage()
        getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
        return Double(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec)
            + Double(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6
    }

    /// The most resident memory that this process has had, in kB.
    private static func peak() -> Int {
        let text = (try? String(contentsOfFile: "/proc/self/status", encoding: .utf8)) ?? ""
        let line = text.split(separator: "\n").first { $0.hasPrefix("VmHWM:") }
        return line.flatMap { Int($0.filter(\.isNumber)) } ?? 0
    }
}

import Foundation
import Testing

extension LabTests {
    /// What it costs to wait for meters.
    @Suite struct Idle {
        @Test("an idle `run` does nothing but look after its threads; what a hundred strangers cost is told")
        func idle() async throws {
            let meter = try await SharedMeter.glucose.borrow(["advertises": "never"])
            let gateway = try TestGateway()
            let run = try gateway.start(["run"])
            #expect(try await run.wait { $0.errorText.contains("ready") }, "\(run.errorText)")
            try await Task.sleep(for: .seconds(5))
            let alone = try await measure(run.process.processIdentifier, seconds: 12)
            // libdispatch looks after the threads of the runtime's executor once a second.
            #expect(alone.wakeUps < 2, "\(alone)")
            try await meter.lab.strangers(100)
            try await Task.sleep(for: .seconds(3))
            let among = try await measure(run.process.processIdentifier, seconds: 12)
            print(
                String(
                    format: "idle: %.2f wake-ups a second, %.2f ms of a core; among 100 strangers %.2f and %.2f ms",
                    alone.wakeUps, alone.milliseconds, among.wakeUps, among.milliseconds))
            #expect(await run.end(SIGTERM).status == 0)
        }

        /// How often a second all threads together were woken, and milliseconds of processor time a second.
        private func measure(
            _ process: Int32, seconds: Int
        ) async throws -> (wakeUps: Double, milliseconds: Double) {
            let before = (try switches(process), try milliseconds(process))
            try await Task.sleep(for: .seconds(seconds))
            // A thread that has ended meanwhile did so for want of work.
            let woken = try switches(process).map { $0.value - (before.0[$0.key] ?? 0) }
            return (
                Double(woken.reduce(0, +)) / Double(seconds),
                Double(try milliseconds(process) - before.1) / Double(seconds)
            )
        }

        /// How often each thread has waited.
        private func switches(_ process: Int32) throws -> [String: Int] {
            var switches: [String: Int] = [:]
            for thread in try FileManager.default.contentsOfDirectory(atPath: "/proc/\(process)/task") {
                let path = "/proc/\(process)/task/\(thread)/status"
                guard let status = try? String(contentsOfFile: path, encoding: .utf8) else { continue }
                for line in status.split(separator: "\n") where line.hasPrefix("voluntary_ctxt_switches:") {
                    switches[thread] = Int(line.split(separator: "\t").last ?? "")
                }
            }
            return switches
        }

        private func milliseconds(_ process: Int32) throws -> Int {
            let fields = try String(contentsOfFile: "/proc/\(process)/stat", encoding: .utf8).split(separator: " ")
            return ((Int(fields[13]) ?? 0) + (Int(fields[14]) ?? 0)) * 1000 / sysconf(Int32(_SC_CLK_TCK))
        }
    }
}

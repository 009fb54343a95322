import Foundation
import HealthReadings
import Testing

extension LabTests {
    /// Xiaomi's scales, heard by the real bluetoothd and never connected.
    @Suite struct XiaomiScales {
        private static func scale(_ more: [String: Document] = [:]) -> Document {
            let scale: [String: Document] = [
                "name": "MIBFS", "address": "C0:00:00:00:18:1B", "service": "181B", "protocol": "xiaomi",
            ]
            return .object(scale.merging(more) { $1 })
        }

        /// Somebody is weighed: the weight changes, stays, gets its impedance, and is shown when the person has left.
        private func weigh(
            _ scale: LabMeter, _ weight: String, impedance: Int? = 489, unit: String = "kg"
        ) async throws {
            let base: [String: Document] = ["weight": .string(weight), "unit": .string(unit)]
            func show(_ more: [String: Document]) async throws -> Document {
                try await scale.act("show", .object(base.merging(more) { $1 }))
            }
            _ = try await show(["weight": .string("3.1"), "stable": false])
            try await Task.sleep(for: .milliseconds(600))
            let at = try #require(try await show([:])["at"])
            try await Task.sleep(for: .milliseconds(600))
            var more: [String: Document] = ["at": at]
            if let impedance {
                more["impedance"] = .number(impedance)
                _ = try await show(more)
                try await Task.sleep(for: .milliseconds(600))
            }
            more["removed"] = true
            _ = try await show(more)
            try await Task.sleep(for: .milliseconds(600))
        }

        private func seconds(_ document: Document?, from now: Instant) -> Int64? {
            document?.text.flatMap { Instant(rfc3339: $0) }.map { $0.seconds - now.seconds }
        }

        @Test(
            "`run` takes what a paired scale says, once each, with its impedance; a neighbour's and meters go on as ever"
        )
        func run() async throws {
            let lab = try await Lab.fresh()
            let meter = try await lab.add(Meters.accuchek(["records": ["count": 6, "seed": 41]]))
            // Its clock was never set.
            let ahead = -Int(Date().timeIntervalSince1970)
            let scale = try await lab.add(Self.scale(["clock": .number(ahead)]))
            let neighbour = try await lab.add(Self.scale(["address": "C0:00:00:00:18:1C"]))
            let gateway = try TestGateway()
            #expect(try await gateway.pair(meter).status == 0)
            let paired = try await gateway("pair", scale.address)
            #expect(paired.status == 0, "\(paired.errors)")
            #expect(try paired.document["model"]?.text == "xiaomi_body_composition_scale")
            #expect(try await lab.bonds() == [meter.address])

            let run = try gateway.start(["run"])
            #expect(try await run.wait { $0.errorText.contains("ready") }, "\(run.errorText)")
            #expect(try await settles { try await gateway.stored().count == 6 })
            let now = Instant.systemClock
            try await weigh(scale, "70.85")
            try await weigh(neighbour, "91.2")
            try await weigh(scale, "62.4", impedance: nil)
            #expect(try await settles { try await gateway.stored().count == 8 }, "\(run.errorText)")
            try await meter.add(["count": 1, "seed": 42, "first": 7])
            let read = try await gateway("read", meter.address)
            #expect(read.status == 0 && read.documents.count == 1, "\(read.errors)")
            #expect(await run.end(SIGTERM).status == 0)

            let weights = try await gateway.stored().filter { $0["kind"] == "weight" }
            #expect(Set(weights.map { $0["weight"]?["value"]?.json ?? "" }) == ["70.850", "62.400"])
            let first = weights.first { $0["weight"]?["value"]?.json == "70.850" }
            #expect(first?["impedance"]?["value"]?.integer == 489)
            #expect(weights.count { $0["impedance"]?["value"] == nil } == 1)
            #expect(weights.allSatisfy { $0["time_basis"]?.text == "corrected" && $0["excluded"]?.text == nil })
            #expect(weights.allSatisfy { $0["device_time"]?.text?.hasPrefix("1970-") == true || ahead > 0 })
            for weight in weights { #expect((-40...60).contains(seconds(weight["time"], from: now) ?? 999)) }
            #expect(try await scale.log().allSatisfy { $0.name != "connected" })
            #expect(try await neighbour.log().allSatisfy { $0.name != "connected" })
        }

        @Test("`read` waits for the next measurement; none is 75, and pounds stay pounds")
        func read() async throws {
            let lab = try await Lab.fresh()
            let scale = try await lab.add(Self.scale(["clock": 0]))
            let gateway = try TestGateway()
            #expect(try await gateway("pair", scale.address).status == 0)
            let waiting = try gateway.start(["read", scale.address, "--wait", "40"])
            try await Task.sleep(for: .seconds(2))
            try await weigh(scale, "156.20", impedance: 512, unit: "lb")
            let read = await waiting.finish()
            #expect(read.status == 0, "\(read.errors)")
            let stored = try await gateway.stored()
            #expect(stored.count == 1 && stored.first?["impedance"]?["value"]?.integer == 512)
            #expect(
                stored.first?["weight"]?.json == #"{"unit":"lb","value":156.20}"#
                    || stored.first?["weight"]?["unit"]?.text == "lb")
            let nothing = try await gateway("read", scale.address, "--wait", "3")
            #expect(nothing.status == 75 && nothing.errorCode == "no_measurement", "\(nothing.errors)")
            #expect(try await gateway.stored().count == 1)
            #expect(try await scale.log().allSatisfy { $0.name != "connected" })
        }
    }
}

import Foundation
import Testing

extension LabTests {
    /// `run` keeps reading, whatever happens to the radio; commands go through it.
    @Suite struct Service {
        @Test("`run` reads a paired meter when it shows up, and what `run` has stored a command sees through it")
        func showsUp() async throws {
            let meter = try await SharedMeter.glucose.borrow(
                records: ["count": 15, "seed": 91, "contexts": true], ["advertises": "never"])
            let gateway = try TestGateway()
            let run = try gateway.start(["run"])
            #expect(try await run.wait { $0.errorText.contains("ready") }, "\(run.errorText)")
            try await meter.behave(["advertises": "always"])
            try await meter.wait("asked")
            try await meter.wait("disconnected")
            let held = try await meter.readings()
            #expect(try await settles { try await gateway.stored().count == held.count })
            Comparison.expect(try await gateway.stored(), equal: held)
            let result = await run.end(SIGTERM)
            #expect(result.status == 0 && result.signal == nil, "\(result.errors)")
        }

        @Test("commands go through `run`: scan, pair, devices, read and unpair, as without it")
        func commandsThroughRun() async throws {
            let lab = try await Lab.fresh()
            let meter = try await lab.add(Meters.accuchek(["records": ["count": 8, "seed": 92]]))
            let gateway = try TestGateway()
            let run = try gateway.start(["run"])
            #expect(try await run.wait { $0.errorText.contains("ready") }, "\(run.errorText)")
            let found = try await gateway.scan()
            #expect(found.documents.map { $0["address"]?.text } == [meter.address], "\(found.errors)")
            let paired = try await gateway.pair(meter)
            #expect(paired.status == 0, "\(paired.errors)")
            #expect(try paired.document["proven"] == true)
            let read = try await gateway("read", meter.address)
            #expect(read.status == 0, "\(read.errors)")
            Comparison.expect(try await gateway.stored(), equal: try await meter.readings())
            #expect(try await gateway.device(meter)?["proven"] == true)
            #expect(try await gateway("unpair", meter.address).status == 0)
            #expect(try await lab.bonds().isEmpty)
            #expect(await run.end(SIGTERM).status == 0)
        }

        @Test("two meters at the same time do not disturb each other")
        func twoAtOnce() async throws {
            let lab = try await Lab.fresh()
            let glucose = try await lab.add(
                Meters.contour(["records": ["count": 120, "seed": 93, "contexts": true], "pace": 0.05]))
            let cuff = try await lab.add(
                Meters.omron(["records": ["count": 60, "seed": 94], "pace": 0.1]), ["leaves_when_done": true])
            let gateway = try TestGateway()
            #expect(try await gateway.pair(glucose).status == 0)
            #expect(try await gateway.pair(cuff).status == 0)
            let marks = (try await glucose.mark(), try await cuff.mark())
            let read = try await gateway("read", glucose.address, cuff.address)
            #expect(read.status == 0, "\(read.errors)")
            Comparison.expect(
                read.documents.filter { $0["kind"] == "glucose" }, equal: try await glucose.readings())
            Comparison.expect(
                read.documents.filter { $0["kind"] == "blood_pressure" }, equal: try await cuff.readings())
            let first = try await glucose.log(since: marks.0).filter { $0.name == "sent" }
            let second = try await cuff.log(since: marks.1).filter { $0.name == "sent" }
            let overlap =
                min(first.last?.at ?? 0, second.last?.at ?? 0) - max(first.first?.at ?? 0, second.first?.at ?? 0)
            #expect(overlap > 0, "they were read one after the other")
        }

        @Test("promise 10: bluetoothd killed in the middle of a transfer, and back: read to the end without a person")
        func bluetoothdKilled() async throws {
            let meter = try await SharedMeter.glucose.borrow(records: ["count": 300, "seed": 95])
            let gateway = try TestGateway()
            let run = try gateway.start(["run"])
            try await meter.wait("sent", count: 60)
            try await meter.lab.bluetoothd("kill")
            #expect(
                try await run.wait { $0.errorText.contains("Bluetooth: the Bluetooth service") }, "\(run.errorText)")
            let kept = try await gateway.stored()
            #expect(kept.count > 0)
            try await meter.lab.bluetoothd("start")
            let held = try await meter.readings()
            #expect(try await settles { try await gateway.stored().count == held.count }, "\(run.errorText)")
            Comparison.expect(try await gateway.stored(), equal: held)
            #expect(await run.end(SIGTERM).status == 0)
        }

        @Test(
            "promise 10: the adapter goes in the middle of a transfer, and comes back: named, and read to the end",
            arguments: [
                ("off", "on", "switched off"), ("remove", "return", "no Bluetooth adapter"),
                // The switch is in another machine here: only a BlueZ that tells of it (PowerState, not in 5.66) lets it be named.
                ("block", "unblock", Lab.debian == 12 ? "switched off" : "blocked by rfkill"),
            ])
        func adapter(away: String, back: String, words: String) async throws {
            let meter = try await SharedMeter.glucose.borrow(records: ["count": 300, "seed": 96])
            let gateway = try TestGateway()
            let run = try gateway.start(["run"])
            try await meter.wait("sent", count: 60)
            try await meter.lab.adapter(away)
            // What the lab switches off stays so: the gateway switches an adapter on once, when it first finds it.
            #expect(try await run.wait { $0.errorText.contains(words) }, "\(run.errorText)")
            try await meter.lab.adapter(back)
            if away == "block" { try? await meter.lab.adapter("on") }
            let held = try await meter.readings()
            #expect(try await settles { try await gateway.stored().count == held.count }, "\(run.errorText)")
            Comparison.expect(try await gateway.stored(), equal: held)
            #expect(await run.end(SIGTERM).status == 0)
        }

        @Test("without bluetoothd, without an adapter, or blocked: commands say which, and what to do")
        func unusable() async throws {
            let lab = try await Lab.fresh()
            let gateway = try TestGateway()
            try await lab.adapter("block")
            // What blocks an adapter is told by the kernel it is in: the command runs there.
            let job = try #require(
                try await lab(
                    "run",
                    [
                        "program": "healthrelay",
                        "arguments": ["scan", "--for", "2", "--json", "--state-dir", "/run/state"],
                        "environment": ["DBUS_SYSTEM_BUS_ADDRESS": "unix:path=/run/dbus/system_bus_socket"],
                    ])["job"])
            let blocked = try await lab("end", ["job": job])
            let errors = try String(contentsOfFile: #require(blocked["errors"]?.text), encoding: .utf8)
            #expect(blocked["status"] == 69 && errors.contains("adapter_blocked"), "\(errors)")
            try await lab.adapter("unblock")
            try await lab.adapter("remove")
            let missing = try await gateway("scan", "--for", "2")
            #expect(missing.status == 69 && missing.errorCode == "no_adapter", "\(missing.errors)")
            try await lab.bluetoothd("kill")
            let dead = try await gateway("scan", "--for", "2")
            #expect(dead.status == 69 && dead.errorCode == "no_bluetooth_service", "\(dead.errors)")
            let doctor = try await gateway("doctor")
            let checks = try doctor.document["checks"]?.elements ?? []
            #expect(
                checks.contains { $0["name"]?.text == "adapter" && $0["ok"] == false && $0["mend"]?.isNull == false })
        }

        @Test("an adapter that is switched off is switched on, once")
        func switchedOn() async throws {
            let lab = try await Lab.fresh()
            _ = try await lab.add(Meters.omron())
            try await lab.adapter("off")
            let found = try await TestGateway().scan()
            #expect(found.status == 0 && found.documents.count == 1, "\(found.errors)")
        }

        @Test("monitor tells of connections as they come and go, whoever makes them")
        func monitor() async throws {
            let meter = try await SharedMeter.glucose.borrow(records: ["count": 3, "seed": 97])
            let (watching, reading) = (try TestGateway(), try TestGateway())
            let monitor = try watching.start(["monitor", meter.address])
            #expect(try await monitor.wait { $0.documents.count == 1 }, "\(monitor.errorText)")
            #expect(try await reading("read", meter.address).status == 0)
            #expect(try await monitor.wait { $0.documents.count == 3 }, "\(monitor.outputText)")
            let result = await monitor.end()
            #expect(result.status == 0, "\(result.errors)")
            #expect(result.documents.map { $0["connected"] } == [false, true, false])
            #expect(result.documents.allSatisfy { $0["address"]?.text == meter.address })
        }
    }
}

/// Whether something comes true, in time.
func settles(_ seconds: Double = 90, _ condition: () async throws -> Bool) async throws -> Bool {
    let end = Lab.now + seconds
    while Lab.now < end {
        if try await condition() { return true }
        try await Task.sleep(for: .milliseconds(200))
    }
    return false
}

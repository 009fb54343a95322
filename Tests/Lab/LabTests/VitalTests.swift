import Foundation
import Testing

extension LabTests {
    /// Straps, oximeters, thermometers and scales by the standard services.
    @Suite struct Vitals {
        /// Finds and pairs a device; it keeps all that it holds.
        private func pair(
            _ definition: Document, _ behaviour: Document = [:], as model: String, _ gateway: TestGateway
        ) async throws -> LabMeter {
            let meter = try await Lab.fresh().add(definition, behaviour)
            let held = try await meter.readings()
            let found = try await gateway.scan().documents
            #expect(found.map { $0["model"]?.text } == [model])
            let paired = try await gateway.pair(meter)
            try #require(paired.status == 0, "\(paired.errors)")
            #expect(try await meter.readings() == held, "the proof of a bond starts no transfer")
            return meter
        }

        /// What was read is all that the device ever held, to the digit.
        private func expectAll(
            _ found: [Document], of meter: LabMeter, sourceLocation: SourceLocation = #_sourceLocation
        ) async throws {
            let held = try await meter.readings(ever: true)
            #expect(found.count == held.count, sourceLocation: sourceLocation)
            // Of different kinds, different fields are known.
            for (kind, held) in Dictionary(grouping: held, by: { $0["kind"]?.text }) {
                Comparison.expect(
                    found.filter { $0["kind"]?.text == kind }, equal: held, sourceLocation: sourceLocation)
            }
        }

        private static let sendsOnce: Document = ["deletes_confirmed": true, "leaves_when_done": true]

        @Test("a thermometer: what it shows while it measures is no reading, and its own clock corrects its times")
        func thermometer() async throws {
            let gateway = try TestGateway()
            let meter = try await pair(
                Meters.thermometer([
                    "clock": 600,
                    "records": [
                        [
                            "value": "37.2", "at": "2026-11-20T08:00:00", "site": "ear",
                            "intermediate": ["35.1", "36.8", "37.1"],
                        ],
                        ["value": "99.68", "unit": "°F", "at": "2026-11-20T20:15:30", "site": "mouth"],
                        ["value": "36.60"],
                        ["value": "NaN", "at": "2026-11-21T07:00:00"],
                    ],
                ]), Self.sendsOnce, as: "generic_thermometer", gateway)
            let read = try await gateway("read", meter.address)
            #expect(read.status == 0, "\(read.errors)")
            try await expectAll(read.documents, of: meter)
            #expect(try await meter.readings().isEmpty)
            #expect(try await meter.log().count { $0.name == "sent" && $0.characteristic == "2a1e" } == 3)
            let bases = read.documents.compactMap { $0["time_basis"]?.text }.sorted()
            #expect(bases == ["corrected", "corrected", "corrected", "reception"])
            let again = try await gateway("read", meter.address)
            #expect(again.status == 0 && again.documents.isEmpty, "\(again.errors)")
            #expect(try await gateway("store", "verify").status == 0)
        }

        @Test("an oximeter is asked for its spot checks, each comes once, and `watch` shows what it measures now")
        func oximeter() async throws {
            let gateway = try TestGateway()
            let meter = try await pair(
                Meters.pulseOximeter([
                    "records": [
                        ["value": "97", "pulse": "64", "at": "2026-11-20T08:00:00", "amplitude": "6.8"],
                        [
                            "value": "91.5", "pulse": "102", "at": "2026-11-20T08:01:00",
                            "status": ["questionable_measurement", "low_perfusion"],
                        ],
                        [
                            "value": "88", "pulse": "60", "at": "2026-11-20T08:02:00",
                            "status": ["invalid_measurement"],
                        ],
                        ["value": "NaN", "pulse": "NaN", "at": "2026-11-20T08:03:00", "status": []],
                    ]
                ]), as: "generic_pulse_oximeter", gateway)
            let read = try await gateway("read", meter.address)
            #expect(read.status == 0, "\(read.errors)")
            try await expectAll(read.documents, of: meter)
            #expect(try await meter.requests() == ["0101"])
            try await meter.add(["count": 2, "seed": 402])
            let second = try await gateway("read", meter.address)
            #expect(second.status == 0 && second.documents.count == 2, "\(second.errors)")
            try await expectAll(try await gateway.stored(), of: meter)

            let watch = try gateway.start(["watch"])
            #expect(try await watch.wait { $0.documents.count > 2 }, "\(watch.errorText)")
            let shown = watch.documents.map { [$0["spo2"]?["value"]?.json, $0["pulse"]?["value"]?.json] }
            #expect(Set(shown) == [["97", "64"]])
            #expect(await watch.end().status == 0)
            #expect(try await gateway.stored().count == 6, "what `watch` shows is not stored")
        }

        @Test(
            "an oximeter that sends each spot check once, with the digits printed in it, and whose clock was never set")
        func sentOnce() async throws {
            let gateway = try TestGateway()
            let meter = try await pair(
                Meters.pulseOximeter([
                    "name": "Nonin3230_502644", "passkey": true,
                    "records": [
                        ["value": "98", "pulse": "58", "at": "2026-11-20T08:00:00"],
                        ["value": "95", "pulse": "71", "at": "2015-01-01T00:00:00", "clock_not_set": true],
                    ],
                ]),
                ["stores": false, "deletes_confirmed": true, "leaves_when_done": true], as: "nonin_3230", gateway)
            let read = try await gateway("read", meter.address)
            #expect(read.status == 0, "\(read.errors)")
            try await expectAll(read.documents, of: meter)
            #expect(read.documents.compactMap { $0["time_basis"]?.text }.sorted() == ["assumed_zone", "reception"])
            #expect(try await meter.readings().isEmpty)
        }

        @Test("promise 2: spot checks that were stored by a clock that was never set are read once, and have no time")
        func storedByUnsetClock() async throws {
            let gateway = try TestGateway()
            let meter = try await pair(
                Meters.pulseOximeter([
                    "records": [
                        ["value": "97", "pulse": "64", "at": "2015-01-01T00:00:10", "clock_not_set": true],
                        ["value": "97", "pulse": "64", "at": "2015-01-01T00:01:10", "clock_not_set": true],
                        ["value": "95", "pulse": "71", "status": ["data_from_measurement_storage"]],
                    ]
                ]), ["stores": true], as: "generic_pulse_oximeter", gateway)
            let read = try await gateway("read", meter.address)
            #expect(read.status == 0 && read.documents.count == 3, "\(read.errors)")
            let again = try await gateway("read", meter.address)
            #expect(again.status == 0 && again.documents.isEmpty, "\(again.errors)")
            #expect(try await meter.requests() == ["0101", "0101"])
            let stored = try await gateway.stored()
            #expect(stored.count == 3)
            #expect(stored.allSatisfy { $0["excluded"] == "no_time" && $0["time"]?.isNull == true })
            let shown = stored.compactMap { $0["base_time"]?.text }.sorted()
            #expect(shown == ["2015-01-01T00:00:10", "2015-01-01T00:01:10"])
            #expect(try await gateway("store", "verify").status == 0)
        }

        @Test("a scale of several people: kilograms and pounds, with and without a time, a user, a height")
        func scale() async throws {
            let gateway = try TestGateway()
            let meter = try await pair(
                Meters.weightScale([
                    "records": [
                        ["value": "70.85", "at": "2026-11-20T08:00:00", "user": 1],
                        [
                            "value": "62.405", "at": "2026-11-20T08:01:00", "user": 2, "body_mass_index": "22.1",
                            "height": "1.68",
                        ],
                        [
                            "value": "156.2", "unit": "lb", "at": "2026-11-20T08:02:00", "user": 255,
                            "body_mass_index": "22.6", "height": "69.7",
                        ],
                        ["value": "13.3"],
                        ["value": "NaN", "at": "2026-11-20T08:04:00", "user": 1],
                    ]
                ]), Self.sendsOnce, as: "generic_weight_scale", gateway)
            let read = try await gateway("read", meter.address)
            #expect(read.status == 0, "\(read.errors)")
            try await expectAll(read.documents, of: meter)
            #expect(try await meter.readings().isEmpty)
        }

        @Test("a body-composition scale: a running gateway takes what each person leaves there, composition and weight")
        func bodyComposition() async throws {
            let gateway = try TestGateway()
            let meter = try await pair(
                Meters.bodyScale(["clock": 0]), Self.sendsOnce, as: "generic_body_composition", gateway)
            try await meter.behave(["advertises": "never"])
            let run = try gateway.start(["run"])
            #expect(try await run.wait { $0.errorText.contains("ready") }, "\(run.errorText)")
            try await meter.add([
                [
                    "value": "70.85", "at": "2026-11-20T08:00:00", "user": 1,
                    "composition": [
                        "body_fat": "21.4", "basal_metabolism": "7021", "muscle_percentage": "41.2",
                        "muscle_mass": "33.105", "body_water_mass": "39.9", "impedance": "489.0", "with_weight": true,
                    ],
                ],
                // In socks there is no composition.
                [
                    "value": "62.4", "at": "2026-11-20T08:01:00", "user": 2,
                    "composition": ["body_fat": "NaN"],
                ],
                ["value": "18.2", "at": "2026-11-20T08:02:00", "user": 3],
            ])
            try await meter.behave(["advertises": "always"])
            #expect(try await settles { try await gateway.stored().count == 5 }, "\(run.errorText)")
            try await expectAll(try await gateway.stored(), of: meter)
            #expect(await run.end(SIGTERM).status == 0)
            #expect(try await meter.readings().isEmpty)
        }

        // MARK: Straps

        /// Heart rates as a strap has sent them: rate, intervals in hundredths of a millisecond, contact.
        private struct Beat: Hashable {
            var rate: String?
            var intervals: [Int]
            var contact: String?

            /// As the strap says it.
            init(sent: Document) {
                rate = sent["bpm"]?.json
                intervals = (sent["intervals"]?.elements ?? []).map {
                    // Half a hundredth of a millisecond is exact here, and goes to the even one.
                    Int(((($0.number ?? 0) * 100_000) / 1024).rounded(.toNearestOrEven))
                }
                contact = sent["contact"]?.json
            }

            /// As it is stored.
            init(sample: Document) {
                rate = sample["bpm"]?.json
                intervals = (sample["rr_ms"]?.elements ?? []).map { Int((($0.number ?? 0) * 100).rounded()) }
                contact = sample["contact"]?.json
            }
        }

        private func sent(_ strap: LabMeter) async throws -> [Beat] {
            (try await strap.act("sent")["values"]?.elements ?? []).map(Beat.init(sent:))
        }

        /// All samples that are stored of it, in the order of their time.
        private func stored(_ strap: LabMeter, _ gateway: TestGateway) async throws -> [Beat] {
            try await gateway.stored()
                .filter { $0["kind"] == "heart_rate" && $0["device"]?["address"]?.text == strap.address }
                .sorted { ($0["time"]?.text ?? "") < ($1["time"]?.text ?? "") }
                .flatMap { $0["series"]?.elements ?? [] }.map(Beat.init(sample:))
        }

        @Test("a strap that bonds is paired and watched: its rate, its intervals, whether it touches the skin")
        func watch() async throws {
            let gateway = try TestGateway()
            let strap = try await pair(Meters.strap(), ["every": 0.5], as: "generic_heart_rate", gateway)
            let watch = try gateway.start(["watch"])
            #expect(try await watch.wait { $0.documents.count > 4 }, "\(watch.errorText)")
            try await strap.behave(["contact": false])
            #expect(try await watch.wait { $0.documents.contains { $0["contact"] == false } }, "\(watch.outputText)")
            try await strap.behave(["contact": nil, "wide": true, "sends_intervals": false])
            let bare: (Document) -> Bool = { $0["contact"]?.isNull == true && $0["rr_ms"]?.elements.isEmpty == true }
            #expect(try await watch.wait { $0.documents.contains(where: bare) }, "\(watch.outputText)")
            let ended = await watch.end()
            #expect(ended.status == 0, "\(ended.errors)")
            let rates = ended.documents.filter { $0["kind"] == "heart_rate" }
            let known = try await sent(strap)
            for reading in rates where reading["contact"] != false {
                let shown = Beat(
                    sample: [
                        "bpm": reading["heart_rate"]?["value"] ?? .literal("null"), "rr_ms": reading["rr_ms"] ?? [],
                        "contact": reading["contact"] ?? .literal("null"),
                    ])
                #expect(known.contains(shown), "\(reading.json)")
            }
            #expect(try await gateway.stored().isEmpty)
            #expect(try await strap.log().allSatisfy { $0.name != "written" })
            try await strap.wait("disconnected")
        }

        @Test("a session of two straps is recorded beat by beat, though one makes no bond and its link is lost")
        func record() async throws {
            let lab = try await Lab.fresh()
            let gateway = try TestGateway()
            let bonding = try await lab.add(Meters.strap())
            let open = try await lab.add(
                Meters.strap(["name": "OpenStrap", "address": "C0:00:00:00:18:0E", "serial": "V180D-43"]),
                ["bonds": false])
            #expect(try await gateway.pair(bonding).status == 0)
            let recording = try gateway.start([
                "record", bonding.address, open.address, "--for", "2m", "--hrv-window", "30s",
            ])
            try await open.wait("sent", count: 8)
            try await open.behave(["contact": false])
            try await open.wait("sent", count: 12)
            try await open.behave(["contact": true])
            try await open.wait("sent", count: 18)
            // It can be heard again at once, while its former contact is still being ended.
            try await open.drop()
            try await open.wait("streams", count: 2)
            try await open.wait("sent", count: 30)
            // A window begins at each half minute.
            #expect(
                try await recording.wait(90) { $0.documents.contains { $0["kind"] == "hrv" } }, "\(recording.errorText)"
            )
            let ended = await recording.end()
            #expect(ended.status == 0, "\(ended.errors)")
            for strap in [bonding, open] {
                let (sent, stored) = (try await sent(strap), try await stored(strap, gateway))
                // What was on its way when the link ended is lost.
                #expect(sent.count - stored.count <= 4, "\(sent.count) sent, \(stored.count) stored")
                var rest = sent[...]
                for beat in stored where beat.contact != "false" {
                    let place = try #require(rest.firstIndex(of: beat), "\(beat) was not sent, or not then")
                    rest = rest[(place + 1)...]
                }
            }
            let silent = try await stored(open, gateway).filter { $0.contact == "false" }
            #expect((2...6).contains(silent.count) && silent.allSatisfy { $0.rate == "null" }, "\(silent)")
            let variability = try await gateway.stored().first { $0["kind"] == "hrv" }?["hrv"]
            #expect((30...70).contains(variability?["rmssd"]?.number ?? 0), "\(variability?.json ?? "none")")
            #expect((25...45).contains(variability?["sdnn"]?.number ?? 0), "\(variability?.json ?? "none")")
            #expect(try await lab.bonds() == [bonding.address], "a recording pairs nothing")
            #expect(try await open.log().allSatisfy { !$0.name.hasPrefix("pairing") && $0.name != "written" })
        }
    }
}

import Foundation
import Testing

extension LabTests {
    /// An O2Ring on a real link, and what it has recorded.
    @Suite struct O2Rings {
        private struct Ring {
            let lab: Lab
            let gateway: TestGateway
            let meter: LabMeter

            init(clock: Int = 0, _ behaviour: Document = [:], isPaired: Bool = true) async throws {
                lab = try await Lab.fresh()
                gateway = try TestGateway()
                meter = try await lab.add(Meters.o2ring(clock: clock), behaviour)
                if isPaired { try await pair() }
            }

            func pair() async throws {
                let paired = try await gateway("pair", meter.address)
                try #require(paired.status == 0, "\(paired.errors)")
            }

            func sleep(_ start: String, _ count: Int, _ more: Document = [:]) async throws {
                let night: Document = ["start": .string(start), "count": .number(count), "seed": .number(count)]
                try await meter.act("sleep", .object(night.members.merging(more.members) { $1 }))
            }

            func read() async throws -> TestGateway.Result { try await gateway("read", meter.address) }

            /// `2026-11-17T22:52:51 spo2 4: 97 96 …`: what makes a night one, sample by sample.
            private static func text(_ start: String, _ kind: String, _ samples: [(Double, String)]) -> String {
                let interval = samples.count > 1 ? samples[1].0 - samples[0].0 : 4
                let isEven = samples.enumerated().allSatisfy { abs($1.0 - Double($0) * interval) < 0.001 }
                return "\(start) \(kind) \(isEven ? interval : -1): \(samples.map(\.1).joined(separator: " "))"
            }

            /// Each night that it ever recorded whole is in the store once, as two readings with all its samples.
            func expectStored(sourceLocation: SourceLocation = #_sourceLocation) async throws {
                let nights = try await meter.act("nights")["nights"]?.elements ?? []
                let wanted = nights.flatMap { night in
                    ["spo2", "heart_rate"].map { kind in
                        let interval = Double(night["interval"]?.integer ?? 0)
                        let values = night[kind]?.elements ?? []
                        return Self.text(
                            night["start"]?.text ?? "", kind,
                            values.enumerated().map { (Double($0) * interval, $1.json) })
                    }
                }
                let stored = try await gateway.stored().map { reading in
                    let kind = reading["kind"]?.text ?? ""
                    let samples = reading["series"]?.elements ?? []
                    return Self.text(
                        reading["base_time"]?.text ?? "", kind,
                        samples.map { sample in
                            let value = kind == "spo2" ? sample["percent"] : sample["bpm"]
                            return (sample["offset_seconds"]?.number ?? -1, value?.json ?? "")
                        })
                }
                #expect(Set(stored) == Set(wanted) && stored.count == wanted.count, sourceLocation: sourceLocation)
            }

            /// Nothing was written but questions, what it holds is what it held, and no recording was left open.
            func expectUntouched(
                _ before: Document?, sourceLocation: SourceLocation = #_sourceLocation
            ) async throws {
                let first = try await meter.requests().filter { $0.hasPrefix("aa") }.map { $0.dropFirst(2).prefix(2) }
                #expect(Set(first).isSubset(of: ["14", "03", "04", "05", "17"]), sourceLocation: sourceLocation)
                let events = try await meter.log()
                #expect(
                    events.allSatisfy {
                        !["not_understood", "set", "erased"].contains($0.name) && !$0.name.hasPrefix("pairing")
                    }, sourceLocation: sourceLocation)
                let memory = try await meter.act("memory")
                #expect(memory["is_open"] == false && memory["digest"] == before, sourceLocation: sourceLocation)
            }

            func digest() async throws -> Document? { try await meter.act("memory")["digest"] }
        }

        @Test(
            "found by name, its nights read at a real pace, once and whole, then only what is new; it is still watched")
        func whole() async throws {
            let ring = try await Ring(clock: 300, ["answer_time": 0.06, "piece_time": 0.0075], isPaired: false)
            // A night of seven hours, a nap in which it was worn wrongly now and then, and a night of seconds.
            try await ring.sleep("2026-10-02T22:41:07", 6300)
            try await ring.sleep("2026-10-03T14:00:00", 450, ["interval": 2, "version": 5])
            try await ring.sleep("2026-10-04T23:15:59", 601, ["interval": 1, "version": 5])
            let before = try await ring.digest()
            let found = try await ring.gateway.scan().documents
            #expect(found.first?["model"]?.text == "viatom_o2ring", "\(found)")
            try await ring.pair()
            #expect(try await ring.gateway.stored().isEmpty)
            let read = try await ring.read()
            #expect(read.status == 0 && read.documents.count == 6, "\(read.errors)")
            try await ring.expectStored()
            for reading in try await ring.gateway.stored() {
                #expect(reading["time_basis"]?.text == "corrected" && reading["excluded"]?.isNull == true)
                #expect(reading["clock"]?["difference_seconds"]?.integer.map { (298...302).contains($0) } == true)
            }
            let again = try await ring.read()
            #expect(again.status == 0 && again.documents.isEmpty, "\(again.errors)")
            try await ring.expectUntouched(before)

            // The fifth takes the first one's place.
            try await ring.sleep("2026-10-05T22:58:30", 300)
            try await ring.sleep("2026-10-06T23:02:11", 200)
            let (changed, mark) = (try await ring.digest(), try await ring.meter.mark())
            let new = try await ring.read()
            #expect(new.status == 0 && new.documents.count == 4, "\(new.errors)")
            // Of those that are stored it asks for the size.
            #expect(try await ring.meter.log(since: mark).count { $0.name == "opens" } == 4)
            try await ring.expectStored()
            #expect(try await ring.gateway("store", "verify").status == 0)

            let watch = try ring.gateway.start(["watch"])
            #expect(try await watch.wait { _ in watch.documents.count > 1 }, "\(watch.errorText)")
            #expect(watch.documents.first?["spo2"]?["value"]?.json == "97")
            #expect(await watch.end().status == 0)
            try await ring.expectUntouched(changed)
            for words in [ring.meter.address, "2512C54512"] {
                #expect([read, again, new].allSatisfy { !$0.errors.contains(words) }, "\(words) is in a log")
            }
        }

        @Test(
            "what goes wrong on the link is asked for again; what cannot be read is named, kept, and read once it is whole"
        )
        func faults() async throws {
            let ring = try await Ring()
            try await ring.sleep("2026-10-02T22:41:07", 400)
            try await ring.sleep("2026-10-03T22:30:00", 420)
            try await ring.sleep("2026-10-04T22:11:00", 440, ["cut": 35])
            // Answer 1 says what it is, 2 and 8 open, 3 to 6 are the first one's pieces.
            try await ring.meter.behave([
                "faults": [
                    ["answer": 1, "what": "wrong"], ["answer": 4, "what": "lost", "piece": 3],
                    ["answer": 6, "what": "twice"], ["answer": 7, "what": "foreign"],
                    ["answer": 10, "what": "another"],
                    ["answer": 12, "what": "silent"],
                ]
            ])
            let before = try await ring.digest()
            let first = try await ring.read()
            #expect(first.status != 0 && first.errorCode == "o2ring_layout", "\(first.errors)")
            #expect(first.errors.contains("20261004221100"), "\(first.errors)")
            #expect(first.documents.count == 4, "\(first.errors)")
            try await ring.expectStored()
            try await ring.expectUntouched(before)
            #expect(try await ring.meter.log().filter { $0.name == "fault" }.count == 6)

            try await ring.meter.act("mend")
            let mended = try await ring.digest()
            let second = try await ring.read()
            #expect(second.status == 0 && second.documents.count == 2, "\(second.errors)")
            try await ring.expectStored()
            try await ring.expectUntouched(mended)
        }

        @Test(
            "promise 1 and 3: cut in the middle of a piece, then killed in another, no night is lost, doubled or in part"
        )
        func cutAndKilled() async throws {
            let ring = try await Ring(["faults": [["answer": 10, "what": "cut"]]])
            try await ring.sleep("2026-10-02T22:41:07", 400)
            try await ring.sleep("2026-10-03T22:30:00", 900)
            let before = try await ring.digest()
            let cut = try await ring.read()
            #expect(cut.status == 75 && cut.errorCode != nil, "\(cut.errors)")
            #expect(try await ring.gateway.stored().count == 2)
            try await ring.meter.behave(["piece_time": 0.02])
            let mark = try await ring.meter.mark()
            let reading = try ring.gateway.start(["read", ring.meter.address])
            try await ring.meter.wait("piece", count: 60, since: mark)
            reading.kill(SIGKILL)
            #expect(await reading.finish().signal == SIGKILL)
            #expect(try await ring.gateway.stored().count == 2)
            try await ring.meter.behave(["piece_time": 0.002])
            // bluetoothd keeps the link of the one that was killed.
            let next = try await ring.read()
            let rest = next.status == 0 ? next : try await ring.read()
            #expect(rest.status == 0, "\(rest.errors)")
            try await ring.expectStored()
            try await ring.expectUntouched(before)
            #expect(try await ring.gateway("store", "verify").status == 0)
        }

        @Test("a recording that goes on is read again, and stays the same two readings")
        func wornOn() async throws {
            let ring = try await Ring()
            try await ring.sleep("2026-10-02T22:41:07", 100)
            try await ring.sleep("2026-10-03T22:30:00", 120)
            #expect(try await ring.read().status == 0)
            let ids = Set(try await ring.gateway.stored().compactMap { $0["id"]?.text })
            try await ring.meter.act("wear_on", ["count": 300])
            let before = try await ring.digest()
            let grown = try await ring.read()
            #expect(grown.status == 0, "\(grown.errors)")
            try await ring.expectStored()
            #expect(Set(try await ring.gateway.stored().compactMap { $0["id"]?.text }) == ids)
            #expect(try await ring.read().documents.isEmpty)
            try await ring.expectUntouched(before)
            #expect(try await ring.gateway("store", "verify").status == 0)
            let probe = try await ring.gateway("devices", "probe", ring.meter.address, "--json")
            #expect(probe.output.contains("\"paired\":true"), "\(probe.output) \(probe.errors)")
        }

        @Test("a running gateway names a recording that it can't read once, and reads each new night beside it")
        func runningBesideABadOne() async throws {
            let ring = try await Ring()
            try await ring.meter.behave(["advertises": "never"])
            try await ring.sleep("2026-10-02T22:41:07", 100, ["cut": 35])
            try await ring.sleep("2026-10-03T22:30:00", 120)
            let run = try ring.gateway.start(["run"])
            #expect(try await run.wait { $0.errorText.contains("ready") }, "\(run.errorText)")
            try await ring.meter.behave(["advertises": "always"])
            #expect(try await settles { try await ring.gateway.stored().count == 2 }, "\(run.errorText)")
            try await ring.sleep("2026-10-04T22:30:00", 130)
            // It is tried again some seconds after a contact in which something went wrong.
            #expect(try await settles { try await ring.gateway.stored().count == 4 }, "\(run.errorText)")
            try await ring.expectStored()
            #expect(run.errorText.components(separatedBy: "20261002224107").count <= 3, "\(run.errorText)")
            #expect(await run.end(SIGTERM).status == 0)
        }

        @Test("a running gateway reads a night by itself as the ring is taken off")
        func running() async throws {
            let ring = try await Ring()
            try await ring.meter.behave(["advertises": "never"])
            try await ring.sleep("2026-10-02T22:41:07", 300)
            let run = try ring.gateway.start(["run"])
            #expect(try await run.wait { $0.errorText.contains("ready") }, "\(run.errorText)")
            try await ring.meter.behave(["advertises": "always"])
            #expect(try await settles { try await ring.gateway.stored().count == 2 }, "\(run.errorText)")
            try await ring.expectStored()
            #expect(await run.end(SIGTERM).status == 0)
        }
    }
}

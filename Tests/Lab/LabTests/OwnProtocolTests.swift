import Foundation
import Testing

extension LabTests {
    /// Monitors of Microlife and Viatom, and oximeters, by their makers' own protocols on a real link.
    ///
    /// Both monitors are read at the same time, so that the second costs no time.
    @Suite struct OwnProtocols {
        /// Both monitors, paired with a gateway.
        private struct Monitors {
            let lab: Lab
            let gateway: TestGateway
            let microlife: LabMeter
            let viatom: LabMeter

            var all: [LabMeter] { [microlife, viatom] }

            init(
                microlife first: Document, viatom second: Document, _ behaviours: (Document, Document) = ([:], [:]),
                clock: Document = 0, mtu: Int = 247, isPaired: Bool = true
            ) async throws {
                lab = try await Lab.fresh()
                gateway = try TestGateway()
                microlife = try await lab.add(Meters.microlife(["records": first]), behaviours.0)
                viatom = try await lab.add(
                    Meters.viatom(["records": second, "clock": clock, "mtu": .number(mtu)]), behaviours.1)
                if isPaired { try await pair() }
            }

            func pair() async throws {
                for meter in all {
                    let paired = try await gateway("pair", meter.address)
                    try #require(paired.status == 0, "\(paired.errors)")
                }
            }

            func read() async throws -> TestGateway.Result {
                try await gateway("read", microlife.address, viatom.address)
            }

            func digests() async throws -> [Document?] {
                var digests: [Document?] = []
                for meter in all { digests.append(try await meter.act("memory")["digest"]) }
                return digests
            }

            /// Expects in the store what both hold, or ever held.
            func expectStored(ever: Bool = false, sourceLocation: SourceLocation = #_sourceLocation) async throws {
                let held = try await microlife.readings(ever: ever) + viatom.readings(ever: ever)
                Comparison.expect(try await gateway.stored(), equal: held, sourceLocation: sourceLocation)
            }

            /// Nothing was written but questions and farewells, what they hold is what they held, and no list was left
            /// open.
            func expectUntouched(
                _ before: [Document?], sourceLocation: SourceLocation = #_sourceLocation
            ) async throws {
                let asked = try await microlife.requests().map { $0.dropFirst(8).prefix(2) }
                #expect(Set(asked).isSubset(of: ["05", "00", "04"]), sourceLocation: sourceLocation)
                let commands = try await viatom.requests().filter { $0.hasPrefix("a5") }.map {
                    $0.dropFirst(2).prefix(2)
                }
                #expect(Set(commands).isSubset(of: ["e1", "f2", "f3", "f4"]), sourceLocation: sourceLocation)
                let events = try await microlife.log() + viatom.log()
                #expect(
                    events.allSatisfy { !["not_understood", "inflates", "password_shown"].contains($0.name) },
                    sourceLocation: sourceLocation)
                #expect(
                    try await viatom.log().allSatisfy { !$0.name.hasPrefix("pairing") }, sourceLocation: sourceLocation)
                #expect(try await viatom.act("memory")["is_open"] == false, sourceLocation: sourceLocation)
                #expect(try await digests() == before, sourceLocation: sourceLocation)
            }
        }

        /// A measurement by its number, half an hour after the one before.
        private static func measured(_ number: Int, _ more: Document = [:]) -> Document {
            let (day, hour, minute) = (1 + number / 48, number / 2 % 24, number % 2 * 30)
            let own: Document = [
                "systolic": .string("\(108 + number * 7 % 60)"), "diastolic": .string("\(62 + number % 33)"),
                "pulse": .string("\(55 + number % 41)"), "status": number % 7 == 3 ? ["irregular_pulse"] : [],
                "at": .string(String(format: "2026-10-%02dT%02d:%02d:00", day, hour, minute)),
            ]
            return .object(own.members.merging(more.members) { $1 })
        }

        private static func microlife(_ numbers: Range<Int>, user: Int) -> [Document] {
            numbers.map { measured($0, ["user": .number(user)]) }
        }

        /// Measurements of one of two accounts, or of none.
        private static func viatom(_ numbers: Range<Int>) -> [Document] {
            numbers.map { number in
                let whose: Document = [
                    ["user": 72, "account": 218_071], ["user": 177, "account": 278_176], ["user": nil, "account": nil],
                ][number % 3]
                return measured(
                    number, .object(whose.members.merging(["mean": .string("\(80 + number % 30)")]) { $1 }))
            }
        }

        @Test(
            "found by name, paired with and without a bond, full memories read at a real pace, then only what is new"
        )
        func whole() async throws {
            // Records of an unset clock, and equal ones in one minute, are as many readings as there are.
            let unset: Document = ["systolic": "144", "diastolic": "61", "pulse": "48", "at": nil, "status": []]
            let unsetOfFirst = Document.object(unset.members.merging(["user": 1]) { $1 })
            let first: [Document] =
                [unsetOfFirst, unsetOfFirst, Self.measured(1, ["user": 1]), Self.measured(1, ["user": 1])]
                + [Self.measured(2, ["user": 1, "status": ["irregular_pulse"], "fibrillation": true])]
                + Self.microlife(3..<97, user: 1)
                + [Self.measured(4, ["user": 2, "status": ["cuff_too_loose"]])] + Self.microlife(5..<8, user: 2)
            let second: [Document] =
                [unset, unset] + Self.viatom(0..<46) + [
                    Self.measured(46), Self.measured(46, ["at": "2026-10-01T23:00:20"]),
                ]
            let monitors = try await Monitors(
                microlife: .array(first), viatom: .array(second),
                (
                    ["answer_time": 0.1, "piece_time": 0.01],
                    ["answer_time": 0.05, "piece_time": 0.01, "empty_slots": 3]
                ), clock: 1260, mtu: 23, isPaired: false)
            let (gateway, before) = (monitors.gateway, try await monitors.digests())
            let found = try await gateway.scan { $0.documents.count == 2 }.documents
            let models = Dictionary(
                found.map { ($0["address"]?.text ?? "", $0["model"]?.text ?? "") }, uniquingKeysWith: { $1 })
            #expect(
                models == [
                    monitors.microlife.address: "microlife_b3", monitors.viatom.address: "viatom_lp_bp2w",
                ])
            let early = try await gateway("read", monitors.viatom.address)
            #expect(early.status != 0 && early.errorCode == "not_paired", "\(early.errors)")
            try await monitors.pair()
            #expect(try await monitors.lab.bonds() == [monitors.microlife.address])
            #expect(try await gateway.stored().isEmpty)

            let read = try await monitors.read()
            #expect(read.status == 0 && read.documents.count == first.count + second.count, "\(read.errors)")
            try await monitors.expectStored()
            #expect(try await gateway.device(monitors.microlife)?["proven"] == true)
            let again = try await monitors.read()
            #expect(again.status == 0 && again.documents.isEmpty, "\(again.errors)")
            try await monitors.expectUntouched(before)

            // The oldest make room; another user is chosen, a guest.
            try await monitors.microlife.behave(["chosen": 3])
            try await monitors.microlife.add(
                .array(Self.microlife(98..<99, user: 1) + Self.microlife(99..<100, user: 3)))
            try await monitors.viatom.add(.array(Self.viatom(98..<100)))
            let changed = try await monitors.digests()
            let new = try await monitors.read()
            #expect(new.status == 0 && new.documents.count == 4, "\(new.errors)")
            try await monitors.expectStored(ever: true)
            try await monitors.expectUntouched(changed)
            // Whose a measurement is, and what a device is called by its maker, is in no log.
            for words in [monitors.microlife.address, monitors.viatom.address, "DOE", "2523C00000", "218071"] {
                #expect([read, again, new].allSatisfy { !$0.errors.contains(words) }, "\(words) is in a log")
            }
        }

        @Test(
            "what goes wrong on the link is asked for again, and no record is lost or doubled; measuring is named"
        )
        func faults() async throws {
            let monitors = try await Monitors(
                microlife: .array(Self.microlife(0..<20, user: 1) + Self.microlife(0..<9, user: 2)),
                viatom: .array(Self.viatom(0..<30)))
            let (microlife, viatom) = (monitors.microlife, monitors.viatom)
            // It answers who its users are, shows the memory of the first three times, then that of the second when the
            // first has measured again.
            let added = Self.measured(50, ["user": 1])
            try await microlife.behave([
                "faults": [
                    ["answer": 2, "what": "lost", "piece": 3], ["answer": 3, "what": "wrong"],
                    ["answer": 4, "what": "twice"], ["answer": 5, "what": "grows", "records": [added]],
                ]
            ])
            try await viatom.behave(["measuring": true])
            let first = try await monitors.read()
            #expect(first.status == 75 && first.errors.contains("viatom_measuring"), "\(first.errors)")
            #expect(first.documents.count == 29, "\(first.errors)")
            #expect(try await microlife.log().filter { $0.name == "fault" }.count == 4)

            try await microlife.behave(["measuring": true])
            try await viatom.behave([
                "measuring": false, "sends_curves": true, "chunk": 100,
                "faults": [
                    ["answer": 3, "what": "late"], ["answer": 5, "what": "wrong"], ["answer": 7, "what": "twice"],
                    ["answer": 8, "what": "short", "octets": 7], ["answer": 9, "what": "foreign"],
                    ["answer": 10, "what": "grows", "records": .array(Self.viatom(50..<51))],
                ],
            ])
            let second = try await monitors.read()
            #expect(second.status == 75 && second.errors.contains("microlife_measuring"), "\(second.errors)")
            #expect(second.documents.count == 30, "\(second.errors)")
            #expect(try await viatom.log().filter { $0.name == "fault" }.count == 6)

            try await microlife.behave(["measuring": false])
            let before = try await monitors.digests()
            let third = try await monitors.read()
            #expect(third.status == 0 && third.documents.count == 2, "\(third.errors)")
            try await monitors.expectStored()
            try await monitors.expectUntouched(before)
        }

        @Test(
            "promise 1 and 3: cut in the middle of an answer, then killed in another, nothing is lost or doubled"
        )
        func cutAndKilled() async throws {
            let monitors = try await Monitors(
                microlife: .array(Self.microlife(0..<30, user: 1) + Self.microlife(0..<20, user: 2)),
                viatom: .array(Self.viatom(0..<30)),
                (
                    ["faults": [["answer": 3, "what": "cut"]]],
                    ["chunk": 100, "faults": [["answer": 6, "what": "cut"]]]
                ))
            let gateway = monitors.gateway
            let cut = try await monitors.read()
            #expect(cut.status == 75 && cut.errorCode != nil, "\(cut.errors)")
            let kept = try await gateway.stored()
            #expect(kept.count >= 30 + 7 && kept.count < 80, "\(kept.count)")
            // They measure before the gateway comes back.
            try await monitors.microlife.add(.array(Self.microlife(40..<41, user: 2)))
            try await monitors.viatom.add(.array(Self.viatom(40..<41)))
            for meter in monitors.all { try await meter.behave(["piece_time": 0.02]) }
            let before = try await monitors.digests()
            let marks = (try await monitors.microlife.mark(), try await monitors.viatom.mark())
            let reading = try gateway.start(["read", monitors.microlife.address, monitors.viatom.address])
            try await monitors.microlife.wait("piece", count: 8, since: marks.0)
            try await monitors.viatom.wait("piece", count: 4, since: marks.1)
            reading.kill(SIGKILL)
            #expect(await reading.finish().signal == SIGKILL)
            #expect(try await gateway.stored().count < 82)
            // bluetoothd keeps the link of the one that was killed, and a list can be opened once a link.
            let next = try await monitors.read()
            #expect(next.status == 0 || next.errors.contains("viatom_refused"), "\(next.errors)")
            let rest = try await monitors.read()
            #expect(rest.status == 0, "\(rest.errors)")
            try await monitors.expectStored()
            try await monitors.expectUntouched(before)
            #expect(try await gateway("store", "verify").status == 0)
        }

        @Test(
            "a running gateway comes by itself, and again when there is something new; streams are shown and not stored"
        )
        func running() async throws {
            let monitors = try await Monitors(
                microlife: .array(Self.microlife(0..<4, user: 1)), viatom: .array(Self.viatom(0..<4)))
            let (lab, gateway) = (monitors.lab, monitors.gateway)
            var oximeters: [LabMeter] = []
            for (number, (stream, name, values)) in [
                ("pc60fw", "PC-60F_SN010175", (98, 64)), ("jumper", "My Oximeter", (97, 72)),
                ("berry", "BerryMed", (96, 200)),
            ].enumerated() {
                oximeters.append(
                    try await lab.add(
                        Meters.oximeter(stream, name, 41 + number),
                        [
                            "saturation": .number(values.0), "pulse": .number(values.1),
                            "damages": number == 0 ? true : false,
                        ]))
                let paired = try await gateway("pair", oximeters[number].address)
                #expect(paired.status == 0, "\(paired.errors)")
            }
            let before = try await monitors.digests()
            try await monitors.microlife.behave(["advertises": "until_bonded"])
            try await monitors.viatom.behave(["advertises": "never"])
            let run = try gateway.start(["run"])
            #expect(try await run.wait { $0.errorText.contains("ready") }, "\(run.errorText)")
            let marks = (try await monitors.microlife.mark(), try await monitors.viatom.mark())
            try await monitors.microlife.press()
            try await monitors.viatom.behave(["advertises": "always"])
            // Its screen goes dark as soon as it was read.
            try await monitors.viatom.wait("connected", since: marks.1)
            try await monitors.viatom.behave(["advertises": "never"])
            try await monitors.microlife.wait("disconnected", since: marks.0)
            try await monitors.viatom.wait("disconnected", since: marks.1)
            let end = Lab.now
            #expect(try await settles { try await gateway.stored().count == 8 })
            try await expectStreams(oximeters, gateway)

            // What is heard soon after a contact may be what was heard before it.
            try await Task.sleep(for: .seconds(max(0, end + 21 - Lab.now)))
            try await monitors.expectUntouched(before)
            try await monitors.microlife.add(.array(Self.microlife(4..<5, user: 2)))
            try await monitors.viatom.add(.array(Self.viatom(4..<5)))
            try await monitors.viatom.behave(["advertises": "always"])
            #expect(try await settles { try await gateway.stored().count == 10 }, "\(run.errorText)")
            try await monitors.expectStored()
            #expect(await run.end(SIGTERM).status == 0)
        }

        /// `watch` shows what three oximeters send; the messages of the first come damaged first.
        private func expectStreams(_ oximeters: [LabMeter], _ gateway: TestGateway) async throws {
            let watch = try gateway.start(["watch"])
            func values(_ oximeter: LabMeter) -> [[String?]] {
                watch.documents.filter { $0["device"]?["address"]?.text == oximeter.address }.map { reading in
                    [reading["spo2"], reading["pulse"]].map { $0?["value"]?.json }
                }
            }
            #expect(
                try await watch.wait { _ in oximeters.dropFirst().allSatisfy { values($0).count > 1 } },
                "\(watch.errorText)")
            #expect(Set(values(oximeters[1])) == [["97", "72"]] && Set(values(oximeters[2])) == [["96", "200"]])
            try await oximeters[0].wait("streams")
            #expect(values(oximeters[0]).isEmpty)
            try await oximeters[0].behave(["damages": false])
            #expect(try await watch.wait { _ in values(oximeters[0]).count > 1 }, "\(watch.outputText)")
            #expect(Set(values(oximeters[0])) == [["98", "64"]])
            for each in oximeters { try await each.behave(["finger": false]) }
            // What was on its way still comes.
            var isSilent = false
            for _ in 0..<15 where !isSilent {
                let shown = watch.documents.count
                try await Task.sleep(for: .seconds(2))
                isSilent = watch.documents.count == shown
            }
            #expect(isSilent, "without a finger there is no value")
            #expect(await watch.end().status == 0)
            for each in oximeters {
                #expect(try await each.requests().isEmpty)
                #expect(try await each.log().allSatisfy { !$0.name.hasPrefix("pairing") })
                // It is left alone when nobody looks.
                try await each.wait("disconnected")
            }
            #expect(try await gateway.stored().allSatisfy { $0["kind"] == "blood_pressure" })
        }
    }
}

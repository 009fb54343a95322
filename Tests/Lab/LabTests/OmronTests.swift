import Foundation
import Testing

extension LabTests {
    /// Omron monitors by their own protocol, on a real link: the lab's cuff has a memory and answers requests to it.
    @Suite struct OmronMonitors {
        /// Measurements of a user, half an hour apart, by their numbers.
        private func measured(_ numbers: Range<Int>, user: Int) -> Document {
            .array(
                numbers.map { number in
                    var status: [Document] = []
                    if number % 7 == 3 { status.append("irregular_pulse") }
                    if number % 11 == 2 { status.append("body_movement") }
                    let (day, hour, minute) = (1 + number / 48, number / 2 % 24, number % 2 * 30 + user)
                    return [
                        "systolic": .string("\(108 + (number * 7 + user) % 60)"),
                        "diastolic": .string("\(62 + number % 33)"), "pulse": .string("\(55 + number % 41)"),
                        "at": .string(String(format: "2026-10-%02dT%02d:%02d:%02d", day, hour, minute, number % 60)),
                        "user": .number(user), "status": .array(status),
                    ]
                })
        }

        private func both(_ first: Int, _ second: Int) -> Document {
            .array(measured(0..<first, user: 1).elements + measured(0..<second, user: 2).elements)
        }

        private func pair(
            _ layout: String, as model: String, records: Document, _ gateway: TestGateway,
            clock: Int = 0, stated: String? = nil, _ behaviour: Document = [:]
        ) async throws -> LabMeter {
            let meter = try await Lab.fresh().add(
                Meters.omron(
                    layout, said: model,
                    [
                        "records": records, "clock": .number(clock),
                        "model": .string(stated ?? "HEM-\(layout)"),
                    ]), behaviour)
            let paired = try await gateway("pair", meter.address, "--model", model)
            try #require(paired.status == 0, "\(paired.errors)")
            #expect(try paired.document["model"]?.text == model)
            return meter
        }

        /// The kinds of the requests that its memory got.
        private func kinds(_ meter: LabMeter, since mark: Int = 0) async throws -> Set<String> {
            Set(try await meter.requests(since: mark).map { String($0.dropFirst(2).prefix(4)) })
        }

        /// Nothing but the beginning, reads and the end of sessions was asked for, each session was ended, and what is in
        /// the memory is what was there before.
        private func expectUntouched(_ meter: LabMeter, since before: Document) async throws {
            #expect(try await kinds(meter).isSubset(of: ["0000", "0100", "0f00"]))
            let log = try await meter.log()
            #expect(log.allSatisfy { $0.name != "error_shown" }, "a session was left without an end")
            let kinds = Set(log.filter { $0.name == "key_written" }.map { $0.hex.prefix(2) })
            #expect(kinds.isSubset(of: ["02", "00", "01", "11"]))
            let after = try await meter.act("memory")
            #expect(after["digest"] == before["digest"] && after["unread"] == before["unread"])
            #expect(after["session_open"] == false)
        }

        @Test("a monitor with a key: paired by the label's model, both users read, then what is new in six requests")
        func withKey() async throws {
            let gateway = try TestGateway()
            let meter = try await pair(
                "7322T", as: "omron_hem7322t", records: both(12, 5), gateway, ["unencrypted_answers": 2])
            let before = try await meter.act("memory")
            let key = try #require(before["key"]?.text)
            let secrets = gateway.directory.appendingPathComponent("state/device-keys.json")
            #expect(try String(contentsOf: secrets, encoding: .utf8).contains(key))
            #expect(try FileManager.default.attributesOfItem(atPath: secrets.path)[.posixPermissions] as? Int == 0o600)
            let first = try await gateway("read", meter.address)
            #expect(first.status == 0, "\(first.errors)")
            Comparison.expect(try await gateway.stored(), equal: try await meter.readings())
            #expect(!first.errors.contains(key) && !first.output.contains(key))
            try await expectUntouched(meter, since: before)

            try await meter.add(measured(12..<13, user: 1))
            let measured = try await meter.act("memory")
            let mark = try await meter.mark()
            let second = try await gateway("read", meter.address)
            #expect(second.status == 0 && second.documents.count == 1, "\(second.errors)")
            #expect(try await meter.requests(since: mark).count <= 6)
            #expect(try await gateway("read", meter.address).documents.isEmpty)
            Comparison.expect(try await gateway.stored(), equal: try await meter.readings())
            try await expectUntouched(meter, since: measured)
        }

        @Test("a monitor with one channel, at the pace of a real one: a ring that has wrapped, a clock that is wrong")
        func withoutKey() async throws {
            let gateway = try TestGateway()
            let meter = try await pair(
                "7380T1", as: "omron_hem7380t1", records: both(107, 3), gateway, clock: 1260,
                ["answer_time": 0.12, "settles": 0.5])
            // It was read as it was paired.
            let first = try await gateway.stored()
            Comparison.expect(first, equal: try await meter.readings())
            #expect(first.count == 103)
            #expect(first.allSatisfy { abs(($0["clock"]?["difference_seconds"]?.integer ?? 0) - 1260) < 30 })
            let before = try await meter.act("memory")
            let read = try await gateway("read", meter.address)
            #expect(read.status == 0 && read.documents.isEmpty, "\(read.errors)")
            #expect(try await meter.log().allSatisfy { $0.name != "too_soon" })
            try await expectUntouched(meter, since: before)

            try await meter.add(measured(3..<4, user: 2))
            let mark = try await meter.mark()
            let second = try await gateway("read", meter.address)
            #expect(second.status == 0 && second.documents.count == 1, "\(second.errors)")
            #expect(try await meter.requests(since: mark).count <= 6)
        }

        @Test(
            "a monitor that shows one record at a time, with records of sixteen octets; and one whose bond is enough",
            arguments: [("7361T", "omron_hem7361t", 9, 4), ("7143T1", "omron_hem7143t1", 31, 0)])
        func layouts(layout: String, model: String, first: Int, second: Int) async throws {
            let gateway = try TestGateway()
            let meter = try await pair(layout, as: model, records: both(first, second), gateway)
            let before = try await meter.act("memory")
            let read = try await gateway("read", meter.address)
            #expect(read.status == 0, "\(read.errors)")
            Comparison.expect(try await gateway.stored(), equal: try await meter.readings())
            try await expectUntouched(meter, since: before)
        }

        @Test("what goes wrong on the link is asked for again, and no record is lost or doubled")
        func faults() async throws {
            let gateway = try TestGateway()
            let meter = try await pair("7322T", as: "omron_hem7322t", records: both(60, 20), gateway)
            let before = try await meter.act("memory")
            try await meter.behave([
                "faults": [
                    ["read": 1, "what": "lost", "chunk": 1], ["read": 5, "what": "wrong"],
                    ["read": 7, "what": "late"], ["read": 9, "what": "twice"], ["read": 10, "what": "reversed"],
                    ["read": 12, "what": "silent"], ["read": 14, "what": "lost", "chunk": 0],
                    ["read": 16, "what": "refused", "code": 0xE7], ["read": 23, "what": "refused"],
                ]
            ])
            let read = try await gateway("read", meter.address)
            #expect(read.status == 0, "\(read.errors)")
            #expect(try await meter.log().filter { $0.name == "fault" }.count == 9)
            Comparison.expect(try await gateway.stored(), equal: try await meter.readings())
            try await expectUntouched(meter, since: before)
            #expect(try await gateway("store", "verify").status == 0)
        }

        @Test("a link that is lost in the middle of an answer: what came is kept, and the next visit brings the rest")
        func cut() async throws {
            let gateway = try TestGateway()
            let meter = try await pair("7322T", as: "omron_hem7322t", records: both(40, 6), gateway)
            try await meter.behave(["faults": [["read": 6, "what": "cut"]]])
            let cut = try await gateway("read", meter.address)
            #expect(cut.status == 75 && cut.errorCode != nil, "\(cut.errors)")
            let kept = try await gateway.stored()
            #expect(!kept.isEmpty && kept.count < 46)
            // It measures before the gateway comes back.
            try await meter.add(measured(40..<42, user: 1))
            let rest = try await gateway("read", meter.address)
            #expect(rest.status == 0, "\(rest.errors)")
            #expect(kept.count + rest.documents.count == 48)
            Comparison.expect(try await gateway.stored(), equal: try await meter.readings())
        }

        @Test("another program's key: named, and made good by pairing again")
        func otherKey() async throws {
            let gateway = try TestGateway()
            let meter = try await pair("7322T", as: "omron_hem7322t", records: both(3, 0), gateway)
            try await meter.act("store_key", ["key": "00112233445566778899aabbccddeeff"])
            let refused = try await gateway("read", meter.address)
            #expect(refused.errorCode == "omron_key_refused" && refused.status == 77, "\(refused.errors)")
            #expect(refused.hint?.contains("--repair") == true)
            #expect(try await gateway.stored().isEmpty)
            let early = try await gateway("pair", meter.address, "--model", "omron_hem7322t", "--repair")
            #expect(early.errorCode == "omron_key_not_taken", "its button was not held: \(early.errors)")
            try await meter.act("hold")
            let repaired = try await gateway("pair", meter.address, "--model", "omron_hem7322t", "--repair")
            #expect(repaired.status == 0, "\(repaired.errors)")
            let read = try await gateway("read", meter.address)
            #expect(read.status == 0, "\(read.errors)")
            Comparison.expect(try await gateway.stored(), equal: try await meter.readings())
        }

        @Test("slots that a monitor never shows, and a record that is being written: told, kept, and read later")
        func unreadable() async throws {
            let gateway = try TestGateway()
            let meter = try await pair("7322T", as: "omron_hem7322t", records: both(9, 0), gateway)
            try await meter.behave(["half_written": true])
            let first = try await gateway("read", meter.address)
            #expect(first.documents.count == 8, "\(first.errors)")
            #expect(first.errors.contains("malformed"), "\(first.errors)")
            try await meter.behave(["half_written": false])
            let second = try await gateway("read", meter.address)
            #expect(second.status == 0 && second.documents.count == 1, "\(second.errors)")
            Comparison.expect(try await gateway.stored(), equal: try await meter.readings())
            // The settings are refused: the slots alone decide.
            try await meter.behave(["refused": ["0260": 0xE3, "0274": 0xE3]])
            try await meter.add(measured(9..<11, user: 1))
            let third = try await gateway("read", meter.address)
            #expect(third.status == 0 && third.documents.count == 2, "\(third.errors)")
            Comparison.expect(
                try await gateway.stored().map { reading in
                    // Without settings there is no clock.
                    var members = reading.members
                    if members["clock"]?.isNull == true { members["time_basis"] = "corrected" }
                    return .object(members)
                }, equal: try await meter.readings())
        }

        @Test("a model that it is not: named at the pairing where its services deny it, else at the reading")
        func wrongModel() async throws {
            let gateway = try TestGateway()
            let lab = try await Lab.fresh()
            let modern = try await lab.add(
                Meters.omron("7143T1", said: "omron_hem7143t1", ["records": both(3, 0)]))
            let denied = try await gateway("pair", modern.address, "--model", "omron_hem7322t")
            #expect(denied.errorCode == "omron_wrong_model", "\(denied.errors)")
            try await modern.remove()
            // One that says its number is given no key, and is not read where it wants none.
            for (layout, wrong, last) in [("7361T", "omron_hem7322t", 61), ("7143T1", "omron_hem7155tmw", 62)] {
                let outspoken = try await lab.add(
                    Meters.omron(
                        layout, said: wrong,
                        ["records": both(3, 0), "address": .string("C0:00:00:00:18:\(last)")]))
                let before = try await outspoken.act("memory")
                let refused = try await gateway.start(["pair", outspoken.address, "--model", wrong]).finish()
                #expect(refused.status == 78 && refused.errorCode == "omron_wrong_model", "\(refused.errors)")
                for words in ["HEM-\(layout)", wrong] {
                    #expect(refused.errors.contains(words), "\(refused.errors)")
                }
                // Nothing of the attempt is left.
                let devices = try await gateway("devices", "--json")
                #expect(!devices.output.contains("\"paired\":true"), "\(devices.output)")
                #expect(try await gateway.stored().isEmpty)
                let after = try await outspoken.act("memory")
                #expect(after["digest"] == before["digest"] && after["session_open"] == false)
                try await outspoken.remove()
            }
            let meter = try await pair(
                "6161T", as: "omron_hem7322t", records: both(30, 0), gateway, stated: "RS2")
            let before = try await meter.act("memory")
            let read = try await gateway("read", meter.address)
            #expect(read.errorCode == "omron_wrong_model", "\(read.errors)")
            #expect(read.documents.isEmpty)
            try await expectUntouched(meter, since: before)
        }

        @Test(
            "a monitor that ends every link but that of its pairing is read as it is paired, and again when paired anew"
        )
        func stopsLaterLinks() async throws {
            let gateway = try TestGateway()
            let meter = try await Lab.fresh().add(
                Meters.omron("7155T-MW3", said: "omron_hem7155tmw3", ["records": both(9, 4)]),
                ["stops_later_links": true])
            let before = try await meter.act("memory")
            let paired = try await gateway(
                "pair", meter.address, "--model", "omron_hem7155tmw3", "--wait", "15")
            #expect(paired.status == 0, "\(paired.errors)")
            #expect(try paired.document["paired"] == true)
            #expect(try paired.document["proven"] == false, "\(paired.errors)")
            Comparison.expect(try await gateway.stored(), equal: try await meter.readings())
            try await expectUntouched(meter, since: before)
            let later = try await gateway("read", meter.address, "--wait", "10")
            #expect(later.status == 77 && later.errorCode == "bond_lost_by_device", "\(later.errors)")
            #expect(later.hint?.contains("--repair") == true)
            try await meter.add(measured(9..<11, user: 1))
            let again = try await gateway(
                "pair", meter.address, "--model", "omron_hem7155tmw3", "--repair", "--wait", "15")
            #expect(again.status == 0, "\(again.errors)")
            Comparison.expect(try await gateway.stored(), equal: try await meter.readings())
        }

        @Test("a running gateway comes when there is something new, and not when there is nothing")
        func running() async throws {
            let gateway = try TestGateway()
            let meter = try await pair("7322T", as: "omron_hem7322t", records: both(4, 0), gateway)
            try await meter.behave(["advertises": "until_bonded"])
            let run = try gateway.start(["run"])
            #expect(try await run.wait { $0.errorText.contains("ready") }, "\(run.errorText)")
            let start = try await meter.mark()
            try await meter.press()
            try await meter.wait("disconnected", since: start)
            #expect(try await settles { try await gateway.stored().count == 4 })
            let mark = try await meter.mark()
            // Its button is pressed, and nothing was measured.
            try await meter.press()
            try await Task.sleep(for: .seconds(30))
            #expect(try await meter.log(since: mark).allSatisfy { $0.name != "connected" }, "\(run.errorText)")
            try await meter.add(measured(4..<5, user: 1))
            try await meter.wait("disconnected", since: mark)
            #expect(try await settles { try await gateway.stored().count == 5 })
            Comparison.expect(try await gateway.stored(), equal: try await meter.readings())
            #expect(await run.end(SIGTERM).status == 0)
        }
    }
}

import Foundation
import Testing

extension LabTests {
    /// Meters that do otherwise than the profiles say, each as people own it.
    @Suite struct Oddities {
        private func pair(_ definition: Document, _ behaviour: Document = [:], _ gateway: TestGateway) async throws
            -> LabMeter
        {
            let meter = try await Lab.fresh().add(definition, behaviour)
            let paired = try await gateway.pair(meter)
            try #require(paired.status == 0, "\(paired.errors)")
            return meter
        }

        /// What identifies a measurement where its number does not: the device's time and the value; and its context.
        private func measurements(_ readings: [Document]) -> Set<String> {
            Set(
                readings.map {
                    "\($0["device_time"]?.text ?? "-") \($0["glucose"]?.json ?? "-") \($0["context"]?.json ?? "-")"
                })
        }

        @Test("a meter that numbers by age, newest first, gives each record once, however often it is read")
        func numbersByAge() async throws {
            let gateway = try TestGateway()
            let meter = try await pair(
                Meters.generic(["name": "TNG VOICE", "records": ["count": 8, "seed": 301, "contexts": true]]),
                ["order": "descending", "numbers_by_age": true], gateway)
            let first = try await gateway("read", meter.address)
            #expect(first.status == 0 && first.documents.count == 8, "\(first.errors)")
            #expect(measurements(first.documents) == measurements(try await meter.readings()))
            // Two more measurements give every record another number.
            try await meter.add(["count": 2, "seed": 302, "start": "2026-11-20T08:00:00", "contexts": true])
            let second = try await gateway("read", meter.address)
            #expect(second.status == 0 && second.documents.count == 2, "\(second.errors)")
            #expect(measurements(try await gateway.stored()) == measurements(try await meter.readings()))
            #expect(try await gateway("read", meter.address).documents.isEmpty)
            #expect(try await meter.requests().allSatisfy { $0 == "0401" || $0 == "0101" })
        }

        @Test("an empty record behind each makes no reading, and nothing is missing")
        func emptyPartners() async throws {
            let gateway = try TestGateway()
            let meter = try await pair(
                Meters.generic(["name": "MyGlucose 1", "records": ["count": 5, "seed": 303, "first": 0]]),
                ["order": "shuffled", "empty_partners": true], gateway)
            let read = try await gateway("read", meter.address)
            #expect(read.status == 0, "\(read.errors)")
            Comparison.expect(read.documents, equal: try await meter.readings())
            #expect(try await gateway("read", meter.address).documents.isEmpty)
        }

        @Test("a cuff that loses subscriptions that come too soon is read all the same")
        func pause() async throws {
            let gateway = try TestGateway()
            let meter = try await pair(
                Meters.omron(["name": "BM85", "passkey": true, "records": ["count": 3, "seed": 304]]),
                ["loses_subscriptions_before": 0.1], gateway)
            let read = try await gateway("read", meter.address)
            #expect(read.status == 0, "\(read.errors)")
            Comparison.expect(read.documents, equal: try await meter.readings())
            let log = try await meter.log()
            #expect(
                log.allSatisfy { $0.name != "subscription_lost" },
                "\(log.map { "\($0.at) \($0.name)" }.joined(separator: ", "))")
        }

        @Test("promise 7: an A&D gives what it has not sent, and all by its command; its clock is set on request only")
        func commands() async throws {
            let gateway = try TestGateway()
            let meter = try await pair(
                Meters.omron(
                    [
                        "name": "A&D_UA-651BLE_A1", "protocol": "and", "clock": 600,
                        "records": ["count": 3, "seed": 305],
                    ]), ["deletes_confirmed": true], gateway)
            #expect(try await gateway("read", meter.address).documents.count == 3)
            #expect(try await gateway("read", meter.address).documents.isEmpty)
            let all = try await gateway("read", meter.address, "--all-records")
            #expect(all.status == 0 && all.documents.isEmpty, "they came again, and are known: \(all.errors)")
            let log = try await meter.log()
            #expect(log.filter { $0.name == "command" }.map(\.hex) == ["0200e1"])
            #expect(log.filter { $0.name == "sent" }.count == 6 && log.allSatisfy { $0.name != "clock_set" })
            let set = try await gateway("devices", "set-clock", meter.address)
            #expect(set.status == 0, "\(set.errors)")
            let (before, after) = (try set.document["before"], try set.document["after"])
            #expect(abs((before?["difference_seconds"]?.integer ?? 0) - 600) <= 30)
            #expect(abs(after?["difference_seconds"]?.integer ?? 600) <= 30)
            #expect(try await meter.log().filter { $0.name == "clock_set" }.count == 1)
        }

        @Test("a continuous sensor is paired, read by its session's minutes, and read on from where it was")
        func continuousGlucose() async throws {
            let gateway = try TestGateway()
            // Two hundred minutes into a session by a clock that is two hours slow: several values together, with checksums.
            let meter = try await pair(
                Meters.cgm([
                    "session_start": 320, "clock": -7200, "checksums": true, "together": 3,
                    "records": ["count": 20, "seed": 311, "first": 5],
                ]), [:], gateway)
            let first = try await gateway("read", meter.address)
            #expect(first.status == 0 && first.documents.count == 20, "\(first.errors)")
            Comparison.expect(first.documents, equal: try await meter.readings())
            #expect(first.documents.allSatisfy { $0["device"]?["model"]?.text == "generic_cgm" })
            #expect(first.documents.allSatisfy { $0["time_basis"]?.text == "corrected" })
            try await meter.add(["count": 3, "seed": 312, "first": 105])
            let second = try await gateway("read", meter.address)
            #expect(second.status == 0 && second.documents.count == 3, "\(second.errors)")
            #expect(try await meter.requests().contains("01030164" + "00"), "from minute 100 on")
            #expect(try await gateway("read", meter.address).documents.isEmpty)
            #expect(try await meter.log().allSatisfy { $0.name != "clock_set" })
        }

        @Test(
            "promise 7: a session without a start gives no time; its time is set on request, and its values come anew")
        func sessionWithoutStart() async throws {
            let gateway = try TestGateway()
            let meter = try await pair(
                Meters.cgm(["session_began": 120, "checksums": true, "records": ["count": 4, "seed": 313]]), [:],
                gateway)
            let first = try await gateway("read", meter.address)
            #expect(first.status == 0 && first.documents.count == 4, "\(first.errors)")
            #expect(first.documents.allSatisfy { $0["excluded"]?.text != nil && $0["base_time"]?.text == nil })
            let set = try await gateway("devices", "set-clock", meter.address)
            #expect(set.status == 0, "\(set.errors)")
            #expect(abs(try set.document["after"]?["difference_seconds"]?.integer ?? 99) <= 60)
            let second = try await gateway("read", meter.address)
            #expect(second.documents.count == 4 && second.documents.allSatisfy { $0["time"]?.text != nil })
        }

        @Test("promise 7: a sensor's time is set within its session, and each of its values comes once, with its time")
        func sessionSetAnew() async throws {
            let gateway = try TestGateway()
            let meter = try await pair(
                Meters.cgm([
                    "session_start": 320, "clock": -7200, "checksums": true, "together": 3,
                    "records": ["count": 20, "seed": 314, "first": 5],
                ]), [:], gateway)
            let first = try await gateway("read", meter.address)
            #expect(first.status == 0 && first.documents.count == 20, "\(first.errors)")
            let set = try await gateway("devices", "set-clock", meter.address)
            #expect(set.status == 0, "\(set.errors)")
            #expect(abs((try set.document["before"]?["difference_seconds"]?.integer ?? 0) + 7200) <= 60)
            #expect(abs(try set.document["after"]?["difference_seconds"]?.integer ?? 99) <= 60)
            try await meter.add(["count": 3, "seed": 315, "first": 105])
            let mark = try await meter.mark()
            let second = try await gateway("read", meter.address)
            #expect(second.status == 0 && second.documents.count == 3, "\(second.errors)")
            #expect(try await meter.requests(since: mark).contains("01030164" + "00"), "from minute 100 on")
            // The session began two hundred minutes before it was paired, by clocks of whole minutes.
            let began = Date(timeIntervalSinceNow: -200 * 60)
            for document in first.documents + second.documents {
                let minute = try #require(document["sequence"]?.integer)
                let time = try Date(document["time"]?.text ?? "", strategy: .iso8601)
                #expect(abs(time.timeIntervalSince(began) - Double(minute * 60)) <= 180, "\(document)")
            }
            let anew = try await gateway("read", meter.address, "--all-records")
            #expect(anew.status == 0 && anew.documents.isEmpty, "they came again, and are known: \(anew.errors)")
        }

        @Test("a OneTouch meter is paired, read by its own protocol, and read on from where it was")
        func oneTouch() async throws {
            func records(_ numbers: ClosedRange<Int>) -> Document {
                .array(
                    numbers.map { number in
                        [
                            "sequence": .number(number), "base": .string("2026-11-20T08:\(10 + number):00"),
                            "value": .string("\(90 + number)"),
                        ]
                    })
            }
            let gateway = try TestGateway()
            let meter = try await pair(
                Meters.generic(
                    ["name": "OneTouch AB12", "protocol": "onetouch", "clock": 1800, "records": records(1...4)]),
                [:], gateway)
            let first = try await gateway("read", meter.address)
            #expect(first.status == 0, "\(first.errors)")
            #expect(first.documents.compactMap { $0["sequence"]?.integer } == [1, 2, 3, 4])
            #expect(first.documents.compactMap { $0["glucose"]?["value"]?.integer } == [91, 92, 93, 94])
            // Half an hour ahead, in Kolkata.
            #expect(first.documents.first?["time"]?.text == "2026-11-20T02:11:00Z")
            #expect(first.documents.allSatisfy { $0["provider"]?.text == "onetouch_ble" })
            try await meter.add(records(5...6))
            let mark = try await meter.mark()
            let second = try await gateway("read", meter.address)
            #expect(second.documents.compactMap { $0["sequence"]?.integer } == [5, 6], "\(second.errors)")
            #expect(try await meter.log(since: mark).filter { $0.name == "sent" }.compactMap(\.record) == [3, 4, 5])
            let set = try await gateway("devices", "set-clock", meter.address)
            #expect(set.status == 0, "\(set.errors)")
            let after = try set.document["after"]?["difference_seconds"]?.integer
            #expect(abs(after ?? 99) <= 30)
            #expect(try await gateway("read", meter.address).documents.isEmpty)
        }
    }
}

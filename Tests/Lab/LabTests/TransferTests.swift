import Foundation
import Testing

extension LabTests {
    /// What comes of reading a glucose meter, whatever it holds.
    @Suite struct Transfers {
        @Test("promise 2: 450 records with contexts, to the digit; a second read brings nothing; then only what is new")
        func everything() async throws {
            let meter = try await SharedMeter.glucose.borrow(records: ["count": 450, "seed": 11, "contexts": true])
            let gateway = try TestGateway()
            let first = try await gateway("read", meter.address)
            #expect(first.status == 0, "\(first.errors)")
            Comparison.expect(first.documents, equal: try await meter.readings())
            Comparison.expect(try await gateway.stored(), equal: try await meter.readings())
            let clock = try #require(first.documents.first?["clock"])
            #expect(abs(clock["difference_seconds"]?.integer ?? 99) <= 2, "the meter's clock is right: \(clock)")

            let mark = try await meter.mark()
            let second = try await gateway("read", meter.address)
            #expect(second.status == 0 && second.documents.isEmpty, "\(second.errors)")
            #expect(try await sentMeasurements(meter, since: mark) <= 2)

            try await meter.add(["count": 3, "seed": 12, "first": 451, "step": 7, "contexts": true])
            let later = try await meter.mark()
            let third = try await gateway("read", meter.address)
            #expect(third.status == 0, "\(third.errors)")
            #expect(Set(third.documents.compactMap { $0["sequence"]?.integer }) == [451, 452, 453])
            #expect(try await sentMeasurements(meter, since: later) <= 6, "only what is new was asked for")
            Comparison.expect(try await gateway.stored(), equal: try await meter.readings())
            let device = try #require(try await gateway.device(meter))
            #expect(device["readings"]?.integer == 453 && device["last_sequence"]?.integer == 453)
            #expect(device["battery_percent"]?.integer == 87)
        }

        @Test("promise 3: cut at record 200, what came is kept; the next read has all, and each once")
        func cut() async throws {
            let meter = try await SharedMeter.glucose.borrow(
                records: ["count": 300, "seed": 21], ["drop_after_records": 200])
            let gateway = try TestGateway()
            let first = try await gateway("read", meter.address)
            #expect(first.status == 75 && first.errorCode == "transfer_interrupted", "\(first.errors)")
            // What the meter had sent and was still on its way is lost with the link.
            let came = first.documents.count
            #expect((1...200).contains(came))
            Comparison.expect(first.documents, equal: Array(try await meter.readings().prefix(came)))
            Comparison.expect(try await gateway.stored(), equal: Array(try await meter.readings().prefix(came)))
            let second = try await gateway("read", meter.address)
            #expect(second.status == 0, "\(second.errors)")
            Comparison.expect(second.documents, equal: Array(try await meter.readings().dropFirst(came)))
            Comparison.expect(try await gateway.stored(), equal: try await meter.readings())
        }

        @Test("cut in the middle of a frame, out of reach: no record is half")
        func cutInsideAFrame() async throws {
            // Records of 39 octets travel in two pieces.
            let records = Document.array(
                (1...60).map { number in
                    [
                        "sequence": .number(number),
                        "base": .string("2026-01-\(10 + number / 10)T08:\(10 + number % 10):00"),
                        "value": .string(String(80 + number)), "extra": .string(String(repeating: "a5", count: 24)),
                    ]
                })
            let meter = try await SharedMeter.glucose.borrow(records: records, ["drop_after_octets": 1_000])
            let gateway = try TestGateway()
            let first = try await gateway("read", meter.address)
            #expect(first.status == 75, "\(first.errors)")
            let held = try await meter.readings()
            let kept = try await gateway.stored()
            #expect(kept.count < held.count)
            Comparison.expect(kept, equal: Array(held.prefix(kept.count)))
            let second = try await gateway("read", meter.address)
            #expect(second.status == 0, "\(second.errors)")
            Comparison.expect(try await gateway.stored(), equal: held)
        }

        @Test("numbers that were reset begin an epoch: nothing is lost, nothing is taken for what it is not")
        func reset() async throws {
            let meter = try await SharedMeter.glucose.borrow(records: ["count": 30, "seed": 31, "first": 400])
            let gateway = try TestGateway()
            #expect(try await gateway("read", meter.address).status == 0)
            let before = try await meter.readings()
            // Its memory was erased, and numbers begin at 1 again.
            try await meter.replaceRecords(["count": 12, "seed": 32, "step": 11])
            let read = try await gateway("read", meter.address)
            #expect(read.status == 0, "\(read.errors)")
            Comparison.expect(read.documents, equal: try await meter.readings())
            Comparison.expect(try await gateway.stored(), equal: before + (try await meter.readings()))
            #expect(try await gateway.device(meter)?["sequence_epoch"]?.integer == 1)
            #expect(try await gateway("read", meter.address).documents.isEmpty)
        }

        @Test("numbers that were reset and have overtaken ours since are not taken for ours")
        func resetAndOvertaken() async throws {
            let meter = try await SharedMeter.glucose.borrow(records: ["count": 10, "seed": 33])
            let gateway = try TestGateway()
            #expect(try await gateway("read", meter.address).status == 0)
            let before = try await meter.readings()
            try await meter.replaceRecords(["count": 25, "seed": 34, "step": 13])
            #expect(try await gateway("read", meter.address).status == 0)
            Comparison.expect(try await gateway.stored(), equal: before + (try await meter.readings()))
        }

        @Test("numbers that wrap at 65535")
        func wrap() async throws {
            let meter = try await SharedMeter.glucose.borrow(records: ["count": 8, "seed": 41, "first": 65_524])
            let gateway = try TestGateway()
            #expect(try await gateway("read", meter.address).status == 0)
            try await meter.add(["count": 9, "seed": 42, "first": 65_532, "step": 41])
            let read = try await gateway("read", meter.address)
            #expect(read.status == 0, "\(read.errors)")
            #expect(
                Set(read.documents.compactMap { $0["sequence"]?.integer })
                    == [65_532, 65_533, 65_534, 65_535, 0, 1, 2, 3, 4])
            Comparison.expect(try await gateway.stored(), equal: try await meter.readings())
            #expect(try await gateway("read", meter.address).documents.isEmpty)
        }

        @Test("a meter that refuses \">=\" is asked for all, and nothing comes twice")
        func refusesGreaterOrEqual() async throws {
            let meter = try await SharedMeter.glucose.borrow(
                records: ["count": 12, "seed": 51], ["refused_operators": [2, 3, 4]])
            let gateway = try TestGateway()
            #expect(try await gateway("read", meter.address).status == 0)
            try await meter.add(["count": 3, "seed": 52, "first": 13, "step": 9])
            let mark = try await meter.mark()
            let read = try await gateway("read", meter.address)
            #expect(read.status == 0, "\(read.errors)")
            #expect(Set(read.documents.compactMap { $0["sequence"]?.integer }) == [13, 14, 15])
            #expect(try await meter.requests(since: mark).contains("0101"))
            Comparison.expect(try await gateway.stored(), equal: try await meter.readings())
        }

        @Test("a meter without records is read, and that is no error")
        func empty() async throws {
            let meter = try await SharedMeter.glucose.borrow()
            let gateway = try TestGateway()
            let read = try await gateway("read", meter.address)
            #expect(read.status == 0 && read.documents.isEmpty, "\(read.errors)")
            #expect(try await gateway.device(meter)?["readings"]?.integer == 0)
        }

        @Test("the clock of a meter that is 37 minutes ahead corrects its times")
        func wrongClock() async throws {
            let meter = try await SharedMeter.glucose.borrow(records: ["count": 6, "seed": 61])
            try await meter.setClock(ahead: 37 * 60)
            let read = try await TestGateway()("read", meter.address)
            #expect(read.status == 0, "\(read.errors)")
            Comparison.expect(read.documents, equal: try await meter.readings())
            let difference = try #require(read.documents.first?["clock"]?["difference_seconds"]?.integer)
            #expect(abs(difference - 37 * 60) <= 2)
        }

        @Test(
            "other orders and double frames change nothing",
            arguments: [["order": "descending"], ["order": "shuffled"], ["duplicates": true]] as [Document])
        func orders(behaviour: Document) async throws {
            let meter = try await SharedMeter.glucose.borrow(
                records: ["count": 25, "seed": 71, "contexts": true], behaviour)
            let gateway = try TestGateway()
            let read = try await gateway("read", meter.address)
            #expect(read.status == 0, "\(read.errors)")
            Comparison.expect(read.documents, equal: try await meter.readings())
            #expect(try await gateway("read", meter.address).documents.isEmpty)
            Comparison.expect(try await gateway.stored(), equal: try await meter.readings())
        }

        @Test(
            "specials, control solution, reserved bits and numbers, extra octets, no dates: each as the meter holds it")
        func oddities() async throws {
            let meter = try await SharedMeter.glucose.borrow(records: Self.odd)
            let gateway = try TestGateway()
            let read = try await gateway("read", meter.address)
            Comparison.expect(read.documents, equal: try await meter.readings())
            Comparison.expect(try await gateway.stored(), equal: try await meter.readings())
        }

        private static let odd: Document = [
            ["sequence": 1, "base": "2026-01-10T07:00:00", "value": "NaN"],
            ["sequence": 2, "base": "2026-01-10T07:05:00", "value": "NRes", "unit": "mmol/L", "offset": 0],
            ["sequence": 3, "base": "2026-01-10T07:10:00", "value": "+INF", "status": ["result_too_high"]],
            ["sequence": 4, "base": "2026-01-10T07:15:00", "value": "2.047", "unit": "mmol/L"],
            ["sequence": 5, "base": "2026-01-10T07:20:00", "value": "118", "type": "control_solution"],
            ["sequence": 6, "base": "2026-01-10T07:25:00", "value": "120", "location": "control_solution"],
            ["sequence": 7, "base": "2026-01-10T07:30:00", "value": nil, "status": ["sample_insufficient"]],
            ["sequence": 8, "base": "2026-01-10T07:35:00", "value": "106", "type_number": 13],
            ["sequence": 9, "base": "2026-01-10T07:40:00", "value": "107.5", "flags_reserved": 0xE0],
            ["sequence": 10, "base": "2026-01-10T07:45:00", "value": "108", "status_reserved": 0xF000, "status": []],
            ["sequence": 11, "base": "2026-01-10T07:50:00", "value": "109", "offset": 0, "extra": "a55a01"],
            ["sequence": 12, "base": nil, "value": "110", "offset": 0],
            ["sequence": 13, "base": "2026-01-10T08:00:00", "value": "111", "offset": "unknown"],
            ["sequence": 14, "base": "2026-01-10T08:05:00", "value": "5.50", "unit": "mmol/L", "offset": -90],
        ]

        private func sentMeasurements(_ meter: LabMeter, since mark: Int) async throws -> Int {
            try await meter.log(since: mark).filter { $0.name == "sent" && $0.characteristic == "2a18" }.count
        }
    }
}

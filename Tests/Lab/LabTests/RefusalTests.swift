import Foundation
import Testing

extension LabTests {
    /// Meters that refuse, miscount, fall silent or send what is no record.
    @Suite struct Refusals {
        @Test(
            "promise 4: every response code ends the procedure with its own name",
            arguments: [
                (2, "racp_op_code_not_supported"), (3, "racp_invalid_operator"), (4, "racp_operator_not_supported"),
                (5, "racp_invalid_operand"), (7, "racp_abort_unsuccessful"), (8, "racp_procedure_not_completed"),
                (9, "racp_operand_not_supported"), (77, "racp_reserved_response_code"),
            ])
        func responseCode(code: Int, name: String) async throws {
            let meter = try await SharedMeter.glucose.borrow(
                records: ["count": 3, "seed": 81], ["report_code": .number(code)])
            let gateway = try TestGateway()
            let read = try await gateway("read", meter.address)
            #expect(read.errorCode == name, "\(read.errors)")
            #expect(read.status == 76)
        }

        @Test("\"no records found\" is an end, and no error")
        func noRecords() async throws {
            let meter = try await SharedMeter.glucose.borrow(["report_code": 6, "count_code": 6])
            let read = try await TestGateway()("read", meter.address)
            #expect(read.status == 0 && read.documents.isEmpty, "\(read.errors)")
        }

        @Test("a meter that cannot count is read all the same", arguments: [2, 4, 9])
        func cannotCount(code: Int) async throws {
            let meter = try await SharedMeter.glucose.borrow(
                records: ["count": 7, "seed": 82], ["count_code": .number(code)])
            let read = try await TestGateway()("read", meter.address)
            #expect(read.status == 0, "\(read.errors)")
            Comparison.expect(read.documents, equal: try await meter.readings())
        }

        @Test("promise 3: a count that differs from what came is reported, and what came is kept")
        func wrongCount() async throws {
            let meter = try await SharedMeter.glucose.borrow(records: ["count": 9, "seed": 83], ["count_off_by": 3])
            let gateway = try TestGateway()
            let read = try await gateway("read", meter.address)
            #expect(read.status == 75 && read.errorCode == "records_missing", "\(read.errors)")
            Comparison.expect(read.documents, equal: try await meter.readings())
            // What a second full transfer does not bring either, the meter does not have.
            let second = try await gateway("read", meter.address)
            #expect(second.status == 0 && second.documents.isEmpty, "\(second.errors)")
        }

        @Test("a control point that refuses to be written", arguments: [0x80, 0xFE, 0xFD])
        func refusesWrites(code: Int) async throws {
            let meter = try await SharedMeter.glucose.borrow(
                records: ["count": 3, "seed": 84], ["write_error": .number(code)])
            let read = try await TestGateway()("read", meter.address)
            #expect(read.status != 0 && read.status != 70, "\(read.errors)")
            #expect(read.errorCode != nil)
        }

        @Test("promise 5: frames that are no records are kept and told, and stop nothing")
        func rubbish() async throws {
            let meter = try await SharedMeter.glucose.borrow(
                records: ["count": 30, "seed": 85, "contexts": true], ["rubbish": 7])
            let gateway = try TestGateway()
            let read = try await gateway("read", meter.address)
            #expect(read.status == 0 || read.status == 75, "\(read.errors)")
            Comparison.expect(read.documents, equal: try await meter.readings())
            #expect(read.errors.contains("malformed"), "\(read.errors.prefix(500))")
            Comparison.expect(try await gateway.stored(), equal: try await meter.readings())
            #expect(try await gateway("store", "verify").status == 0)
        }

        @Test("promise 4: a meter that falls silent is given 30 s, asked to stop, and named; what came is kept")
        func silent() async throws {
            let meter = try await SharedMeter.glucose.borrow(records: ["count": 10, "seed": 86], ["silent_after": 4])
            let gateway = try TestGateway()
            let began = Lab.now
            let read = try await gateway("read", meter.address)
            #expect(read.status == 75 && read.errorCode == "timeout", "\(read.errors)")
            #expect(Lab.now - began >= 30)
            #expect(try await meter.requests().last == "0300", "it was asked to stop")
            Comparison.expect(read.documents, equal: Array(try await meter.readings().prefix(4)))
            try await meter.behave(["silent_after": nil])
            #expect(try await gateway("read", meter.address).status == 0)
            Comparison.expect(try await gateway.stored(), equal: try await meter.readings())
        }

        @Test(
            "Ctrl-C in the middle of a transfer: what came is kept, the meter is told to stop, and left in good order")
        func interrupted() async throws {
            let meter = try await SharedMeter.glucose.borrow(records: ["count": 400, "seed": 87])
            let gateway = try TestGateway()
            let reading = try gateway.start(["read", meter.address])
            #expect(try await reading.wait { $0.documents.count >= 20 }, "\(reading.errorText)")
            let result = await reading.end()
            #expect(
                result.signal == nil && result.status == 75 && result.errorCode == "interrupted", "\(result.errors)")
            try await meter.wait("disconnected")
            let events = try await meter.log()
            let last = events.filter { $0.name == "configured" }.suffix(3)
            #expect(
                last.count == 3 && last.allSatisfy { $0.document["value"]?.text == "0000" },
                "notifications are stopped: \(events.suffix(6))")
            let kept = try await gateway.stored()
            #expect(kept.count >= 20)
            #expect(try await gateway("read", meter.address).status == 0)
            Comparison.expect(try await gateway.stored(), equal: try await meter.readings())
        }
    }
}

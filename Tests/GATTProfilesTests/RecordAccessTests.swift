import GATTProfiles
import HealthReadings
import Testing

@Suite("Record Access Control Point 2A52")
struct RecordAccessTests {
    private static let time = DateTime(year: 2026, month: 11, day: 20, hour: 12, minute: 30, second: 0)

    @Test(
        "each request has the octets of the specification",
        arguments: [
            (.report(.all), "01 01"), (.report(.atLeast(.sequenceNumber(0x1234))), "01 03 01 3412"),
            (.report(.atMost(.sequenceNumber(5))), "01 02 01 0500"), (.report(.first), "01 05"),
            (.report(.last), "01 06"),
            (.report(.sequenceNumbers(from: 5, to: 0x0102)), "01 04 01 0500 0201"),
            (.report(.atLeast(.userFacingTime(time))), "01 03 02 EA070B140C1E00"),
            (.report(.userFacingTimes(from: .unknown, to: time)), "01 04 02 00000000000000 EA070B140C1E00"),
            (.count(.all), "04 01"), (.count(.atLeast(.sequenceNumber(7))), "04 03 01 0700"),
            (.count(.last), "04 06"), (.abort, "03 00"),
        ] as [(RecordAccessRequest, String)])
    func requests(request: RecordAccessRequest, octets: String) throws {
        #expect(request.encoded == hex(octets))
        #expect(try RecordAccessRequest(decoding: hex(octets)) == request)
    }

    @Test(
        "a request that is none is refused where it goes wrong; deleting records is none",
        arguments: [
            ("", 0), ("02 01", 0), ("07 01", 0), ("01", 1), ("01 00", 1), ("01 07", 1), ("01 03", 2),
            ("01 03 03 0100", 2),
            ("01 03 01 01", 3), ("01 04 01 0100 02", 5), ("03", 1), ("03 01", 1), ("04 03 02 EA07", 3),
        ])
    func refused(octets: String, octet: Int) {
        let error = #expect(throws: MalformedFrame.self) { try RecordAccessRequest(decoding: hex(octets)) }
        #expect(error?.octet == octet)
    }

    @Test(
        "an answer that is none is refused",
        arguments: ["", "06", "06 00", "06 00 01", "05 00 01", "01 01", "07 00 01 01"])
    func refusedAnswers(octets: String) {
        #expect(throws: MalformedFrame.self) { try RecordAccessResponse(decoding: hex(octets)) }
    }

    static let errors: [(UInt8, RACPError, String)] = [
        (2, .opCodeNotSupported, "racp_op_code_not_supported"), (3, .invalidOperator, "racp_invalid_operator"),
        (4, .operatorNotSupported, "racp_operator_not_supported"), (5, .invalidOperand, "racp_invalid_operand"),
        (6, .noRecordsFound, "racp_no_records_found"), (7, .abortUnsuccessful, "racp_abort_unsuccessful"),
        (8, .procedureNotCompleted, "racp_procedure_not_completed"),
        (9, .operandNotSupported, "racp_operand_not_supported"), (0, .reserved(0), "racp_reserved_response_code"),
        (10, .reserved(10), "racp_reserved_response_code"), (255, .reserved(255), "racp_reserved_response_code"),
    ]

    @Test("promise 4: every response code ends the procedure with its own name", arguments: errors)
    func responseCodes(code: UInt8, error: RACPError, name: String) {
        for request in [RecordAccessRequest.report(.all), .count(.all)] {
            var procedure = RecordAccessProcedure(request)
            _ = procedure.begin()
            _ = procedure.receivedRecord()
            let step = procedure.received([6, 0, request.opCode, code])
            let expected: RecordAccessOutcome = code == 6 ? .noRecordsFound : .failed(.refused(error))
            #expect(step == .finished(expected))
            #expect(procedure.recordCount == 1)
        }
        #expect(error.code == name)
        #expect(error.responseCode == code)
        #expect(RACPError(responseCode: code) == error)
        #expect(RecordAccessFailure.refused(error).code == name)
    }

    @Test("a report: write, wait, records, success")
    func report() {
        var procedure = RecordAccessProcedure(.report(.all))
        #expect(procedure.begin() == .write([1, 1]))
        #expect(procedure.written() == .wait(.seconds(30)))
        for _ in 0..<20 { #expect(procedure.receivedRecord() == .wait(.seconds(30))) }
        #expect(procedure.received([6, 0, 1, 1]) == .finished(.completed))
        #expect(procedure.recordCount == 20)
        #expect(procedure.begin() == .finished(.completed))
        #expect(procedure.received([6, 0, 1, 8]) == .finished(.completed))
        #expect(procedure.disconnected() == .finished(.completed))
        #expect(procedure.abort() == .finished(.completed))
        #expect(procedure.receivedRecord() == .finished(.completed))
        #expect(procedure.recordCount == 20)
    }

    @Test("promise 3: a count says how many records there are; success without a number is an error")
    func count() {
        var procedure = RecordAccessProcedure(.count(.atLeast(.sequenceNumber(3))))
        #expect(procedure.begin() == .write([4, 3, 1, 3, 0]))
        #expect(procedure.received([5, 0, 0x2C, 1]) == .finished(.counted(300)))
        var empty = RecordAccessProcedure(.count(.all))
        _ = empty.begin()
        #expect(empty.received([6, 0, 4, 1]) == .finished(.failed(.countMissing)))
    }

    @Test("promise 4: 30 s of inactivity, restarted by each record, then abort, then a named error")
    func inactivity() {
        var procedure = RecordAccessProcedure(.report(.all))
        _ = procedure.begin()
        #expect(procedure.waited(.seconds(29)) == .wait(.seconds(1)))
        #expect(procedure.receivedRecord() == .wait(.seconds(30)))
        #expect(procedure.waited(.milliseconds(29_999)) == .wait(.milliseconds(1)))
        #expect(procedure.receivedRecord() == .wait(.seconds(30)))
        #expect(procedure.waited(.seconds(30)) == .write([3, 0]))
        #expect(procedure.outcome == nil)
        #expect(procedure.received([6, 0, 3, 1]) == .finished(.failed(.timedOut(abort: .acknowledged))))
        #expect(procedure.recordCount == 2)
        #expect(RecordAccessFailure.timedOut(abort: .none).code == "racp_timed_out")
    }

    @Test("an abort that is refused or not answered still ends the procedure as timed out")
    func abortFails() {
        var refused = RecordAccessProcedure(.report(.all))
        _ = refused.begin()
        _ = refused.waited(.seconds(30))
        #expect(
            refused.received([6, 0, 3, 7]) == .finished(.failed(.timedOut(abort: .refused(.abortUnsuccessful)))))
        var silent = RecordAccessProcedure(.report(.all))
        _ = silent.begin()
        _ = silent.waited(.seconds(30))
        #expect(silent.written() == .wait(.seconds(30)))
        #expect(silent.waited(.seconds(30)) == .finished(.failed(.timedOut(abort: .none))))
    }

    @Test("a device that sends for ever cannot outlive its abort; what it sends is counted")
    func endlessDevice() {
        var procedure = RecordAccessProcedure(.report(.all))
        _ = procedure.begin()
        #expect(procedure.abort() == .write([3, 0]))
        #expect(procedure.abort() == .wait(.seconds(30)))
        for second in 1..<30 {
            #expect(procedure.receivedRecord() == .wait(.seconds(31 - second)))
            #expect(procedure.waited(.seconds(1)) == .wait(.seconds(30 - second)))
        }
        #expect(procedure.waited(.seconds(1)) == .finished(.failed(.aborted(.none))))
        #expect(procedure.recordCount == 29)
    }

    @Test("a transfer that ends by itself while it is aborted has ended by itself")
    func lateSuccess() {
        var procedure = RecordAccessProcedure(.report(.all))
        _ = procedure.begin()
        _ = procedure.waited(.seconds(30))
        #expect(procedure.received([6, 0, 1, 1]) == .finished(.completed))
    }

    @Test("answers to another request, and malformed ones, change nothing and do not extend the wait")
    func strayAnswers() {
        var procedure = RecordAccessProcedure(.report(.all))
        _ = procedure.begin()
        _ = procedure.waited(.seconds(10))
        let strays: [[UInt8]] = [
            [6, 0, 4, 1], [6, 0, 3, 1], [6, 0, 2, 8], [5, 0, 1, 0], [6, 0], [], [9, 9, 9, 9], [1, 1],
        ]
        for stray in strays { #expect(procedure.received(stray) == .wait(.seconds(20))) }
        #expect(procedure.strayAnswerCount == strays.count)
        #expect(procedure.received([6, 0, 1, 1, 0xFF]) == .finished(.completed))
    }

    @Test("a device that goes ends the procedure; what came stays")
    func disconnect() {
        var procedure = RecordAccessProcedure(.report(.all))
        _ = procedure.begin()
        _ = procedure.receivedRecord()
        #expect(procedure.disconnected() == .finished(.failed(.disconnected)))
        #expect(procedure.recordCount == 1)
    }

    @Test("a procedure aborted before it began writes nothing")
    func abortedBeforeBegin() {
        var procedure = RecordAccessProcedure(.report(.all))
        #expect(procedure.abort() == .finished(.failed(.aborted(.none))))
        #expect(procedure.begin() == .finished(.failed(.aborted(.none))))
    }

    @Test("whatever happens in whatever order, a procedure that is waited for ends within its two time-outs")
    func alwaysEnds() {
        forAll(500) { generator in
            var procedure = RecordAccessProcedure(.report(.all))
            var step = procedure.begin()
            for _ in 0..<Int.random(in: 0...60, using: &generator) {
                switch Int.random(in: 0..<6, using: &generator) {
                case 0: step = procedure.receivedRecord()
                case 1: step = procedure.received(generator.octets(4))
                case 2: step = procedure.waited(.milliseconds(Int.random(in: 0...40_000, using: &generator)))
                case 3: step = procedure.written()
                case 4: step = procedure.received([6, 0, generator.octet() & 7, generator.octet() & 15])
                default: step = procedure.received([5, 0, generator.octet(), 0])
                }
            }
            for _ in 0..<4 {
                switch step {
                case .wait(let duration): step = procedure.waited(duration)
                case .write: step = procedure.written()
                case .finished(let outcome): return procedure.outcome == outcome
                }
            }
            return procedure.outcome != nil
        }
    }
}

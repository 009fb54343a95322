import FleetDocuments
import HealthReadings
import Testing

@Suite("Documents of a fleet")
struct DocumentTests {
    @Test("a batch reads back, and a reading keeps its digits")
    func batch() throws {
        let batch = try Samples.batch()
        let octets = Samples.octets(batch.document)
        let read = try FleetBatch(octets, from: Samples.gateway())
        #expect(read == batch)
        #expect(read.readings.map(\.revision) == [7, 7])
        #expect(read.readings[0].body.text.contains(#""glucose":{"value":127.0,"unit":"mg/dL"}"#))
        #expect(read.readings[0].body.text.hasPrefix(#"{"id":"000000000000000a0000000000000001","revision":7,"#))
        #expect(read.readings[0].person == "white_bear" && read.readings[0].kind == "glucose")
        #expect(read.readings[0].time == Samples.now)
        #expect(!read.readings[0].body.text.contains("deliveries"))
        #expect(read.ids.count == 3)
        #expect(try FleetUpload(octets) == .plain(batch))
        #expect(FleetUpload.number(of: octets) == 7)
    }

    @Test("every document reads back as it was written", arguments: 1...40 as ClosedRange<UInt64>)
    func roundTrips(_ seed: UInt64) throws {
        var made = GeneratedDocuments(seed: seed)
        let batch = try made.batch()
        #expect(try FleetBatch(Samples.octets(batch.document), from: batch.gateway) == batch)
        let receipt = try made.receipt()
        #expect(try FleetReceipt(Samples.octets(receipt.document), for: receipt.gateway) == receipt)
        let hello = try made.hello()
        #expect(try FleetHello(Samples.octets(hello.document), from: hello.gateway) == hello)
        let status = try made.status()
        #expect(try FleetStatus(Samples.octets(status.document)) == status)
        let configuration = try made.configuration()
        #expect(try FleetConfiguration(Samples.octets(configuration.document)) == configuration)
        #expect(
            try FleetConfiguration.settings(Array(FleetConfiguration.text(configuration.settings).utf8))
                == configuration.settings)
        let state = made.state()
        #expect(try FleetConfigurationState(Samples.octets(state.document)) == state)
        let answer = try made.answer()
        #expect(try FleetAnswer(Samples.octets(answer.document), for: answer.gateway) == answer)
    }

    @Test("a damaged document gives a document's error or another document", arguments: 1...40 as ClosedRange<UInt64>)
    func damage(_ seed: UInt64) throws {
        var made = GeneratedDocuments(seed: seed)
        for _ in 0..<50 {
            let batch = made.damaged(Samples.octets(try made.batch().document))
            do throws(FleetDocumentError) {
                let read = try FleetBatch(batch)
                #expect(Set(read.ids).count == read.ids.count)
            } catch {
                #expect(!error.description.isEmpty && !error.code.isEmpty)
            }
            _ = try? FleetReceipt(made.damaged(Samples.octets(try made.receipt().document)))
            _ = try? FleetHello(made.damaged(Samples.octets(try made.hello().document)))
            _ = try? FleetStatus(made.damaged(Samples.octets(try made.status().document)))
            _ = try? FleetAnswer(made.damaged(Samples.octets(try made.answer().document)))
            _ = try? FleetConfiguration(made.damaged(Samples.octets(try made.configuration().document)))
        }
    }

    @Test("a newer schema and a document that is too large are errors of their own")
    func limits() throws {
        let document = try Samples.batch().document
        #expect(throws: FleetDocumentError.newerSchema(2, known: 1)) {
            try FleetBatch(Samples.octets(document, #""schema":1"#, #""schema":2"#))
        }
        #expect(throws: FleetDocumentError.newerSchema(2, known: 1)) { try FleetUpload(Array(#"{"schema":2}"#.utf8)) }
        let large = [UInt8](repeating: UInt8(ascii: " "), count: FleetBatch.mostBytes) + Samples.octets(document)
        #expect(throws: FleetDocumentError.tooLarge(bytes: large.count, limit: FleetBatch.mostBytes)) {
            try FleetBatch(large)
        }
        #expect(throws: FleetDocumentError.tooLarge(bytes: large.count, limit: FleetBatch.mostBytes)) {
            try FleetUpload(large)
        }
        #expect(try FleetBatch(Array(large.dropFirst(large.count - FleetBatch.mostBytes))).number == 7)
    }

    @Test("a document that names another gateway than its topic is not taken")
    func otherGateway() throws {
        let other = try GatewayID("ward-8")
        let expected = FleetDocumentError.otherGateway(expected: other, found: try Samples.gateway())
        #expect(throws: expected) { try FleetBatch(Samples.octets(try Samples.batch().document), from: other) }
        #expect(throws: expected) {
            try FleetReceipt(
                Samples.octets(FleetReceipt(gateway: try Samples.gateway(), batch: 7).document), for: other)
        }
    }

    @Test(
        "an error says where something else was expected, and names no value",
        arguments: [
            (
                #""batch":7"#, #""batch":0"#,
                "batch: expected a whole number from 1 to 9007199254740991, found another number"
            ),
            (
                #""batch":7"#, #""batch":7.0"#,
                "batch: expected a whole number from 1 to 9007199254740991, found another number"
            ),
            (
                #""batch":7"#, #""batch":"7""#,
                "batch: expected a whole number from 1 to 9007199254740991, found a text of 1 bytes"
            ),
            (
                #""id":"000000000000000a0000000000000002""#, #""id":"000000000000000a0000000000000001""#,
                "readings[1].id: expected an id not used before in this batch, found one that was"
            ),
            (
                #""id":"000000000000000b0000000000000001""#, #""id":"000000000000000a0000000000000001""#,
                "retracted[0].id: expected an id not used before in this batch, found one that was"
            ),
            (
                #""id":"000000000000000a0000000000000001""#, #""id":"000000000000000A0000000000000001""#,
                "readings[0].id: expected 32 hexadecimal digits in lower case, found a text of 32 bytes"
            ),
            (
                #""revision":7"#, #""revision":null"#,
                "readings[0].revision: expected a whole number from 1 to 9007199254740991, found nothing"
            ),
            (
                #""kind":"glucose""#, #""kind":"""#,
                "readings[0].kind: expected a text of 1 to 64 bytes, found a text of 0 bytes"
            ),
            (
                #""sent_at":"2026"#, #""sent_at":"x026"#,
                "sent_at: expected a time as in 2026-11-20T12:30:00Z, found a text of 20 bytes"
            ),
            (#"{"schema":1,"#, #"{"schema":1,}"#, "octet 12: expected a name in double quotes, found the octet 125"),
        ])
    func places(_ old: String, _ new: String, _ words: String) throws {
        let octets = Samples.octets(try Samples.batch().document, old, new)
        let error = try #require(throws: FleetDocumentError.self) { try FleetBatch(octets) }
        #expect(error.description == words)
        #expect(error.code == "bad_document")
    }

    @Test("a batch has 1 to 100 readings and readings to take back")
    func counts() throws {
        #expect(try FleetBatch(Samples.octets(try Samples.batch(of: 99).document)).ids.count == 100)
        #expect(throws: FleetDocumentError.self) { try FleetBatch(Samples.octets(try Samples.batch(of: 100).document)) }
        let empty = FleetBatch(gateway: try Samples.gateway(), number: 1, sentAt: Samples.now, readings: [])
        #expect(throws: FleetDocumentError.self) { try FleetBatch(Samples.octets(empty.document)) }
    }

    @Test("members that a reader does not know are ignored")
    func unknownMembers() throws {
        let batch = try Samples.batch()
        #expect(try FleetBatch(Samples.octets(batch.document, #""batch":7"#, #""later":{"a":[1]},"batch":7"#)) == batch)
    }

    @Test("a batch's number grows without a clock, with one that was set back, and after the state was lost")
    func numbers() {
        let later = Instant(seconds: 1_795_176_000)
        #expect(FleetBatch.nextNumber(after: 0, at: later) == 1_795_176_000_000)
        #expect(FleetBatch.nextNumber(after: 1_795_176_000_000, at: later) == 1_795_176_000_001)
        #expect(FleetBatch.nextNumber(after: 7, above: 1_795_176_000_009, at: later) == 1_795_176_000_010)
        #expect(FleetBatch.nextNumber(after: 7, above: FleetSchema.largestNumber, at: later) == 1_795_176_000_000)
        #expect(FleetBatch.nextNumber(after: 1_795_176_000_000, at: Instant(seconds: 5)) == 1_795_176_000_001)
        #expect(FleetBatch.nextNumber(after: 0, at: Instant(seconds: -5)) == 1)
        #expect(FleetBatch.nextNumber(after: FleetSchema.largestNumber, at: later) == FleetSchema.largestNumber)
    }

    @Test("a receipt cannot say two things of one reading, nor store parts of a batch it could not read")
    func contradictions() throws {
        let id = ReadingID(high: 1, low: 1)
        let both = FleetReceipt(
            gateway: try Samples.gateway(), batch: 7, stored: [id], refused: [.init(id: id, reason: "no")])
        #expect(throws: FleetDocumentError.self) { try FleetReceipt(Samples.octets(both.document)) }
        let failed = FleetReceipt(
            gateway: try Samples.gateway(), batch: 7, stored: [id], failure: .init(.newerSchema(2, known: 1)))
        #expect(throws: FleetDocumentError.self) { try FleetReceipt(Samples.octets(failed.document)) }
    }

    @Test("a receipt's message is cut where a gateway stops reading, between characters")
    func longMessage() throws {
        for (message, bytes) in [
            (String(repeating: "x", count: 1024), 1024), (String(repeating: "x", count: 5000), 1024),
            (String(repeating: "\u{1F4A1}", count: 500), 1024), ("x" + String(repeating: "é", count: 700), 1023),
        ] {
            let receipt = FleetReceipt(
                gateway: try Samples.gateway(), batch: 7, failure: .init(code: "bad_document", message: message))
            #expect(receipt.failure?.message.utf8.count == bytes)
            #expect(try FleetReceipt(Array(receipt.document.text.utf8)) == receipt)
            #expect(message.hasPrefix(receipt.failure?.message ?? "?"))
        }
    }

    @Test("the will says only that the gateway is gone")
    func will() throws {
        #expect(FleetStatus.offline.document.text == #"{"online":false}"#)
        #expect(try FleetStatus(Array(#"{"online": false}"#.utf8), from: Samples.gateway()) == .offline)
        #expect(throws: FleetDocumentError.self) { try FleetStatus(Array("{}".utf8)) }
    }

    @Test("a configuration names what cannot be set, and keeps the rest")
    func configuration() throws {
        let text = #"""
            {"schema":1,"gateway":"ward-7","version":3,"settings":{"sync.backfill_days":30,"sync.mode":"manual",
            "store.key_file":"/etc/key","sources.map":{"generic":"manual"},"log.level":7}}
            """#
        let configuration = try FleetConfiguration(Array(text.utf8), for: Samples.gateway())
        #expect(
            configuration.settings == ["sync.backfill_days": .whole(30), "sources.map": .map(["generic": "manual"])])
        #expect(configuration.refused.map(\.key) == ["sync.mode", "store.key_file", "log.level"])
        #expect(
            configuration.refused.first?.reason.hasPrefix("settings.sync.mode: expected one of clock.require_sync, ")
                == true)
    }
}

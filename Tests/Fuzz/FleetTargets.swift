import FleetDocuments
import HealthReadings

extension FuzzTarget {
    private static let gateway = GatewayID(ifValid: "ward-7")
    private static let id = ReadingID(high: 0x0123_4567_89AB_CDEF, low: 7).description

    /// A batch of readings: what is taken gives the same batch when it is written and read again.
    static let fleetBatch = FuzzTarget(
        "fleet-batch", longest: 4096,
        words: [
            #""schema":1,"#, #""gateway":"ward-7","#, #""batch":1763640000000,"#, #""readings":["#, #""retracted":["#,
            #""id":"\#(id)","#, #""revision":1,"#, #""kind":"glucose","#, #""time":"2026-11-20T12:30:00Z""#,
        ],
        seeds: { _ in
            let reading =
                #"{"id":"\#(id)","revision":7,"kind":"glucose","time":"2026-11-20T12:30:00Z","person":"a","glucose":"#
                + #"{"value":127.0,"unit":"mg/dL"}}"#
            return [
                #"{"schema":1,"gateway":"ward-7","batch":7,"sent_at":"2026-11-20T12:30:00Z","readings":[\#(reading)],"#
                    + #""retracted":[]}"#,
                #"{"schema":2,"gateway":"ward-7"}"#,
                #"{"schema":1,"gateway":"ward-7","batch":7,"sent_at":"2026-11-20T12:30:00Z","readings":[],"#
                    + #""retracted":[{"id":"\#(id)","revision":8}]}"#,
            ].inputs
        }
    ) { octets in
        _ = FleetUpload.number(of: octets)
        guard let batch = try? FleetBatch(octets, from: gateway) else { return }
        expect(batch.gateway == gateway, "a batch of another gateway was taken")
        expect((1...FleetBatch.mostItems).contains(batch.ids.count), "a batch has \(batch.ids.count) readings")
        expect(Set(batch.ids).count == batch.ids.count, "a batch has a reading twice")
        let again = try? FleetBatch(Array(batch.document.text.utf8), from: gateway)
        expect(again == batch, "a batch is not what its document says")
    }

    /// A sealed batch: nothing that was changed opens.
    static let fleetSealed = FuzzTarget(
        "fleet-sealed", longest: 2048,
        words: [#""sealed":{"#, #""suite":"\#(SealedBatch.suite)","#, #""ciphertext":""#, #""encapsulated":""#],
        seeds: { _ in [sealed.document.text].inputs }
    ) { octets in
        guard case .sealed(let batch) = try? FleetUpload(octets) else { return }
        guard let opened = try? batch.opened(with: centre) else { return }
        expect(batch == sealed, "a batch that was changed has opened: \(opened.number)")
    }

    private static let centre = OpeningKey()
    private static let sealed: SealedBatch = {
        guard let gateway,
            let sealed = try? SealedBatch(
                FleetBatch(
                    gateway: gateway, number: 7, sentAt: Instant(seconds: 1), readings: [],
                    retracted: [FleetRetraction(id: ReadingID(high: 1, low: 2), revision: 7)]), to: centre.sealingKey)
        else { fatalError("no batch was sealed") }
        return sealed
    }()

    /// What the centre sends: the first octet picks the document.
    static let fleetAnswer = FuzzTarget(
        "fleet-answer", longest: 2048,
        words: [
            #""stored":["\#(id)"],"#, #""stored_through":7,"#, #""refused":[{"#, #""reason":"no"}]"#, #""error":{"#,
            #""settings":{"#, #""sync.mode":"manual""#, #""sources.map":{"a":"b"}"#, #""version":3,"#,
        ],
        seeds: { _ in
            [
                #"0{"schema":1,"gateway":"ward-7","batch":7,"stored":["\#(id)"],"stored_through":null,"refused":[],"#
                    + #""error":null}"#,
                #"0{"schema":1,"gateway":"ward-7","batch":7,"error":{"code":"newer_schema","message":"no"}}"#,
                #"1{"schema":1,"gateway":"ward-7","version":3,"settings":{"clock.require_sync":true,"sync.backfill_days":9,"#
                    + #""sources.map":{"generic":"manual"},"log.level":"debug"}}"#,
            ].inputs
        }
    ) { octets in
        guard let first = octets.first else { return }
        let rest = Array(octets.dropFirst())
        if first % 2 == 0 {
            guard let receipt = try? FleetReceipt(rest, for: gateway) else { return }
            expect(Set(receipt.stored).isDisjoint(with: receipt.refused.map(\.id)), "a reading is stored and refused")
            let again = try? FleetReceipt(Array(receipt.document.text.utf8), for: gateway)
            expect(again == receipt, "a receipt is not what its document says")
        } else {
            guard let configuration = try? FleetConfiguration(rest, for: gateway) else { return }
            expect(
                configuration.settings.keys.allSatisfy(FleetConfiguration.keys.contains), "a setting is not on the list"
            )
            let again = try? FleetConfiguration(Array(configuration.document.text.utf8), for: gateway)
            expect(
                again?.settings == configuration.settings, "a configuration is not what its document says")
        }
    }

    /// What a gateway says about itself: the first octet picks the document.
    static let fleetReport = FuzzTarget(
        "fleet-report", longest: 2048,
        words: [
            #""online":false"#, #""uptime_seconds":1,"#, #""clock":"synchronised","#, #""backlog":{"#, #""devices":["#,
            #""configuration":{"#, #""state":"applied""#, #""unconfirmed":[1]"#,
        ],
        seeds: { _ in
            guard let gateway else { return [] }
            let hello = FleetHello(gateway: gateway, sentAt: Instant(seconds: 1), version: "1", unconfirmed: [7])
            let report = FleetReport(
                gateway: gateway, sentAt: Instant(seconds: 1), version: "1",
                devices: [.init(alias: "accuchek_guide-3f2a", batteryPercent: 80)])
            return [
                "0" + hello.document.text, "1" + FleetStatus.online(report).document.text,
                "1" + FleetStatus.offline.document.text,
            ].inputs
        }
    ) { octets in
        guard let first = octets.first else { return }
        let rest = Array(octets.dropFirst())
        if first % 2 == 0 {
            guard let hello = try? FleetHello(rest, from: gateway) else { return }
            let again = try? FleetHello(Array(hello.document.text.utf8), from: gateway)
            expect(again == hello, "a hello is not what its document says")
        } else {
            guard let status = try? FleetStatus(rest, from: gateway) else { return }
            let again = try? FleetStatus(Array(status.document.text.utf8), from: gateway)
            expect(again == status, "a status is not what its document says")
        }
    }

    /// Ids, topics, routing keys and key files: the first octet picks the parser.
    static let fleetName = FuzzTarget(
        "fleet-name", longest: 256,
        words: [
            "healthrelay/", "healthrelay.", "/readings", ".receipts", "-----BEGIN PUBLIC KEY-----\n",
            "MCowBQYDK2VuAyEA",
        ],
        seeds: { _ in
            [
                "0ward-7", "1healthrelay/ward-7/readings", "2healthrelay.ward-7.hello", "3" + centre.sealingKey.pem,
                "4" + centre.pem,
            ].inputs
        }
    ) { octets in
        guard let first = octets.first else { return }
        let text = String(decoding: octets.dropFirst(), as: UTF8.self)
        switch first % 5 {
        case 0:
            guard let id = try? GatewayID(text) else { return }
            expect(id.description == text, "\(text) is not \(id)")
        case 1:
            guard let topic = try? FleetTopic(text) else { return }
            expect(topic.description == text, "\(text) is not \(topic)")
        case 2:
            guard let topic = try? FleetTopic(routingKey: text) else { return }
            expect(topic.routingKey == text, "\(text) is not \(topic.routingKey)")
        case 3:
            guard let key = try? SealingKey(pem: text) else { return }
            expect((try? SealingKey(pem: key.pem)) == key, "a key is not what its file says")
        default:
            guard let key = try? OpeningKey(pem: text) else { return }
            expect((try? OpeningKey(pem: key.pem))?.sealingKey == key.sealingKey, "a key is not what its file says")
        }
    }
}

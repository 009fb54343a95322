import Foundation
import GATTClient
import HealthReadings
import OutgoingHTTP
import VitalSandbox

@testable import GatewayCommands
@testable import GatewaySettings
@testable import ReadingStore
@testable import VitalClient

extension FuzzTarget {
    /// Texts of command lines, settings and answers: the first octet picks the parser.
    static let text = FuzzTarget(
        "text", longest: 128,
        words: [
            "2026-11-20", "T13:30:00", "+01:00", "Z", "Europe/Berlin", "C0:00:00:00:18:08", "0x", "127.0.0.1:",
            "https://", "status=", "retry-after=", "2a18", "state=", "&error=",
        ],
        seeds: { _ in
            let texts = [
                "2026-11-20T13:30:00.25+01:00", "2026-11-20 13:30:00", "C0:00:00:00:18:08",
                "0000180d-0000-1000-8000-00805f9b34fb", "-12.50", "13 05:00 0xea07", "2026-11-20", "[::1]:8480",
                "status=503,rate=0.3,drop=after,slow=2", "Europe/Berlin", "https://api.example.org/v2/", "health:80",
                "state=error&error_type=user_cancelled&error=a+b%0A&provider=oura&isMobile=1", "state=success",
                PageCursor(seconds: 1_763_640_000, id: ReadingID(high: 1, low: 2)).text, "5f0c6e2b9a11-41",
            ]
            return texts.inputs.flatMap { text in TextParsers.all.indices.map { [UInt8($0)] + text } }
        }
    ) { octets in
        guard let first = octets.first else { return }
        TextParsers.all[Int(first) % TextParsers.all.count](String(decoding: octets.dropFirst(), as: UTF8.self))
    }

    /// A settings file.
    static let settings = FuzzTarget(
        "settings", longest: 2048,
        words: SettingDefinition.all.map { String($0.key.split(separator: ".").last ?? "") + ": " }
            + [
                "server:\n  ", "sync: {", "}", "[", "]", "null", "&a ", "*a", "!!str ", "? ", "|\n", "\"", "true", "90",
            ],
        seeds: { _ in
            [
                """
                server:  {kind: vital, environment: sandbox, region: us, base_url: null, api_key_file: /etc/key}
                user:    {client_user_id: white_bear, time_zone: Europe/Berlin}
                users:   []
                sources: {policy: create, map: {generic: manual}}
                sync:    {mode: automatic, backfill_days: 90, ignore: [omron_ble]}
                http:    {listen: "127.0.0.1:8480", tls: auto}
                clock:   {require_sync: false}
                """, "server:\n  base_url: https://a:b@example.org\n", "log:\n  level: debug\n",
            ].inputs
        }
    ) { octets in
        guard let path = try? Captures.file(octets) else { return }
        do {
            let settings = try Settings(file: path, environment: [:])
            _ = settings.document.text
            for definition in SettingDefinition.all {
                _ = (settings[definition.key], settings.list(definition.key), settings.map(definition.key))
                _ = settings.origin(of: definition.key)
            }
        } catch {
            expect(error is Problem, "settings fail with something else than a problem: \(error)")
        }
    }

    /// A message of the control socket, either way.
    static let control = FuzzTarget(
        "control", longest: 1024,
        words: ["\"operation\":", "\"query\":{\"_0\":{", "\"limit\":", "\"json\":true", "\"problem\":{", "\"data\":{"],
        seeds: { _ in
            var query = QueryOperation()
            (query.types, query.from, query.cursor) = (["glucose"], "2026-11-20", "x")
            let operations: [GatewayCommands.Operation] = [
                .query(query), .user(.create("white_bear")), .source(.connect("omron_ble")), .sync(.status),
                .store(.verify),
            ]
            let requests = try operations.map { try JSONEncoder().encode(OperationRequest($0, json: true)) }
            let messages: [ControlMessage] = [
                .data("{}"), .note("x"), .done, .problem(Problem("usage", .usage, "no")),
            ]
            return try (requests + messages.map { try JSONEncoder().encode($0) }).map { [UInt8]($0) }
        }
    ) { octets in
        let data = Data(octets)
        if let request = try? JSONDecoder().decode(OperationRequest.self, from: data) {
            let again = (try? JSONEncoder().encode(request)).flatMap {
                try? JSONDecoder().decode(OperationRequest.self, from: $0)
            }
            expect(again == request, "a request is not what its encoding says")
        }
        _ = try? JSONDecoder().decode(ControlMessage.self, from: data)
    }

    /// The server's answer, good and bad: the first octet picks its status.
    static let vitalAnswer = FuzzTarget(
        "vital-answer", longest: 2048,
        words: ["\"detail\":", "\"user_id\":", "\"providers\":[", "\"error_type\":", "\"loc\":[", "\"msg\":", "2 "],
        seeds: { _ in
            [
                #"2{"user_id":"a","client_user_id":"b","connected_sources":[{"provider":{"slug":"omron_ble"}}]}"#,
                #"{"detail":{"error_type":"INVALID_REQUEST","error_message":"already exists","user_id":"a"}}"#,
                #"{"detail":[{"loc":["body","data",0],"msg":"field required","type":"value_error"}]}"#,
                #"{"detail":"no"}"#, "<!DOCTYPE html><title>login</title>", "Sun, 06 Nov 1994 08:49:37 GMT", "120",
                #"{"providers":[{"slug":"omron_ble","status":"error","created_on":"2026-11-20T12:30:00Z","#
                    + #""error_details":{"error_type":"x","error_message":"y","errored_at":"2026-11-20T12:30:00Z"}}]}"#,
            ].inputs
        }
    ) { readVitalAnswer($0) }

    /// The sandbox's request bodies.
    static let sandboxBody = FuzzTarget(
        "sandbox-body", longest: 4096,
        words: [
            "\"client_user_id\":", "\"stage\":\"daily\"", "\"provider\":\"accuchek_ble\"", "\"time_zone\":",
            "\"data\":[{",
            "\"id\":", "\"timestamp\":", "\"unit\":\"mmol/L\"", "\"value\":", "\"type\":", "\"systolic\":", "\\u00e9",
        ],
        seeds: { _ in
            let bodies = [
                #"{"client_user_id":"white_bear","fallback_time_zone":"Europe/Berlin"}"#, #"{"user_id":"a"}"#,
                #"{"stage":"daily","provider":"accuchek_ble","time_zone":null,"data":[{"id":"a","#
                    + #""timestamp":"2026-11-20T12:30:00Z","unit":"mmol/L","value":5.2737,"type":"fingerprick"}]}"#,
                #"{"stage":"daily","provider":"omron_ble","data":[{"timestamp":"2026-11-20T12:30:00+01:00","#
                    + #""systolic":{"value":127.0,"unit":"mmHg"},"diastolic":{"value":79,"unit":"mmHg"}}]}"#,
            ].inputs
            return bodies + bodies.compactMap { Gzip.compress($0, saving: .octets) }
        }
    ) { fuzzSandboxBody($0) }
}

/// Parsers of short texts; what they accept must be what its own text says.
private enum TextParsers {
    static let all: [@Sendable (String) -> Void] = [
        { text in
            guard let instant = Instant(rfc3339: text) else { return }
            expect(Instant(rfc3339: instant.description) == instant, "\(text) is not \(instant)")
        },
        { text in
            guard let time = WallTime(text) else { return }
            expect(WallTime(time.description) == time, "\(text) is not \(time)")
        },
        { text in
            guard let address = DeviceAddress(text) else { return }
            expect(DeviceAddress(address.description) == address, "\(text) is not \(address)")
        },
        { text in
            guard let uuid = BluetoothUUID(text) else { return }
            expect(BluetoothUUID(uuid.description) == uuid, "\(text) is not \(uuid)")
        },
        { text in
            guard let number = ExactDecimal(text) else { return }
            expect(ExactDecimal(number.description) == number, "\(text) is not \(number)")
            _ = number.multiplied(by: ExactDecimal(significand: 180_156, exponent: -4), places: 4)
            _ = number.divided(by: ExactDecimal(significand: 180_156, exponent: -4), places: 4)
        },
        { text in
            guard let octets = try? Hexadecimal.octets(text) else { return }
            let again = octets.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
            expect((try? Hexadecimal.octets(again)) == octets, "\(text) is not \(again)")
        },
        { text in
            guard let zone = ZoneRules.named("Europe/Berlin") else { return }
            _ = try? InstantArgument.instant(text, "--from", end: .start, zone: zone).description
            _ = try? InstantArgument.instant(text, "--to", end: .end, zone: zone).description
        },
        { text in
            guard let address = try? ListenAddress(text) else { return }
            expect((try? ListenAddress(address.description)) == address, "\(text) is not \(address)")
        },
        { text in do { _ = try FaultPlan(text) } catch { _ = "\(error)" } },
        { text in
            // The zone database's own folder is no outside input: names with steps are enough here.
            if text.utf8.count < 40 { _ = ZoneRules.named(text) }
        },
        { text in
            do {
                let redirect = try LinkRedirect(query: text)
                let shown = "\(redirect)"
                expect(!shown.unicodeScalars.contains { $0.value < 32 }, "a control character is shown")
            } catch {
                _ = "\(error)"
            }
        },
        { text in do { _ = try VitalServer(baseURL: text) } catch { _ = "\(error)" } },
        { text in
            guard let cursor = try? PageCursor(text: text) else { return }
            expect(cursor.text == text, "\(text) is not \(cursor.text)")
        },
        { text in
            guard let position = ChangePosition(text) else { return }
            expect(ChangePosition(position.description) == position, "\(text) is not \(position)")
        },
    ]
}

import DeviceReports
import GATTClient
import HCICapture
import HealthReadings

extension FuzzTarget {
    /// A report of a device as it is read back: what is taken is written as it was, replayed as a capture, and made anonymous.
    static let deviceReport = FuzzTarget(
        "device-report", longest: 4096,
        words: [
            #""report":"healthrelay.device_report""#, #""version":1"#, #""do":"read""#, #""do":"write""#,
            #""do":"command""#, #""do":"enable""#, #""do":"disable""#, #""do":"value""#, #""do":"disconnect""#,
            #""by":"device""#, #""octets":""#, #""handle":9"#, #""ms":"#, #""refused":"#, #""failed":true"#,
            #""uuid":"2a18""#, #""uuid":"2a35""#, #""uuid":"2aa7""#, #""uuid":"2a34""#,
        ],
        seeds: { _ in
            let values: [(BluetoothUUID, [UInt8])] = [
                (0x2A18, [0x02, 5, 0, 0xEA, 7, 11, 20, 12, 30, 0, 95, 0xB0, 0x11]),
                (0x2A34, [0x02, 5, 0, 3]),
                (0x2A35, [0x1E, 120, 0, 80, 0, 90, 0, 0xEA, 7, 1, 2, 3, 4, 5, 70, 0, 1, 0, 0]),
                (0x2AA7, [6, 0, 120, 0, 5, 0]), (0x2A52, [6, 0, 1, 1]), (0x2A37, [0x10, 70, 0, 3]),
                (0x2A9D, [0x0E, 0, 60, 0xEA, 7, 1, 2, 3, 4, 5, 1, 200, 0, 100, 6]),
                (0xFFF1, [0x4D, 0x3A, 0, 3, 0, 0, 0x8A]),
            ]
            return values.map { uuid, octets in
                let moment = Instant(seconds: 1_700_000_000)
                var exchange = Exchange(
                    Advertisement(address: DeviceAddress("C0:00:00:00:18:08"), name: "meter+1", seenAt: moment),
                    start: moment)
                exchange.characteristics = [
                    Characteristic(uuid: uuid, service: 0x1808, valueHandle: 9, properties: [.read, .notify])
                ]
                exchange.steps = [
                    .init(0, .read(9, .done(octets))), .init(1, .enable(9, .done([]))),
                    .init(2, .write(9, [1, 1], expectsResponse: true, .refused(0x80))), .init(3, .value(9, octets)),
                    .init(4, .disconnect(byDevice: true)),
                ]
                let report = ModelReport(
                    Anonymiser.Result(exchange: exchange, withheld: []), model: nil,
                    course: .init(isComplete: true, records: 1), software: "0")
                return Array(report.document.text.utf8)
            }
        }
    ) { octets in
        guard let report = try? ModelReport(reading: octets) else { return }
        let again = try? ModelReport(reading: Array(report.document.text.utf8))
        expect(again?.exchange.steps == report.exchange.steps, "a report is not read as it was written")
        _ = report.lines
        let made = Anonymiser().anonymous(report.exchange).exchange
        expect(made.steps.count == report.exchange.steps.count, "steps are missing")
        for (one, other) in zip(report.exchange.steps, made.steps) {
            expect(one.action.octets?.count == other.action.octets?.count, "a value has another length")
        }
        _ = exerciseCapture(report.exchange.capture)
        _ = exerciseCapture(made.capture)
    }
}

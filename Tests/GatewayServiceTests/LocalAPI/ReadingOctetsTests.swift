import Foundation
import GatewayCommands
import HealthReadings
import ReadingStore
import Testing

@Suite("Readings written octet by octet", .timeLimit(.minutes(5))) struct ReadingOctetsTests {
    private func isSame(_ reading: Reading) -> Bool {
        var octets = Array("before".utf8)
        reading.write(into: &octets)
        let text = String(decoding: octets, as: UTF8.self)
        guard text != "before" + reading.document.text else { return true }
        Issue.record("\(text)\n\(reading.document.text)")
        return false
    }

    @Test("they are the document's text, for every reading of every fixture")
    func fixtures() async throws {
        let names = try FileManager.default.contentsOfDirectory(
            atPath: URL(fileURLWithPath: APIBench.fixture("x")).deletingLastPathComponent().path
        ).filter { $0.hasSuffix(".btsnoop") && !$0.contains("no-discovery") }.map { String($0.dropLast(8)) }
        let bench = try await APIBench(tls: false, captures: names.sorted())
        let readings = try await bench.gateway.store.query(.init(limit: 10_000)).readings
        #expect(readings.count > 50)
        for reading in readings { #expect(isSame(reading)) }
        // Many together, taken as they come or at the end: what devices share is written once.
        let expected = readings.map(\.document.text).joined(separator: ",")
        for size in [1, 1000, 100_000, 10_000_000] {
            var writer = ReadingWriter(capacity: size)
            var text = ""
            for reading in readings {
                writer.append(reading)
                if writer.count >= size { text += writer.take { String(decoding: $0, as: UTF8.self) } }
            }
            text += writer.take { String(decoding: $0, as: UTF8.self) }
            #expect(text == expected && writer.count == 0, "\(size)")
        }
        try await bench.stop()
    }

    @Test("also for numbers, times and texts that no meter sends")
    func edges() async throws {
        let bench = try await APIBench(tls: false, captures: ["two-meters"])
        let seed = try #require(try await bench.gateway.store.query(.init(limit: 1)).readings.first)
        try await bench.stop()
        let numbers = [
            ExactDecimal(significand: 0), ExactDecimal(significand: 0, exponent: -3),
            ExactDecimal(significand: -5, exponent: -1),
            ExactDecimal(significand: .max), ExactDecimal(significand: .min),
            ExactDecimal(significand: .min, exponent: -18),
            ExactDecimal(significand: 7, exponent: 3), ExactDecimal(significand: 123, exponent: -40),
            ExactDecimal(significand: 1005, exponent: -2), ExactDecimal(significand: -1, exponent: -18),
        ]
        for number in numbers {
            var reading = seed
            reading.record.value = .glucose(GlucoseValue(concentration: Quantity(number, .milligramsPerDecilitre)))
            #expect(isSame(reading))
        }
        for microseconds: Int64 in [0, -1, 1, 1_500_000, -62_167_219_200_000_000, 253_402_300_800_000_000, .max / 2] {
            var reading = seed
            reading.time.instant = Instant(microseconds: microseconds)
            reading.record.baseTime = WallTime(secondsSinceEpoch: microseconds / 1_000_000)
            #expect(isSame(reading))
        }
        for text in ["", "\"\\\u{1}\n", "größe 🩸", "\u{7F}", String(repeating: "x", count: 500)] {
            var reading = seed
            reading.device.serial = text
            reading.device.model = text
            reading.person = text
            reading.record.userSlot = 255
            reading.record.status = [.irregularPulse, .bodyMovement]
            reading.device.address = nil
            #expect(isSame(reading))
        }
        let states: [DeliveryState] = [
            .waiting, .handedOver, .delivered, .held(.noPatient), .retracted, .refused(words: "\"no\"\n"),
            .refused(words: ""),
        ]
        for count in 0...states.count {
            var reading = seed
            reading.deliveries = states.prefix(count).enumerated().map { place, state in
                DestinationDelivery(
                    destination: "d-\(place)", state: state,
                    sentTime: place.isMultiple(of: 2) ? nil : Instant(seconds: 1_700_000_000 + Int64(place)))
            }
            #expect(isSame(reading))
        }
    }
}

import Foundation
import GatewayCommands
import HealthReadings
import ReadingStore
import Testing

@Suite("How a reading stands with its destinations", .timeLimit(.minutes(5))) struct DeliveriesTests {
    private static let reading: Reading = {
        let concentration = Quantity(ExactDecimal(significand: 95), .milligramsPerDecilitre)
        return Reading(
            id: ReadingID(high: 1, low: 2),
            record: Record(value: .glucose(GlucoseValue(concentration: concentration))),
            device: DeviceDescription(
                address: DeviceAddress("C0:00:00:00:18:08"), model: "accuchek_guide",
                provider: "accuchek_ble"),
            time: ResolvedTime(instant: Instant(seconds: 1_795_262_400), basis: .corrected),
            receivedAt: Instant(seconds: 1_795_262_400))
    }()

    private static func reading(_ deliveries: (String, DeliveryState)...) -> Reading {
        var reading = reading
        reading.deliveries = deliveries.map { .init(destination: $0.0, state: $0.1) }
        return reading
    }

    @Test("a document has a delivery for each destination, with its state and reason")
    func document() {
        let reading = Self.reading(
            ("clinic", .delivered), ("home", .held(.noConsent)), ("study", .refused(words: "too odd")))
        #expect(
            reading.document.text.contains(
                #""deliveries":[{"destination":"clinic","state":"delivered","reason":null},"#
                    + #"{"destination":"home","state":"held","reason":"no_consent"},"#
                    + #"{"destination":"study","state":"refused","reason":"too odd"}]}"#))
        #expect(Self.reading().document.text.hasSuffix(#""deliveries":[]}"#))
    }

    @Test("a line of CSV has one cell with every destination, and never a receiver's free text")
    func csv() throws {
        let place = try #require(Reading.csvHeader.split(separator: ",").firstIndex(of: "deliveries"))
        func cell(_ reading: Reading) -> String {
            String(reading.csv.split(separator: ",", omittingEmptySubsequences: false)[place])
        }
        #expect(
            cell(
                Self.reading(
                    ("clinic", .delivered), ("home", .held(.noConsent)), ("study", .refused(words: "a, \"b\": c\n")),
                    ("fleet", .handedOver))) == "clinic:delivered home:held:no_consent study:refused fleet:handed_over")
        #expect(cell(Self.reading()).isEmpty)
        #expect(Self.reading().csv.split(separator: ",", omittingEmptySubsequences: false).count == 40)
        var reading = Self.reading()
        reading.person = "white_bear"
        let person = try #require(Reading.csvHeader.split(separator: ",").firstIndex(of: "person"))
        #expect(reading.csv.split(separator: ",", omittingEmptySubsequences: false)[person] == "white_bear")
    }

    @Test("a line for people names the destinations that do not have the reading, and why")
    func line() {
        #expect(Self.reading(("clinic", .delivered), ("home", .waiting)).line.hasSuffix("C0:00:00:00:18:08"))
        #expect(
            Self.reading(("clinic", .held(.sourceRevoked)), ("study", .refused(words: "too odd"))).line
                .hasSuffix("[clinic: source revoked; study: refused: too odd]"))
        var excluded = Self.reading(("clinic", .waiting))
        excluded.excluded = .controlSolution
        #expect(excluded.line.hasSuffix("[kept, not sent: control solution]"))
    }

    @Test("reasons are named and ordered as the command line's contract has them")
    func reasons() {
        #expect(
            Hold.allCases.map(\.rawValue) == [
                "locked", "no_consent", "not_selected", "ignored", "older_than_backfill", "sync_disabled",
                "destination_disabled", "manual", "other_endpoint", "no_patient", "no_source", "source_revoked",
                "source_paused", "source_error", "awaiting_context",
            ])
    }
}

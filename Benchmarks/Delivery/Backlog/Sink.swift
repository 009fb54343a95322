import Foundation
import HealthReadings
import MQTTDestinations
import MQTTLink
import ReadingDelivery
import ReadingFormats
import ReadingStore
import VitalClient
import VitalDestination
import WebDestinations

/// A null sink, and the kind of destination that delivers to it.
public struct Sink: Sendable {
    /// What a sink cannot be.
    public struct Malformed: Error {
        /// What was given.
        public var text: String
    }

    private enum Kind: String {
        case vital, influxdb, nightscout, fhir, webhook, mqtt
    }

    private let kind: Kind
    private let url: String

    /// Reads `KIND=URL`: `vital`, `influxdb`, `nightscout`, `fhir`, `webhook` or `mqtt`.
    ///
    /// - Throws: ``Malformed``.
    public init(_ text: String) throws {
        let parts = text.split(separator: "=", maxSplits: 1)
        guard parts.count == 2, let kind = Kind(rawValue: String(parts[0])) else { throw Malformed(text: text) }
        self.kind = kind
        url = String(parts[1])
    }

    /// The destination, with the options that the gateway gives it.
    public func destination(_ store: ReadingStore) throws -> any Destination {
        switch kind {
        case .vital:
            let api = VitalAPI(
                server: try VitalServer(baseURL: url), credentials: .apiKey(Secret("sk_us_benchmark")))
            return VitalDestination(store: store, api: api, policy: .require)
        case .influxdb:
            return InfluxDBDestination(
                name: kind.rawValue, server: try WebServer(url: url), place: .database("bench", login: nil))
        case .nightscout:
            return NightscoutDestination(
                name: kind.rawValue, server: try WebServer(url: url), credential: .secret("benchmark-secret"),
                store: store, isPersonChosen: false)
        case .fhir:
            return FHIRDestination(
                name: kind.rawValue, server: try WebServer(url: url), credential: .none,
                patients: [
                    Backlog.person: PatientIdentifier(system: "https://clinic.example/patients", value: "4711")
                ],
                sender: .init(version: "0.0.0") { DeviceFacts(manufacturer: "Bench", model: $0) }, store: store)
        case .webhook:
            let secret = try WebhookSecret("whsec_" + Data((0..<32).map { UInt8($0) }).base64EncodedString())
            return WebhookDestination(
                name: kind.rawValue, server: try WebServer(url: url, allowsQuery: true), secret: secret, store: store,
                sender: WebhookSender(version: "0.0.0"), allowsPrivate: true)
        case .mqtt:
            guard let place = URLComponents(string: url), let host = place.host, let port = place.port else {
                throw Malformed(text: url)
            }
            return MQTTDestination(
                name: kind.rawValue, store: store,
                place: MQTTPlace(broker: MQTTBroker(host: host, port: UInt16(clamping: port))),
                sender: MQTTSender(version: "0.0.0"))
        }
    }
}

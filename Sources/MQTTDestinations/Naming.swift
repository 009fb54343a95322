import Crypto
import Foundation
import HealthReadings
import ReadingFormats
import ReadingStore

/// The names that other programs know this gateway, its meters and their people by.
///
/// They follow from the gateway's own id, so that they stay the same, differ from those of other gateways at the same broker,
/// and do not tell an address or a person.
struct Naming: Sendable, Hashable {
    private let gateway: String
    let topics: HomeAssistant.Topics

    /// - Parameters:
    ///   - gateway: the gateway's own id.
    ///   - base: the topic that all others begin with.
    init(gateway: String, base: String) {
        self.gateway = gateway
        topics = HomeAssistant.Topics(base: base, node: "healthrelay_" + Self.digest([gateway]).prefix(8))
    }

    /// Our client id at the broker: 18 characters, as brokers of MQTT 3.1.1 have to take them.
    func client(of destination: String) -> String { "hr" + Self.digest([gateway, destination]).prefix(16) }

    /// The id of a meter and a person.
    func id(of device: DeviceDescription, person: String) -> String {
        String(Self.digest([gateway, Self.identity(of: device), person]).prefix(12))
    }

    /// Every id that readings of a device and a person may have.
    func ids(of device: StoredDevice, person: String) -> [String] {
        let others = device.addresses.map { address in
            var description = device.description
            description.address = address
            return id(of: description, person: person)
        }
        return [id(of: device.description, person: person)] + others
    }

    /// What makes a device the same one. A device without an address is a sensor that is worn for some days: the next one of
    /// its model goes on where it ended.
    private static func identity(of device: DeviceDescription) -> String {
        device.address.map { "\($0) \($0.kind.rawValue)" } ?? "model \(device.model ?? "")"
    }

    private static func digest(_ parts: [String]) -> String {
        SHA256.hash(data: Data(parts.joined(separator: "\u{0}").utf8)).hexadecimal()
    }
}

import Foundation
import GatewaySettings
import HealthDevices
import MQTTDestinations
import MQTTLink
import OutgoingHTTP
import ReadingFormats

extension DestinationOpening {
    static let mqtt = DestinationOpening(
        rules: MQTTDestination.rules,
        open: { setting, workshop in
            let broker = MQTTSetting(setting)
            let place = try broker.place()
            try broker.requireApart(workshop.settings.destinations.prefix { $0.name != setting.name })
            let catalogue = workshop.catalogue
            let sender = MQTTSender(version: GatewayVersion.current) { catalogue.facts(of: $0) }
            return OpenDestination(
                destination: MQTTDestination(
                    name: setting.name, store: workshop.store, place: place, sender: sender, logger: workshop.logger),
                address: try broker.url().text + (place.topic == MQTTPlace.usualTopic ? "" : "/" + place.topic))
        })
}

extension Catalogue {
    /// What documents call a device of a model.
    func facts(of model: String?) -> DeviceFacts {
        model.flatMap { self[$0] }.map { DeviceFacts(manufacturer: $0.brand, model: $0.name) } ?? DeviceFacts()
    }
}

/// The settings of a destination that is an MQTT broker.
struct MQTTSetting {
    /// A URL that names a broker.
    struct Address {
        var host: String
        var port: UInt16
        var isSecured: Bool

        /// The URL without anything that does not matter: `mqtts://broker:8883`.
        var text: String { "\(isSecured ? "mqtts" : "mqtt")://\(host.contains(":") ? "[\(host)]" : host):\(port)" }

        /// Whether both lead to one broker, as far as can be told: a host's usual ports are listeners of one, and any other
        /// port may be another broker's.
        func isSameBroker(as other: Address) -> Bool {
            let usual = [MQTTBroker.plainPort, MQTTBroker.tlsPort]
            let isSameHost =
                host.lowercased() == other.host.lowercased()
                || HTTPAddress.isLoopback(host) && HTTPAddress.isLoopback(other.host)
            return isSameHost && (port == other.port || usual.contains(port) && usual.contains(other.port))
        }
    }

    let setting: DestinationSetting

    init(_ setting: DestinationSetting) { self.setting = setting }

    /// Where to publish.
    ///
    /// - Throws: `Problem` for settings that cannot be used: `server_insecure` for MQTT without TLS to another machine,
    ///   unless `insecure` permits it.
    func place() throws(Problem) -> MQTTPlace {
        let address = try url()
        let topic = setting["topic"] ?? ""
        guard MQTTPlace.isTopic(topic) else {
            throw wrong(
                "topic", "it cannot be used: expected levels such as healthrelay or home/health, found '\(topic)'",
                hint: "no + or #, no empty level, no $ at the beginning, at most 128 bytes")
        }
        return MQTTPlace(
            broker: try broker(at: address, "url"), topic: topic, isForHomeAssistant: setting.isOn("home_assistant"))
    }

    /// The broker at an address that a key names.
    func broker(at address: Address, _ key: String) throws(Problem) -> MQTTBroker {
        var certificates: MQTTCertificates?
        if address.isSecured {
            if let authorities = setting["ca_file"] { try setting.requireCertificates(in: authorities) }
            certificates = MQTTCertificates(
                authorities: setting["ca_file"], certificate: try readable("certificate_file"),
                privateKey: try readable("private_key_file"))
            guard (certificates?.certificate == nil) == (certificates?.privateKey == nil) else {
                let missing = certificates?.certificate == nil ? "certificate_file" : "private_key_file"
                throw wrong(missing, "a certificate and its private key belong together: this one is missing")
            }
        } else {
            for file in ["ca_file", "certificate_file", "private_key_file"] where setting[file] != nil {
                throw wrong(file, "it is for TLS, and `\(key)` begins with mqtt://", hint: "use an mqtts URL")
            }
            guard setting.isOn("insecure") || HTTPAddress.isLoopback(address.host) else {
                throw Problem(
                    "server_insecure", .configuration,
                    "\(setting.named(key)) reaches \(address.host) over plain mqtt, so the password and readings could be "
                        + "read on the way; nothing is sent, readings are kept",
                    hint: "use an mqtts URL; `insecure: true` of the destination permits plain mqtt all the same")
            }
        }
        return MQTTBroker(host: address.host, port: address.port, tls: certificates, credentials: try credentials())
    }

    /// The broker's address.
    func url() throws(Problem) -> Address { try address(of: setting["url"] ?? "", "url") }

    /// The address that a key's text is.
    func address(of text: String, _ key: String) throws(Problem) -> Address {
        // Nothing of a URL that carries a password is repeated.
        guard !text.unicodeScalars.contains("@") else {
            throw wrong(
                key, "it carries a name or password, and would be shown with it",
                hint: "use username and password_file instead")
        }
        guard let parts = URLComponents(string: text), let scheme = parts.scheme?.lowercased(),
            ["mqtt", "mqtts"].contains(scheme), var host = parts.host, !host.isEmpty
        else {
            throw wrong(key, "expected mqtts://HOST or mqtts://HOST:PORT, found '\(text)'")
        }
        guard ["", "/"].contains(parts.path), parts.query == nil, parts.fragment == nil else {
            throw wrong(
                key, "only a port may follow the host, found '\(text)'",
                hint: key == "url" ? "the topic stands in `topic`" : nil)
        }
        if host.hasPrefix("["), host.hasSuffix("]") { host = String(host.dropFirst().dropLast()) }
        let isSecured = scheme == "mqtts"
        let usual = isSecured ? MQTTBroker.tlsPort : MQTTBroker.plainPort
        // A colon without a port behind it is no port.
        let isPortMissing = parts.port == nil && (text.hasSuffix(":") || text.hasSuffix(":/"))
        guard !isPortMissing, let port = parts.port.map({ UInt16(exactly: $0) }) ?? usual, port > 0 else {
            throw wrong(key, "its port is not a number from 1 to 65535, found '\(text)'")
        }
        return Address(host: host, port: port, isSecured: isSecured)
    }

    /// Refuses a second destination that publishes to the same topics.
    func requireApart(_ others: some Sequence<DestinationSetting>) throws(Problem) {
        let own = try url()
        for other in others where other.kind == .mqtt {
            guard let address = try? MQTTSetting(other).url(), address.isSameBroker(as: own) else { continue }
            guard other["topic"] != setting["topic"] else {
                throw wrong(
                    "topic", "\(other.name) already publishes to '\(setting["topic"] ?? "")' at \(own.host)",
                    hint: "give each destination a topic of its own")
            }
            guard !other.isOn("home_assistant") || !setting.isOn("home_assistant") else {
                throw wrong(
                    "home_assistant", "\(other.name) already tells Home Assistant of the meters at \(own.host)",
                    hint: "set `home_assistant: false` of one of them")
            }
        }
    }

    private func credentials() throws(Problem) -> MQTTCredentials? {
        switch (setting["username"], setting["password_file"]) {
        case (nil, nil): return nil
        case (let user?, nil): return MQTTCredentials(username: user, password: nil)
        case (let user?, let path?):
            return MQTTCredentials(
                username: user,
                password: try SecretFile.line(in: path, of: "the password of \(setting.name)", called: "password"))
        case (nil, .some): throw wrong("username", "password_file is set, and this is missing")
        }
    }

    /// A file's path, which has to be readable.
    func readable(_ key: String) throws(Problem) -> String? {
        guard let path = setting[key] else { return nil }
        guard access(path, R_OK) == 0 else {
            throw wrong(key, "cannot read \(path): \(String(cString: strerror(errno)))")
        }
        return path
    }

    func wrong(_ key: String, _ message: String, hint: String? = nil) -> Problem {
        Problem.configInvalid("\(setting.named(key)): \(message)", hint: hint)
    }
}

import FleetDelivery
import FleetDocuments
import Foundation
import GatewaySettings
import HealthReadings
import MQTTDestinations
import MQTTLink
import ReadingDelivery
import SwiftASN1
import WebDestinations
import X509

extension DestinationOpening {
    static let fleet = DestinationOpening(
        rules: FleetDestination.rules,
        open: { setting, workshop in
            let fleet = FleetSetting(setting: setting, state: workshop.state)
            let started = SystemClock.monotonic
            // Two centres would undo each other's settings: the first one has the say.
            let isFirst = workshop.settings.destinations.first { $0.kind == .fleet }?.name == setting.name
            let desk = workshop.fleet
            let sender = FleetSender(
                version: GatewayVersion.current, build: Doctor.programTime?.description,
                uptime: { (SystemClock.monotonic - started) / 1_000_000 }, now: { .systemClock },
                clock: { await desk?.clock() ?? .unknown },
                steering: (isFirst ? desk : nil) ?? FleetRefusal())
            let interval = workshop.settings.fleetStatusInterval
            if try fleet.isWeb() {
                var place = try fleet.webPlace()
                place.statusInterval = interval
                return OpenDestination(
                    destination: FleetWebDestination(
                        name: setting.name, store: workshop.store, place: place, sender: sender,
                        logger: workshop.logger),
                    address: place.servers.map(\.url).joined(separator: " "), backoff: FleetSetting.backoff)
            }
            var place = try fleet.place()
            place.statusInterval = interval
            return OpenDestination(
                destination: FleetDestination(
                    name: setting.name, store: workshop.store, place: place, sender: sender, logger: workshop.logger),
                address: try fleet.addresses().map(\.text).joined(separator: " "), backoff: FleetSetting.backoff,
                receiptTimeout: .seconds(600), longestReceiptTimeout: .seconds(3600))
        })
}

/// The settings of a destination that is the centre of a fleet.
struct FleetSetting {
    let setting: DestinationSetting
    /// The state directory, where an enrolment is; `nil`: there can be none.
    var state: String?

    /// A random wait up to a minute after a lost connection, doubled up to five minutes; five minutes after a refusal. Many
    /// gateways lose a broker at the same time, and must not come back at the same time.
    static var backoff: Backoff {
        var backoff = Backoff(first: .seconds(60), longest: .seconds(300))
        backoff.fixedShare = 0
        backoff.longestPause = .seconds(300)
        return backoff
    }

    private var broker: MQTTSetting { MQTTSetting(setting) }

    /// Whether its hosts are collectors, reached over HTTPS, rather than brokers.
    ///
    /// - Throws: `Problem` if there are both.
    func isWeb() throws(Problem) -> Bool {
        let hosts = setting.list("hosts")
        let web = hosts.filter { host in ["https:", "http:"].contains { host.lowercased().hasPrefix($0) } }
        guard web.isEmpty || web.count == hosts.count else {
            throw broker.wrong(
                "hosts", "brokers and collectors are named in one list",
                hint: "name either mqtts:// or https:// hosts; a second destination can have the others")
        }
        return !web.isEmpty
    }

    /// Where to deliver over HTTPS, and as whom.
    ///
    /// - Throws: `Problem` for settings that cannot be used.
    func webPlace() throws(Problem) -> FleetWebPlace {
        for key in ["username", "password_file"] where setting[key] != nil {
            throw broker.wrong(key, "it is for brokers, and `hosts` are collectors", hint: "set `token_file`")
        }
        guard setting["acknowledgement"] != "broker" else {
            throw broker.wrong("acknowledgement", "there is no broker: a collector's answer is its receipt")
        }
        let web = WebSetting(setting)
        var servers: [WebServer] = []
        for host in setting.list("hosts") {
            let server = try web.server(at: host, credentials: "token_file", setting: "hosts")
            guard !servers.contains(where: { $0.url == server.url }) else {
                throw broker.wrong("hosts", "\(server.url) is named twice")
            }
            servers.append(server)
        }
        return FleetWebPlace(
            servers: servers, credential: try webCredential(web), gateway: try gateway(), sealing: try sealing())
    }

    private func webCredential(_ web: WebSetting) throws(Problem) -> FleetWebPlace.Credential {
        let (certificate, key) = (try broker.readable("certificate_file"), try broker.readable("private_key_file"))
        switch (try web.secret("token_file", "token"), certificate, key) {
        case (let token?, nil, nil):
            // A token is bound to an id, which nothing but the centre knows.
            guard setting["gateway"] != nil else {
                throw broker.wrong("gateway", "a token is for one gateway's id, and this is missing")
            }
            return .token(token)
        case (nil, let certificate?, let key?):
            guard let credential = FleetWebPlace.Credential.certificate(certificate, key: key) else {
                throw broker.wrong(
                    "certificate_file", "\(certificate) and \(key) are no PEM files of a certificate and its key")
            }
            return credential
        case (nil, nil, nil):
            // The gateway may enrol later: until then each delivery says that it has not.
            if let credentials { return .enrolled(credentials) }
            throw broker.wrong(
                "token_file", "neither a token nor a certificate is set",
                hint: "`healthrelay-collector token GATEWAY` prints a token")
        case (nil, _, _):
            let missing = certificate == nil ? "certificate_file" : "private_key_file"
            throw broker.wrong(missing, "a certificate and its private key belong together: this one is missing")
        case (_?, _, _):
            throw broker.wrong("token_file", "a certificate is set too", hint: "remove one of them")
        }
    }

    /// Where to deliver, and as whom.
    ///
    /// - Throws: `Problem` for settings that cannot be used.
    func place() throws(Problem) -> FleetPlace {
        var hosts: [MQTTBroker] = []
        for address in try addresses() { hosts.append(try broker.broker(at: address, "hosts")) }
        return FleetPlace(
            hosts: hosts, gateway: try gateway(), waitsForReceipt: setting["acknowledgement"] != "broker",
            sealing: try sealing(), credentials: credentials)
    }

    /// The certificates of the enrolment, unless the settings name others.
    private var credentials: EnrolledCredentials? {
        guard let state, setting["certificate_file"] == nil, setting["private_key_file"] == nil else { return nil }
        return EnrolledCredentials(EnrolmentFolder(state: state, destination: setting.name))
    }

    /// The brokers' addresses.
    func addresses() throws(Problem) -> [MQTTSetting.Address] {
        var addresses: [MQTTSetting.Address] = []
        if setting["token_file"] != nil {
            throw broker.wrong("token_file", "it is for collectors, and `hosts` are brokers")
        }
        for text in setting.list("hosts") {
            let address = try broker.address(of: text, "hosts")
            guard !addresses.contains(where: { $0.text == address.text }) else {
                throw broker.wrong("hosts", "\(address.text) is named twice")
            }
            addresses.append(address)
        }
        guard !addresses.isEmpty else {
            throw broker.wrong("hosts", "expected a list as [\"mqtts://HOST:8883\"], found nothing")
        }
        return addresses
    }

    /// The id that is set, or the one in the certificate; `nil` if there is neither.
    private func gateway() throws(Problem) -> GatewayID? {
        if let text = setting["gateway"] {
            do throws(FleetDocumentError) {
                return try GatewayID(text)
            } catch {
                throw broker.wrong("gateway", "\(error)", hint: "choose an id that names no person and no place")
            }
        }
        guard let path = try broker.readable("certificate_file"), let name = Self.commonName(in: path) else {
            return nil
        }
        guard let id = GatewayID(ifValid: name) else {
            throw broker.wrong(
                "gateway", "it is not set, and the common name of \(path) is no gateway's id",
                hint: "expected 1 to \(GatewayID.longest) characters of A-Z, a-z, 0-9, _ and -")
        }
        return id
    }

    /// The common name of the first certificate of a PEM file.
    static func commonName(in path: String) -> String? {
        guard let text = try? OrdinaryFile.text(path), let documents = try? PEMDocument.parseMultiple(pemString: text),
            let document = documents.first(where: { $0.discriminator == "CERTIFICATE" }),
            let certificate = try? Certificate(pemDocument: document)
        else { return nil }
        for relative in certificate.subject {
            for attribute in relative where attribute.type == .RDNAttributeType.commonName {
                return String(describing: attribute.value)
            }
        }
        return nil
    }

    private func sealing() throws(Problem) -> SealingKey? {
        guard let path = try broker.readable("seal_to_file") else { return nil }
        do {
            return try SealingKey(pem: try OrdinaryFile.text(path))
        } catch let error as FleetDocumentError {
            throw broker.wrong(
                "seal_to_file", "\(path): \(error)", hint: "`openssl pkey -in centre.key -pubout` writes the public key"
            )
        } catch {
            throw broker.wrong("seal_to_file", "cannot read \(path): \(error.localizedDescription)")
        }
    }
}

import FleetAuthority
import Foundation
import GatewaySettings
import HealthReadings

/// The settings of `healthrelay-collector ca`: the sections `ca` and `broker`.
package struct AuthoritySettings: Sendable, Hashable {
    /// Where the authority listens.
    package var listen = ListenAddress(host: "127.0.0.1", port: 8491)
    /// The names that gateways reach it by, besides the machine's own.
    package var names: [String] = []
    /// The address that goes into the files of tokens; `nil`: one of the first name and the port.
    package var url: String?
    /// How long a gateway's certificate is good.
    package var days = 90
    /// Authorities that gateways trust besides this one.
    package var alsoTrustFile: String?
    /// Where the revocation list is put; `nil`: into the state directory.
    package var listFile: String?

    /// RabbitMQ's management API, which keeps a user for each gateway; `nil`: nobody is told.
    package var broker: String?
    package var brokerUser: String?
    package var brokerPasswordFile: String?
    package var brokerAuthorityFile: String?
    package var brokerVirtualHost = "/"

    package init() {}

    /// What is wrong with them; `nil`: nothing.
    var problem: String? {
        if let url {
            guard let parts = URLComponents(string: url), parts.scheme == "https", parts.host?.isEmpty == false,
                parts.user == nil, parts.query == nil
            else { return "ca.url: expected https://HOST:PORT, found '\(PrintableText.escaped(url))'" }
        }
        guard let broker else { return nil }
        guard let parts = URLComponents(string: broker), let host = parts.host, !host.isEmpty, parts.user == nil,
            ["https", "http"].contains(parts.scheme)
        else { return "broker.url: expected https://HOST:15671, without a user" }
        guard parts.scheme == "https" || ListenAddress(host: host, port: 0).isLoopback else {
            return "broker.url: \(host) is not on this machine and needs https"
        }
        guard brokerUser != nil, brokerPasswordFile != nil else {
            return "broker: expected username and password_file of a user with the tag administrator"
        }
        return nil
    }

    /// The names of the server's certificate: the first is what the address of tokens is made of.
    package var serverNames: [String] {
        let machine = ProcessInfo.processInfo.hostName
        let named = url.flatMap { URLComponents(string: $0)?.host }.map { [$0] } ?? []
        var all: [String] = []
        for name in named + names + [machine, "localhost", "127.0.0.1", "::1"]
        where !name.isEmpty && !all.contains(name) { all.append(name) }
        return all
    }

    /// How the authority is run.
    package var plan: AuthorityDesk.Plan {
        let host = listen.isLoopback ? "localhost" : serverNames[0]
        var plan = AuthorityDesk.Plan(url: url ?? "https://\(host):\(listen.port)")
        plan.days = days
        plan.alsoTrustFile = alsoTrustFile
        plan.listFile = listFile
        return plan
    }

    /// The gateways' users at the broker; `nil`: there is no broker.
    package func users() throws(Problem) -> BrokerUsers? {
        guard let broker, let brokerUser, let brokerPasswordFile else { return nil }
        var url = broker
        while url.hasSuffix("/") { url.removeLast() }
        var plan = BrokerUsers.Plan(
            url: url, user: brokerUser, password: try CollectorSettings.secret(brokerPasswordFile))
        plan.authorityFile = brokerAuthorityFile
        plan.virtualHost = brokerVirtualHost
        return BrokerUsers(plan)
    }

    /// The state directory for a flag's value; without one systemd's, else the person's own.
    package static func stateDirectory(
        flag: String?, environment: [String: String] = ProcessInfo.processInfo.environment
    ) -> String {
        flag ?? CollectorSettings.stateDirectory(flag: nil, environment: environment)
            + (environment["STATE_DIRECTORY"]?.isEmpty ?? true ? "-ca" : "")
    }
}

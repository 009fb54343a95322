import Foundation
import GatewaySettings
import WebDestinations

extension DestinationOpening {
    static let influxdb = DestinationOpening(
        rules: InfluxDBDestination.rules,
        open: { setting, workshop in
            let web = WebSetting(setting)
            let server = try web.server(credentials: "username and password_file, or token_file")
            let place = try web.influxDBPlace()
            let token = try web.secret("token_file", "token")
            let name =
                switch place {
                case .database(let database, _): "database \(database)"
                case .bucket(let bucket, let organisation): "bucket \(bucket) of \(organisation)"
                }
            return OpenDestination(
                destination: InfluxDBDestination(
                    name: setting.name, server: server, place: place, token: token, logger: workshop.logger),
                address: "\(server.url), \(name)")
        })
}

/// The settings of a destination that is reached over HTTP.
struct WebSetting {
    let setting: DestinationSetting

    init(_ setting: DestinationSetting) { self.setting = setting }

    /// Where the server is.
    ///
    /// - Parameter credentials: the settings that a name or password belongs into, for the error that the URL carries one.
    func server(credentials: String, allowsQuery: Bool = false) throws(Problem) -> WebServer {
        let authorities = setting["ca_file"]
        if let authorities { try setting.requireCertificates(in: authorities) }
        do {
            return try WebServer(
                url: setting["url"] ?? "", authorities: authorities, permitsExposed: setting.isOn("insecure"),
                allowsQuery: allowsQuery)
        } catch {
            switch error {
            case .url(let reason): throw wrong("url", "it cannot be used: \(reason)")
            case .credentials:
                throw wrong(
                    "url", "it carries a name or password, and would be shown with it",
                    hint: "use \(credentials) instead")
            case .exposed(let host):
                throw Problem(
                    "server_insecure", .configuration,
                    "\(key("url")) reaches \(host) over plain http, so secrets and readings could be read on the way; "
                        + "nothing is sent, readings are kept",
                    hint: "use an https URL; `insecure: true` of the destination permits plain http all the same")
            }
        }
    }

    /// The word in the file that a setting names; `nil` if it names none.
    func secret(_ key: String, _ what: String) throws(Problem) -> String? {
        guard let path = setting[key] else { return nil }
        return try SecretFile.word(in: path, of: "the \(what) of \(setting.name)", called: what)
    }

    /// What is wrong with a setting.
    func wrong(_ key: String, _ message: String, hint: String? = nil) -> Problem {
        Problem("config_invalid", .configuration, "\(self.key(key)): \(message)", hint: hint)
    }

    /// What a key is called in errors.
    func key(_ key: String) -> String { setting.named(key) }

    fileprivate func influxDBPlace() throws(Problem) -> InfluxDBDestination.Place {
        switch (setting["database"], setting["bucket"], setting["org"]) {
        case (let database?, nil, nil):
            let login = try login()
            guard login == nil || setting["token_file"] == nil else {
                throw wrong("token_file", "username and token_file are both set", hint: "remove one of them")
            }
            return .database(database, login: login)
        case (nil, let bucket?, let organisation?):
            guard setting["username"] == nil, setting["password_file"] == nil else {
                throw wrong("username", "a bucket takes a token", hint: "name the token's file: `token_file`")
            }
            guard setting["token_file"] != nil else { throw wrong("token_file", "a bucket needs one") }
            return .bucket(bucket, organisation: organisation)
        case (nil, nil, nil):
            throw wrong(
                "database", "neither a database nor a bucket is set",
                hint:
                    "set `database` (InfluxDB 1, VictoriaMetrics), or `org`, `bucket` and `token_file` (InfluxDB 2 and 3)"
            )
        case (nil, _, _):
            throw wrong(
                setting["org"] == nil ? "org" : "bucket", "`org` and `bucket` belong together: this one is missing")
        case (.some, _, _):
            throw wrong("database", "a database and a bucket are set", hint: "remove `database`, or `org` and `bucket`")
        }
    }

    private func login() throws(Problem) -> InfluxDBDestination.Login? {
        switch (setting["username"], setting["password_file"]) {
        case (nil, nil): return nil
        case (let user?, let path?):
            guard !user.contains(":") else {
                throw wrong("username", "it has a colon, which no user name may have here")
            }
            return .init(
                user: user,
                password: try SecretFile.line(in: path, of: "the password of \(setting.name)", called: "password"))
        case (nil, _): throw wrong("username", "password_file is set, and this is missing")
        case (_, nil): throw wrong("password_file", "username is set, and this is missing")
        }
    }
}

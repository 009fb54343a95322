import Foundation
import GatewaySettings
import HealthDevices
import HealthReadings
import ReadingFormats
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

extension DestinationOpening {
    static let fhir = DestinationOpening(
        rules: FHIRDestination.rules,
        partlyKept: [
            .bodyComposition:
                "basal metabolism, muscle mass and percentage, and impedance stay here: no public code says what they are"
        ],
        open: { setting, workshop in
            let web = WebSetting(setting)
            let server = try web.server(credentials: "token_file")
            let credential = try web.fhirCredential()
            let catalogue = workshop.catalogue
            let sender = FHIRDestination.Sender(version: GatewayVersion.current) { model in
                catalogue[model].map { DeviceFacts(manufacturer: $0.brand, model: $0.name) }
            }
            return OpenDestination(
                destination: FHIRDestination(
                    name: setting.name, server: server, credential: credential, patients: try web.fhirPatients(),
                    sender: sender, store: workshop.store, logger: workshop.logger),
                address: server.url)
        })
}

extension DestinationOpening {
    static let nightscout = DestinationOpening(
        rules: { NightscoutDestination.rules(deliversBloodPressure: $0.isOn("blood_pressure_notes")) },
        open: { setting, workshop in
            let web = WebSetting(setting)
            let server = try web.server(credentials: "secret_file or token_file")
            let credential = try web.nightscoutCredential()
            let people = setting.list("people")
            guard people.count <= 1 else {
                throw web.wrong(
                    "people", "a Nightscout site is one person's, and \(people.count) are named",
                    hint: "give each person a destination of their own, with a site of their own")
            }
            guard people.count == 1 || workshop.settings.people.isEmpty else {
                throw web.wrong(
                    "people", "a Nightscout site is one person's, and the gateway has several",
                    hint: "say whose it is: `people: [\(workshop.settings["user.client_user_id"] ?? "white_bear")]`")
            }
            return OpenDestination(
                destination: NightscoutDestination(
                    name: setting.name, server: server, credential: credential, store: workshop.store,
                    isPersonChosen: people.count == 1, deliversBloodPressure: setting.isOn("blood_pressure_notes"),
                    logger: workshop.logger),
                address: server.url)
        })
}

extension DestinationOpening {
    static let webhook = DestinationOpening(
        rules: { $0.webhookFormat.rules },
        partlyKept: { $0.webhookFormat.partlyKept },
        open: { setting, workshop in
            let web = WebSetting(setting)
            let server = try web.server(credentials: "secret_file", allowsQuery: true)
            guard setting.isOn("allow_private") || server.mayBePublic else {
                throw web.wrong(
                    "url",
                    "\(server.host) is inside this machine or its network; nothing is sent there, readings are kept",
                    hint: "`allow_private: true` of the destination permits it all the same")
            }
            let (format, catalogue) = (setting.webhookFormat, workshop.catalogue)
            let destination = WebhookDestination(
                name: setting.name, server: server, secret: try web.webhookSecret(format), format: format,
                store: workshop.store,
                sender: WebhookSender(version: GatewayVersion.current, clientUUID: try web.clientUUID(format)) {
                    catalogue.facts(of: $0)
                }, allowsPrivate: setting.isOn("allow_private"), logger: workshop.logger)
            // What stands behind the question mark may be a secret of the receiver's.
            return OpenDestination(
                destination: destination, address: server.shownURL, backoff: format.backoff)
        })
}

extension DestinationSetting {
    fileprivate var webhookFormat: WebhookFormat { self["format"].flatMap(WebhookFormat.init(rawValue:)) ?? .standard }
}

extension WebhookFormat {
    /// What of a kind's readings has no place in the format although other values of theirs have.
    fileprivate var partlyKept: [ReadingKind: String] {
        switch self {
        case .standard, .cloudevents: [:]
        case .openMHealth:
            [.bodyComposition: "only fat, weight and height are delivered: Open mHealth has no schema for the rest"]
        case .rookSummary:
            [
                .bodyComposition:
                    "only weight, height and muscle percentage are delivered: ROOK's summaries have no place for the rest"
            ]
        case .rook: [.bodyComposition: "only weight and height are delivered: ROOK's events have no place for the rest"]
        case .terra:
            [
                .bodyComposition:
                    "muscle percentage, soft lean mass, water and impedance stay here: Terra has no place for them"
            ]
        }
    }
}

/// The settings of a destination that is reached over HTTP.
struct WebSetting {
    let setting: DestinationSetting

    init(_ setting: DestinationSetting) { self.setting = setting }

    /// Where the server is.
    ///
    /// - Parameter credentials: the settings that a name or password belongs into, for the error that the URL carries one.
    func server(
        credentials: String, allowsQuery: Bool = false, setting key: String = "url"
    ) throws(Problem) -> WebServer {
        try server(at: setting[key] ?? "", credentials: credentials, allowsQuery: allowsQuery, setting: key)
    }

    /// The server at one of a setting's addresses.
    func server(
        at url: String, credentials: String, allowsQuery: Bool = false, setting key: String
    ) throws(Problem) -> WebServer {
        let authorities = setting["ca_file"]
        if let authorities { try setting.requireCertificates(in: authorities) }
        do {
            return try WebServer(
                url: url, authorities: authorities, permitsExposed: setting.isOn("insecure"),
                allowsQuery: allowsQuery)
        } catch {
            switch error {
            case .url(let reason): throw wrong(key, "it cannot be used: \(reason)")
            case .credentials:
                throw wrong(
                    key, "it carries a name or password, and would be shown with it",
                    hint: "use \(credentials) instead")
            case .exposed(let host):
                throw Problem(
                    "server_insecure", .configuration,
                    "\(self.key(key)) reaches \(host) over plain http, so secrets and readings could be read on the way; "
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
        Problem.configInvalid("\(self.key(key)): \(message)", hint: hint)
    }

    /// What a key is called in errors.
    func key(_ key: String) -> String { setting.named(key) }

    fileprivate func webhookSecret(_ format: WebhookFormat) throws(Problem) -> WebhookSecret {
        let path = setting["secret_file"] ?? ""
        let text = try SecretFile.lines(in: path, of: "the secret of \(setting.name)", called: "secret")
        do throws(WebhookSecret.Malformed) {
            return format.hasStandardSecret
                ? try WebhookSecret(text) : try WebhookSecret(words: text, atMost: format.isRook ? 1 : 2)
        } catch {
            throw Problem(
                "key_unreadable", .configuration, "the file \(path) holds no webhook secret: \(error.reason)",
                hint: format.hasStandardSecret
                    ? "`echo whsec_$(openssl rand -base64 32)` makes one; the receiver needs the same"
                    : "write the secret that the receiver checks requests with into it")
        }
    }

    /// The account that ROOK's documents name.
    fileprivate func clientUUID(_ format: WebhookFormat) throws(Problem) -> String? {
        guard format.isRook else {
            guard setting["client_uuid"] == nil else {
                throw wrong("client_uuid", "only `format: rook` and `format: rook_summary` have one", hint: "remove it")
            }
            return nil
        }
        guard let text = setting["client_uuid"] else {
            throw wrong(
                "client_uuid", "`format: \(format.rawValue)` needs the account's id",
                hint: "it is the `client_uuid` that the receiver expects in documents")
        }
        guard UUID(uuidString: text) != nil else {
            throw wrong("client_uuid", "expected a UUID, found '\(text.prefix(64))'")
        }
        return text
    }

    /// What proves to a FHIR server who sends.
    fileprivate func fhirCredential() throws(Problem) -> FHIRDestination.Credential {
        let service = ["client_id", "private_key_file", "key_id", "token_url", "scope"].filter { setting[$0] != nil }
        if let token = try secret("token_file", "token") {
            guard let other = service.first else { return .token(token) }
            throw wrong(
                other, "token_file is set too",
                hint: "remove token_file, or everything about a key of the gateway's own")
        }
        guard !service.isEmpty else { return .none }
        guard let client = setting["client_id"] else {
            throw wrong("client_id", "\(service[0]) is set, and this is missing")
        }
        guard let path = setting["private_key_file"] else {
            throw wrong("private_key_file", "client_id is set, and this is missing")
        }
        let text = try SecretFile.lines(in: path, of: "the private key of \(setting.name)", called: "private key")
        let key: FHIRClientKey
        do throws(FHIRClientKey.Malformed) {
            key = try FHIRClientKey(pem: text, id: setting["key_id"])
        } catch {
            throw Problem(
                "key_unreadable", .configuration, "the file \(path) holds no usable private key: \(error.reason)",
                hint: "`openssl ecparam -name secp384r1 -genkey -noout -out \(path)` makes one")
        }
        let endpoint = setting["token_url"] == nil ? nil : try server(credentials: "client_id", setting: "token_url")
        return .service(
            client: client, key: key, endpoint: endpoint,
            scope: setting["scope"] ?? FHIRDestination.Credential.standardScope)
    }

    /// Each person's identifier at a FHIR server.
    fileprivate func fhirPatients() throws(Problem) -> [String: PatientIdentifier] {
        var patients: [String: PatientIdentifier] = [:]
        for (person, text) in setting.map("patients").sorted(by: { $0.key < $1.key }) {
            guard let patient = PatientIdentifier(token: text) else {
                throw wrong(
                    "patients", "expected an identifier as system|value for \(person), found '\(text)'",
                    hint: "the system is a URI: `\(person): \"https://hospital.example/mrn|4711\"`")
            }
            if let other = patients.first(where: { $0.value == patient })?.key {
                throw wrong("patients", "\(other) and \(person) have the same identifier")
            }
            patients[person] = patient
        }
        return patients
    }

    fileprivate func nightscoutCredential() throws(Problem) -> NightscoutDestination.Credential {
        switch (setting["secret_file"], setting["token_file"]) {
        case (let path?, nil):
            return .secret(
                try SecretFile.line(in: path, of: "the API secret of \(setting.name)", called: "API secret"))
        case (nil, _?): return .token(try secret("token_file", "token") ?? "")
        case (nil, nil):
            throw wrong(
                "secret_file", "neither secret_file nor token_file is set",
                hint: "write the site's API secret, or an access token, into a file (mode 0600) and name it")
        case (_?, _?):
            throw wrong("token_file", "secret_file and token_file are both set", hint: "remove one of them")
        }
    }

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
            guard !user.unicodeScalars.contains(":") else {
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

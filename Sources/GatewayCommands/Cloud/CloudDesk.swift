import CloudSources
import GatewaySettings
import HealthReadings
import Logging
import ReadingStore

/// The accounts with vendors' clouds: who is asked by the settings, and what is kept. Nothing is asked unless somebody has
/// connected an account.
package final class CloudDesk: Sendable {
    private let live: LiveSettings
    private let accounts: CloudAccounts
    private let sessions: [CloudVendor: CloudSession]

    init(_ live: LiveSettings, directory: String) {
        self.live = live
        let accounts = CloudAccounts(directory: directory + "/cloud")
        self.accounts = accounts
        sessions = Dictionary(
            uniqueKeysWithValues: CloudVendor.allCases.map { ($0, CloudSession($0, accounts: accounts)) })
    }

    /// The one session of a vendor in this process.
    func session(_ vendor: CloudVendor) -> CloudSession { sessions[vendor] ?? CloudSession(vendor, accounts: accounts) }

    /// What is kept of a vendor.
    func state(_ vendor: CloudVendor) throws(Problem) -> CloudState {
        do throws(CloudAccounts.Failure) {
            return try accounts.state(of: vendor)
        } catch {
            throw Problem(error, vendor)
        }
    }

    /// Forgets the accounts of people who are about to be erased.
    ///
    /// An account that was connected before a user was set names nobody, so it may be theirs.
    func forget(people: [String]) async throws {
        for vendor in CloudVendor.allCases {
            guard let account = try? state(vendor).account,
                account.person.isEmpty || people.contains(account.person)
            else { continue }
            do {
                try await session(vendor).forget()
            } catch {
                throw Problem(cloud: error, vendor)
            }
        }
    }

    /// Who is asked for a vendor's data.
    ///
    /// - Throws: `Problem` with status 78 if the settings name nobody, or somebody who can't be asked.
    func service(_ vendor: CloudVendor) throws(Problem) -> CloudService {
        let settings = live.current
        if vendor == .whoop, let client = settings["cloud.whoop_client_id"] {
            return try service(
                .vendor, "cloud.whoop_url", app: client, try secret("cloud.whoop_client_secret_file", "client secret"))
        }
        guard settings["cloud.service_url"] != nil, let app = settings["cloud.app_id"] else {
            throw Problem(
                "cloud_not_configured", .configuration, "the settings name no service for \(vendor.title)",
                hint: vendor == .whoop
                    ? "set cloud.service_url and cloud.app_id, or cloud.whoop_client_id for WHOOP's own API"
                    : "set cloud.service_url and cloud.app_id")
        }
        return try service(.wearService, "cloud.service_url", app: app, try secret("cloud.app_key_file", "key"))
    }

    private func service(
        _ contract: CloudService.Contract, _ key: String, app: String, _ secret: CloudSecret?
    ) throws(Problem) -> CloudService {
        do throws(CloudService.Invalid) {
            return try CloudService(contract, url: live.current[key] ?? "", app: app, secret: secret)
        } catch {
            throw Problem.configInvalid("\(key) cannot be used: \(error.description)")
        }
    }

    private func secret(_ key: String, _ name: String) throws(Problem) -> CloudSecret? {
        guard let path = live.current[key] else { return nil }
        let word = try SecretFile.word(in: path, of: "the \(name) of \(key)", called: name)
        guard let secret = CloudSecret(word) else {
            throw Problem("key_unreadable", .configuration, "the file \(path) holds no \(name)")
        }
        return secret
    }

    /// A client of a service.
    func client(_ vendor: CloudVendor, _ service: CloudService) -> CloudClient {
        CloudClient(vendor, service, authorities: live.current["cloud.ca_file"])
    }

    /// Who is asked for an account's data.
    ///
    /// - Throws: `Problem` with status 78 if the settings name another service or app than it was connected to.
    func client(of account: CloudAccount) throws(Problem) -> CloudClient {
        let service = try service(account.vendor)
        guard service.url == account.service, service.app == account.app, service.contract == account.contract else {
            throw Problem(
                "other_service", .configuration,
                "\(account.vendor.title) is connected through \(account.service) as \(account.app), and the settings name \(service.url) and \(service.app)",
                hint: "connect it again: `healthrelay cloud connect \(account.vendor.rawValue)`")
        }
        return client(account.vendor, service)
    }

    /// Makes who is told of a disconnect: where the account was connected, whatever the settings name now.
    func teller(_ vendor: CloudVendor) -> @Sendable (String, String, CloudService.Contract) -> CloudClient? {
        { [self] url, app, contract in
            if let service = try? service(vendor), service.url == url, service.app == app, service.contract == contract
            {
                return client(vendor, service)
            }
            // The key is of another service now.
            return (try? CloudService(contract, url: url, app: app, secret: nil)).map { client(vendor, $0) }
        }
    }
}

extension Problem {
    /// A cloud's error.
    init(_ error: CloudError, _ vendor: CloudVendor?) {
        let again = "connect again: `healthrelay cloud connect \(vendor?.rawValue ?? "whoop|garmin")`"
        let (status, hint): (ExitStatus, String?) =
            switch error.kind {
            case .tokenExpired, .authenticationFailed: (.notPermitted, again)
            case .otherAccount:
                (
                    .notPermitted,
                    "nothing of it is stored. Connect again, signed in to the former account; or, if this is the person's new one, `healthrelay cloud disconnect \(vendor?.rawValue ?? "whoop|garmin")` first"
                )
            case .forbidden: (.notPermitted, "the service's operator knows what the app may do")
            case .rateLimitExceeded: (.tryAgain, "what came is stored; the next fetch waits as long as was asked")
            case .timeout, .connectionLost, .serverError:
                (.tryAgain, "what came is stored; the same command goes on")
            case .noConnection: (.unavailable, "check the network and the service's address in the settings")
            case .untrustedServer: (.unavailable, "check the server's certificate and this machine's clock")
            case .notJSON, .redirected, .notSupported:
                (.protocolBroken, "is the address in the settings the service's? a proxy or portal may answer")
            case .refused, .unexpectedAnswer, .answerTooLarge, .pagesDoNotAdvance: (.protocolBroken, nil)
            }
        self.init(error.code, status, error.description, hint: hint)
    }

    init(_ failure: CloudAccounts.Failure, _ vendor: CloudVendor?) {
        guard failure.reason == nil else {
            self.init("store_io", .inputOutput, failure.description, hint: "free space, or check the directory's owner")
            return
        }
        self.init(
            "account_unreadable", .badData, failure.description,
            hint: "`healthrelay cloud disconnect \(vendor?.rawValue ?? "whoop|garmin")` removes it; then connect again")
    }

    init(_ error: CloudSession.NotConnected) {
        self.init(
            "not_connected", .configuration, "no \(error.vendor.title) account is connected",
            hint: "connect one: `healthrelay cloud connect \(error.vendor.rawValue)`")
    }

    /// An error of a vendor's session.
    init(cloud error: any Error, _ vendor: CloudVendor) {
        switch error {
        case let error as CloudError: self.init(error, vendor)
        case let failure as CloudAccounts.Failure: self.init(failure, vendor)
        case let error as CloudSession.NotConnected: self.init(error)
        default: self = Problem(describing: error) ?? .unexpected(error)
        }
    }
}

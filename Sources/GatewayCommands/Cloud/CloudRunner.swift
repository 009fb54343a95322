import CloudSources
import GatewaySettings
import HealthReadings
import ReadingStore

/// `cloud`: what WHOOP's and Garmin's clouds keep of a person.
struct CloudRunner {
    let gateway: Gateway
    let json: Bool
    let output: any OperationOutput

    private var desk: CloudDesk { gateway.clouds }

    func run(_ operation: CloudOperation) async throws {
        switch operation {
        case .connect(let connection): try await connect(connection)
        case .status: try await status()
        case .disconnect(let vendor): try await disconnect(vendor)
        case .fetch(let request): try await fetch(request)
        }
    }

    // MARK: Connecting

    private func connect(_ connection: CloudConnection) async throws {
        let vendor = connection.vendor
        let service = try desk.service(vendor)
        let person = try await gateway.requireNamedUser(connection.person).clientUserID
        // An account that was connected before a user was set is nobody's: any person's takes its place.
        if let other = try? desk.state(vendor).account, !other.person.isEmpty, other.person != person {
            throw Problem(
                "account_of_another", .configuration,
                "\(vendor.title) is connected for \(Self.name(other.person)), and a gateway has one account of each vendor",
                hint: "`healthrelay cloud disconnect \(vendor.rawValue)` ends that first")
        }
        let client = desk.client(vendor, service)
        let session = desk.session(vendor)
        let attempt = CloudAuthorization()
        let port = gateway.settings["cloud.redirect_port"].flatMap(Int.init) ?? 0
        let reading: BrowserListener<CloudAuthorization.End>.Reading = { query in
            do throws(CloudAuthorization.Refusal) {
                return .success(
                    .init(
                        redirect: try attempt.end(query: query, of: service),
                        words: "See the terminal for what came of it. You may close this page."))
            } catch {
                return .failure(.init(words: error.description))
            }
        }
        let (output, json) = (output, json)
        let account: CloudAccount
        do {
            account = try await BrowserListener.listening(
                at: service.redirectPath(state: attempt.state), port: port, logger: gateway.logger, reading: reading
            ) { listener in
                var attempt = attempt
                attempt.redirectURI = listener.redirectURL
                let page = try await client.page(of: attempt)
                if !json { try await output.data(page) }
                try await output.note(
                    BrowserInvitation(
                        page: page, member: "authorization_url", whom: vendor.title, seconds: connection.wait,
                        port: listener.port
                    ).text(json: json))
                guard let end = try await listener.redirect(within: .seconds(connection.wait)) else {
                    throw Problem(
                        "timeout", .tryAgain, "nobody connected \(vendor.title) within \(connection.wait) s",
                        hint: "run the command again, with more time: --wait")
                }
                return try await session.connect(end, of: attempt, through: client, person: person)
            }
        } catch let error as CloudError {
            var problem = Problem(error, vendor)
            if problem.status == .tryAgain {
                problem.hint =
                    "no account is connected, and the code that the browser brought is spent: run the command again"
            }
            throw problem
        } catch let failure as CloudAccounts.Failure {
            throw Problem(failure, vendor)
        }
        guard !json else { return try await output.data(account.document.text) }
        try await output.data(
            "\(vendor.title) is connected for \(Self.name(person)); `healthrelay cloud fetch` fetches")
    }

    private static func name(_ person: String) -> String { person.isEmpty ? "the user of this gateway" : person }

    // MARK: Accounts

    private func status() async throws {
        let states = try CloudVendor.allCases.map { ($0, try desk.state($0)) }
        let accounts = states.compactMap { $0.1.account }
        let pending = states.flatMap { vendor, state in state.pending.map { (vendor, $0) } }
        guard !json else {
            return try await output.data(
                JSONValue.object([
                    "services": .object(
                        CloudVendor.allCases.map { vendor in
                            .init(vendor.rawValue, .optional((try? desk.service(vendor))?.url))
                        }),
                    "every_seconds": .optional(gateway.settings.cloudInterval?.components.seconds),
                    "accounts": .array(accounts.map(\.document)),
                    "pending": .array(pending.map { $1.document($0) }),
                ]).text)
        }
        for account in accounts {
            try await output.data(
                "\(account.vendor.title): connected for \(Self.name(account.person)) through \(account.service); "
                    + (account.lastFetchAt.map { "last fetched \($0.flooredToSecond)" } ?? "nothing fetched yet"))
            if let time = account.notBefore, time > .systemClock {
                try await output.data("  the service allows no requests before \(time.flooredToSecond)")
            }
        }
        for (vendor, pending) in pending {
            try await output.data(
                "\(vendor.title): disconnected \(pending.since), and \(pending.service) is still to be told")
        }
        if accounts.isEmpty {
            try await output.note("no account is connected; `healthrelay cloud connect whoop|garmin` connects one")
        }
    }

    private func disconnect(_ vendor: CloudVendor) async throws {
        let (account, untold): (CloudAccount?, CloudError?)
        do {
            (account, untold) = try await desk.session(vendor).disconnect(desk.teller(vendor))
        } catch {
            throw Problem(cloud: error, vendor)
        }
        let pending = try desk.state(vendor).pending
        if let untold {
            var problem = Problem(untold, vendor)
            problem.message = "the tokens are erased here, but the service was not told: " + problem.message
            problem.hint =
                pending.isEmpty
                ? "revoke the app in \(vendor.title)'s settings"
                : "it is told by the next `healthrelay cloud disconnect \(vendor.rawValue)` or fetch"
            try await output.warn(problem)
        }
        guard !json else {
            return try await output.data(
                JSONValue.object([
                    "vendor": .string(vendor.rawValue), "disconnected": .bool(account != nil),
                    "service_told": .bool(untold == nil), "pending": .array(pending.map { $0.document(vendor) }),
                ]).text)
        }
        try await output.data(account == nil ? "\(vendor.title) was not connected" : "\(vendor.title) is disconnected")
    }

    // MARK: Fetching

    private func fetch(_ request: CloudRequest) async throws {
        // Before any cloud is asked: what it has could not be stored.
        if let problem = await gateway.clockProblem() { throw problem }
        for vendor in request.vendor.map({ [$0] }) ?? CloudVendor.allCases {
            try await tellOfDisconnects(vendor)
        }
        let vendors: [CloudVendor]
        if let vendor = request.vendor {
            guard try desk.state(vendor).account != nil else { throw Problem(.init(vendor: vendor)) }
            vendors = [vendor]
        } else {
            vendors = try CloudVendor.allCases.filter { try desk.state($0).account != nil }
            if vendors.isEmpty {
                throw Problem(
                    "not_connected", .configuration, "no account is connected",
                    hint: "connect one: `healthrelay cloud connect whoop|garmin`")
            }
        }
        var begins: [CloudVendor: Instant] = [:]
        for vendor in vendors { begins[vendor] = try await begin(request.from, of: vendor) }
        var results: [CloudResult] = []
        var problem: Problem?
        for vendor in vendors {
            do {
                let result = try await fetch(vendor, from: begins[vendor])
                if !json { try await tell(result) }
                results.append(result)
            } catch let error as Problem where vendors.count > 1 {
                // The other account is fetched all the same.
                try await output.warn(error)
                problem = problem ?? error
            }
        }
        if json { try await output.data(JSONValue.object(["accounts": .array(results.map(\.document))]).text) }
        if let problem { throw problem }
    }

    /// Where a fetch is to begin; `nil` if nobody says so. A date is a day of the account's person.
    func begin(_ from: String?, of vendor: CloudVendor) async throws -> Instant? {
        guard let from else { return nil }
        // Of an account whose person is not known nothing is fetched.
        var person: StoreUser?
        if let account = try desk.state(vendor).account { person = try await gateway.store.user(account.person) }
        return try await gateway.store.range(from: from, to: nil, of: person)?.lowerBound
    }

    /// Tells the service of accounts that were disconnected while it couldn't be reached.
    private func tellOfDisconnects(_ vendor: CloudVendor) async throws {
        guard try !desk.state(vendor).pending.isEmpty else { return }
        do {
            try await desk.session(vendor).tellOfDisconnects(desk.teller(vendor))
        } catch let error as CancellationError {
            throw error
        } catch {
            throw Problem(cloud: error, vendor)
        }
        let left = try desk.state(vendor).pending.count
        try await output.note(
            left == 0
                ? "\(vendor.title): the service is told of the former disconnect"
                : "\(vendor.title): the service could not be told of the former disconnect; the next fetch tries again")
    }

    /// Stores what the account has gained since the last fetch.
    ///
    /// - Throws: `Problem`; what came before is stored, and the same fetch again goes on.
    func fetch(_ vendor: CloudVendor, from: Instant? = nil) async throws -> CloudResult {
        guard let account = try desk.state(vendor).account else { throw Problem(.init(vendor: vendor)) }
        guard !account.person.isEmpty else {
            throw Problem(
                "no_user", .configuration,
                "\(vendor.title) was connected before a user was set, so it is unknown whose readings these are",
                hint: "connect it again: `healthrelay cloud connect \(vendor.rawValue)`")
        }
        let client = try desk.client(of: account)
        guard try await gateway.store.user(account.person) != nil else {
            throw Problem(
                "no_such_user", .noInput,
                "\(vendor.title) is connected for \(Self.name(account.person)), whom the store does not know any more",
                hint: "`healthrelay cloud disconnect \(vendor.rawValue)`")
        }
        let storer = CloudStorer(gateway, account, output)
        do {
            try await tellOfDisconnects(vendor)
            let summary = try await desk.session(vendor).fetch(
                through: client, from: from,
                waiting: { [output] time in
                    try await output.note(
                        "\(vendor.title) allows no more requests now; going on in \(time.components.seconds + 1) s")
                }, receive: { try await storer.take($0) })
            return await storer.result(summary)
        } catch let error as CancellationError {
            throw error
        } catch {
            var problem = Problem(cloud: error, vendor)
            let count = await storer.count
            if count > 0 { problem.message += "; \(count) records had come, and are stored" }
            throw problem
        }
    }

    private func tell(_ result: CloudResult) async throws {
        let count = result.summary.records.values.reduce(0, +)
        try await output.data(
            "\(result.vendor.title): \(count) records; \(result.stored) readings stored, \(result.revised) changed, "
                + "\(result.present) were stored before")
        for kind in ReadingKind.allCases {
            if let number = result.kinds[kind] { try await output.data("  \(kind.rawValue): \(number)") }
        }
        if result.pruned > 0 {
            try await output.note(
                "\(result.pruned) readings have changed that were pruned here; what destinations got of them stays as it was"
            )
        }
        if result.unscored > 0 {
            try await output.note(
                "\(result.unscored) records are not scored or not over yet; the next fetch looks again")
        }
        if result.unreadable > 0 {
            try await output.note("\(result.unreadable) records can't be read; their bytes are kept")
        }
        if !result.summary.unsupported.isEmpty {
            try await output.note("the service doesn't have: " + result.summary.unsupported.joined(separator: ", "))
        }
    }
}

extension CloudAccount {
    /// `{vendor, person, service, contract, connected_at, token_expires_at, last_fetch_at, not_before, fetched_through}`.
    var document: JSONValue {
        func time(_ instant: Instant?) -> JSONValue { .optional(instant?.flooredToSecond.description) }
        return .object([
            "vendor": .string(vendor.rawValue), "person": .string(person), "service": .string(service),
            "contract": .string(contract.rawValue), "connected_at": time(connectedAt),
            "token_expires_at": time(tokenExpiresAt), "last_fetch_at": time(lastFetchAt), "not_before": time(notBefore),
            "fetched_through": .object(
                fetchedThrough.sorted { $0.key < $1.key }.map { .init($0.key, time($0.value)) }),
        ])
    }
}

extension PendingDisconnect {
    /// `{vendor, service, since}`.
    func document(_ vendor: CloudVendor) -> JSONValue {
        .object([
            "vendor": .string(vendor.rawValue), "service": .string(service),
            "since": .string(since.flooredToSecond.description),
        ])
    }
}

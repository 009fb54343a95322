import GatewaySettings
import HealthReadings
import HealthSyncClient
import ReadingStore

/// `healthsync`: samples of an iPhone with the Health Sync app.
struct HealthSyncRunner {
    /// How far back samples are fetched without `--from`: a week.
    static let usualDays: Int64 = 7
    /// How long a phone that is not where it was is looked for.
    private static let search: Duration = .seconds(4)

    let gateway: Gateway
    let json: Bool
    let output: any OperationOutput
    var limits = HealthSyncLimits()
    /// Looks for phones; a test has its own.
    var look: @Sendable (Duration) async -> [FoundPhone] = { await HealthSyncRunner.found(within: $0) }

    private var phones: PairedPhones { PairedPhones(directory: gateway.store.directory + "/healthsync") }

    func run(_ operation: HealthSyncOperation) async throws {
        switch operation {
        case .discover(let seconds): try await discover(.seconds(seconds))
        case .pair(let invitation): try await pair(invitation)
        case .list: try await list()
        case .forget(let name): try await forget(name)
        case .status(let choice): try await status(choice)
        case .types(let choice): try await types(choice)
        case .fetch(let request): try await fetch(request)
        }
    }

    // MARK: Phones

    private func discover(_ time: Duration) async throws {
        let known = Set(phones.all().map(\.name))
        try await PhoneDiscovery.look(for: time) { [json, output] phone in
            let isPaired = known.contains(phone.name)
            guard !json else {
                return try await output.data(
                    JSONValue.object([
                        "name": .string(phone.name), "host": .string(phone.host), "address": .string(phone.address),
                        "port": .integer(Int64(phone.port)), "paired": .bool(isPaired),
                    ]).text)
            }
            let place = phone.address.contains(":") ? "[\(phone.address)]" : phone.address
            try await output.data("\(phone.name): \(place):\(phone.port)" + (isPaired ? ", paired" : ""))
        }
    }

    private func pair(_ invitation: PhoneInvitation) async throws {
        let payload = try invitation.pairingPayload()
        if let name = invitation.name { try Self.requireName(name) }
        // A phone that was paired before keeps its name: `--phone` names it by that.
        let asked = invitation.name ?? phones.all().first { $0.fingerprint == payload.fingerprint }?.name
        let client = HealthSyncPhone(payload, limits: limits)
        let pairing: PhonePairing
        do {
            pairing = try await client.pair(payload.code, as: AccessPoint.hostName)
        } catch let error as HealthSyncError {
            var problem = Problem(error)
            if let end = payload.expiresAt, end < .systemClock {
                problem.message += "; the code expired at \(end) by this machine's clock"
            }
            throw problem
        }
        var phone = PairedPhone(
            name: name(for: payload, asked: asked, device: nil), host: payload.host, port: payload.port,
            fingerprint: payload.fingerprint, token: pairing.token, expiresAt: pairing.expiresAt,
            pairedAt: Instant.systemClock.flooredToSecond)
        // The code is used up: the token is kept before anything else can fail.
        try save(phone)
        let status: PhoneStatus?
        do {
            status = try await client.status(pairing.token)
        } catch let error as HealthSyncError {
            status = nil
            try await output.warn(Problem(error))
        }
        phone.name = name(for: payload, asked: asked, device: status?.deviceName)
        try save(phone)
        // Under another name there is only an older token of this phone.
        for other in phones.all() where other.fingerprint == phone.fingerprint && other.name != phone.name {
            _ = try remove(other.name)
        }
        let enabled = status?.enabledTypes ?? []
        guard !json else {
            return try await output.data(
                JSONValue.object([
                    "phone": .string(phone.name), "device_name": .optional(status?.deviceName),
                    "host": .string(phone.host), "port": .integer(Int64(phone.port)),
                    "fingerprint": .string(phone.fingerprint.description),
                    "expires_at": .string(phone.expiresAt.flooredToSecond.description),
                    "enabled_types": status == nil ? .null : .array(enabled.map(JSONValue.string)),
                ]).text)
        }
        try await output.data(
            "paired with \(phone.name) until \(phone.expiresAt.flooredToSecond); it shares \(enabled.count) types")
    }

    /// What a phone is called: as somebody asked, or as it calls itself. Another phone of the same name gets a number.
    private func name(for payload: PairingPayload, asked: String?, device: String?) -> String {
        let own = device.map { String($0.prefix(PairedPhones.longestName - 4)).cut(toOctets: 240) }
        let wanted = asked ?? own ?? payload.host
        let others = Set(phones.all().filter { $0.fingerprint != payload.fingerprint }.map(\.name))
        guard asked == nil, others.contains(wanted) else { return wanted }
        return (2...).lazy.map { "\(wanted) \($0)" }.first { !others.contains($0) } ?? wanted
    }

    private static func requireName(_ name: String) throws(Problem) {
        guard (1...PairedPhones.longestName).contains(name.count), name.utf8.count <= 4 * PairedPhones.longestName,
            PrintableText.escaped(name) == name
        else {
            throw Problem.usage("--name: expected 1 to \(PairedPhones.longestName) visible characters")
        }
    }

    private func list() async throws {
        let all = phones.all()
        guard !json else {
            let documents = all.map { phone in
                JSONValue.object([
                    "name": .string(phone.name), "host": .string(phone.host), "port": .integer(Int64(phone.port)),
                    "fingerprint": .string(phone.fingerprint.description),
                    "paired_at": .string(phone.pairedAt.flooredToSecond.description),
                    "expires_at": .string(phone.expiresAt.flooredToSecond.description),
                ])
            }
            return try await output.data(JSONValue.object(["phones": .array(documents)]).text)
        }
        for phone in all {
            try await output.data(
                "\(phone.name): \(phone.host):\(phone.port), until \(phone.expiresAt.flooredToSecond)")
        }
        if all.isEmpty { try await output.note("no phone is paired; `healthrelay healthsync pair` pairs one") }
    }

    private func forget(_ name: String) async throws {
        guard try remove(name) else { throw Self.noSuchPhone(name, among: phones.all()) }
        guard !json else {
            return try await output.data(JSONValue.object(["phone": .string(name), "forgotten": true]).text)
        }
        try await output.data("\(name) is forgotten; revoke the gateway in the app, too")
    }

    private func save(_ phone: PairedPhone) throws(Problem) {
        do {
            try phones.save(phone)
        } catch {
            throw Problem(error)
        }
    }

    private func remove(_ name: String) throws(Problem) -> Bool {
        do {
            return try phones.remove(name)
        } catch {
            throw Problem(error)
        }
    }

    private static func noSuchPhone(_ name: String, among phones: [PairedPhone]) -> Problem {
        Problem(
            "no_such_phone", .noInput, "no phone is paired as '\(name.prefix(PairedPhones.longestName))'",
            hint: phones.isEmpty
                ? "pair one with `healthrelay healthsync pair`"
                : "paired are: " + phones.map(\.name).joined(separator: ", "))
    }

    private func phone(_ choice: PhoneChoice) throws(Problem) -> PairedPhone {
        let all = phones.all()
        if let name = choice.name {
            guard let phone = all.first(where: { $0.name == name }) else { throw Self.noSuchPhone(name, among: all) }
            return phone
        }
        guard let phone = all.first else {
            throw Problem(
                "not_paired", .configuration, "no phone is paired",
                hint: "share in the Health Sync app, then `healthrelay healthsync pair`")
        }
        guard all.count == 1 else {
            throw Problem(
                "phone_not_chosen", .usage, "\(all.count) phones are paired; name one of them",
                hint: "name one with --phone: " + all.map(\.name).joined(separator: ", "))
        }
        return phone
    }

    // MARK: A phone's answers

    /// Asks a phone for its status, where it was last, or where the network now says that it is.
    ///
    /// The app chooses another port whenever it starts to share, so a phone that isn't found is looked for. It is known by its
    /// certificate alone.
    private func reach(_ choice: PhoneChoice) async throws -> (PairedPhone, PhoneStatus) {
        var phone = try phone(choice)
        let known = (phone.host, phone.port)
        if let host = choice.host { phone.host = host }
        if let port = choice.port { phone.port = port }
        do {
            let status = try await phone.phone(limits: limits).status(phone.token)
            if (phone.host, phone.port) != known { try save(phone) }
            return (phone, status)
        } catch let error as HealthSyncError
            where Self.mayBeElsewhere(error) && choice.host == nil && choice.port == nil
        {
            for place in await look(Self.search) where (place.address, place.port) != known {
                phone.host = place.address
                phone.port = place.port
                let status: PhoneStatus
                do {
                    // What it answers other than its status, such as that the token is over, is this phone's answer, too.
                    status = try await phone.phone(limits: limits).status(phone.token)
                } catch let error as HealthSyncError where Self.mayBeElsewhere(error) {
                    continue
                }
                try save(phone)
                try await output.note("\(phone.name) is now at \(phone.host), port \(phone.port)")
                return (phone, status)
            }
            throw error
        }
    }

    private static func mayBeElsewhere(_ error: HealthSyncError) -> Bool {
        switch error.kind {
        case .noConnection, .wrongCertificate, .tlsFailed: true
        default: false
        }
    }

    /// The phones that the network tells of; none where nobody can be asked.
    private static func found(within time: Duration) async -> [FoundPhone] {
        let collected = Collection()
        try? await PhoneDiscovery.look(for: time) { await collected.add($0) }
        return await collected.phones
    }

    private actor Collection {
        private(set) var phones: [FoundPhone] = []
        func add(_ phone: FoundPhone) { phones.append(phone) }
    }

    private func status(_ choice: PhoneChoice) async throws {
        let (phone, status) = try await reach(choice)
        let difference = status.serverTime.seconds - Instant.systemClock.seconds
        try await warnOfEnd(phone)
        guard !json else {
            return try await output.data(
                JSONValue.object([
                    "phone": .string(phone.name), "device_name": .string(status.deviceName),
                    "status": .string(PrintableText.escaped(String(status.status.prefix(64)))),
                    "version": .string(PrintableText.escaped(String(status.version.prefix(64)))),
                    "host": .string(phone.host), "port": .integer(Int64(phone.port)),
                    "phone_time": .string(status.serverTime.flooredToSecond.description),
                    "clock_difference_seconds": .integer(difference),
                    "expires_at": .string(phone.expiresAt.flooredToSecond.description),
                    "enabled_types": .array(status.enabledTypes.map(JSONValue.string)),
                ]).text)
        }
        let clock =
            abs(difference) < 120
            ? "" : "; its clock is \(abs(difference)) s \(difference > 0 ? "ahead of" : "behind") this machine's"
        try await output.data(
            "\(phone.name) (\(status.deviceName)) at \(phone.host):\(phone.port): \(status.status)\(clock)")
        try await output.data(
            "shares \(status.enabledTypes.count) types; paired until \(phone.expiresAt.flooredToSecond)")
    }

    /// Says when a token ends soon: only a person in front of the phone can pair anew.
    private func warnOfEnd(_ phone: PairedPhone) async throws {
        let days = (phone.expiresAt.seconds - Instant.systemClock.seconds) / 86_400
        guard days < 3 else { return }
        try await output.note(
            "the pairing with \(phone.name) ends at \(phone.expiresAt.flooredToSecond): pair again by then")
    }

    private func types(_ choice: PhoneChoice) async throws {
        let (phone, status) = try await reach(choice)
        guard !json else {
            let documents = status.enabledTypes.map { type in
                JSONValue.object([
                    "type": .string(type), "known": .bool(HealthSyncType.published.contains(type)),
                ])
            }
            return try await output.data(
                JSONValue.object(["phone": .string(phone.name), "types": .array(documents)]).text)
        }
        for type in status.enabledTypes { try await output.data(type) }
        if status.enabledTypes.isEmpty {
            try await output.note("\(phone.name) shares nothing; choose types in the app")
        }
    }

    // MARK: Samples

    private func fetch(_ request: SampleRequest) async throws {
        for type in request.types where !HealthSyncType.isName(type) {
            throw Problem.usage("--types: '\(type.prefix(64))' can be no type's name")
        }
        let asked = try await range(request)
        let (phone, status) = try await reach(request.phone)
        try await warnOfEnd(phone)
        let types = try chosen(request.types, status, phone, stores: request.stores)
        // A phone whose clock is ahead has samples that this machine takes to be of the future.
        let end = asked.upperBound ?? max(Instant.systemClock, status.serverTime).flooredToSecond
        let start = asked.lowerBound ?? end.advanced(bySeconds: -Self.usualDays * 86_400)
        guard start <= end else { throw Problem.usage("--from \(start) is later than --to \(end)") }
        let fetch = HealthSyncFetch(phone.phone(limits: limits), phone.token)
        let receiver: any SampleReceiver =
            request.stores
            ? try await SampleStorer(gateway, person: request.person, json: json, output)
            : SampleWriter(request.format, output)
        try await receiver.begin(phone.name, types, start, end)
        let summary: HealthSyncFetch.Summary
        do {
            summary = try await fetch.run(types, in: start...end, waiting: wait(phone)) { [output] samples in
                try await receiver.take(samples)
                try await output.progress(
                    TransferProgress(device: phone.name, received: receiver.count, announced: nil, unit: "sample"))
            }
        } catch let error as HealthSyncError {
            var problem = Problem(error)
            let kept = request.stores ? "; they are stored, and the same command goes on" : ""
            problem.message += "; \(await receiver.count) samples had come, and these are not all\(kept)"
            throw problem
        }
        try await receiver.end()
        try await report(summary, phone)
    }

    private func wait(_ phone: PairedPhone) -> @Sendable (Duration) async throws -> Void {
        { [output] time in
            try await output.note("\(phone.name) allows no more requests now; going on in \(time.components.seconds) s")
        }
    }

    private func report(_ summary: HealthSyncFetch.Summary, _ phone: PairedPhone) async throws {
        if !summary.unknownTypes.isEmpty {
            let types = summary.unknownTypes.sorted { $0.key < $1.key }
                .map { "\(PrintableText.escaped(String($0.key.prefix(64)))) \($0.value)" }
            try await output.note("types that this gateway doesn't know: " + types.joined(separator: ", "))
        }
        if summary.falseEnds > 0 {
            try await output.note("\(phone.name) said that there was no more, and there was; it was fetched")
        }
    }

    /// The types to fetch: those that were named, or all that are shared.
    private func chosen(
        _ named: [String], _ status: PhoneStatus, _ phone: PairedPhone, stores: Bool
    ) throws(Problem) -> [String] {
        let missing = named.filter { !status.enabledTypes.contains($0) }
        guard missing.isEmpty else {
            throw Problem(
                "type_not_enabled", .notPermitted,
                "\(phone.name) does not share \(missing.joined(separator: ", "))",
                hint: "switch them on in the Health Sync app; `healthrelay healthsync types` lists what is shared")
        }
        // Half a blood pressure is no reading: the other half is fetched as well.
        let pressures = ["bloodPressureSystolic", "bloodPressureDiastolic"]
        let others =
            stores && !Set(named).isDisjoint(with: pressures)
            ? pressures.filter(status.enabledTypes.contains) : []
        guard named.isEmpty else { return (named + others).reduce(into: []) { if !$0.contains($1) { $0.append($1) } } }
        // The stages' own types have nothing that isn't in sleepAnalysis.
        let hasSleep = status.enabledTypes.contains("sleepAnalysis")
        let types = status.enabledTypes.filter { !(hasSleep && HealthSyncType.sleepStages.contains($0)) }
        guard !types.isEmpty else {
            throw Problem(
                "type_not_enabled", .notPermitted, "\(phone.name) shares nothing",
                hint: "choose types in the Health Sync app")
        }
        return types
    }

    private func range(_ request: SampleRequest) async throws -> (lowerBound: Instant?, upperBound: Instant?) {
        let person: StoreUser? =
            if let name = request.person { try await gateway.store.person(named: name) } else { nil }
        let range = try await gateway.store.range(from: request.from, to: request.to, of: person)
        return (request.from == nil ? nil : range?.lowerBound, request.to == nil ? nil : range?.upperBound)
    }
}

extension PhoneInvitation {
    /// What to pair with.
    ///
    /// - Throws: `Problem` with 64 if something is missing, 65 if something can't be read.
    func pairingPayload() throws(Problem) -> PairingPayload {
        do throws(PairingPayload.Malformed) {
            if let payload { return try PairingPayload(json: payload) }
            if let host, let port, let code, let fingerprint {
                return try PairingPayload(host: host, port: port, code: code, fingerprint: fingerprint)
            }
        } catch {
            throw Problem(
                "pairing_payload_invalid", .badData, error.description,
                hint: "in the app, share and copy the pairing code; it is good for five minutes")
        }
        throw Problem.usage("expected what the QR code holds, or all of --host, --port, --code and --fingerprint")
    }
}

extension Problem {
    /// A phone's error.
    init(_ error: HealthSyncError) {
        let (status, hint): (ExitStatus, String?) =
            switch error.kind {
            case .tokenExpired:
                (.notPermitted, "pair again: share in the Health Sync app, then `healthrelay healthsync pair`")
            case .typeNotEnabled: (.notPermitted, "switch the types on in the Health Sync app")
            case .noPermission: (.notPermitted, "permit the Health Sync app to read in the Health app")
            case .pairingRefused:
                (.notPermitted, "have the app show a new code; one is good once, and for five minutes")
            case .locked: (.tryAgain, "unlock the phone and try again")
            case .phoneFailed, .serverError: (.tryAgain, nil)
            case .rateLimitExceeded: (.tryAgain, "try again in a minute")
            case .timeout, .connectionLost: (.tryAgain, "keep the phone near, unlocked and in the Health Sync app")
            case .noConnection:
                (
                    .unavailable,
                    "open the Health Sync app, share, and see that both are in one network; the app's port changes: `healthrelay healthsync discover`, then --host and --port"
                )
            case .wrongCertificate:
                (
                    .unavailable,
                    "another device may have the phone's address now; if the app was installed anew, pair again"
                )
            case .tlsFailed: (.unavailable, "is it the Health Sync app that listens there?")
            case .payloadTooLarge, .refused, .redirected, .notJSON, .unexpectedAnswer, .answerTooLarge,
                .pagesDoNotAdvance, .pagesOutOfOrder, .sampleOutOfRange:
                (.protocolBroken, nil)
            }
        self.init(error.code, status, error.description, hint: hint)
    }

    init(_ failure: PairedPhones.Failure) {
        self.init(
            "store_io", .inputOutput, failure.description, hint: "free space, or check the directory's owner")
    }

    init(_ failure: PhoneDiscovery.Failure) {
        let hint: String? =
            switch failure {
            case .noBus, .noAvahi:
                "install and start Avahi (`apt install avahi-daemon`); or pair by what the app shows, without a search"
            case .failed: nil
            }
        self.init(failure.code, .unavailable, failure.description, hint: hint)
    }
}

import FleetDelivery
import FleetDocuments
import GatewaySettings
import HealthReadings
import Logging
import ReadingStore

/// Applies the settings that a fleet's centre wants, through the gateway's one way of changing its own settings.
///
/// Settings are on trial until the centre has sent a receipt. After ten minutes without one, while readings wait or the
/// centre has not answered at all, the former settings are put back, and the version is not applied again. So it goes with
/// settings under which no meter is read.
package actor FleetSettingsDesk: FleetSteering {
    /// How long settings may be on trial, in seconds.
    static let trialSeconds: Int64 = 600
    /// How much of a trial each start of the gateway uses up: settings that make it fail must not be tried for ever.
    static let startSeconds: Int64 = 60

    private let destination: String
    private let file: FleetRecordFile
    private let logger: Logger
    private let uptime: @Sendable () -> Int64
    private let now: @Sendable () -> Instant
    private var record: FleetRecord
    /// The gateway; until it is attached, nothing is applied.
    private weak var gateway: Gateway?
    /// When the trial was last looked at, and how much of it was written.
    private var looked: Int64 = 0
    private var written: Int64 = 0
    /// What applies settings and what puts them back: one that began while the other is under way would lose its trial.
    private let turns = OneAtATime()

    /// - Parameters:
    ///   - destination: the name of the destination whose centre may change settings.
    ///   - directory: the state directory.
    ///   - uptime: seconds that only grow.
    package init(
        _ destination: String, directory: String, logger: Logger,
        uptime: @escaping @Sendable () -> Int64 = { SystemClock.monotonic / 1_000_000 },
        now: @escaping @Sendable () -> Instant = { .systemClock }
    ) {
        self.destination = destination
        self.logger = logger
        self.uptime = uptime
        self.now = now
        file = FleetRecordFile(directory: directory)
        let known = file.read()
        record =
            known.flatMap { $0.destination == destination ? $0 : nil }
            ?? FleetRecord(destination: destination, wanted: 0)
    }

    /// Lets the desk change a gateway's settings, and goes on with what an earlier process began.
    package func attach(_ gateway: Gateway) async {
        await turns.inTurn { await goOn(with: gateway) }
    }

    private func goOn(with gateway: Gateway) async {
        self.gateway = gateway
        looked = uptime()
        guard let trial = record.trial else { return }
        switch trial.stage {
        case .applying: await apply(insteadOf: nil)
        case .trying:
            record.trial?.tried += Self.startSeconds
            keep()
            await look()
        case .returning: await giveBack()
        }
    }

    /// Whether the gateway's clock is right.
    func clock() async -> FleetReport.Clock {
        guard let gateway else { return .unknown }
        if await gateway.clock.evidence() != nil { return .synchronised }
        return await gateway.clock.doubt() == nil ? .unsynchronised : .untrusted
    }

    // MARK: What the destination asks

    package func state() async -> FleetConfigurationState {
        guard let gateway else { return record.state(hash: nil) }
        let salt = (try? await gateway.store.gatewayID()).map { "\($0)" }
        return record.state(hash: salt.map { gateway.settings.fingerprint(salt: $0) })
    }

    package func take(_ wanted: FleetConfiguration) async -> Bool {
        await turns.inTurn { await apply(wanted) }
    }

    private func apply(_ wanted: FleetConfiguration) async -> Bool {
        guard let gateway, record.isNews(wanted.version) else { return false }
        let refused = wanted.refused + refusals(of: wanted, gateway.settings)
        if record.highest == nil, record.state != "refused" { record.highest = record.wanted }
        record.wanted = wanted.version
        (record.refused, record.reason) = ([], nil)
        guard refused.isEmpty else {
            refuse(refused)
            return true
        }
        record.highest = wanted.version
        let before = record
        begin(wanted, gateway.settings)
        guard keep() else {
            // What a kill would leave half done is not begun.
            (record.trial, record.owners) = (before.trial, before.owners)
            refuse([.init(key: "settings", reason: "the gateway cannot write \(file.path)")])
            return true
        }
        await apply(insteadOf: before)
        return true
    }

    package func heard(_ sign: FleetSign) async {
        guard let trial = record.trial, trial.stage == .trying else { return }
        record.trial?.isAnswered = true
        guard sign == .receipt else { return }
        record.trial?.hasReceipt = true
        await confirm(unlessStanding: trial)
    }

    /// Keeps the settings of a trial for which a receipt has come, once meters are read with them.
    private func confirm(unlessStanding trial: FleetRecord.Trial) async {
        guard await standstill(in: trial) == nil else { return }
        // Another version may have come meanwhile.
        guard record.trial?.version == trial.version, record.trial?.stage == .trying else { return }
        confirm()
    }

    /// Why no meter is read with the settings on trial; `nil`: they don't keep the gateway from it.
    ///
    /// What was read before is delivered all the same, and nothing new waits: neither says anything of it.
    private func standstill(in trial: FleetRecord.Trial) async -> String? {
        let key = "clock.require_sync"
        guard let gateway, gateway.settings.requiresSynchronizedClock,
            trial.settings[key]?.value != trial.previous[key]?.value, await gateway.clock.evidence() == nil
        else { return nil }
        return "this machine's clock is not reported as synchronised, and no meter is read without that (\(key))"
    }

    /// Looks at the trial's time: to be called every few seconds.
    package func check() async { await turns.inTurn { await look() } }

    private func look() async {
        let now = uptime()
        let passed = max(0, now - looked)
        looked = now
        guard let gateway, let trial = record.trial else { return }
        if trial.stage == .returning { return await giveBack() }
        guard trial.stage == .trying else { return }
        let tried = trial.tried + passed
        record.trial?.tried = tried
        if trial.hasReceipt == true {
            await confirm(unlessStanding: trial)
            guard record.trial?.version == trial.version, record.trial?.stage == .trying else { return }
        }
        guard tried >= Self.trialSeconds else {
            if tried - written >= 60 { keep() }
            return
        }
        let (count, obstacle) = (await waitingCount(gateway), await standstill(in: trial))
        // A receipt may have come while the store was asked.
        guard record.trial?.version == trial.version, record.trial?.stage == .trying else { return }
        if obstacle == nil, record.trial?.isAnswered == true {
            // Readings may wait that can't be counted: the trial goes on until they can be.
            guard let count else { return }
            if count == 0 { return confirm() }
        }
        let waiting = count ?? 0
        record.trial?.stage = .returning
        record.trial?.reason =
            obstacle
            ?? (waiting > 0
                ? "\(waiting == 1 ? "1 reading" : "\(waiting) readings") waited, and no receipt came for "
                    + "\(tried / 60) minutes after it was applied"
                : "the centre did not answer for \(tried / 60) minutes after it was applied")
        keep()
        await giveBack()
    }

    // MARK: Applying

    /// What speaks against settings, by key.
    private func refusals(
        of wanted: FleetConfiguration, _ settings: Settings
    ) -> [FleetConfiguration.Refusal] {
        wanted.settings.sorted { $0.key < $1.key }.compactMap { key, value in
            if case .whole(let days) = value, key == "sync.backfill_days" {
                var owners = settings.standard(of: key)
                if case .text(let text)? = ownersValue(of: key, settings).value { owners = text }
                let most = owners.flatMap { Int64($0) } ?? 0
                guard days <= most else {
                    return .init(key: key, reason: "a centre can lower it, and not raise it above the owner's \(most)")
                }
            }
            do {
                _ = try settings.draft(SettingsChange(set: [key: value.change]))
                return nil
            } catch let problem as Problem {
                return .init(
                    key: key,
                    reason: problem.code == "setting_fixed" ? "fixed by the administrator" : problem.message)
            } catch {
                return .init(key: key, reason: "unexpected")
            }
        }
    }

    /// What the owner has set for a key, whatever the centre has set since.
    private func ownersValue(of key: String, _ settings: Settings) -> FleetRecord.Former {
        let current = settings.ownValue(of: key)
        guard let centres = record.trial?.settings[key] ?? record.set[key], centres.value == current,
            let former = record.owners[key]
        else { return .init(value: current) }
        return former
    }

    /// Notes a trial. What is not named any more becomes the owner's again, unless the owner has changed it meanwhile.
    private func begin(_ wanted: FleetConfiguration, _ settings: Settings) {
        let keys = Set(record.owners.keys).union(wanted.settings.keys)
        let owners = Dictionary(uniqueKeysWithValues: keys.map { ($0, ownersValue(of: $0, settings)) })
        let target = owners.merging(wanted.settings.mapValues { .init(value: $0.change) }) { $1 }
        let previous = Dictionary(
            uniqueKeysWithValues: keys.map { key in
                // What is on trial itself is not known to be good.
                (key, record.trial?.previous[key] ?? .init(value: settings.ownValue(of: key)))
            })
        record.state = "applied"
        record.owners = owners
        record.trial = FleetRecord.Trial(
            version: wanted.version, stage: .applying, settings: target, previous: previous,
            previousVersion: record.trial?.previousVersion ?? record.applied, since: now().seconds)
    }

    private func apply(insteadOf before: FleetRecord?) async {
        guard let gateway, let trial = record.trial else { return }
        do {
            guard try await change(trial.settings, gateway) else { return startTrial() }
            // Until the next start nothing has been tried.
            logger.notice("the centre's settings count after a restart", metadata: ["version": "\(trial.version)"])
            if !gateway.requestRestart() { startTrial() }
        } catch {
            record.trial = before?.trial
            let problem = Problem(describing: error) ?? .unexpected(error)
            refuse([.init(key: "settings", reason: problem.message)])
        }
    }

    private func startTrial() {
        record.trial?.stage = .trying
        (looked, written) = (uptime(), 0)
        keep()
        logger.notice("the centre's settings are tried", metadata: ["version": "\(record.trial?.version ?? 0)"])
    }

    private func confirm() {
        guard let trial = record.trial else { return }
        (record.applied, record.since, record.trial) = (trial.version, trial.since, nil)
        record.set = trial.settings
        keep()
        logger.notice("the centre's settings are kept", metadata: ["version": "\(trial.version)"])
    }

    private func giveBack() async {
        guard let gateway, let trial = record.trial else { return }
        let needsRestart: Bool
        do {
            needsRestart = try await change(trial.previous, gateway)
        } catch {
            // Tried again with the next look.
            let problem = Problem(describing: error) ?? .unexpected(error)
            logger.error("the former settings cannot be put back", metadata: ["problem": "\(problem.message)"])
            return
        }
        if record.wanted == trial.version {
            record.state = "rolled_back"
            record.reason = trial.reason
        }
        (record.applied, record.trial) = (trial.previousVersion, nil)
        keep()
        logger.warning(
            "the centre's settings were taken back",
            metadata: ["version": "\(trial.version)", "reason": "\(trial.reason ?? "")"])
        if needsRestart { _ = gateway.requestRestart() }
    }

    /// Changes the gateway's own settings to what they shall be.
    ///
    /// - Returns: whether one of them counts only after a restart.
    private func change(_ target: [String: FleetRecord.Former], _ gateway: Gateway) async throws -> Bool {
        var change = SettingsChange()
        for (key, former) in target where gateway.settings.ownValue(of: key) != former.value {
            if let value = former.value { change.set[key] = value } else { change.unset.append(key) }
        }
        guard !change.keys.isEmpty else {
            return !gateway.keysThatNeedRestart.filter { target.keys.contains($0) }.isEmpty
        }
        let outcome = try await SettingsDesk(gateway).change(change)
        return outcome.afterRestart.contains { target.keys.contains($0) }
    }

    private func refuse(_ refusals: [FleetConfiguration.Refusal]) {
        record.state = "refused"
        record.refused = refusals.prefix(64).map {
            .init(key: $0.key, reason: PrintableText.escaped($0.reason).cut(toOctets: 500))
        }
        keep()
        logger.warning(
            "the centre's settings were refused",
            metadata: [
                "version": "\(record.wanted)", "keys": "\(refusals.map(\.key).joined(separator: ", "))",
            ])
    }

    /// What could be delivered to the centre and was not; `nil` if the store can't say.
    private func waitingCount(_ gateway: Gateway) async -> Int? {
        guard let known = try? await gateway.store.destinations() else { return nil }
        guard let key = known.first(where: { $0.name == destination })?.key else { return 0 }
        guard let groups = try? await gateway.store.groupsWaiting(at: key, heedsMode: true),
            let handedOver = try? await gateway.store.handedOverCount(at: key)
        else { return nil }
        return groups.filter { $0.held == nil }.reduce(handedOver) { $0 + $1.count }
    }

    @discardableResult
    private func keep() -> Bool {
        written = record.trial?.tried ?? 0
        do {
            try file.write(record)
            return true
        } catch {
            logger.error("the state of the centre's settings cannot be written", metadata: ["path": "\(file.path)"])
            return false
        }
    }
}

extension FleetConfiguration.Value {
    /// The value for the gateway's own settings file.
    fileprivate var change: SettingsChange.Value {
        switch self {
        case .whole(let number): .text(String(number))
        case .text(let text): .text(text)
        case .flag(let flag): .text(flag ? "true" : "false")
        case .map(let pairs): .map(pairs)
        }
    }
}

import GATTClient
import LibDBus
import Logging

extension ServiceLink {
    /// How long a service that has just begun may take to show its adapters.
    static let adapterGrace: Duration = .seconds(2)

    /// An adapter that can be used, and the service it belongs to.
    struct UsableAdapter: Sendable {
        let service: Service
        let adapter: AdapterObject
    }

    /// The adapter to use, switched on where it can be.
    ///
    /// - Parameter trying: whether a service that was not there is looked for once more.
    /// - Throws: ``RadioError``: why there is none.
    func usableAdapter(trying: Bool = true) async throws -> UsableAdapter {
        let service = try await service(trying: trying)
        if !homeHasBonds, candidates.count > 1 { await noteBonds(service) }
        var adapter = choose()
        if adapter.map({ isHome($0) }) != true {
            await awaitAdapter()
            adapter = choose()
        }
        guard let adapter else {
            guard isRunning(service) else { throw RadioError.lost }
            throw RadioError.noAdapter(wantedAdapter)
        }
        if adapter.path != chosen, !isHome(adapter) {
            logger.warning(
                "another Bluetooth adapter is used until the one with the bonds is back",
                metadata: ["adapter": "\(adapter.name)"])
        }
        chosen = adapter.path
        var usable = UsableAdapter(service: service, adapter: adapter)
        if !adapter.isPowered { usable = try await powering.take { try await switchOn(adapter.path, service) } }
        settleHome(usable.adapter)
        return usable
    }

    /// Why an adapter that was used can be used no longer; nil while it can.
    func fault(of usable: UsableAdapter) async -> RadioError? {
        // An adapter that has come later may have the bonds.
        if !homeHasBonds, candidates.count > 1, !noted.isSuperset(of: adapters.keys) {
            await noteBonds(usable.service)
            settleHome(usable.adapter)
        }
        guard isRunning(usable.service) else { return .lost }
        guard let adapter = adapters[usable.adapter.path] else {
            return .noAdapter(wantedAdapter)
        }
        guard adapter.isPowered else { return whyOff(adapter) }
        return isSuperseded(usable) ? .lost : nil
    }

    /// Whether another adapter is to be used in this one's place: the one that is used whenever it can be has come back, or
    /// one with bonds has come and this one has none.
    func isSuperseded(_ usable: UsableAdapter) -> Bool {
        guard let adapter = choose(), adapter.path != usable.adapter.path else { return false }
        if let home, adapter.address == home { return usable.adapter.address != home }
        return hasBonds(adapter) && !hasBonds(usable.adapter)
    }

    /// Whether the adapter that is used whenever it can be is there, on or off.
    var hasHome: Bool { adapters.values.contains { isHome($0) } }

    /// Whether it is the adapter that is used whenever it can be, or may become it.
    private func isHome(_ adapter: AdapterObject) -> Bool {
        guard let home else { return true }
        return adapter.address == home || (!homeHasBonds && hasBonds(adapter))
    }

    private func hasBonds(_ adapter: AdapterObject) -> Bool {
        bonding.contains(adapter.path) || (homeHasBonds && adapter.address == home)
    }

    /// Remembers an adapter that has bonds, or is the only one. One that was chosen among several without bonds may not be the
    /// one that gets them.
    private func settleHome(_ adapter: AdapterObject) {
        guard !homeHasBonds, let address = adapter.address else { return }
        if hasBonds(adapter) {
            (home, homeHasBonds) = (address, true)
        } else if home == nil, candidates.count == 1 {
            home = address
        }
    }

    private var candidates: [AdapterObject] {
        adapters.values.filter { adapter in wantedAdapter.map { adapter.isNamed($0) } ?? true }
    }

    private func choose() -> AdapterObject? {
        let candidates = candidates
        // One that is off and has the bonds is worth more than one that is on and has none.
        let usable = candidates.filter { $0.isPowered || (hasBonds($0) && canBeSwitchedOn($0)) }
        let preferred = usable.isEmpty ? candidates : usable
        if homeHasBonds, let adapter = preferred.first(where: { $0.address == home }) { return adapter }
        func rank(_ adapter: AdapterObject) -> (Int, Int, Int, Int, String) {
            (
                hasBonds(adapter) ? (adapter.isPowered ? 0 : 1) : 2, home != nil && adapter.address == home ? 0 : 1,
                adapter.path == chosen ? 0 : 1, adapter.number, adapter.path
            )
        }
        return preferred.min { rank($0) < rank($1) }
    }

    /// Whether an adapter that is off may be switched on: nobody has switched it off, as far as is known.
    private func canBeSwitchedOn(_ adapter: AdapterObject) -> Bool {
        !switchedOn.contains(adapter.path) && block(of: adapter) == nil
    }

    /// Notes which of several adapters have bonds: the kernel may number them otherwise at each boot.
    private func noteBonds(_ service: Service) async {
        var (found, asked): (Set<String>, Set<String>) = ([], [])
        for path in adapters.keys {
            guard let objects = try? await ManagedObjects.of(service.connection, .children(of: path)) else { continue }
            asked.insert(path)
            let devices = objects.with(BlueZName.device)
            if devices.contains(where: { DeviceObject(path: $0.path, $0.properties, logger: logger).isBonded }) {
                found.insert(path)
            }
        }
        (bonding, noted) = (found, asked)
    }

    /// A service that has just begun tells its adapters one by one.
    private func awaitAdapter() async {
        let rest = Self.adapterGrace - runningSince.duration(to: .now)
        guard rest > .zero else { return }
        let changes = changes()
        let waiting = Task { for await _ in changes where self.hasAdapter { return } }
        let limit = Task {
            try? await Task.sleep(for: rest)
            waiting.cancel()
        }
        await waiting.value
        limit.cancel()
    }

    private var hasAdapter: Bool { choose().map { isHome($0) } == true }

    private func switchOn(_ path: String, _ service: Service) async throws -> UsableAdapter {
        guard let adapter = adapters[path] else { throw RadioError.noAdapter(wantedAdapter) }
        if adapter.isPowered { return UsableAdapter(service: service, adapter: adapter) }
        if let block = block(of: adapter) { throw RadioError.blocked(adapter.name, hard: block == .hard) }
        // Once: whoever switches it off afterwards means it.
        guard switchedOn.insert(path).inserted else { throw RadioError.poweredOff(adapter.name) }
        logger.notice("the Bluetooth adapter is switched on", metadata: ["adapter": "\(adapter.name)"])
        do {
            _ = try await service.connection.call(
                BlueZName.service, path, BlueZName.properties, "Set",
                [.string(BlueZName.adapter), .string("Powered"), .variant(.bool(true))], timeout: .seconds(15))
        } catch {
            guard let remote = RemoteError(error) else { throw error.radioError }
            if remote.isBlocked {
                throw RadioError.blocked(adapter.name, hard: rfkill.block(of: adapter.name) == .hard)
            }
            if remote.isDenied || remote.isLost || remote.isWithoutService { throw error.radioError }
            throw RadioError.poweredOff(adapter.name)
        }
        guard var adapter = adapters[path] else { throw RadioError.noAdapter(wantedAdapter) }
        adapter.isPowered = true
        adapters[path] = adapter
        tellChange()
        return UsableAdapter(service: service, adapter: adapter)
    }

    private func block(of adapter: AdapterObject) -> RFKill.Block? {
        rfkill.block(of: adapter.name) ?? (adapter.powerState == "off-blocked" ? .soft : nil)
    }

    private func whyOff(_ adapter: AdapterObject) -> RadioError {
        block(of: adapter).map { .blocked(adapter.name, hard: $0 == .hard) } ?? .poweredOff(adapter.name)
    }
}

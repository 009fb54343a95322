import FreeStyleLibre
import GatewaySettings
import HealthDevices
import HealthReadings
import ReadingStore

/// What of the settings decides about delivery: what is ignored, how old a reading may be, and who shares which device.
struct DeliveryRules {
    let settings: Settings
    let catalogue: Catalogue

    /// Tells the store.
    ///
    /// - Throws: `Problem` for settings that cannot be used; the store keeps what it was told before.
    func heed(in store: ReadingStore) async throws {
        var ignored = try ignoredOrigins()
        if settings["libre.deliver"] == "none", let sensors = catalogue[LibreScan.model] {
            ignored.providers.insert(settings.provider(of: sensors))
        }
        try await store.setIgnored(ignored)
        try await store.setConsentStandard(granted: settings["consent.default"] != "denied")
        try await store.setBackfillDays(settings.backfillDays(nil))
        do {
            let zone = try await store.currentUser().timeZone
            try await store.setPeople(
                settings.people.map {
                    StorePerson(clientUserID: $0.clientUserID, timeZone: $0.timeZone ?? zone, shares: $0.shares)
                })
        } catch let error as StoreError where error.isCorrupt {
            // The store has logged whose row was changed. `store verify` has to run, and other people's readings go on,
            // with the shares of devices that the store was told before.
        }
    }

    /// `sync.ignore`: addresses of devices, ids of models, slugs of providers.
    ///
    /// - Throws: `Problem` for an entry that is none of them: what a person wants to keep for themselves must not be
    ///   sent because of a slip.
    func ignoredOrigins() throws(Problem) -> IgnoredOrigins {
        var origins = IgnoredOrigins()
        let providers = Set(catalogue.models.map(\.provider)).union(settings.map("sources.map").values)
        for entry in settings.list("sync.ignore") {
            if let address = DeviceAddress(entry) {
                origins.addresses.insert(address.bits)
            } else if catalogue[entry] != nil {
                origins.models.insert(entry)
            } else if providers.contains(entry) {
                origins.providers.insert(entry)
            } else {
                throw Problem(
                    "config_invalid", .configuration,
                    "sync.ignore: expected a device's address, a model of `healthrelay catalog` or a provider, "
                        + "found '\(entry)'",
                    hint: "providers: " + providers.sorted().joined(separator: ", "))
            }
        }
        return origins
    }
}

extension Settings {
    /// The server's provider slug for a model: the catalogue's, unless `sources.map` names another.
    package func provider(of model: DeviceModel) -> String { map("sources.map")[model.id] ?? model.provider }
}

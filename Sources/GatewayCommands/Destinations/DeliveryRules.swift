import CloudSources
import FleetDelivery
import FreeStyleLibre
import GatewaySettings
import HealthDevices
import HealthReadings
import HealthSyncClient
import ReadingStore

/// What of the settings decides about delivery: what is ignored, how old a reading may be, and who shares which device.
struct DeliveryRules {
    let settings: Settings
    let catalogue: Catalogue

    /// Tells the store.
    ///
    /// - Throws: `Problem` for an entry of `sync.ignore` that is nothing; the store keeps what it was told before.
    func heed(in store: ReadingStore) async throws {
        try await store.setIgnored(ignoredOrigins(known: store.knownProviders()))
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

    /// `sync.ignore`, which names addresses of devices, ids of models and slugs of providers, and `libre.deliver`.
    ///
    /// - Parameter known: slugs of providers that the store knows.
    /// - Throws: `Problem` for an entry that is none of them: what a person wants to keep for themselves must not be
    ///   sent because of a slip.
    func ignoredOrigins(known: Set<String> = []) throws(Problem) -> IgnoredOrigins {
        var origins = IgnoredOrigins()
        if settings["libre.deliver"] == "none" {
            // `sources.map` may give sensors the slug of other meters, and what was queued before keeps the slug that it had.
            origins.models.insert(LibreScan.model)
            // What comes of LibreView is of no model, and has the catalogue's slug.
            if let sensors = catalogue[LibreScan.model] { origins.providers.insert(sensors.provider) }
        }
        // A provider is ignored before anything of it is stored, too.
        let providers = known.union(catalogue.models.map(\.provider)).union(settings.map("sources.map").values)
            .union(CloudVendor.allCases.map(\.rawValue)).union([PhoneSampleImport.provider])
        for entry in settings.list("sync.ignore") {
            if let address = DeviceAddress(entry) {
                origins.addresses.insert(address.bits)
            } else if catalogue[entry] != nil {
                origins.models.insert(entry)
            } else if providers.contains(entry) {
                origins.providers.insert(entry)
            } else {
                throw settings.unusable(
                    "sync.ignore",
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

    /// The entries that name no device and no model of the catalogue, and so do nothing: a line for each.
    ///
    /// They are no reason to refuse the settings: nothing is sent because of them, another version may know the model, and
    /// a gateway that does not start after an upgrade reads no meter.
    package func entriesWithoutEffect(_ catalogue: Catalogue) -> [String] {
        let clocks = list("clock.set").filter { DeviceAddress($0) == nil && catalogue[$0] == nil }.map {
            "\(place(of: "clock.set"))clock.set: expected a device's address or a model of `healthrelay catalog`, "
                + "found '\($0)', which does nothing"
        }
        let models = map("sources.map").keys.filter { catalogue[$0] == nil }.sorted().map {
            "\(place(of: "sources.map"))sources.map: expected a model of `healthrelay catalog`, found '\($0)', "
                + "which does nothing"
        }
        return clocks + models
    }

    /// The people whose readings a fleet refuses because their ids are too long: a line for each, without the id.
    package var peopleRefusedByFleets: [String] {
        let key = "user.client_user_id"
        let current = self[key].map { [(setting: place(of: key) + key, id: $0)] } ?? []
        let others = people.map(\.clientUserID).filter { $0 != self[key] }.map { (setting: "users", id: $0) }
        return destinations.filter { $0.kind == .fleet }.flatMap { fleet -> [String] in
            let chosen = fleet.list("people")
            return (current + others).filter { chosen.isEmpty || chosen.contains($0.id) }.compactMap { person in
                FleetPacking.refusal(of: person.id).map {
                    "\(person.setting): \($0), so \(fleet.name) gets nothing of theirs"
                }
            }
        }
    }
}

extension Settings {
    /// Whether nobody has named a destination or set anything of one: then there is one named `vital`, without a key.
    package var hasImpliedDestination: Bool { destinations.allSatisfy(\.isImplied) && !destinations.isEmpty }

    /// Whether readings go to a destination only when somebody asks.
    package func isManual(_ destination: DestinationSetting) -> Bool {
        (destination["mode"] ?? self["sync.mode"]) == "manual"
    }

    /// How many days before the first contact with its device a reading may have been measured.
    package func backfillDays(_ destination: DestinationSetting?) -> Int? {
        (destination?["backfill_days"] ?? self["sync.backfill_days"]).flatMap(Int.init)
    }

    /// The keys that differ from an older state of the settings and count only after a restart.
    package func keysThatNeedRestart(since old: Settings) -> [String] {
        destinationsThatDiffer(from: old)
            + SettingDefinition.all.filter { !$0.isLive && !old.isSame(self, $0.key) }.map(\.key)
    }

    /// `clock.require_sync`.
    package var requiresSynchronizedClock: Bool { SettingDefinition.isOn(self["clock.require_sync"]) }

    /// The keys of destinations that differ from these and count only after a restart.
    func destinationsThatDiffer(from old: Settings) -> [String] {
        guard destinations.map(\.name) == old.destinations.map(\.name) else { return ["destinations"] }
        return zip(destinations, old.destinations).flatMap { fresh, old in
            fresh.kind.settings.map(\.key).filter { !DestinationKind.live.contains($0) && !fresh.isSame(old, $0) }
                .map { "destinations.\(fresh.name).\($0)" }
        }
    }
}

extension Problem {
    /// The problem that a command names a destination that there is not.
    ///
    /// - Parameter names: what it may name.
    package static func noSuchDestination(_ name: String, among names: [String]) -> Problem {
        Problem(
            "no_such_destination", .noInput, "there is no destination named '\(name.prefix(64))'",
            hint: names.isEmpty
                ? "the settings name no destination" : "destinations: " + names.joined(separator: ", "))
    }
}

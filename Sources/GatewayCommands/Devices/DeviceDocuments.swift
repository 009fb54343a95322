import GATTClient
import HealthDevices
import HealthReadings
import ReadingStore

extension FoundDevice {
    /// `{address, address_type, name, model, kinds[], rssi, paired, seen_at, pairing_mode, choose_from}`.
    var document: JSONValue {
        .object([
            "address": .optional(advertisement.address?.description),
            "address_type": .optional(advertisement.address?.kind.rawValue),
            "name": .optional(advertisement.name), "model": .optional(model?.id),
            "kinds": .array((model ?? choices.first)?.kinds.map { .string($0.rawValue) } ?? []),
            "rssi": .optional(advertisement.rssi), "paired": .bool(advertisement.isPaired),
            "seen_at": .string(advertisement.seenAt.flooredToSecond.description),
            "pairing_mode": isInPairingMode.map(JSONValue.bool) ?? .null,
            "choose_from": .optional(choices.first?.brand),
        ])
    }

    /// The device on one line for people.
    var line: String {
        let what = model.map { "\($0.brand) \($0.name) [\($0.id)]" } ?? choices.first?.brand ?? "not in the catalogue"
        let parts = [
            advertisement.address?.description ?? "no address", advertisement.name ?? "no name", what,
            model?.certainty.map { "own protocol \($0.rawValue)" },
            advertisement.rssi.map { "\($0) dBm" },
            isInPairingMode == true ? "in pairing mode" : nil,
            advertisement.isPaired ? "paired" : nil,
            choices.isEmpty ? nil : "pair it with --model",
        ]
        return parts.compactMap(\.self).joined(separator: "  ")
    }

    /// What a person has to know before pairing it, beside its line; `nil` where nothing.
    var advice: String? {
        choices.first.map { model in
            "\(model.brand) devices do not say which model they are. Find the number on the label in `healthrelay catalog`, "
                + "and name the model at pairing: `healthrelay pair ADDRESS --model \(model.id)`, for example."
        }
    }
}

extension Gateway {
    /// The models of which a person says one at pairing: `{models:[{id, brand, name, certainty}]}`.
    package var modelChoices: JSONValue {
        .object([
            "models": .array(
                catalogue.models.filter { !$0.standsFor.isEmpty }.map { model in
                    .object([
                        "id": .string(model.id), "brand": .string(model.brand), "name": .string(model.name),
                        "certainty": .optional(model.certainty?.rawValue),
                    ])
                })
        ])
    }
}

/// A device as `devices` and the page show it: what the store knows, and what the radio says of its bond.
package struct KnownDevice: Sendable {
    package var stored: StoredDevice
    /// Whether a bond exists: the radio's word where there is one, else the store's.
    package var isPaired: Bool
    /// Whose readings its are.
    package var user: String?

    /// What the store alone knows.
    package init(_ stored: StoredDevice, currentUser: String?) {
        self.stored = stored
        isPaired = stored.isPaired
        user = stored.user ?? currentUser
    }

    /// The devices the store knows.
    package static func all(in store: ReadingStore) async throws -> [KnownDevice] {
        let user = try await store.currentUser().clientUserID
        return try await store.devices().map { KnownDevice($0, currentUser: user.nonEmpty) }
    }

    /// The element of `{devices:[…]}`.
    package var document: JSONValue { .object(members) }

    /// The keys of ``document``.
    package var members: [JSONValue.Member] {
        let description = stored.description
        return [
            .init("address", .optional(description.address?.description)), .init("name", .optional(description.name)),
            .init("model", .optional(description.model)), .init("serial", .optional(description.serial)),
            .init("paired", .bool(isPaired)), .init("proven", .bool(isPaired && stored.isProven)),
            .init("last_seen", .optional(stored.lastSeen?.flooredToSecond.description)),
            .init("battery_percent", .optional(stored.batteryPercent)), .init("clock", clock),
            .init("last_sequence", .optional(stored.lastSequence)),
            .init("sequence_epoch", .integer(Int64(stored.sequenceEpoch))),
            .init("readings", .integer(Int64(stored.readings))), .init("provider", .string(description.provider)),
            .init("user", .optional(user)),
        ]
    }

    private var clock: JSONValue {
        guard let clock = stored.clock else { return .null }
        // A tenth of a part per million is a third of a second a month.
        let drift = stored.driftPartsPerMillion.flatMap { drift in
            drift.isFinite && abs(drift) < 1e9
                ? ExactDecimal(significand: Int64((drift * 10).rounded()), exponent: -1) : nil
        }
        return .object([
            "difference_seconds": .integer(clock.differenceSeconds),
            "read_at": .string(clock.readAt.flooredToSecond.description),
            "drift_ppm": drift.map(JSONValue.number) ?? .null,
        ])
    }

    /// The device on one line for people.
    package var line: String {
        let description = stored.description
        // What has no address was never to be paired: a sensor, or a meter of a capture that does not show it.
        let bond =
            isPaired
            ? (stored.isProven ? "paired" : "paired, not proven yet")
            : description.address.map { _ in
                stored.isBarred ? "barred until it is paired again: its user was removed" : "not paired"
            }
        let parts = [
            description.address?.description ?? description.serial ?? "no address", description.name,
            description.address.map { "(\(DeviceAlias($0, model: nil).digits))" }, description.model.map { "[\($0)]" },
            bond,
            "\(stored.readings) reading\(stored.readings == 1 ? "" : "s")",
            stored.batteryPercent.map { "battery \($0) %" }, stored.clock.map(\.words),
            stored.lastSeen.map { "last seen \($0.flooredToSecond)" },
        ]
        return parts.compactMap(\.self).joined(separator: "  ")
    }
}

extension PastContact {
    /// `{began, ended, complete, error, received, announced}`; those that its end tells are null as long as it has none.
    package var document: JSONValue { document(countsRecords: true) }

    /// The same; without the numbers of records where they may be of several people.
    package func document(countsRecords: Bool) -> JSONValue {
        let counted = countsRecords ? summary : nil
        return .object([
            "began": .string(startedAt.flooredToSecond.description),
            "ended": .optional(endedAt?.flooredToSecond.description),
            "complete": summary.map { .bool($0.isComplete) } ?? .null, "error": .optional(summary?.error),
            "received": .optional(counted?.received), "announced": .optional(counted?.announced),
        ])
    }
}

extension ClockComparison {
    /// How the device's clock stands, in words.
    var words: String {
        let minutes = correctionSeconds / 60
        guard minutes != 0 else { return "clock right" }
        return "clock \(abs(minutes)) min \(minutes > 0 ? "ahead" : "behind")"
    }
}

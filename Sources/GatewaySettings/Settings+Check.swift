import Foundation
import HealthReadings
import VitalClient

extension Settings {
    /// Refuses values that are of a setting's form and that the gateway could not use.
    ///
    /// - Throws: ``Problem`` with the value's place.
    func requireUsable() throws {
        for destination in destinations {
            for key in destination.kind.required where destination[key] == nil && destination.list(key).isEmpty {
                throw Problem.configInvalid("\(Self.place(destination.origin))\(destination.title): \(key) is missing")
            }
        }
        for destination in destinations where destination.kind == .vital {
            guard let url = destination["base_url"] else { continue }
            do throws(InvalidBaseURL) {
                _ = try VitalServer(baseURL: url)
            } catch  where error != .credentials {
                throw Problem.configInvalid(
                    Self.place(destination.origin(of: "base_url"))
                        + "\(destination.named("base_url")) cannot be used: \(error.reason)")
            } catch {
                // Shown with its password masked; what sends readings refuses it.
            }
        }
        do throws(Problem) { _ = try ListenAddress(self["http.listen"] ?? "") } catch {
            throw unusable("http.listen", error.message)
        }
        _ = try trustedProxies()
        try requireUsableBackup()
        try requireUsableRetention()
        for text in list("heart_rate.keep") where DeviceAddress(text) == nil {
            throw unusable(
                "heart_rate.keep",
                "heart_rate.keep: expected the address of a strap or an oximeter such as C0:11:22:33:44:55, found '\(text)'"
            )
        }
        if let every = self["cloud.every"], let expected = Self.expectation(of: "cloud.every", notMetBy: every) {
            throw unusable("cloud.every", "cloud.every: expected \(expected), found '\(every.prefix(40))'")
        }
        if let zone = self["user.time_zone"], ZoneRules.named(zone) == nil {
            let origin = origin(of: "user.time_zone")
            throw Problem(
                "unknown_time_zone", origin == .flag ? .usage : .configuration,
                "\(Self.place(origin))user.time_zone: '\(zone)' is no time zone of the tz database",
                hint: "use a name such as Europe/Berlin, or install tzdata-legacy for older ones such as US/Eastern")
        }
    }

    /// What a setting's value has to be, where a text isn't it; `nil`: it is, or its use alone can tell.
    package static func expectation(of key: String, notMetBy text: String) -> String? {
        if key == "cloud.every", cloudInterval(text) == nil { return "15m to 30d, as minutes, hours or days" }
        guard let definition = SettingDefinition.all.first(where: { $0.key == key }), !definition.accepts(text) else {
            return nil
        }
        return definition.expectation
    }

    /// The reverse proxies whose word is taken for their clients' addresses.
    ///
    /// - Throws: ``Problem`` for an entry that is no range of addresses.
    package func trustedProxies() throws(Problem) -> [AddressRange] {
        var ranges: [AddressRange] = []
        for text in list("http.trusted_proxies") {
            guard let range = AddressRange(text.trimmingCharacters(in: .whitespaces)) else {
                throw unusable(
                    "http.trusted_proxies",
                    "http.trusted_proxies: expected an address or a prefix such as 10.0.0.0/8, found '\(text)'")
            }
            ranges.append(range)
        }
        return ranges
    }

    /// The problem of a value that is of its setting's form and cannot be used, with the value's place.
    package func unusable(_ key: String, _ message: String, hint: String? = nil) -> Problem {
        Problem.configInvalid(place(of: key) + message, hint: hint)
    }

    /// Where a setting's value came from, as messages begin with it; empty where nothing can be named.
    package func place(of key: String) -> String { Self.place(origin(of: key)) }
}

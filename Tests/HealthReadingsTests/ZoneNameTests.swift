import HealthReadings
import Testing

@Suite("Names of time zones")
struct ZoneNameTests {
    @Test(
        "an abbreviation or an offset that Foundation would take is no zone: BST is not Bangladesh's",
        arguments: [
            "BST", "IST", "CST", "PST", "EDT", "GMT+3", "GMT+0300", "UTC+1", "+01:00", "Mars/Olympus", "", "/",
            "Europe",
            "Europe/", "../zoneinfo/UTC", "Europe/../UTC", "/etc/localtime", "posix/UTC", "right/UTC", "tzdata.zi",
            "zone.tab", "Factory", "localtime", "UTC\u{0}", "europe/berlin",
        ])
    func foreign(_ name: String) { #expect(ZoneRules.named(name) == nil) }

    @Test(
        "names of the tz database are zones, the old ones too",
        arguments: [
            "Europe/Berlin", "UTC", "GMT", "Etc/UTC", "Etc/GMT+3", "EST5EDT", "CET", "EST", "Asia/Kolkata",
            "America/Argentina/Buenos_Aires", "America/Port-au-Prince",
        ])
    func known(_ name: String) { #expect(ZoneRules.named(name)?.name == name) }
}

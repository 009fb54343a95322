import Foundation
import Testing

/// A meter on the lab's air.
struct LabMeter: Sendable {
    let lab: Lab
    let name: String
    /// Its identity address.
    let address: String

    /// Something that happened to it.
    struct Event: Sendable {
        var document: Document
        /// By ``Lab/now``.
        var at: Double { document["at"]?.number ?? 0 }
        var name: String { document["event"]?.text ?? "" }
        /// The place of the record it is about among all it ever held.
        var record: Int? { document["record"]?.integer }
        var hex: String { document["hex"]?.text ?? "" }
        var characteristic: String { document["characteristic"]?.text ?? "" }
    }

    @discardableResult
    private func ask(_ request: String, _ arguments: [String: Document] = [:]) async throws -> Document {
        try await lab(request, arguments.merging(["meter": .string(name)]) { $1 })
    }

    func behave(_ behaviour: Document) async throws { try await ask("change", ["behaviour": behaviour]) }
    func remove() async throws { try await ask("remove") }
    /// Adds records: a list of them, or `count`, `seed` and so on.
    func add(_ records: Document) async throws { try await ask("records", ["add": records]) }
    func replaceRecords(_ records: Document) async throws { try await ask("records", ["replace": records]) }
    func setClock(ahead seconds: Int) async throws { try await ask("clock", ["ahead": .number(seconds)]) }
    func press() async throws { try await ask("press") }
    func drop(_ way: String = "lost") async throws { try await ask("drop", ["way": .string(way)]) }
    func forget() async throws { try await ask("forget") }
    func pairWithSecondHost() async throws { try await ask("second_host") }
    func type(_ digits: String) async throws { try await ask("type", ["number": .number(Int(digits) ?? -1)]) }
    func state() async throws -> Document { try await ask("state") }

    /// Something that only meters of its kind can be asked: the functions `act_…` of its class.
    @discardableResult
    func act(_ act: String, _ given: Document = [:]) async throws -> Document {
        try await ask("act", ["act": .string(act), "given": given])
    }

    /// The six digits it shows, once it does.
    func passkey() async throws -> String {
        let number = try #require(try await ask("passkey")["passkey"]?.integer)
        let digits = String(number)
        return String(repeating: "0", count: 6 - digits.count) + digits
    }

    /// What the command line must print of the records it holds, or ever held.
    func readings(ever: Bool = false) async throws -> [Document] {
        try await ask("readings", ["ever": ever ? true : false])["readings"]?.elements ?? []
    }

    func log(since: Int = 0) async throws -> [Event] {
        try await ask("log", ["since": .number(since)])["events"]?.elements.map(Event.init) ?? []
    }

    /// How much has happened: a beginning for ``wait(_:count:since:seconds:)``.
    func mark() async throws -> Int { try await ask("log", ["since": 1_000_000_000])["next"]?.integer ?? 0 }

    /// Waits until that has happened so often since then; the last of them.
    @discardableResult
    func wait(_ event: String, count: Int = 1, since: Int = 0, seconds: Int = 60) async throws -> Event {
        Event(
            document: try await ask(
                "wait",
                [
                    "event": .string(event), "count": .number(count), "since": .number(since),
                    "timeout": .number(seconds),
                ]))
    }

    /// The requests its Record Access Control Point got, in hexadecimal.
    func requests(since: Int = 0) async throws -> [String] {
        try await log(since: since).filter { $0.name == "asked" }.map(\.hex)
    }
}

/// The devices of the lab.
enum Meters {
    /// Pairs by six digits that it shows; has a clock that is right.
    static func accuchek(_ more: Document = [:]) -> Document {
        merge(
            [
                "name": "meter+00001808", "address": "C0:00:00:00:18:08", "service": "1808", "passkey": true,
                "manufacturer": "Roche", "model": "932", "serial": "00001808", "battery": 87, "clock": 0,
                "feature": "7b04",
            ], more)
    }

    /// Pairs without digits; has no clock to read.
    static func generic(_ more: Document = [:]) -> Document {
        merge(
            [
                "name": "TestGlucose", "address": "C0:00:00:00:18:0A", "service": "1808", "manufacturer": "Example",
                "model": "GM-1", "serial": "GM1-0042", "battery": 55, "feature": "7b04",
            ], more)
    }

    static func contour(_ more: Document = [:]) -> Document {
        merge(
            [
                "name": "Contour7800H1234", "address": "C0:00:00:00:18:0B", "service": "1808", "passkey": true,
                "manufacturer": "Ascensia", "model": "Contour next ONE", "serial": "7800H1234", "battery": 60,
                "feature": "0004",
            ], more)
    }

    /// A cuff that pairs without digits.
    static func omron(_ more: Document = [:]) -> Document {
        merge(
            [
                "name": "BLESmart_0000021A28FF", "address": "C0:00:00:00:18:10", "service": "1810",
                "manufacturer": "OMRON HEALTHCARE", "model": "HEM-7322T", "serial": "20190407001", "battery": 100,
                "feature": "3500",
            ], more)
    }

    /// A cuff that measures when it is told to, and pairs without digits.
    static func qardio(_ more: Document = [:]) -> Document {
        merge(
            [
                "name": "QardioARM 2", "address": "C0:00:00:00:18:51", "service": "1810", "protocol": "qardio",
                "manufacturer": "Qardio", "model": "QardioARM 2", "serial": "QA2-0042", "battery": 80,
                "feature": "1700",
            ], more)
    }

    /// A continuous sensor that pairs by six digits.
    static func cgm(_ more: Document = [:]) -> Document {
        merge(
            [
                "name": "TestCGM", "address": "C0:00:00:00:18:1F", "service": "181F", "passkey": true,
                "manufacturer": "Example", "model": "CGM-3", "serial": "CGM3-0815", "battery": 91, "mtu": 185,
            ], more)
    }

    /// An Omron monitor with its own protocol, as a layout of the lab, which a person says to be a model.
    static func omron(_ layout: String, said model: String, _ more: Document = [:]) -> Document {
        omron(
            merge(
                [
                    "name": layout == "7380T1" ? "X7 Smart AFib" : "BLESmart_0000021A28FF", "protocol": "omron",
                    "layout": .string(layout), "said": .string(model), "clock": 0, "battery": 0, "mtu": 185,
                    "serial": nil, "model": .string("HEM-\(layout)"),
                ], more))
    }

    /// A Microlife monitor by its own protocol.
    static func microlife(_ more: Document = [:]) -> Document {
        merge(
            [
                "name": "B3 BT", "address": "C0:00:00:00:18:31", "service": "1810", "protocol": "microlife",
                "manufacturer": "Microlife", "model": "B3",
            ], more)
    }

    /// A Viatom monitor by its own protocol, which makes no bond.
    static func viatom(_ more: Document = [:]) -> Document {
        merge(
            [
                "name": "LP-BP2W", "address": "C0:00:00:00:18:32", "service": "1810", "protocol": "viatom", "clock": 0,
                "mtu": 247,
            ], more)
    }

    /// An oximeter that streams by its maker's protocol, and makes no bond.
    static func oximeter(_ stream: String, _ name: String, _ last: Int) -> Document {
        [
            "name": .string(name), "address": .string("C0:00:00:00:18:\(last)"), "service": "1822",
            "protocol": .string(stream),
        ]
    }

    /// An O2Ring, which makes no bond.
    static func o2ring(clock: Int = 0, _ last: Int = 45) -> Document {
        [
            "name": "O2Ring 4512", "address": .string("C0:00:00:00:18:\(last)"), "service": "1822",
            "protocol": "o2ring", "clock": .number(clock),
        ]
    }

    /// A thermometer that shows a temperature while it measures, and keeps what it has measured until it was sent.
    static func thermometer(_ more: Document = [:]) -> Document {
        vital("TestThermometer", "1809", "C0:00:00:00:18:09", more)
    }

    /// An oximeter of the standard service.
    static func pulseOximeter(_ more: Document = [:]) -> Document {
        vital("TestOximeter", "1822", "C0:00:00:00:18:22", more)
    }

    static func weightScale(_ more: Document = [:]) -> Document {
        vital("TestScale", "181D", "C0:00:00:00:18:1D", more)
    }

    /// A scale with both services.
    static func bodyScale(_ more: Document = [:]) -> Document {
        vital("TestBodyScale", "181B", "C0:00:00:00:18:1B", more)
    }

    static func strap(_ more: Document = [:]) -> Document {
        vital("TestStrap", "180D", "C0:00:00:00:18:0D", more)
    }

    private static func vital(_ name: String, _ service: String, _ address: String, _ more: Document) -> Document {
        merge(
            [
                "name": .string(name), "address": .string(address), "service": .string(service),
                "manufacturer": "Example", "model": "V-1", "serial": .string("V\(service)-42"), "battery": 70,
                "mtu": 185,
            ], more)
    }

    private static func merge(_ one: Document, _ other: Document) -> Document {
        .object(one.members.merging(other.members) { $1 })
    }
}

import Foundation
import GATTClient
import HealthReadings
import Testing

@testable import HealthDevices

@Suite struct CatalogueTests {
    private let catalogue = Catalogue()

    private func model(_ name: String?, _ services: [BluetoothUUID] = []) -> String? {
        catalogue.model(
            for: Advertisement(address: nil, name: name, services: services, seenAt: Instant(seconds: 0)))?.id
    }

    private func model(_ name: String?, offering places: [OfferedServices.Place]) -> String? {
        let characteristics = places.map {
            Characteristic(uuid: $0.characteristic, service: $0.service, valueHandle: 1)
        }
        return catalogue.model(
            for: Advertisement(address: nil, name: name, seenAt: Instant(seconds: 0)),
            offering: OfferedServices(characteristics))?.id
    }

    @Test(
        "models are known by the beginning of their names",
        arguments: [
            ("meter+00001808", "accuchek_guide"), ("Contour7830H5001234", "contour_next"),
            ("CareSens 0012", "caresens"), ("ReliOn 2395 0001", "relion_premier"), ("TNG VOICE", "taidoc_fora"),
            ("TAIDOC TD4286", "taidoc_fora"), ("MyGlucose 1", "myglucose"), ("OneTouch AB12", "onetouch_verio"),
            ("BLESmart_00000203", "omron_blesmart"), ("BLEsmart_0000010C", "omron_blesmart"),
            ("X4 Smart", "omron_smart"), ("A&D_UA-651BLE_A1", "and_ua651ble"), ("BM57", "beurer_bm"),
            ("BC54", "beurer_bm"), ("BM85", "beurer_bm85"), ("BM96 ", "beurer_bm96"), ("1872B", "medisana_bu"),
            ("LS BPM", "transtek_lsbpm"),
        ])
    func names(name: String, id: String) { #expect(model(name) == id) }

    @Test(
        "a name in the middle, or in another case, is no name",
        arguments: [
            "my meter+1", "XBM57", "BMW", "BC", "bm57", "The CareSens", " Contour", "glucometer+", "", "BM\u{0665}",
            "onetouch", "meter", "CareSen", "TNG", "TAIDOC TD3128",
        ])
    func anchored(name: String) { #expect(model(name) == nil) }

    @Test("a meter that is not listed is read by its standard service; what is no meter is none")
    func generic() {
        #expect(model("Meter X", [0x180F, 0x1808]) == "generic_glucose")
        #expect(model(nil, [0x1810]) == "generic_blood_pressure")
        #expect(model("Lamp", [0x180F]) == nil)
        #expect(model("BM57", [0x1808]) == "beurer_bm")
        #expect(model(nil, [0x1808, Catalogue.isensService]) == "isens")
    }

    @Test("a device that claims to be a model and offers none of its services is another, or nothing")
    func falseClaims() {
        let serial = OfferedServices.Place(0x2A25, in: 0x180A)
        #expect(model("BM57", offering: [.init(0x2A18, in: 0x1808), serial]) == "generic_glucose")
        #expect(model("OneTouch 1", offering: [.init(0x2A35, in: 0x1810)]) == "generic_blood_pressure")
        #expect(model("OneTouch 1", offering: [serial]) == nil)
        #expect(model("OneTouch 1", offering: []) == nil)
        #expect(model("OneTouch 1", offering: [.init(OneTouch.answers, in: OneTouch.service)]) == "onetouch_verio")
        #expect(model("BM57", offering: [.init(0x2A35, in: 0x1810)]) == "beurer_bm")
    }

    @Test("models of the same name are told apart by what they offer once connected")
    func marks() {
        #expect(model("meter+1") == "accuchek_guide")
        let record = OfferedServices.Place(0x2A18, in: 0x1808)
        #expect(model("meter+1", offering: [record, .init(0x2A2B, in: 0x1805)]) == "accuchek_guide")
        #expect(model("meter+1", offering: [record, .init(0x2A08, in: 0x180A)]) == "accuchek_guide")
        #expect(model("meter+1", offering: [record, .init(0x2A08, in: 0x1808)]) == "accuchek_aviva_connect")
    }

    @Test("the index finds what looking at every rule finds")
    func index() {
        var generator = SystemRandomNumberGenerator()
        let letters = Array("ABM+1 9")
        func text(_ length: ClosedRange<Int>) -> String {
            String((0..<Int.random(in: length, using: &generator)).map { _ in letters.randomElement() ?? "A" })
        }
        for _ in 0..<300 {
            let models = (0..<30).map { number in
                let rule: NameRule =
                    switch number % 3 {
                    case 0: .exact(text(1...4))
                    case 1: .prefix(text(1...4))
                    default: .prefixAndDigit(text(1...3))
                    }
                return DeviceModel(
                    id: "m\(number)", brand: "B", name: "N", kinds: [.glucose], names: [rule], services: [0x1808],
                    provider: "manual", pairing: .any)
            }
            let catalogue = Catalogue(models: models)
            for _ in 0..<20 {
                let name = text(0...6)
                // Exact counts most, then the longest beginning, a digit behind it more than none, then the order.
                func weight(_ rule: NameRule) -> Int {
                    switch rule {
                    case .exact: 1000
                    case .prefix(let text): text.utf8.count * 2
                    case .prefixAndDigit(let text): text.utf8.count * 2 + 1
                    }
                }
                let matching = models.filter { $0.names[0].matches(name) }
                let best = matching.map { weight($0.names[0]) }.max()
                let expected = matching.first { weight($0.names[0]) == best }?.id
                let found = catalogue.model(
                    for: Advertisement(address: nil, name: name, seenAt: Instant(seconds: 0)))?.id
                #expect(found == expected, "\(name)")
            }
        }
    }

    @Test("a name is found among ten thousand models as among ten")
    func costOfAName() {
        func catalogue(_ count: Int) -> Catalogue {
            Catalogue(
                models: (0..<count).map { number in
                    DeviceModel(
                        id: "m\(number)", brand: "B", name: "N", kinds: [.glucose],
                        names: [.prefix("Meter \(number)-")],
                        services: [0x1808], provider: "manual", pairing: .any)
                })
        }
        let heard = (0..<2000).map {
            Advertisement(address: nil, name: "Meter \($0 % 10)-\($0)", seenAt: Instant(seconds: 0))
        }
        /// The quickest of five goes.
        func time(_ catalogue: Catalogue) -> Duration {
            let times = (0..<5).map { _ in
                ContinuousClock().measure { for one in heard { _ = catalogue.model(for: one) } }
            }
            return times.min() ?? .zero
        }
        let (few, many) = (time(catalogue(10)), time(catalogue(10_000)))
        #expect(many < few * 10, "\(many) and \(few); one by one it would be a thousand times as much")
    }

    @Test("ids are unique, providers are the server's, generic entries stand last")
    func consistent() {
        let models = catalogue.models
        #expect(Set(models.map(\.id)).count == models.count)
        let slugs: Set = [
            "beurer_ble", "omron_ble", "accuchek_ble", "contour_ble", "freestyle_libre_ble", "onetouch_ble", "manual",
        ]
        for model in models {
            #expect(slugs.contains(model.provider), "\(model.id)")
            #expect(catalogue[model.id] == model)
            #expect(!model.kinds.isEmpty && model.services.isEmpty == (model.transport == .nfc))
            #expect(model.id.utf8.allSatisfy { (97...122).contains($0) || (48...57).contains($0) || $0 == 95 })
            #expect(!model.tested.contains(.hardware), "nothing has been tried on hardware yet")
            let report = "../../Fixtures/reports/\(model.id).json"
            let file = URL(filePath: #filePath).deletingLastPathComponent().appending(path: report)
            #expect(
                !model.tested.contains(.owner) || FileManager.default.fileExists(atPath: file.path),
                "\(model.id) has no owner's report")
            #expect(Set(model.quirks).count == model.quirks.count)
            #expect(!model.howToPair.contains("|") && !model.howToWake.contains("|"))
        }
        let firstGeneric = models.firstIndex { $0.names.isEmpty && $0.transport == .ble } ?? models.endIndex
        #expect(!models[firstGeneric...].contains { !$0.names.isEmpty })
    }

    @Test("the brands the gateway promises are there")
    func brands() {
        let wanted: Set = [
            "Omron", "Accu-Chek", "Contour", "Beurer", "OneTouch", "FreeStyle Libre", "A&D", "CareSens", "i-SENS",
            "TaiDoc", "MyGlucose", "Medisana", "Transtek", "Nonin", "Generic",
        ]
        #expect(wanted.subtracting(catalogue.brands.map(\.name)).isEmpty)
    }

    @Test("a model chosen by hand wins, and a provider can be overridden")
    func overrides() async throws {
        let bench = Bench(records: glucoseRecords(1...1))
        let reader = MeterReader(
            journal: bench.store, memory: bench.store, provider: { "\($0.provider)-mine" }, model: "contour_next")
        try await reader.read(bench.device)
        let device = try #require(bench.store.contacts.first?.device)
        #expect(device.model == "contour_next" && device.provider == "contour_ble-mine")
    }

    @Test("every key of a document of the catalogue is there")
    func document() throws {
        for model in catalogue.models {
            guard case .object(let members) = model.document else {
                Issue.record("\(model.id) is no object")
                continue
            }
            #expect(
                Set(members.map(\.key)) == [
                    "id", "brand", "name", "kinds", "transport", "provider", "services", "pairing", "consumes_records",
                    "quirks", "measuring_ranges", "tested", "stands_for", "certainty",
                ])
        }
    }

    @Test("the capture that shows a quirk is there, and is of a model that has it", arguments: Quirk.allCases)
    func captures(of quirk: Quirk) throws {
        let file = URL(filePath: #filePath).deletingLastPathComponent()
            .appending(path: "../../Fixtures/\(quirk.capture).expected.json")
        let expected = try String(contentsOf: file, encoding: .utf8)
        #expect(FileManager.default.fileExists(atPath: file.path.replacing(".expected.json", with: ".btsnoop")))
        let models = catalogue.models.filter { $0.has(quirk) }
        // No device is known that has this one.
        if quirk == .clockShowsBaseTime { return #expect(models.isEmpty) }
        #expect(models.contains { expected.contains("\"model\": \"\($0.id)\"") })
    }

    @Test("the list of devices in the documentation is the catalogue's")
    func list() throws {
        let file = URL(filePath: #filePath).deletingLastPathComponent()
            .appending(path: "../../Documentation/devices.md")
        let committed = try String(contentsOf: file, encoding: .utf8)
        #expect(
            committed == catalogue.markdown, "make it again: healthrelay catalog --markdown > Documentation/devices.md")
    }
}

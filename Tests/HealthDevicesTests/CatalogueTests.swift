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

    @Test(
        "models are known by the beginning of their names",
        arguments: [
            ("meter+00001808", "accuchek_guide"), ("Contour7830H5001234", "contour_next"),
            ("CareSens 0012", "caresens"), ("BLESmart_00000203", "omron_blesmart"),
            ("A&D_UA-651BLE_A1", "and_ua651ble"),
            ("BM57", "beurer_bm"), ("BC54", "beurer_bm"), ("1872B", "medisana_bu"),
        ])
    func names(name: String, id: String) { #expect(model(name) == id) }

    @Test(
        "a name in the middle, or in another case, is no name",
        arguments: [
            "my meter+1", "XBM57", "BMW", "BC", "bm57", "The CareSens", " Contour", "glucometer+", "", "BM\u{0665}",
        ])
    func anchored(name: String) { #expect(model(name) == nil) }

    @Test("a meter that is not listed is read by its standard service; what is no meter is none")
    func generic() {
        #expect(model("Meter X", [0x180F, 0x1808]) == "generic_glucose")
        #expect(model(nil, [0x1810]) == "generic_blood_pressure")
        #expect(model("Lamp", [0x180F]) == nil)
        #expect(model("BM57", [0x1808]) == "beurer_bm")
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
        }
        let firstGeneric = models.firstIndex { $0.names.isEmpty && $0.transport == .ble } ?? models.endIndex
        #expect(!models[firstGeneric...].contains { !$0.names.isEmpty })
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
                    "quirks", "tested",
                ])
        }
    }
}

import GATTClient
import HealthReadings
import Testing

@testable import HealthDevices

@Suite struct SearchTests {
    private let bench = RadioBench()

    private func stranger(_ number: UInt64, _ services: [BluetoothUUID] = [0x180F]) async throws {
        try await bench.meter(number) {
            $0.name = "Lamp \(number)"
            $0.services = services
        }
    }

    @Test("brands stand in alphabetical order, the generic one last, and each has its models")
    func brands() throws {
        let brands = bench.manager.brands
        #expect(
            brands.map(\.name) == [
                "A&D", "Accu-Chek", "Berry", "Beurer", "CareSens", "Contour", "FreeStyle Libre", "i-SENS", "Jumper",
                "Medisana",
                "Microlife", "MyGlucose", "Nonin", "Omron", "OneTouch", "Qardio", "ReliOn", "TaiDoc", "Transtek",
                "Viatom", "Xiaomi", "Generic",
            ])
        for brand in brands {
            let models = bench.manager.devices(for: brand)
            #expect(!models.isEmpty && models.allSatisfy { $0.brand == brand.name })
        }
        #expect(bench.manager.devices(for: Brand(name: "Nobody")).isEmpty)
    }

    @Test("a search tells of meters among strangers, and of those that change")
    func strangers() async throws {
        for number in 100..<200 { try await stranger(UInt64(number)) }
        let meter = try await bench.meter(1)
        try await bench.meter(2) {
            $0.name = nil
            $0.services = [0x1810]
        }
        var search = bench.manager.search().makeAsyncIterator()
        var found = try #require(try await search.next())
        #expect(found.advertisement.address == .device(1) && found.model?.id == "accuchek_guide")
        found = try #require(try await search.next())
        #expect(found.model?.id == "generic_blood_pressure")
        meter.change { $0.name = "Contour1" }
        bench.radio.appear(meter)
        found = try #require(try await search.next())
        #expect(found.advertisement.address == .device(1) && found.model?.brand == "Contour")
    }

    @Test("a search for a brand tells of that brand alone")
    func brand() async throws {
        try await bench.meter(1)
        try await bench.cuff(2)
        let omron = bench.manager.devices(for: Brand(name: "Omron"))
        var search = bench.manager.search(for: omron).makeAsyncIterator()
        #expect(try await search.next()?.advertisement.address == .device(2))
    }

    @Test("a paired device that says nothing of itself is known by what is remembered of it")
    func remembered() async throws {
        try await bench.meter(1, paired: .proven) { $0.name = nil }
        try await bench.store.notePairing(
            of: DeviceDescription(address: .device(1), model: "accuchek_guide"), as: .proven)
        var search = bench.manager.search().makeAsyncIterator()
        let found = try #require(try await search.next())
        #expect(found.model?.id == "accuchek_guide" && found.advertisement.isPaired)
    }

    @Test("ending a search ends discovery", arguments: [true, false])
    func cancelled(byTask: Bool) async throws {
        let meter = try await bench.meter(1)
        let searching = Task { [manager = bench.manager] in
            for try await _ in manager.search() where !byTask { break }
        }
        try await eventually("it is discovering, or has found") { bench.radio.isDiscovering || !byTask }
        if byTask { searching.cancel() }
        try await searching.value
        try await eventually("discovery has ended") { !bench.radio.isDiscovering }
        bench.radio.vanish(meter)
    }

    @Test("a search says why the radio cannot be used")
    func unusable() async throws {
        bench.radio.setAdapter(.unusable(.blocked("hci0", hard: true)))
        await #expect(throws: RadioError.blocked("hci0", hard: true)) {
            for try await _ in bench.manager.search() {}
        }
    }

    @Test("connections are told of as they stand and as they change, of all paired devices where none is named")
    func monitor() async throws {
        let meter = try await bench.meter(1, paired: .proven)
        try await bench.meter(2)
        var monitor = bench.manager.monitorConnection().makeAsyncIterator()
        #expect(
            try await monitor.next()
                == ConnectionChange(address: .device(1), isConnected: false, at: Instant(seconds: 0)))
        _ = try await meter.connect()
        #expect(try await monitor.next()?.isConnected == true)
        await meter.disconnect()
        #expect(try await monitor.next()?.isConnected == false)
    }

    @Test("promise 10: a monitor outlives the radio, and says that its devices are gone meanwhile")
    func monitorOutlives() async throws {
        let meter = try await bench.meter(1, paired: .proven)
        var monitor = bench.manager.monitorConnection([.device(1)]).makeAsyncIterator()
        #expect(try await monitor.next()?.isConnected == false)
        _ = try await meter.connect()
        #expect(try await monitor.next()?.isConnected == true)
        bench.radio.setAdapter(.unusable(.lost))
        #expect(try await monitor.next()?.isConnected == false)
        bench.radio.setAdapter(.ready(Adapter(name: "hci0", address: nil)))
        try await eventually("it waits a moment") { bench.clock.sleeps == [.seconds(1)] }
        bench.clock.advance(by: .seconds(1))
        #expect(try await monitor.next() != nil)
    }

    @Test("a monitor says why the radio cannot be used at the beginning")
    func monitorUnusable() async throws {
        bench.radio.setAdapter(.unusable(.noService))
        await #expect(throws: RadioError.noService) {
            for try await _ in bench.manager.monitorConnection() {}
        }
    }
}

import BlueZCentral
import FreeStyleLibre
import GATTClient
import GATTProfiles
import HealthDevices
import HealthReadings
import ISO15693Reader
import LibreReader
import ReadingDelivery
import ReadingStore
import VitalClient
import VitalDestination

/// The examples of Documentation/library.md: compiled here, compared there.
private enum LibraryExamples {
    static func open() async throws -> DevicesManager {
        let store = try await ReadingStore.open(
            directory: "/var/lib/example", decoder: ModelFrameDecoder(), clientUserID: "white_bear",
            timeZone: "Europe/Berlin")
        let manager = DevicesManager(radio: BlueZRadio(), journal: store, memory: store, pairings: store)
        return manager
    }

    static func keepKeys(_ store: ReadingStore) -> DevicesManager {
        let manager = DevicesManager(
            radio: BlueZRadio(), journal: store, memory: store, pairings: store,
            secrets: DeviceSecretFile(directory: store.directory))
        return manager
    }

    static func search(_ manager: DevicesManager) async throws {
        for brand in manager.brands { print(brand, manager.devices(for: brand).map(\.name)) }

        let contour = manager.devices(for: Brand(name: "Contour"))
        for try await found in manager.search(for: contour) {
            print(found.advertisement.address?.description ?? "-", found.model?.name ?? "-")
            break
        }
    }

    static func pair(_ manager: DevicesManager, _ address: DeviceAddress) async throws {
        let device = try await manager.pair(address, within: .seconds(60), agent: Person()) { progress in
            if case .waitingForReconnect(_, let whatToPress) = progress {
                print("If nothing happens, \(whatToPress).")
            }
        }
        if !device.isProven { print("Paired. To prove it, \(device.whatToPress ?? "switch it on").") }
    }

    static func choose(_ manager: DevicesManager) async throws {
        for try await found in manager.search() where !found.choices.isEmpty {
            for model in found.choices { print(model.id, model.name) }
            guard let address = found.advertisement.address, let id = readLine() else { break }
            _ = try await manager.pair(address, model: id, agent: Person())
            break
        }
    }

    static func read(_ manager: DevicesManager, _ address: DeviceAddress) async throws {
        for try await event in manager.read(address, within: .seconds(60)) {
            switch event {
            case .began(let contact): print("reading", contact.device.name ?? "a meter")
            case .progress(let received, let announced): print(received, "of", announced.map(String.init) ?? "?")
            case .stored(let outcomes): for case .new(let reading) in outcomes { print(reading.document.text) }
            case .ended(let summary):
                print(summary.isComplete ? "all" : "not all: \(summary.error ?? "records are missing")")
            }
        }
    }

    static func withoutStore() async throws {
        guard let zone = ZoneRules.named("Europe/Berlin") else { return }
        let manager = DevicesManager(radio: BlueZRadio(), keepingIn: MemoryJournal(timeZone: zone))
        for try await found in manager.search() {
            guard let reader = manager.reader(for: found) else { continue }
            let (_, meter) = try await reader.pair(agent: Person())
            let read = try await meter.read()
            for reading in read.usable { print(reading.document.text) }
            if let failure = read.failure { print("not all came:", failure, failure.hint ?? "") }
            break
        }
    }

    static func sensorAndReadings(_ reader: any TagReader) async throws {
        var lives: [String: Libre1Life] = [:]
        let first = try await Libre1Reader(reader).readSensor(lives: lives)
        print(first.sensor.serial, first.usable.count)
        lives[first.sensor.serial] = first.life
        let second = try await Libre1Reader(reader).readSensor(lives: lives)
        print(second.usable.filter { reading in !first.readings.contains { $0.id == reading.id } }.count, "are new")
    }

    static func faults(_ manager: DevicesManager) async {
        for await fault in manager.faults() {
            print(fault.failure.code, fault.isStanding ? "since \(fault.began)" : "has passed")
        }
    }

    static func sensor() async throws {
        let reader = try NFCReaders().reader("pn532_uart:/dev/ttyACM0:115200")
        _ = try await reader.waitForTag()
        let scan = try await Libre1Reader(reader).read { print($0.blocksRead, "of", $0.blocks) }
        print(scan.serial, scan.memory.state?.name ?? "-")
        for record in scan.sensorScan?.records ?? [] { print(record.document().text) }
    }

    static func keepReading(_ manager: DevicesManager) async {
        await MeterSchedule(manager).run { event in
            switch event {
            case .adapter(.ready(let adapter)): print(adapter.name, "is ready")
            case .adapter(.unusable(let error)): print(error, error.hint ?? "")
            case .appeared(_, let model): print(model?.name ?? "a meter", "is near")
            case .transfer(_, let event): if case .ended(let summary) = event { print(summary.received, "records") }
            case .failed(_, let failure, let delay): print(failure, delay.map { "again in \($0)" } ?? "")
            }
        }
    }

    static func live(_ manager: DevicesManager) async throws {
        for try await reading in manager.live() {
            print(reading.document.text)
        }
    }

    static func liveEveryFiveSeconds(_ manager: DevicesManager) async throws {
        var pace = LivePace()
        pace.valueEvery = .seconds(5)
        for try await reading in manager.live(pace: pace) where reading.kind == .heartRate {
            print(reading.document.text)
        }
    }

    static func clock(_ manager: DevicesManager, _ address: DeviceAddress) async throws {
        if let zone = ZoneRules.named("Europe/Berlin") {
            let setting = try await manager.setClock(of: address) { zone.wallTime(at: $0) }
            print(setting.written, setting.after?.deviceTime ?? "-")
        }
    }

    static func monitor(_ manager: DevicesManager) async throws {
        for try await change in manager.monitorConnection() {
            print(change.at, change.address, change.isConnected ? "connected" : "disconnected")
        }
    }

    static func deliver(_ store: ReadingStore, _ key: String) async throws {
        let server = VitalServer(environment: .sandbox, region: .eu)
        let api = VitalAPI(server: server, credentials: .apiKey(Secret(key)))
        let worker = OutboxWorker(store: store, api: api, policy: .create)
        for await event in worker.events() { print(event) }  // syncing, successSyncing, failedSyncing, held, …
    }

    static func readBack(_ api: VitalAPI, _ userID: String, _ start: Instant, _ end: Instant) async throws {
        for try await page in api.samplePages(of: "glucose", for: userID, in: start...end) {
            for sample in page.groups.flatMap(\.samples) { print(sample.timestamp, sample.unit) }
        }
    }

    static func errors(_ manager: DevicesManager, _ address: DeviceAddress) async throws {
        do {
            _ = try await manager.pair(address, agent: Person())
        } catch RadioError.forgottenByDevice(let address) {
            print(address, "has lost the bond: put it into its pairing mode")
            _ = try await manager.pair(address, repair: true, agent: Person())
        } catch let error as RadioError {
            print(error.code, error, error.hint ?? "")
        }
    }
}

struct Person: PairingAgent {
    func passkey(shownBy device: Advertisement) async throws -> UInt32 {
        print("Type the six digits \(device.name ?? "the device") shows:")
        guard let passkey = readLine().flatMap({ UInt32($0) }) else { throw PairingFailure.rejectedHere }
        return passkey
    }

    func show(passkey: UInt32, typed: Int, at device: Advertisement) async { print("Type \(passkey) at the device.") }
    func confirm(_ digits: UInt32, shownBy device: Advertisement) async throws -> Bool { true }
    func allowUnauthenticated(_ device: Advertisement) async throws -> Bool { true }
}

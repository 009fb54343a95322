import EncodedSensor
import FreeStyleLibre
import HealthReadings
import Testing

@Suite("A stored scan")
struct ScanTests {
    @Test("a scan is what its frame says, and its frame is what was read")
    func roundTrip() throws {
        let sensor = EncodedSensor(age: 5000)
        let scan = try LibreScan(payload: sensor.payload)
        #expect(scan.payload == sensor.payload)
        #expect(scan.uid.bits == sensor.uid && scan.serial == "0M0001H7ZXR")
        #expect(scan.patchInformation.octets == sensor.patchInformation)
        #expect(scan.memory.octets == sensor.memory)
        let said = try #require(scan.sensorScan)
        #expect(said.serial == scan.serial && said.ageMinutes == 5000 && said.records == scan.memory.records)
        #expect(said.records.count == 48 && said.records.allSatisfy { $0.sensor != nil })
    }

    @Test("promise 5: a frame of any other length is refused: what was expected, at which octet, and what was found")
    func lengths() throws {
        let payload = EncodedSensor(age: 5000).payload
        for count in 0..<payload.count {
            do {
                _ = try LibreScan(payload: Array(payload[..<count]))
                Issue.record("\(count) octets were taken for a scan")
            } catch {
                #expect(error.subject == "FreeStyle Libre 1 scan" && error.octet == count)
                #expect(error.found == "the end after \(count) octet\(count == 1 ? "" : "s")")
            }
        }
        #expect(
            throws: MalformedFrame(
                subject: "FreeStyle Libre 1 scan", expected: "the end after the memory", octet: 359, found: "1 more")
        ) { try LibreScan(payload: payload + [0]) }
        var many = payload
        many[8] = 25
        #expect(
            throws: MalformedFrame(
                subject: "FreeStyle Libre 1 scan", expected: "at most 24 octets of patch information", octet: 8,
                found: "25")
        ) { try LibreScan(payload: many) }
        var noTag = payload
        noTag[7] = 0x5E
        #expect(throws: MalformedFrame.self) { try LibreScan(payload: noTag) }
    }

    @Test("a scan of which the body's CRC is wrong says no age and no readings, and is kept as it is")
    func badBody() throws {
        var sensor = EncodedSensor(age: 5000)
        sensor.damaged = [.body]
        let scan = try LibreScan(payload: sensor.payload)
        #expect(scan.sensorScan == nil)
        #expect(scan.payload == sensor.payload)
        #expect(scan.document.text.contains(#""crc":{"header":true,"body":false,"footer":true}"#))
    }

    @Test("promise 7: only of a sensor that measures does the age tell when it was started")
    func running() throws {
        var sensor = EncodedSensor(age: 5000)
        var running: [String] = []
        for number in UInt8(0)...8 {
            sensor.state = SensorState(rawValue: number)
            let scan = try #require(try LibreScan(payload: sensor.payload).sensorScan)
            if scan.isRunning { running.append(sensor.state.name) }
        }
        #expect(running == ["warming_up", "active"])
        sensor.state = .active
        sensor.damaged = [.header]
        #expect(try LibreScan(payload: sensor.payload).sensorScan?.isRunning == false)
    }

    @Test("a frame of a foreign sensor says nothing; one without patch information is the first Libre's")
    func foreign() throws {
        var sensor = EncodedSensor(age: 5000)
        sensor.patchInformation = [0x9D, 0x08, 0x30, 0x01, 0, 0]
        let foreign = try LibreScan(payload: sensor.payload)
        #expect(foreign.sensorScan == nil && foreign.foreignSensor?.model == .libre2)
        sensor.patchInformation = []
        let unasked = try LibreScan(payload: sensor.payload)
        #expect(unasked.sensorScan?.serial == "0M0001H7ZXR")
        #expect(unasked.document.text.contains(#""type":null"#))
    }

    @Test("promise 5: no octets trap")
    func hostile() throws {
        forAll(3000) { generator in
            var octets = generator.octets(generator.number(0...400))
            if octets.count > 8 { (octets[7], octets[8]) = (0xE0, UInt8(generator.number(0...30))) }
            guard let scan = try? LibreScan(payload: octets) else { return true }
            return scan.payload == octets
        }
        try forAll(3000) { generator in
            var octets = generator.octets(LibreMemory.size)
            octets[26] &= 0x1F
            octets[27] &= 0x3F
            EncodedSensor.seal(&octets)
            let memory = try LibreMemory(octets)
            let age = try #require(memory.ageMinutes)
            _ = memory.document(uid: nil, patchInformation: PatchInformation(octets)).text
            return memory.records.allSatisfy { record in
                guard let facts = record.sensor else { return false }
                return facts.minute <= age && facts.glucose > 0 && (record.exclusion != nil || record.hasConcentration)
                    && (facts.calibration == .factoryEstimate) == record.hasConcentration
            }
        }
    }
}

import FreeStyleLibre
import HealthReadings

extension FuzzTarget {
    /// What is read of a sensor. The first octet picks: a dump of its memory, a stored scan, or a memory whose CRCs are put
    /// right, so that what stands behind them is reached.
    static let libre = FuzzTarget(
        "libre", longest: 1200,
        words: [
            "#05 ", "[05] . ", "05 | ", "0028: ", "00000028  ", "0000050 ", "0x", "\r\n", "|........|", "//", ";", "# ",
        ],
        seeds: { folder in
            let dumps = try Captures.octets(folder + "/libre", ending: ".hex")
            let memories = dumps.compactMap { try? MemoryDump.memory($0).octets }
            let head: [UInt8] = [0xEE, 0xFF, 0xC0, 0, 0, 0xA0, 0x07, 0xE0, 6, 0xDF, 0, 0, 1, 1, 2]
            return dumps.map { [0] + $0 } + memories.map { [0] + $0 } + memories.map { [1] + head + $0 }
                + memories.map { [2] + $0 }
        }
    ) { octets in
        guard let first = octets.first else { return }
        let rest = Array(octets.dropFirst())
        switch first % 3 {
        case 0: LibreProperties.checkDump(rest)
        case 1: LibreProperties.checkScan(rest)
        default: LibreProperties.checkSealed(rest)
        }
    }
}

private enum LibreProperties {
    static func checkDump(_ octets: [UInt8]) {
        do {
            let memory = try MemoryDump.memory(octets)
            check(memory)
            let text = memory.octets.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
            expect((try? MemoryDump.memory([UInt8](text.utf8))) == memory, "a memory is not what its text says")
        } catch {
            _ = error.description
        }
    }

    static func checkScan(_ octets: [UInt8]) {
        do {
            let scan = try LibreScan(payload: octets)
            expect(scan.payload == octets, "a scan is not what its frame says")
            expect(scan.serial.utf8.count >= 11, "a serial number is short")
            _ = (scan.document.text, scan.foreignSensor?.description)
            if let said = scan.sensorScan { expect(said.records == scan.memory.records, "a scan says other records") }
            check(scan.memory)
        } catch {
            expect(error.octet <= octets.count, "an error lies beyond the frame")
            _ = error.description
        }
    }

    static func checkSealed(_ octets: [UInt8]) {
        var memory = Array(octets.prefix(LibreMemory.size))
        memory += [UInt8](repeating: 0, count: LibreMemory.size - memory.count)
        for part in LibreMemory.Part.allCases {
            let range = part.octets
            let crc = MemoryChecksum.of(memory, (range.lowerBound + 2)..<range.upperBound)
            memory[range.lowerBound] = UInt8(truncatingIfNeeded: crc)
            memory[range.lowerBound + 1] = UInt8(truncatingIfNeeded: crc >> 8)
        }
        guard let memory = try? LibreMemory(memory) else { fatalError("344 octets are no memory") }
        expect(LibreMemory.Part.allCases.allSatisfy(memory.isRight), "a right CRC is called wrong")
        check(memory)
    }

    static func check(_ memory: LibreMemory) {
        _ = memory.document(uid: nil, patchInformation: nil).text
        var place = -1
        for record in memory.records {
            guard let facts = record.sensor, case .glucose(let glucose) = record.value else {
                fatalError("a sensor's record is no sensor's record")
            }
            let here = 2 * Int(facts.minute) + (facts.source == .trend ? 0 : 1)
            expect(here > place, "records are not in order")
            place = here
            let newest = Int(memory.ageMinutes ?? 0) - (facts.source == .trend ? memory.trendLagMinutes ?? .max : 0)
            expect(Int(facts.minute) <= newest, "a record lies after the newest, or its ring contradicts the age")
            expect(facts.glucose > 0, "an empty slot is a record")
            if record.exclusion == nil {
                let value = glucose.concentration?.number.number?.significand ?? 0
                expect((1...1500).contains(value) && !facts.hasError, "what is delivered is no value")
                let hasEnded = memory.state == .expired || memory.state == .shutDown
                let isOfItsLife = hasEnded && facts.minute < memory.maximumLifeMinutes ?? 0
                expect(
                    memory.isBodyRight && (memory.state == .active || isOfItsLife),
                    "a sensor that is not active delivers")
            }
        }
        if !memory.isBodyRight { expect(memory.records.isEmpty, "records come from a body that is damaged") }
    }
}

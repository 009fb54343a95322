import GATTClient
import GATTProfiles
import HealthReadings
import Testing

@testable import HealthDevices

/// What is read of a device for a report, and what is left out.
@Suite struct ProbeTests {
    private let log = EventLog()

    /// The report of a monitor whose memory has the layout of a model.
    private func report(
        _ model: String, _ adjust: (inout EmulatedOmron.Behaviour) -> Void = { _ in }
    ) async throws -> (report: DeviceReport, monitor: EmulatedOmron) {
        let users = try #require(Catalogue()[model]?.omronMemory).users.count
        var behaviour = try EmulatedOmron.Behaviour.memory(model, records: Array([5, 3].prefix(users)))
        let key = [UInt8](1...16)
        behaviour.key = key
        behaviour.name = "BLESmart_0000026400000007"
        adjust(&behaviour)
        let monitor = EmulatedOmron(behaviour, log: log)
        let probe = DeviceProbe(monitor, catalogue: Catalogue(), key: key) { _, _ in }
        return (try await probe.report(knownAs: nil, ContinuousClock()), monitor)
    }

    private static let layouts = Catalogue().models.filter { $0.omronMemory?.layout.order != nil }.map(\.id)

    @Test("of each layout the records are found, and have other values and sums that hold", arguments: layouts)
    func omron(_ model: String) async throws {
        let (report, monitor) = try await report(model)
        guard case .omron(_, let runs, let areas, _, let models)? = report.memory else {
            Issue.record("\(String(describing: report.memory))")
            return
        }
        let memory = monitor.memory
        #expect(models.contains(model), "\(models)")
        #expect(runs.map(\.address) == Array(memory.users.sorted()))
        #expect(runs.map(\.count).reduce(0, +) == memory.users.indices.map { [5, 3][$0] }.reduce(0, +))
        #expect(runs.allSatisfy { $0.layout.order == memory.layout.order })
        #expect(areas.contains { if case .index = $0.content { $0.address == memory.settings } else { false } })
        let text = report.document.text
        for case let slot? in monitor.behaviour.slots.joined() {
            #expect(!text.contains(slot.hexadecimal()))
        }
        for run in runs {
            for slot in run.slots {
                let record = try #require(try run.layout.record(slot))
                #expect(record.time.description.hasPrefix("2020-01-01"))
            }
        }
        #expect(monitor.writesToMemory == 0 && monitor.sessions == (1, 1))
        #expect(!text.contains("00000007") && text.contains("BLESmart_00000264"))
    }

    @Test("flags, running numbers and the order of the measurements stay")
    func flags() async throws {
        let memory = try #require(Catalogue()["omron_hem7155t"]?.omronMemory)
        var samples = [OmronSample(), OmronSample(), OmronSample()]
        (samples[0].hour, samples[1].hour, samples[2].hour) = (9, 7, 8)
        (samples[0].number, samples[1].number, samples[2].number) = (7, 5, 6)
        (samples[0].hasMoved, samples[1].isIrregular) = (true, true)
        (samples[2].unknownBit, samples[2].cuffFits) = (true, false)
        let kept = samples
        let (report, _) = try await report("omron_hem7155t") { behaviour in
            for (slot, sample) in kept.enumerated() {
                behaviour.slots[0][slot] = sample.octets(memory.layout.length, .lowFirst)
            }
            behaviour.slots[0][3] = nil
            behaviour.slots[0][4] = nil
        }
        guard case .omron(_, let runs, _, _, _)? = report.memory, let run = runs.first else {
            Issue.record("\(String(describing: report.memory))")
            return
        }
        let records: [OmronRecord] = try run.slots.compactMap { try run.layout.record($0) }
        #expect(records.map(\.hasMoved) == [true, false, false])
        #expect(records.map(\.isIrregular) == [false, true, false])
        #expect(run.slots.map { $0[7] & 0x20 != 0 } == [false, false, true])
        #expect(records.map(\.cuffFits) == [true, true, false])
        let seconds = records.map(\.time.secondsSinceEpoch)
        #expect(seconds[1] < seconds[2] && seconds[2] < seconds[0])
        #expect(run.slots.map { $0[10] } == [7, 5, 6])
    }

    @Test("records of a layout that no row has are found, and agree with none")
    func unknownLayout() throws {
        var map = OmronMap()
        for slot in 0..<4 {
            var sample = OmronSample()
            sample.minute = UInt16(slot)
            map.note(sample.octets(14, .highFirst), at: 0x1000 + UInt16(slot * 14))
        }
        map.note(Array(repeating: 0xFF, count: 14 * 6), at: 0x1000 + 14 * 4)
        map.note([0x12, 0x34], at: 0x0800)
        map.noteRefusal(0xE7, at: 0x0900, count: 16)
        #expect(map.runs.map(\.address) == [0x1000] && map.runs.first?.blankSlots == 6)
        #expect(OmronMap.models(of: map.runs, in: Catalogue()).isEmpty)
        #expect(
            map.areas(beside: map.runs) == [
                OmronMap.Area(address: 0x0800, count: 2, content: .hidden),
                OmronMap.Area(address: 0x0900, count: 16, content: .refused(0xE7)),
                OmronMap.Area(address: 0x1000 + 56, count: 84, content: .blank(0xFF)),
            ])
    }

    @Test("a slot beside records is one too, whatever its pressures are; 0 stays, and what lies between the times")
    func failedMeasurements() throws {
        let layout = OmronRecordLayout(length: 14, order: .highFirst)
        var disguise = OmronDisguise()
        for slot in 0..<5 {
            var sample = OmronSample()
            sample.minute = UInt16(slot)
            if slot % 2 == 0 { (sample.systolic, sample.diastolic, sample.pulse) = (25, slot == 4 ? 200 : 0, 0) }
            disguise.note(sample.octets(14, .highFirst), at: 0x02AC + UInt16(slot * 14))
        }
        var generator = SystemRandomNumberGenerator()
        disguise.settle(using: &generator) { $0.advanced(byMinutes: -600_000) }
        let records = try (0..<5).map { slot in
            try #require(try layout.record(disguise.octets(14, at: 0x02AC + UInt16(slot * 14))))
        }
        #expect(records.map { $0.pulse == 0 } == [true, false, true, false, true])
        #expect(records.map { $0.diastolic == 0 } == [true, false, true, false, false])
        #expect(records.map { $0.systolic > UInt16($0.diastolic) } == [true, true, true, true, false])
        let times = records.map(\.time.secondsSinceEpoch)
        #expect(zip(times, times.dropFirst()).allSatisfy { $1 - $0 == 60 })
        #expect(times.first == OmronSample().time?.advanced(byMinutes: -600_030).secondsSinceEpoch)
    }

    @Test("what a monitor refuses, damages or leaves in the middle of is told, and what was read before it is kept")
    func faults() async throws {
        let (refused, _) = try await report("omron_hem7322t") { $0.refuses = [0x02A0: 0xE7, 0x0100: 0xE3] }
        guard case .omron(_, let runs, let areas, _, _)? = refused.memory else {
            Issue.record("\(String(describing: refused.memory))")
            return
        }
        #expect(!runs.isEmpty && areas.contains { $0.content == .refused(0xE3) && $0.address == 0x0100 })
        let (cut, _) = try await report("omron_hem7322t") { $0.cutAfterReads = 0x40 }
        guard case .omron(_, let some, _, _, _)? = cut.memory else {
            Issue.record("\(String(describing: cut.memory))")
            return
        }
        #expect(!some.isEmpty && some.map(\.count).reduce(0, +) < 8)
        let (unpaired, monitor) = try await report("omron_hem7322t") { $0.isBonded = false }
        guard case .unread(let failure)? = unpaired.memory else {
            Issue.record("\(String(describing: unpaired.memory))")
            return
        }
        #expect(failure.code == "not_paired" && monitor.requests == 0)
        let (locked, _) = try await report("omron_hem7322t") { $0.key = [UInt8](repeating: 9, count: 16) }
        guard case .unread(let failure)? = locked.memory else {
            Issue.record("\(String(describing: locked.memory))")
            return
        }
        #expect(failure.code == "omron_key_refused")
    }

    @Test(
        "a device of any kind is described without what is its own, and nothing is written or enabled",
        arguments: [true, false])
    func others(isPaired: Bool) async throws {
        let bench = RadioBench()
        let device = try await bench.meter(0x12_3456, paired: isPaired ? .paired : .unpaired) { behaviour in
            behaviour.name = "meter+00123456"
            behaviour.wantsEncryption = false
            behaviour.manufacturerData = [0x0123: [0x01, 0x56, 0x34, 0x12, 0x02]]
            behaviour.readable = [
                0x2A24: .success(Array("M-77".utf8)), 0x2A25: .success(Array("SN4711-x".utf8)),
                0x2A26: .success(Array("fw 1.2 of SN4711-x".utf8)), 0x2A23: .success([1, 2, 3, 4, 5, 6, 7, 8]),
                0x2A27: .failure(.attribute(0x05)), 0x2A51: .success([0x03, 0x00]),
            ]
            behaviour.more = [
                (0x2A25, 0x180A), (0x2A26, 0x180A), (0x2A23, 0x180A), (0x2A27, 0x180A), (0x2A24, 0x180A),
                (0x2A51, 0x1808),
            ]
        }
        let report = try await bench.manager.probe(.device(0x12_3456))
        let text = report.document.text
        for own in ["123456", "SN4711", "345612", "563412", "0102030405060708"] {
            #expect(!text.contains(own), "\(own)")
        }
        let found = Dictionary(
            report.attributes.map { ($0.characteristic.uuid.assignedNumber ?? 0, $0.finding) }
        ) { first, _ in first }
        #expect(found[0x2A24] == .text("M-77") && found[0x2A25] == .text("XX0000-x"))
        #expect(found[0x2A26] == .text("fw 1.2 of XX0000-x") && found[0x2A23] == .hidden(count: 8))
        #expect(found[0x2A27] == .refused(0x05))
        // It may be there for who is paired alone, and asking for it would begin a pairing.
        #expect(found[0x2A51] == .some(isPaired ? .value([0x03, 0x00]) : nil))
        #expect(found[0x2A18] == .some(nil), "no measurement is asked for")
        #expect(report.memory == nil && report.failure == nil && report.isPaired == isPaired)
        #expect(
            device.log.events.allSatisfy { event in
                switch event {
                case .write, .start: false
                default: true
                }
            })
        #expect(report.lines.joined().contains("SN4711") == false)
    }

    @Test(
        "what ends for want of a bond is told so, whether the device leaves or the question runs out first",
        arguments: [GATTError.disconnected, .timedOut], [false, true])
    func wantsBond(_ error: GATTError, isPaired: Bool) async throws {
        let bench = RadioBench()
        try await bench.meter(0x12_3456, paired: isPaired ? .paired : .unpaired) { behaviour in
            behaviour.wantsEncryption = false
            behaviour.readable = [0x2A24: .failure(error)]
            behaviour.more = [(0x2A24, 0x180A)]
        }
        let report = try await bench.manager.probe(.device(0x12_3456))
        #expect(report.failure?.code == (isPaired ? ContactFailure(error).code : "not_paired"))
    }

    @Test("whatever a name or an advertisement has of an address or a serial number is taken out")
    func disguise() {
        let disguise = Disguise(address: DeviceAddress("28:FF:B2:9A:BC:DE"), serials: ["A123-77"])
        #expect(disguise.text("BLEsmart_0000026428FFB29ABCDE") == "BLEsmart_00000264000000000000")
        #expect(disguise.text("X4 Smart bcde") == "X4 Smart 0000")
        #expect(disguise.text("Contour7830H1234567") == "Contour7830H0000000")
        #expect(disguise.text("BP A123-77") == "BP X000-00")
        #expect(disguise.text("v1 sn a123 28:FF:B2:9A:BC:DE/3") == "v1 sn x000 00:00:00:00:00:00/3")
        #expect(disguise.text("de-bc-9a, DE BC") == "00-00-00, 00 00")
        #expect(disguise.text("S\0N\01") == "00000")
        // Marks make one letter with what they stand at, and hide neither address nor number.
        #expect(disguise.text("28:FF:B2:9A:BC:DE\u{301}") == "00:00:00:00:00:00?")
        #expect(disguise.text("\u{600}28FFB29ABCDE\u{FE0F}") == "?000000000000?")
        #expect(disguise.text("A123-77\u{301}") == "X000-00?")
        #expect(disguise.text("1234567\u{301}") == "0000000?")
        #expect(disguise.strictText("a123\u{301}4") == "x000?4")
        #expect(disguise.octets([0xDE, 0xBC, 0x9A, 0xB2, 0xFF, 0x28, 0x01]) == [0, 0, 0, 0, 0, 0, 1])
        #expect(disguise.octets([0x9A, 0xBC, 0xDE]) == [0, 0, 0])
    }
}

import GATTClient
import HealthReadings
import Testing

@testable import HealthDevices

/// An Omron monitor that says in its device information which model it is.
@Suite struct OmronModelNumberTests {
    private let log = EventLog()
    private let store: RecordingStore
    private let secrets = Secrets([.device(7): [UInt8](repeating: 0x5A, count: 16)])

    init() { store = RecordingStore(log) }

    private func monitor(
        _ model: String, states: String?, _ adjust: (inout EmulatedOmron.Behaviour) -> Void = { _ in }
    ) throws -> EmulatedOmron {
        let memory = try #require(Catalogue()[model]?.omronMemory)
        var behaviour = try EmulatedOmron.Behaviour.memory(
            model, records: [6, 4].prefix(memory.users.count).map(\.self))
        behaviour.key = [UInt8](repeating: 0x5A, count: 16)
        (behaviour.longestRead, behaviour.stated) = (memory.longestRead, states)
        adjust(&behaviour)
        return EmulatedOmron(behaviour, log: log)
    }

    private func read(_ monitor: EmulatedOmron, as model: String) async throws -> ContactSummary {
        try await MeterReader(journal: store, memory: store, model: model, secrets: secrets).read(monitor)
    }

    @Test(
        "a HEM number is found in what a monitor calls itself; a name that it is sold under is none",
        arguments: [
            ("HEM-7322T-E", "HEM-7322T-E"), ("hem-7361t_ebk", "HEM-7361T-EBK"), ("OMRON HEM 7155T", "HEM-7155T"),
            ("HEM-716BT2", "HEM-716BT2"), ("HEM7143T1 V2", "HEM-7143T1"), ("BP7250", nil), ("M7 Intelli IT", nil),
            ("X4 Smart", nil), ("HEM", nil), ("HEM-", nil), ("HEM-XYZ", nil), ("", nil), ("HEM-71\u{0}55T", nil),
        ] as [(String, String?)])
    func number(text: String, number: String?) {
        #expect(OmronModelNumber(Array(text.utf8))?.description == number)
    }

    @Test(
        "a number belongs to the model that has it best; one that leaves out what the label has belongs to any of its kind",
        arguments: [
            ("HEM-7322T-E", "omron_hem7322t", true), ("HEM-7321T", "omron_hem7322t", true),
            ("HEM-7361T-D", "omron_hem7322t", false), ("HEM-7342T", "omron_hem7361t", true),
            ("HEM-7155T", "omron_hem7155t", true), ("HEM-7155T-EBK", "omron_hem7155t", true),
            ("HEM-7155T", "omron_hem7155tmw3", true), ("HEM-7155T-MW3", "omron_hem7155t", false),
            ("HEM-7155T-MW3-AP", "omron_hem7155tmw3", true), ("HEM-7155T-K4", "omron_hem7155tmw3", false),
            ("HEM-7157T", "omron_hem7155t", false), ("HEM-7146T2", "omron_hem7143t1", true),
            ("HEM-9999T", "omron_hem7322t", true), ("HEM-7322", "omron_hem7322t", true),
            // One base is sold with several layouts; a suffix that a row has decides.
            ("HEM-7155T-EBK", "omron_hem7155tk4", true), ("HEM-7155T-D", "omron_hem7155tmw", true),
            ("HEM-7155T_K4-EBK", "omron_hem7155t", false), ("HEM-7155T_ESL1", "omron_hem7155t", false),
            ("HEM-7340T_K4-CA", "omron_hem7155tk4", true), ("HEM-7340T_K4-CA", "omron_hem7155t", false),
            ("HEM-7361T1-BS", "omron_hem7361t", true), ("HEM-7346T2", "omron_hem7361t", true),
            ("HEM-7271T_SH3", "omron_hem7530t", true), ("HEM-7271T_SH3", "omron_hem7600t", false),
            ("HEM-7271T", "omron_hem7600t", true),
        ])
    func belongs(text: String, model: String, fits: Bool) throws {
        let number = try #require(OmronModelNumber(Array(text.utf8)))
        let entry = try #require(Catalogue()[model])
        #expect((number.refusal(of: entry) == nil) == fits)
    }

    @Test(
        "each model fits the numbers that its name has", arguments: Catalogue().models.filter { $0.omronMemory != nil })
    func catalogue(_ model: DeviceModel) throws {
        #expect(!model.hemNumbers.isEmpty)
        for number in model.hemNumbers {
            let stated = try #require(OmronModelNumber(Array("HEM-\(number)".utf8)))
            #expect(stated.refusal(of: model) == nil, "\(number)")
        }
    }

    @Test("a monitor that is another model than it was paired as is refused, both are named, and nothing is read")
    func refused() async throws {
        // Records of the one are records of the other too, at other places and of other people.
        let monitor = try monitor("omron_hem7155t", states: "HEM-7155T-EBK")
        let summary = try await read(monitor, as: "omron_hem7157t")
        #expect(!summary.isComplete && summary.error == "omron_wrong_model" && summary.received == 0)
        let failure = try #require(ContactFailure(summary))
        for part in ["HEM-7155T-EBK", "omron_hem7155t", "omron_hem7157t", "HEM-7157T"] {
            #expect(failure.description.contains(part), "\(failure)")
        }
        #expect(failure.hint?.contains("--model") == true)
        #expect(store.frames.isEmpty && monitor.reads.isEmpty && monitor.sessions == (0, 0))
        let known = try await read(monitor, as: "omron_hem7155t")
        #expect(known.isComplete && known.errorDetail == nil && store.readingCount == 10)
    }

    @Test("a number that no model has decides nothing, nor does a name that it is sold under")
    func unknown() async throws {
        #expect(try await read(monitor("omron_hem7322t", states: "HEM-9999T-Z"), as: "omron_hem7322t").isComplete)
        #expect(store.readingCount == 10)
        #expect(try await read(monitor("omron_hem7322t", states: "BP7250"), as: "omron_hem7322t").isComplete)
        #expect(try await read(monitor("omron_hem7322t", states: nil), as: "omron_hem7322t").isComplete)
        #expect(store.readingCount == 10)
    }

    @Test("a monitor whose memory shows that it is another names the model that it was paired as")
    func memory() async throws {
        let layout = try #require(Catalogue()["omron_hem7361t"]?.omronMemory)
        let monitor = try monitor("omron_hem7361t", states: "M7 Intelli IT") { behaviour in
            behaviour.longestRead = 0x38
            behaviour.measure(40, user: 0, of: layout)
        }
        let summary = try await read(monitor, as: "omron_hem7322t")
        #expect(summary.error == "omron_wrong_model" && store.readingCount == 0)
        #expect(summary.errorDetail?.contains("omron_hem7322t") == true)
    }

    @Test(
        "a monitor that says so when it is paired is given no key, or is not read",
        arguments: ["omron_hem7155t", "omron_hem7143t1"])
    func pairing(model: String) async throws {
        let wrong = model == "omron_hem7155t" ? "omron_hem7322t" : "omron_hem7155tmw"
        let monitor = try monitor(model, states: "HEM-\(model.dropFirst(9).uppercased())") { behaviour in
            (behaviour.isPairing, behaviour.isBonded, behaviour.key) = (true, false, nil)
        }
        let secrets = Secrets([:])
        let manager = DevicesManager(
            radio: OmronRadio(monitor: monitor), journal: store, memory: store, pairings: store, secrets: secrets)
        let error = await #expect(throws: ContactFailure.self) {
            try await manager.pair(.device(7), within: .seconds(1), model: wrong, agent: TestAgent()) { _ in }
        }
        #expect(error?.code == "omron_wrong_model" && error?.description.contains(wrong) == true)
        #expect(monitor.behaviour.key == nil && monitor.sessions == (0, 0) && store.readingCount == 0)
        // Nothing of the attempt is left: no bond, no key, and not the model.
        #expect(try await store.pairings().allSatisfy { !$0.state.isPaired })
        // Put right, it is paired and read.
        let paired = try await manager.pair(
            .device(7), within: .seconds(1), repair: true, model: model, agent: TestAgent()
        ) { _ in }
        #expect(paired.model?.id == model)
        #expect(try await manager.read(.device(7)) { _ in }.isComplete)
        #expect(store.readingCount > 0)
    }
}

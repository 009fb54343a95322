import EncodedSensor
import FreeStyleLibre
import ISO15693Reader
import LibreReader
import Synchronization
import Testing

@Suite("Reading a sensor")
struct Libre1ReaderTests {
    private static let sensor = EncodedSensor(age: 5021)

    /// Requests of a reading without any fault.
    private static let plain: [ISO15693Request] =
        [.inventory, .patchInformation]
        + (0..<14).map { .readMultipleBlocks(first: UInt8(3 * $0), count: 3) }
        + [.readMultipleBlocks(first: 42, count: 1), .inventory]

    @Test("a sensor is read in 18 requests, three blocks at a time, and what comes out is what is stored")
    func whole() async throws {
        let tag = EmulatedTag(Self.sensor)
        let progress = Mutex<[Libre1Reader.Progress]>([])
        let scan = try await Libre1Reader(tag).read { step in progress.withLock { $0.append(step) } }
        #expect(scan.payload == Self.sensor.payload)
        #expect(tag.requests == Self.plain)
        let steps = progress.withLock { $0 }
        #expect(steps.map(\.blocksRead) == Array(stride(from: 3, through: 42, by: 3)) + [43])
        #expect(steps.allSatisfy { $0.blocks == 43 && $0.round == 1 })
    }

    @Test(
        "a foreign sensor is refused by its name before its memory is read",
        arguments: [("9D0830010000", "FreeStyle Libre 2"), ("E50003020000", "14 day"), ("700010010000", "Pro")])
    func foreign(_ patch: String, _ name: String) async {
        var sensor = Self.sensor
        sensor.patchInformation = stride(from: 0, to: 12, by: 2).compactMap {
            UInt8(patch.dropFirst($0).prefix(2), radix: 16)
        }
        let tag = EmulatedTag(sensor)
        let error = await failure(tag)
        #expect(error?.code == "foreign_sensor" && error?.description.contains(name) == true)
        #expect(tag.requests == [.inventory, .patchInformation])
    }

    @Test("a newer sensor, with a chip of Abbott's own, is refused whatever it answers, and named if it tells its name")
    func abbottsChip() async {
        var sensor = Self.sensor
        sensor.uid = 0xE07A_0000_1234_5678
        // Filling octets, a zero, 24 octets and a CRC.
        sensor.patchInformation = [0xA5, 0x00] + [UInt8](repeating: 0x11, count: 24) + [0x12, 0x34]
        var tag = EmulatedTag(sensor)
        var error = await failure(tag)
        #expect(error?.code == "foreign_sensor" && error?.description.contains("FreeStyle Libre 3") == true)
        #expect(tag.requests == [.inventory, .abbottPatchInformation])
        sensor.patchInformation = [0x7F, 0x0E, 0x31, 0x01, 0x00, 0x00]
        error = await failure(EmulatedTag(sensor))
        #expect(error?.description.contains("FreeStyle Libre 2 Plus") == true)
        for fault in [ISO15693Error.tag(code: 0xA5), .tagSilent, .badCRC, .readerCannotAsk(.abbottPatchInformation)] {
            tag = EmulatedTag(sensor) { $0.refusals = [.abbottPatchInformation: fault] }
            error = await failure(tag)
            #expect(error?.code == "foreign_sensor" && error?.mayPass == false, "\(fault)")
        }
        // Without the sensor nothing is known of it.
        error = await failure(EmulatedTag(sensor) { for later in 2...9 { $0.faults[later] = .noTag } })
        #expect(error == .exchange(.tagLeft, block: nil))
    }

    @Test("a tag that is no sensor is named as such")
    func notASensor() async {
        let uid = try? SensorUID(onAir: Self.sensor.uidOnAir)
        var error = await failure(EmulatedTag(Self.sensor) { $0.refusals = [.patchInformation: .tag(code: 1)] })
        #expect(error == uid.map { .notASensor($0) })
        var book = Self.sensor
        book.uid = 0xE004_0100_1234_5678
        error = await failure(EmulatedTag(book) { $0.refusals = [.patchInformation: .tagSilent] })
        #expect(error?.code == "not_a_sensor")
        error = await failure(EmulatedTag(Self.sensor) { $0.refusals = [.patchInformation: .tagSilent] })
        #expect(error == .exchange(.tagSilent, block: nil))
    }

    @Test("each request that fails is tried again, three times at most")
    func triedAgain() async throws {
        let scan = try await Libre1Reader(EmulatedTag(Self.sensor) { $0.silentAtFirst = 3 }).read()
        #expect(scan.payload == Self.sensor.payload)
        for fault in [
            ISO15693Error.badCRC, .tagSilent, .readerSilent, .reader(code: -1, name: "NFC_EIO"), .tagLeft, .noTag,
        ] {
            let tag = EmulatedTag(Self.sensor) { $0.faults = [7: fault, 8: fault, 9: fault] }
            #expect(try await Libre1Reader(tag).read().payload == Self.sensor.payload)
            #expect(tag.requests.count == 21)
        }
        let short = EmulatedTag(Self.sensor) { $0.short = [1, 4, 5] }
        #expect(try await Libre1Reader(short).read().payload == Self.sensor.payload)
    }

    @Test("blocks that fail together are read one by one, and where several are refused, so are all that follow")
    func oneByOne() async throws {
        let tag = EmulatedTag(Self.sensor) { $0.refusals = [.readMultipleBlocks(first: 6, count: 3): .badCRC] }
        #expect(try await Libre1Reader(tag).read().payload == Self.sensor.payload)
        #expect(tag.requests.count { if case .readSingleBlock = $0 { true } else { false } } == 3)

        for (limit, refused) in [
            (2, ISO15693Error.tag(code: 0x10)), (0, .tag(code: 1)), (3, .readerCannotAsk(.readSingleBlock(0))),
        ] {
            let small = EmulatedTag(Self.sensor) {
                $0.blocksPerRequest = limit
                if limit == 3 { $0.refusals = [.readMultipleBlocks(first: 0, count: 3): refused] }
            }
            #expect(try await Libre1Reader(small).read().payload == Self.sensor.payload)
            #expect(small.requests.count == 47)
        }
    }

    @Test("a block that never answers is named")
    func deadBlock() async {
        let error = await failure(
            EmulatedTag(Self.sensor) {
                $0.refusals = [
                    .readMultipleBlocks(first: 18, count: 3): .tagSilent, .readSingleBlock(20): .tagSilent,
                ]
            })
        #expect(error == .exchange(.tagSilent, block: 20))
        #expect(error?.description.hasSuffix("(block 20 of 43)") == true)
    }

    @Test("a sensor that leaves is told from one that never was there, and a failure of the reader from both")
    func gone() async {
        var tag = EmulatedTag(Self.sensor) { $0.sensors = [] }
        #expect(await failure(tag) == .exchange(.noTag, block: nil))
        #expect(tag.requests == [.inventory])
        for first in 3...17 {
            tag = EmulatedTag(Self.sensor) { for later in first...(first + 20) { $0.faults[later] = .noTag } }
            #expect(await failure(tag) == .exchange(.tagLeft, block: UInt8(3 * (first - 3))))
            #expect(tag.requests.count == first + 3)
        }
        // At the last question nothing proves any more that it was one sensor.
        tag = EmulatedTag(Self.sensor) { for later in 18...22 { $0.faults[later] = .tagLeft } }
        #expect(await failure(tag) == .exchange(.tagLeft, block: nil))
        for fault in [
            ISO15693Error.portGone, .cannotSpeakISO15693, .helperDied(signal: 6), .portInUse("/dev/ttyACM0", pid: 1),
        ] {
            for place in [1, 2, 5, 18] {
                tag = EmulatedTag(Self.sensor) { $0.faults = [place: fault] }
                #expect(await failure(tag) == .exchange(fault, block: place == 5 ? 6 : nil))
                #expect(tag.requests.count == place)
            }
        }
    }

    @Test("a body that changed while it was read is read again")
    func tornBody() async throws {
        let good = Self.sensor
        let tag = EmulatedTag(good) { state in
            state.memory = { round, octets in
                var octets = octets
                if round < 3 { octets[200] ^= 1 }
                return octets
            }
        }
        let progress = Mutex<Set<Int>>([])
        let scan = try await Libre1Reader(tag).read { step in progress.withLock { _ = $0.insert(step.round) } }
        #expect(scan.payload == good.payload)
        #expect(progress.withLock { $0 } == [1, 2, 3])
    }

    @Test("a memory that stays wrong is read four times in all and returned with its verdict; the best is kept")
    func staysWrong() async throws {
        var sensor = Self.sensor
        sensor.damaged = [.body]
        var tag = EmulatedTag(sensor)
        var scan = try await Libre1Reader(tag).read()
        #expect(scan.payload == sensor.payload && scan.sensorScan == nil && !scan.memory.isBodyRight)
        #expect(tag.state.withLock { $0.rounds } == 4)

        tag = EmulatedTag(Self.sensor) { state in
            state.memory = { round, octets in
                var octets = octets
                octets[round == 2 ? 340 : 100] ^= 1
                return octets
            }
        }
        scan = try await Libre1Reader(tag).read()
        #expect(scan.memory.isBodyRight && !scan.memory.isFooterRight)
    }

    @Test("another sensor at the end is found: nothing of a mixture is kept")
    func swapped() async {
        var other = EncodedSensor(age: 77)
        other.uid = 0xE007_A000_0000_0001
        for request in 3...18 {
            let tag = EmulatedTag(Self.sensor) { [other] in $0.sensors.append((request, other)) }
            #expect(await failure(tag)?.code == "sensor_swapped")
        }
    }

    @Test("where the reader cannot ask for the model, the memory's own CRCs tell")
    func cannotAsk() async throws {
        let refusals = [ISO15693Request.patchInformation: ISO15693Error.readerCannotAsk(.patchInformation)]
        let scan = try await Libre1Reader(EmulatedTag(Self.sensor) { $0.refusals = refusals }).read()
        #expect(scan.patchInformation.octets.isEmpty && scan.serial == "0M0001H7ZXR")
        #expect(scan.memory.octets == Self.sensor.memory)

        var encrypted = Self.sensor
        encrypted.damaged = [.header, .body, .footer]
        #expect(await failure(EmulatedTag(encrypted) { $0.refusals = refusals })?.code == "unknown_sensor_model")
    }

    @Test("an answer that is no UID is refused")
    func badUID() async {
        var sensor = Self.sensor
        sensor.uid = 0x12
        #expect(await failure(EmulatedTag(sensor))?.code == "malformed_answer")
    }

    @Test("a reading that is cancelled asks nothing more")
    func cancelled() async {
        let tag = EmulatedTag(Self.sensor)
        let task = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            return await failure(tag)
        }
        #expect(await task.value == .exchange(.cancelled, block: nil))
        #expect(tag.requests.isEmpty)
    }
}

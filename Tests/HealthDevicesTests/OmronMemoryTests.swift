import Foundation
import GATTClient
import HealthReadings
import ReadingStore
import Testing

@testable import HealthDevices

/// Omron's memory protocol without any connection.
@Suite struct OmronMemoryTests {
    private static let models = Catalogue.omronMonitors

    private static func memory(_ id: String) throws -> OmronMemory {
        try #require(Catalogue()[id]?.omronMemory)
    }

    // MARK: Messages

    @Test("requests are the octets that owners have logged (omblepy issue 57)")
    func requests() throws {
        #expect(OmronRequest.start.octets == [UInt8](hex: "0800000000100018"))
        #expect(OmronRequest.end.octets == [UInt8](hex: "080f000000000007"))
        let read = try #require(OmronRequest.read(0x26, at: 0x0260))
        #expect(read.octets == [UInt8](hex: "080100026026004d"))
        let refused = try #require(OmronRequest.read(0x38, at: 0x08CC))
        #expect(refused.octets == [UInt8](hex: "08010008cc3800f5"))
    }

    @Test("a request outside the memory, or longer than a message, cannot be made")
    func impossibleRequests() {
        #expect(OmronRequest.read(0, at: 0) == nil && OmronRequest.read(57, at: 0) == nil)
        #expect(OmronRequest.read(2, at: 0xFFFF) == nil && OmronRequest.read(1, at: 0xFFFF) != nil)
        #expect(OmronRequest.read(-1, at: 16) == nil)
    }

    @Test("nothing that can be written writes to the memory")
    func allowList() throws {
        let key = OmronKey.random()
        let all =
            [.start, .end, .programKey, .store(key), .unlock(key), .echo(0x0102_0304)]
            + (1...56).compactMap { OmronRequest.read($0, at: 0x0286) }
        for request in all where request.place == .memory {
            let frame = try OmronFrame(decoding: request.octets)
            #expect([.start, .read, .end].map(\OmronFrame.Kind.rawValue).contains(frame.kind))
            #expect(frame.kind != 0x01C0 && frame.data.isEmpty && request.octets.count == 8)
        }
        for request in all where request.place == .key {
            #expect([0x00, 0x01, 0x02, 0x11].contains(request.octets[0]))
        }
        #expect(!"\(key)".contains(key.octets.map { String($0, radix: 16) }.joined()))
        #expect(OmronKey([1, 2]) == nil && OmronKey.random() != OmronKey.random())
    }

    @Test("decode(encode(x)) == x, and no changed bit behind the length is accepted")
    func roundTrip() throws {
        var generator = SystemRandomNumberGenerator()
        for _ in 0..<300 {
            let data = (0..<Int.random(in: 0...56, using: &generator)).map { _ in UInt8.random(in: 0...255) }
            let kind = try #require(OmronFrame.Kind.allCases.randomElement())
            let frame = OmronFrame(kind, address: .random(in: 0...(.max)), count: UInt8(data.count), data: data)
            #expect(try OmronFrame(decoding: frame.encoded) == frame)
            #expect(try OmronFrame(decoding: frame.encoded + [0, 0, 7]) == frame)
            var octets = frame.encoded
            // A shorter length ends the message earlier, where the XOR of random octets is 0 once in 256 times.
            octets[Int.random(in: 1..<octets.count, using: &generator)] ^= 1 << UInt8.random(in: 0...7)
            #expect(throws: MalformedFrame.self) { try OmronFrame(decoding: octets) }
        }
        for length in 0..<8 {
            #expect(throws: MalformedFrame.self) { try OmronFrame(decoding: [UInt8](repeating: 8, count: length)) }
        }
    }

    // MARK: Channels

    /// A block as it comes on four channels: hass-omron issue 13, an HEM-7322T-E.
    private let pieces = [
        [UInt8](hex: "408100046c38526b164815921112005b"), [UInt8](hex: "6980ea294f621646159211a6006f6580"),
        [UInt8](hex: "7cbf4c61164e1d4b1ee2005759806aa9"), [UInt8](hex: "54711645244a153f00666680ed2e00e4"),
    ]

    @Test("a message comes whole in any order of its channels")
    func orderOfChannels() throws {
        let request = try #require(OmronRequest.read(0x38, at: 0x046C))
        for _ in 0..<24 {
            var exchange = OmronExchange(request, channels: 4)
            let order = [0, 1, 2, 3].shuffled()
            for channel in order.dropLast() { #expect(exchange.take(pieces[channel], on: channel) == .waiting) }
            let last = order[3]
            guard case .answered(let frame, let octets) = exchange.take(pieces[last], on: last) else {
                Issue.record("no answer")
                continue
            }
            #expect(frame.address == 0x046C && frame.data.count == 0x38 && octets == Array(pieces.joined()))
        }
    }

    @Test("a piece that is lost, short, of an earlier answer or on no channel makes no answer")
    func brokenPieces() throws {
        let request = try #require(OmronRequest.read(0x38, at: 0x046C))
        var exchange = OmronExchange(request, channels: 4)
        for channel in [0, 1, 3] { #expect(exchange.take(pieces[channel], on: channel) == .waiting) }
        exchange.restart()
        for channel in [0, 2, 3] { #expect(exchange.take(pieces[channel], on: channel) == .waiting) }
        #expect(exchange.take(pieces[1], on: 4) == .waiting && exchange.take([], on: 1) != .waiting)
        exchange.restart()
        // One octet of another answer.
        var mixed = pieces
        mixed[2][3] ^= 0x10
        var steps: [OmronExchange.Step] = []
        for channel in 0..<4 { steps.append(exchange.take(mixed[channel], on: channel)) }
        guard case .malformed = steps[3] else {
            Issue.record("a wrong check was accepted")
            return
        }
        // The answer to another address came late; ours is still awaited.
        var other = OmronExchange(try #require(OmronRequest.read(0x38, at: 0x04A4)), channels: 4)
        for channel in 0..<4 { #expect(other.take(pieces[channel], on: channel) == .waiting) }
    }

    @Test("a refusal is told with its code, and padding behind it is none of it (hass-omron issue 13)")
    func refusals() throws {
        let request = try #require(OmronRequest.read(0x38, at: 0x08CC))
        var exchange = OmronExchange(request, channels: 4)
        let octets = [UInt8](hex: "08810008cc38e7920000000000000000")
        #expect(exchange.take(octets, on: 0) == .refused(0xE7, octets))
        let ended = OmronFrame(.ended, status: 3).encoded
        #expect(exchange.take(ended, on: 0) == .ended(3, ended))
        #expect(exchange.take([0] + octets, on: 0) != .waiting)
    }

    @Test("sessions begin and end with what monitors of both kinds say")
    func sessions() {
        var start = OmronExchange(.start, channels: 4)
        #expect(start.take([UInt8](hex: "18800000001000000094041311020778"), on: 0) == .waiting)
        guard case .answered(let frame, _) = start.take([UInt8](hex: "5a00ffff954d00e50000000000000000"), on: 1) else {
            Issue.record("the session has not begun")
            return
        }
        #expect(frame.data.count == 16)
        var short = OmronExchange(.start, channels: 1)
        guard case .answered = short.take([UInt8](hex: "0880000000100098"), on: 0) else {
            Issue.record("the session has not begun")
            return
        }
        var end = OmronExchange(.end, channels: 4)
        guard case .answered = end.take([UInt8](hex: "088f0000000000870000000000000000"), on: 0) else {
            Issue.record("the session has not ended")
            return
        }
    }

    @Test("the key's characteristic answers by the code of the request")
    func keyAnswers() {
        let key = OmronKey.random()
        #expect(OmronRequest.programKey.keyAnswer([0x82, 0x00]) == .accepted)
        #expect(OmronRequest.programKey.keyAnswer([0x82, 0x0F]) == .refused(0x0F))
        #expect(OmronRequest.programKey.keyAnswer([0x00, 0x00]) == .refused(0))
        #expect(OmronRequest.store(key).keyAnswer([0x80, 0x00]) == .accepted)
        #expect(OmronRequest.unlock(key).keyAnswer([0x81, 0x04]) == .refused(4))
        #expect(OmronRequest.unlock(key).keyAnswer([0x82, 0x00]) == nil)
        #expect(
            OmronRequest.unlock(key).keyAnswer([]) == nil && OmronRequest.unlock(key).keyAnswer([0x81]) != .accepted)
        #expect(OmronRequest.echo(0x0A0B_0C0D).keyAnswer([0x91, 0x00, 0x0A, 0x0B, 0x0C, 0x0D]) == .accepted)
        #expect(OmronRequest.echo(0x0A0B_0C0D).keyAnswer([0x91, 0x00, 0x0A, 0x0B, 0x0C, 0x0E]) == .refused(0))
    }

    // MARK: Records that owners have logged

    struct Logged: Sendable, CustomTestStringConvertible {
        var source: String
        var model: String
        var octets: String
        var systolic: Int64
        var diastolic: Int64
        var pulse: Int64
        var time: String
        var status: ReadingStatus = []
        var testDescription: String { "\(source): \(octets)" }
    }

    private static let logged = [
        Logged(
            source: "hass-omron issue 13", model: "omron_hem7322t", octets: "526b164815921112005b6980ea29",
            systolic: 132, diastolic: 82, pulse: 72, time: "2022-05-12T18:04:18"),
        Logged(
            source: "hass-omron issue 13", model: "omron_hem7322t", octets: "4f621646159211a6006f65807cbf",
            systolic: 123, diastolic: 79, pulse: 70, time: "2022-05-12T18:06:38"),
        Logged(
            source: "hass-omron issue 13", model: "omron_hem7322t", octets: "4c61164e1d4b1ee2005759806aa9",
            systolic: 122, diastolic: 76, pulse: 78, time: "2022-07-10T11:59:34"),
        // The second of 63 is the last of its minute.
        Logged(
            source: "hass-omron issue 13", model: "omron_hem7322t", octets: "54711645244a153f00666680ed2e",
            systolic: 138, diastolic: 84, pulse: 69, time: "2022-09-02T10:20:59"),
        Logged(
            source: "hass-omron issue 11", model: "omron_hem6232t", octets: "49675a330e4619f300000079e916",
            systolic: 128, diastolic: 73, pulse: 51, time: "2026-03-18T06:39:51"),
        Logged(
            source: "hass-omron issue 11", model: "omron_hem6232t", octets: "5f955a3b0e6718d10000007a9e61",
            systolic: 174, diastolic: 95, pulse: 59, time: "2026-03-19T07:35:17"),
        Logged(
            source: "hass-omron issue 11", model: "omron_hem6232t", octets: "538c5a400e6719aa0000007cd22d",
            systolic: 165, diastolic: 83, pulse: 64, time: "2026-03-19T07:38:42"),
        Logged(
            source: "hass-omron's tests", model: "omron_hem7600t", octets: "5b781a4819d71b42000014006996",
            systolic: 145, diastolic: 91, pulse: 72, time: "2026-06-14T23:45:02"),
        Logged(
            source: "omblepy issue 39", model: "omron_hem7140t1", octets: "584e4419ac0d1e16000014000400",
            systolic: 113, diastolic: 78, pulse: 68, time: "2025-03-13T12:24:30"),
        Logged(
            source: "omblepy issue 55", model: "omron_hem7143t1", octets: "624c5e199621d41a800001004bb4",
            systolic: 123, diastolic: 76, pulse: 94, time: "2025-08-12T22:43:20"),
        // Its owner confirmed the irregular pulse.
        Logged(
            source: "omblepy issue 55", model: "omron_hem7143t1", octets: "50453f19ae61c91a80200200817e",
            systolic: 105, diastolic: 69, pulse: 63, time: "2025-08-13T14:43:09", status: .irregularPulse),
        Logged(
            source: "hass-omron issue 71", model: "omron_hem7140t1", octets: "5f5a621a72198c1180000e00eb14",
            systolic: 120, diastolic: 90, pulse: 98, time: "2026-06-11T18:06:12"),
        Logged(
            source: "hass-omron issue 71", model: "omron_hem7140t1", octets: "735d471a68190e1380000c005fa0",
            systolic: 140, diastolic: 93, pulse: 71, time: "2026-06-11T08:12:14"),
        Logged(
            source: "hass-omron issue 92", model: "omron_hem7188t1", octets: "7d5d461a2b2541160000200000010200",
            systolic: 150, diastolic: 93, pulse: 70, time: "2026-09-09T11:25:01"),
    ]

    @Test("records that owners have logged are read as their owners saw them, and their sum holds", arguments: logged)
    func loggedRecords(_ logged: Logged) throws {
        let memory = try Self.memory(logged.model)
        let address = memory.address(1, of: 0)
        let payload = [UInt8(address >> 8), UInt8(truncatingIfNeeded: address)] + [UInt8](hex: logged.octets)
        let frame = Frame(format: .omronRecord, payload: payload, receivedAt: Instant(seconds: 0), ordinal: 0)
        let decoded = ModelFrameDecoder().decode(frame, model: logged.model)
        guard case .record(let record) = decoded, case .bloodPressure(let value) = record.value else {
            Issue.record("\(decoded)")
            return
        }
        #expect(value.systolic == Quantity(ExactDecimal(significand: logged.systolic), .millimetresOfMercury))
        #expect(value.diastolic == Quantity(ExactDecimal(significand: logged.diastolic), .millimetresOfMercury))
        #expect(value.pulse == Quantity(ExactDecimal(significand: logged.pulse), .beatsPerMinute))
        #expect(record.baseTime == WallTime(logged.time) && record.userSlot == 1 && record.exclusion == nil)
        #expect(record.status == logged.status && record.sequence == nil)
    }

    @Test("no changed bit of a logged record is a record", arguments: logged)
    func damagedRecords(_ logged: Logged) throws {
        let memory = try Self.memory(logged.model)
        let octets = [UInt8](hex: logged.octets)
        let order = try #require(memory.layout.order)
        let otherOfSum = order == .highFirst ? octets.count - 2 : octets.count - 1
        for place in octets.indices where place != otherOfSum {
            for bit in 0..<8 {
                var changed = octets
                changed[place] ^= 1 << UInt8(bit)
                #expect(throws: MalformedFrame.self) { try memory.layout.record(changed) }
            }
        }
    }

    @Test(
        "the index says which slot is the newest",
        arguments: [
            // omblepy issue 57, omblepy issue 39, hass-omron issue 38, hass-omron issue 92, hass-omron issue 193 (its cursor).
            ("omron_hem7322t", "401e802d80008000094dff09865e094d", [29, 44]),
            ("omron_hem7140t1", "00400080008000802100008000000080", [13]),
            ("omron_hem6232t", "401880000064800000e0000000008000", [23, nil]),
            ("omron_hem7188t1", "16000080160000802000000000000080", [21]),
            ("omron_hem7380t1", "00400080000000800000000000000000", [99, nil]),
            // hass-omron issue 67 and pull request 170 (words 0, 1, 2 and 4): the fifth word grows as the first user measures. Then
            // one of a monitor whose second user has measured, as esphome-omron tells of its author's.
            ("omron_hem7155tmw3", "0d0000800d0000801e00000000000080", [12, nil]),
            ("omron_hem7155tmw3", "0d000c000d000c001e00000000000080", [12, 11]),
        ] as [(String, String, [Int?])])
    func index(id: String, octets: String, newest: [Int?]) throws {
        let memory = try Self.memory(id)
        for (user, slot) in newest.enumerated() {
            let found = Self.slot(memory.position(of: user, in: [UInt8](hex: octets)))
            #expect(found == .some(slot), "\(user)")
        }
    }

    @Test("an index that makes no sense is not followed")
    func wrongIndex() throws {
        let memory = try Self.memory("omron_hem7140t1")
        #expect(memory.position(of: 0, in: [0xFF, 0xFF, 0, 0]) == .unknown)
        #expect(memory.position(of: 0, in: [15, 0x40, 0, 0]) == .unknown)
        #expect(memory.position(of: 0, in: [1]) == .unknown && memory.position(of: 7, in: [1, 0, 0, 0]) == .unknown)
        #expect(memory.position(of: 0, in: [14, 0, 0, 0]) == .newest(13, hasWrapped: false))
        #expect(memory.position(of: 0, in: [0, 0x40, 0, 0]) == .newest(13, hasWrapped: true))
    }

    /// The newest slot; `.some(nil)` for a user without records, nil where the index makes no sense.
    private static func slot(_ position: OmronIndex.Position) -> Int?? {
        switch position {
        case .newest(let slot, _): slot
        case .empty: .some(nil)
        case .unknown: nil
        }
    }

    @Test(
        "the clock in the memory is read by the same rule",
        arguments: [
            // omblepy issue 57, hass-omron issue 38, hass-omron issue 193, omblepy issue 39.
            ("omron_hem7322t", "08c8091912122c1b855d", "2025-09-18T18:27:44"),
            ("omron_hem6232t", "50c0000300000000051a080e211d7986", "2026-05-14T08:29:33"),
            ("omron_hem7380t1", "c6a40100000000001a09140d1908d000", "2026-09-20T13:25:08"),
            ("omron_hem7140t1", "c8a800000000000019030e0e0b10c300", "2025-03-14T14:11:16"),
        ])
    func clock(id: String, octets: String, time: String) throws {
        let memory = try Self.memory(id)
        var octets = [UInt8](hex: octets)
        #expect(octets.count == memory.clock.count && memory.wallTime(octets) == WallTime(time))
        octets[3] ^= 1
        #expect(memory.wallTime(octets) == nil && memory.wallTime([]) == nil && memory.wallTime([1]) == nil)
    }

    // MARK: Records that nobody has logged

    @Test("decode(encode(x)) == x in both orders and both lengths")
    func records() throws {
        var generator = SystemRandomNumberGenerator()
        for _ in 0..<500 {
            var sample = OmronSample()
            sample.systolic = .random(in: 30...280, using: &generator)
            sample.diastolic = .random(in: 1...200, using: &generator)
            sample.pulse = .random(in: 20...250, using: &generator)
            (sample.year, sample.month, sample.day) = (.random(in: 0...63), .random(in: 1...12), .random(in: 1...28))
            (sample.hour, sample.minute, sample.second) = (
                .random(in: 0...23), .random(in: 0...59), .random(in: 0...63)
            )
            (sample.hasMoved, sample.isIrregular, sample.unknownBit, sample.cuffFits) = (
                .random(), .random(), .random(), .random()
            )
            sample.position = .random(in: 0...3)
            for order in OmronRecordLayout.Order.allCases {
                for length in [14, 16] {
                    let layout = OmronRecordLayout(length: length, order: order)
                    let record = try #require(try layout.record(sample.octets(length, order)))
                    #expect(record.systolic == sample.systolic && record.diastolic == sample.diastolic)
                    #expect(record.pulse == sample.pulse && record.time == sample.time)
                    #expect(record.hasMoved == sample.hasMoved && record.isIrregular == sample.isIrregular)
                    #expect(record.cuffFits == sample.cuffFits)
                    #expect(record.position == UInt8(sample.position))
                }
            }
        }
    }

    @Test("what is set in a record is the reading's status; a position counts at the wrist alone")
    func status() throws {
        var sample = OmronSample()
        (sample.hasMoved, sample.unknownBit, sample.cuffFits, sample.position) = (true, true, false, 1)
        let layout = OmronRecordLayout(length: 14, order: .highFirst)
        let record = try #require(try layout.record(sample.octets(14, .highFirst)))
        #expect(record.record(of: 2, isAtWrist: false).status == [.bodyMovement, .cuffTooLoose])
        #expect(record.record(of: 2, isAtWrist: true).status.contains(.improperPosition))
        #expect(record.record(of: 2, isAtWrist: true).userSlot == 2)
    }

    /// Takes a bit for a low battery, as earlier versions did.
    private struct BatteryDecoder: FrameDecoding {
        func decode(_ frame: Frame, model: String?) -> DecodedFrame {
            guard case .record(var record) = ModelFrameDecoder().decode(frame, model: model) else { return .nothing }
            if frame.payload[9] & 0x20 != 0 { record.status.insert(.deviceBatteryLow) }
            return .record(record)
        }
    }

    @Test("what an earlier version took for a low battery is no damage of the store, and the record no second reading")
    func storedBattery() async throws {
        let directory = FileManager.default.temporaryDirectory.appending(path: "battery-\(UUID().uuidString)").path
        defer { try? FileManager.default.removeItem(atPath: directory) }
        var sample = OmronSample()
        sample.unknownBit = true
        let payload = [0x01, 0xC4] + sample.octets(16, .lowFirst)
        for decoder in [BatteryDecoder(), ModelFrameDecoder()] as [any FrameDecoding] {
            let store = try await ReadingStore.open(
                directory: directory, decoder: decoder, clientUserID: "white_bear", timeZone: "Europe/Berlin")
            #expect(try await store.verify().isEmpty)
            let now = Instant(seconds: 1_795_000_000)
            let contact = try await store.beginContact(
                with: DeviceDescription(address: .device(7), model: "omron_hem7380t1", name: "M7"), at: now, clock: nil,
                batteryPercent: nil)
            let frame = Frame(format: .omronRecord, payload: payload, receivedAt: now, ordinal: 0)
            _ = try await store.append([frame], of: contact)
            try await store.endContact(contact, ContactSummary(isComplete: true, received: 1))
            #expect(try await store.query(ReadingQuery()).readings.count == 1)
            #expect(try await store.verify().isEmpty)
            try store.close()
        }
    }

    @Test("a date that cannot be is no reading", arguments: [(0, 1, 0), (13, 1, 0), (2, 30, 0), (4, 0, 0), (4, 1, 24)])
    func impossibleDates(month: Int, day: Int, hour: Int) throws {
        var sample = OmronSample()
        (sample.month, sample.day, sample.hour) = (UInt16(month), UInt16(day), UInt16(hour))
        let layout = OmronRecordLayout(length: 16, order: .lowFirst)
        let error = #expect(throws: MalformedFrame.self) { try layout.record(sample.octets(16, .lowFirst)) }
        #expect(error?.expected == "a date and time")
    }

    @Test("a slot in which nothing was recorded is empty; one that is half written is no record")
    func slots() throws {
        let layout = OmronRecordLayout(length: 14, order: .highFirst)
        #expect(try layout.record([UInt8](repeating: 0xFF, count: 14)) == nil)
        #expect(try layout.record([UInt8](repeating: 0, count: 14)) == nil)
        let whole = OmronSample().octets(14, .highFirst)
        for written in 1..<14 {
            let half = whole.prefix(written) + [UInt8](repeating: 0xFF, count: 14 - written)
            if Array(half) == whole { continue }
            #expect(throws: MalformedFrame.self) { try layout.record(Array(half)) }
        }
        for length in [0, 1, 13, 15, 16] {
            #expect(throws: MalformedFrame.self) { try layout.record([UInt8](repeating: 3, count: length)) }
        }
    }

    @Test("where no source says which octet comes first, the sum does")
    func unknownOrder() throws {
        let layout = OmronRecordLayout(length: 14, order: nil)
        for order in OmronRecordLayout.Order.allCases {
            let record = try #require(try layout.record(OmronSample().octets(14, order)))
            #expect(record.systolic == 128 && record.time == OmronSample().time)
        }
    }

    // MARK: Models

    @Test("every row fits into a memory, and no two of its areas overlap", arguments: models)
    func rows(_ model: DeviceModel) throws {
        let memory = try #require(model.omronMemory)
        #expect(memory.isSound, "\(model.id)")
        #expect(memory.layout.length == 14 || memory.layout.length == 16)
        #expect(model.standsFor.allSatisfy { Catalogue()[$0] != nil } && !model.standsFor.isEmpty)
        for user in memory.users.indices {
            #expect(memory.user(at: memory.address(0, of: user)) == user)
            #expect(memory.user(at: memory.address(memory.count - 1, of: user)) == user)
            #expect(memory.user(at: memory.address(0, of: user) + 1) == nil)
        }
        #expect(memory.user(at: memory.settings) == nil)
    }

    @Test("no row is found by a name, so that no monitor is read by a layout that nobody chose")
    func chosen() {
        let catalogue = Catalogue()
        for model in Self.models {
            #expect(model.names.isEmpty && catalogue[model.id] == model)
            let heard = Advertisement(address: nil, name: nil, services: model.services, seenAt: Instant(seconds: 0))
            #expect(catalogue.model(for: heard)?.id == "generic_blood_pressure")
        }
    }

    @Test("a record of another model, or at an address where none begins, is kept as octets and named")
    func otherModels() throws {
        let memory = try Self.memory("omron_hem7322t")
        let octets = OmronSample().octets(14, .highFirst)
        func decoded(_ address: UInt16, _ octets: [UInt8], _ model: String?) -> DecodedFrame {
            let payload = [UInt8(address >> 8), UInt8(truncatingIfNeeded: address)] + octets
            return ModelFrameDecoder().decode(
                Frame(format: .omronRecord, payload: payload, receivedAt: Instant(seconds: 0), ordinal: 0), model: model
            )
        }
        guard case .record(let record) = decoded(0x0824, octets, "omron_hem7322t") else {
            Issue.record("no record")
            return
        }
        #expect(record.userSlot == 2)
        for (address, model) in [
            (0x0825, "omron_hem7322t"), (0x0260, "omron_hem7322t"), (0x0824 + 1400, "omron_hem7322t"),
            (0x02AC, "omron_hem7155t"), (0x02AC, "omron_blesmart"), (0x02AC, nil), (0x02E8, "omron_hem7143t1"),
        ] as [(UInt16, String?)] {
            guard case .malformed = decoded(address, octets, model) else {
                Issue.record("\(address) of \(model ?? "none") is read")
                continue
            }
        }
        #expect(memory.decode([]) != .nothing && memory.decode([2]) != .nothing)
        #expect(decoded(0x02AC, [UInt8](repeating: 0xFF, count: 14), "omron_hem7322t") == .nothing)
    }
}

extension OmronMemory {
    /// Whether users' slots, settings and clock lie apart from each other and within the memory.
    fileprivate var isSound: Bool {
        let slots = users.map { Int($0)..<(Int($0) + count * layout.length) }
        let index = Int(settings)..<(Int(settings) + OmronIndex.length)
        let clock = (Int(settings) + Int(clock.lowerBound))..<(Int(settings) + Int(clock.upperBound))
        let areas = (slots + [clock] + (index.overlaps(clock) ? [] : [index])).sorted { $0.lowerBound < $1.lowerBound }
        return (1...2).contains(users.count) && count > 0 && count < 0x100 && layout.length % 2 == 0
            && (layout.length...OmronFrame.mostData).contains(longestRead)
            && zip(areas, areas.dropFirst()).allSatisfy { $0.upperBound <= $1.lowerBound }
            && (areas.last?.upperBound ?? 0) <= 0x1_0000
    }
}

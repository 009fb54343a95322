import Foundation
import GATTClient
import GATTProfiles
import HCICapture
import HealthReadings
import ReadingStore
import Testing

@testable import HealthDevices

/// The quirks of a conversation in captures of it: our own gateway's with devices that have them, behind bluetoothd.
@Suite struct QuirkCaptureTests {
    private typealias Contact = RecordedConversation.Contact

    private static let measurement: BluetoothUUID = 0x2A35
    private static let controlPoint: BluetoothUUID = 0x2A52
    private static let taidoc = "C0:00:00:00:18:2A"
    private static let generic = "C0:00:00:00:18:2B"

    /// What replaying captures brings, one after the other into one store.
    private func replay(
        _ names: [String], catalogue: Catalogue = Catalogue()
    ) async throws -> (new: [[Reading]], repeated: [Int], readings: [Reading]) {
        let directory = FileManager.default.temporaryDirectory
            .appending(path: "quirk-captures-\(ProcessInfo.processInfo.globallyUniqueString)").path
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let store = try await ReadingStore.open(
            directory: directory, decoder: ModelFrameDecoder(catalogue: catalogue), clientUserID: "white_bear",
            timeZone: "Europe/Berlin")
        let reader = MeterReader(journal: store, memory: store, catalogue: catalogue)
        var (new, repeated): ([[Reading]], [Int]) = ([], [])
        for name in names {
            let reported = Bench.Reported()
            let central = try ReplayCentral(paths: [RecordedConversation(name).path])
            for try await peripheral in central.peripherals() {
                try await reader.read(peripheral) { reported.note($0) }
            }
            new.append([])
            repeated.append(0)
            for case .stored(let outcomes) in reported.events {
                for case .new(let reading) in outcomes { new[new.count - 1].append(reading) }
                for case .repeated in outcomes { repeated[repeated.count - 1] += 1 }
            }
        }
        let readings = try await store.query(ReadingQuery()).readings
        #expect(try await store.verify().isEmpty)
        try store.close()
        return (new, repeated, readings)
    }

    /// What a clock on the wall in Berlin showed at a packet's time.
    private func wallTime(at microseconds: Int64) throws -> WallTime {
        try #require(ZoneRules.named("Europe/Berlin")).wallTime(at: Instant(microseconds: microseconds))
    }

    // MARK: Cuffs

    @Test("BM85: its records are enabled no sooner than 100 ms after the connection and whatever was asked before")
    func pause() throws {
        let contact = try #require(try RecordedConversation("quirks-bm85").contacts.last)
        let enabled = try #require(contact.enables(Self.measurement).first)
        #expect(contact.pdus[enabled].time - contact.start >= 100_000)
        #expect(contact.pdus[enabled].time - contact.pdus[enabled - 1].time >= 100_000, "somebody waited on purpose")
        #expect(contact.sent(Self.measurement).count == 3)
        #expect(contact.sends(Self.measurement).allSatisfy { $0 > enabled })
        // Where nobody has to, nobody waits.
        for contact in try RecordedConversation("quirks-and").contacts.dropFirst() {
            let enabled = try #require(contact.enables(Self.measurement).first)
            #expect(contact.pdus[enabled].time - contact.pdus[enabled - 1].time < 100_000)
        }
    }

    @Test("A&D: it leaves when the bond is made, and the bond proves itself at its next contact")
    func leavesAfterBonding() throws {
        let contacts = try RecordedConversation("quirks-and").contacts
        let bonding = try #require(contacts.first)
        #expect(bonding.isPairing && bonding.isEncrypted && bonding.endReason == 0x13, "the device ended it")
        #expect(bonding.enables(Self.measurement).isEmpty && bonding.sent(Self.measurement).isEmpty)
        for contact in contacts.dropFirst() {
            #expect(!contact.isPairing && contact.isEncrypted && contact.endReason == 0x16, "the host ended it")
            #expect(!contact.readings(of: 0x2A25).isEmpty, "read by the bond alone")
        }
        // Ten seconds were waited for it in vain.
        #expect(try readsOfAnd().first.start - bonding.start > 10_000_000)
    }

    /// The A&D's contacts behind the one in which it was bonded: two reads, and one of all records.
    private func readsOfAnd() throws -> (first: Contact, second: Contact, all: Contact) {
        let contacts = try RecordedConversation("quirks-and").contacts
        try #require(contacts.count == 4)
        return (contacts[1], contacts[2], contacts[3])
    }

    @Test("promise 7: A&D: date and time are written where the owner has asked for it, and at no other contact")
    func wantsDateTime() throws {
        let (first, ordered, last) = try readsOfAnd()
        #expect([first, ordered, last].map { $0.writes(to: 0x2A08).count } == [0, 1, 0])
        let write = try #require(ordered.writes(to: 0x2A08).first)
        let written = try #require(try DateTime(decoding: ordered.pdus[write].value).wallTime)
        let now = try wallTime(at: ordered.pdus[write].time)
        #expect(abs(written.secondsSinceEpoch - now.secondsSinceEpoch) <= 2)
        let answer = try #require(ordered.response(to: write))
        #expect(ordered.pdus[answer].opcode == 0x13)
        // Behind the reading of the old time, before the records are enabled.
        #expect(try #require(ordered.readings(of: 0x2A08).first).place < write)
        #expect(write < (try #require(ordered.enables(Self.measurement).first)))
        // Twenty minutes slow until then, and right behind it.
        let differences = try [first, ordered, last].map { contact in
            let (place, octets) = try #require(contact.readings(of: 0x2A08).first)
            let shown = try #require(try DateTime(decoding: octets).wallTime)
            return shown.secondsSinceEpoch - (try wallTime(at: contact.pdus[place].time)).secondsSinceEpoch
        }
        #expect(zip(differences, [-1200, -1200, 0]).allSatisfy { abs($0 - $1) <= 2 }, "\(differences)")
    }

    @Test("A&D: each record is sent once, at the first contact after it was made")
    func sendsUnsentOnly() throws {
        let (first, second, _) = try readsOfAnd()
        let sent = [first, second].map { $0.sent(Self.measurement) }
        #expect(sent.map(\.count) == [2, 1] && Set(sent.flatMap(\.self)).count == 3)
        #expect([first, second].allSatisfy { $0.written(to: AndCommand.characteristic).isEmpty })
    }

    @Test("A&D: by its command all records come again, octet for octet, and bring nothing new")
    func commandForAll() async throws {
        let (first, second, last) = try readsOfAnd()
        #expect(last.written(to: AndCommand.characteristic) == [[0x02, 0x00, 0xE1]])
        let command = try #require(last.writes(to: AndCommand.characteristic).first)
        #expect(command < (try #require(last.enables(Self.measurement).first)))
        #expect(last.sent(Self.measurement) == first.sent(Self.measurement) + second.sent(Self.measurement))
        let replayed = try await replay(["quirks-and", "quirks-and"])
        #expect(replayed.new.map(\.count) == [3, 0] && replayed.repeated == [3, 6])
        #expect(replayed.readings.allSatisfy { $0.excluded == nil } && replayed.readings.count == 3)
    }

    @Test("Omron: a second of 63 stands in a record, and the battery reads 0")
    func omronMemory() throws {
        let contacts = try RecordedConversation("omron-memory").contacts
        #expect(contacts.contains { $0.isPairing } && contacts.allSatisfy(\.isEncrypted))
        let reading = try #require(contacts.last)
        #expect(Set(reading.readings(of: 0x2A19).map(\.octets)) == [[0]])
        let layout = OmronRecordLayout(length: 14, order: .highFirst)
        var (messages, channels) = ([OmronFrame](), OmronChannels(count: 4))
        for contact in contacts {
            for place in contact.pdus.indices where contact.pdus[place].opcode == 0x1B {
                guard
                    let channel = Omron.answers.firstIndex(where: { contact.handles[$0] == contact.pdus[place].handle })
                else { continue }
                guard let octets = channels.take(contact.pdus[place].value, on: channel) else { continue }
                messages.append(try OmronFrame(decoding: octets))
            }
        }
        let blocks = messages.filter { $0.kind == 0x8100 && $0.address >= 0x02AC }
        let slots = blocks.flatMap { block in
            stride(from: 0, to: block.data.count, by: 14).map { Array(block.data[$0..<($0 + 14)]) }
        }
        #expect(slots.contains { !OmronRecordLayout.isEmpty($0) && $0[7] & 0x3F == 63 })
        let records = try slots.compactMap { try layout.record($0) }
        #expect(records.contains { $0.time.timeOfDay.second == 59 })
        // Nothing but the beginning, reads and the end was asked for, and no key is left in the file.
        let asked = contacts.flatMap { $0.written(to: Omron.requests) }.map { Array($0[1...2]) }
        #expect(Set(asked) == [[0, 0], [1, 0], [0x0F, 0]])
        let keys = contacts.flatMap { $0.written(to: Omron.key) }
        #expect(!keys.isEmpty && keys.allSatisfy { $0.dropFirst().allSatisfy { $0 == 0 } })
    }

    @Test(
        "Microlife: a user's memory comes in one answer of many pieces, equal records in it, and a guest's too"
    )
    func microlifeMemory() throws {
        let contacts = try RecordedConversation("microlife-memory").contacts
        #expect(contacts.contains { $0.isPairing } && contacts.allSatisfy(\.isEncrypted))
        let readings = contacts.filter { !$0.written(to: Microlife.requests).isEmpty }
        var histories: [[MicrolifeHistory]] = []
        for contact in readings {
            let pieces = contact.sent(Microlife.answers)
            #expect(pieces.allSatisfy { $0.count <= 20 })
            var assembly = MicrolifePieces()
            let messages = try pieces.compactMap { assembly.take($0) }.map { try MicrolifeFrame(decoding: $0) }
            #expect(messages.first?.command == 0x05)
            histories.append(try messages.dropFirst().map { try MicrolifeHistory($0) })
        }
        // The one that is chosen at the monitor first; a guest's is shown only so.
        #expect(histories.map { $0.map(\.user) } == [[1, 2], [2, 1], [3, 1, 2]])
        let first = try #require(histories.first?.first)
        #expect(first.records.count == 6 && first.records[0] == first.records[1])
        #expect(first.records[0][3...7] == [17, 0, 0, 0, 0], "recorded before somebody set the clock")
        #expect(first.records[3] == first.records[4] && first.records[3][8] & 0x40 != 0)
        #expect(Set(first.payloads).count == 6)
        // Nothing but who the users are, and their memories, was asked for; then the monitor was told that this is all.
        for contact in readings {
            let asked = contact.written(to: Microlife.requests)
            #expect(Set(asked.dropLast().map { $0[4] }) == [0x05, 0x00] && asked.last?[4] == 0x04)
            #expect(asked.allSatisfy { $0.count <= 20 })
        }
    }

    @Test("Viatom: without a bond the list is opened once, read from offset to offset, and closed")
    func viatomList() throws {
        let contacts = try RecordedConversation("viatom-list").contacts
        #expect(contacts.allSatisfy { !$0.isPairing && !$0.isEncrypted })
        let readings = contacts.filter { !$0.written(to: Viatom.requests).isEmpty }
        #expect(readings.count == 2 && contacts.count == 3, "pairing asks for nothing")
        for (contact, size) in zip(readings, [10 + 37 * 7, 10 + 37 * 8]) {
            let asked = try contact.written(to: Viatom.requests).map { try ViatomFrame(decoding: $0) }
            let expected: [UInt8] = [0xE1, 0xF2, 0xF3, 0xF3, 0xF3] + (size > 300 ? [0xF3] : []) + [0xF4]
            #expect(asked.map(\.command) == expected)
            var assembly = ViatomPieces()
            let messages = try contact.sent(Viatom.answers).flatMap { assembly.take($0) }.map {
                try ViatomFrame(decoding: $0)
            }
            // Each answer has the number of its question, and comes in as many pieces as the link needs.
            #expect(messages.map(\.number) == asked.map(\.number) && messages.map(\.command) == asked.map(\.command))
            #expect(contact.sent(Viatom.answers).count > messages.count)
            #expect(messages[1].payload == [UInt8(size & 0xFF), UInt8(size >> 8), 0, 0])
            let list = messages.filter { $0.command == 0xF3 }.flatMap(\.payload)
            #expect(list.count == size && list.suffix(37).allSatisfy { $0 == 0 }, "an empty slot ends it")
            // Twenty minutes ahead.
            let shown = try #require(ViatomInformation(messages[0].payload)?.time)
            let place = try #require(contact.sends(Viatom.answers).first)
            let difference = shown.secondsSinceEpoch - (try wallTime(at: contact.pdus[place].time)).secondsSinceEpoch
            #expect(abs(difference - 1200) <= 2)
        }
    }

    @Test("Omron: its clock can be read, refuses to be written with its own error, and goes on as it was")
    func refusesClock() throws {
        let contacts = try RecordedConversation("quirks-omron").contacts
        let refused = try #require(contacts.first { !$0.writes(to: 0x2A2B).isEmpty })
        let write = try #require(refused.writes(to: 0x2A2B).first)
        #expect(refused.writes(to: 0x2A2B).count == 1)
        let written = try #require(try CurrentTime(decoding: refused.pdus[write].value).wallTime)
        let now = try wallTime(at: refused.pdus[write].time)
        #expect(abs(written.secondsSinceEpoch - now.secondsSinceEpoch) <= 2)
        let clock = try #require(refused.handles[0x2A2B])
        let answer = try #require(refused.response(to: write))
        let handle = [UInt8(truncatingIfNeeded: clock), UInt8(truncatingIfNeeded: clock >> 8)]
        #expect(refused.pdus[answer].octets == [0x01, 0x12] + handle + [0x80])
        #expect(refused.sent(Self.measurement).isEmpty, "no record is asked for to set a clock")
        // Four minutes ahead before, and at the contact that follows.
        let reading = try #require(contacts.last)
        #expect(reading.sent(Self.measurement).count == 2 && reading.writes(to: 0x2A2B).isEmpty)
        for contact in [refused, reading] {
            let (place, octets) = try #require(contact.readings(of: 0x2A2B).first)
            let shown = try #require(try CurrentTime(decoding: octets).wallTime)
            let difference = shown.secondsSinceEpoch - (try wallTime(at: contact.pdus[place].time)).secondsSinceEpoch
            #expect(abs(difference - 240) <= 2)
        }
    }

    // MARK: Glucose meters

    @Test("records from a number on are never asked of a TaiDoc: all come each time, and each is one reading")
    func readsAll() async throws {
        let conversation = try RecordedConversation("quirks-reads-all")
        let taidoc = conversation.contacts.filter { $0.address?.description == Self.taidoc }
        let asked = taidoc.map { $0.written(to: Self.controlPoint) }.filter { !$0.isEmpty }
        #expect(asked == [[[4, 1], [1, 1]], [[4, 1], [1, 1]]])
        #expect(taidoc.map { $0.sent(0x2A18).count }.filter { $0 > 0 } == [3, 4])
        let replayed = try await replay(["quirks-reads-all", "quirks-reads-all"])
        #expect(replayed.new.map(\.count) == [8, 0])
        #expect(replayed.readings.count { $0.device.model == "taidoc_fora" } == 4)
    }

    @Test("a meter that refuses \"from a number on\" is asked for all, and each record is one reading")
    func refusesGreaterOrEqual() async throws {
        let contacts = try RecordedConversation("quirks-reads-all").contacts
        let second = try #require(contacts.last { $0.address?.description == Self.generic })
        #expect(
            second.written(to: Self.controlPoint) == [[1, 6], [4, 3, 1, 13, 0], [1, 3, 1, 13, 0], [4, 1], [1, 1]])
        #expect(
            second.sent(Self.controlPoint) == [
                [6, 0, 1, 1], [6, 0, 4, 4], [6, 0, 1, 4], [5, 0, 4, 0], [6, 0, 1, 1],
            ], "the newest; operator not supported, twice; four; all")
        let numbers = second.sent(0x2A18).map { UInt16($0[1]) | UInt16($0[2]) << 8 }
        #expect(numbers == [14, 11, 12, 13, 14])
        let replayed = try await replay(["quirks-reads-all"])
        #expect(replayed.new.map { $0.compactMap(\.record.sequence) } == [[11, 12, 13, 14]])
    }

    @Test("a clock that shows base time places records by their base time: by the user's they would be an hour late")
    func clockShowsBaseTime() async throws {
        let contacts = try RecordedConversation("quirks-reads-all").contacts
        let meter = contacts.filter {
            $0.address?.description == Self.generic && !$0.readings(of: 0x2A2B).isEmpty
        }
        #expect(meter.count == 2)
        for contact in meter {
            // Its user sees the wall's time, which the records' offset tells; its clock says an hour less.
            let (place, octets) = try #require(contact.readings(of: 0x2A2B).first)
            let shown = try #require(try CurrentTime(decoding: octets).wallTime)
            let difference = shown.secondsSinceEpoch - (try wallTime(at: contact.pdus[place].time)).secondsSinceEpoch
            #expect(abs(difference + 3600) <= 2)
            #expect(try contact.sent(0x2A18).allSatisfy { try GlucoseMeasurement(decoding: $0).timeOffset == 60 })
        }
        let odd = DeviceModel(
            id: "base_clock", brand: "Example", name: "GM-1", kinds: [.glucose], names: [.prefix("TestGlucose2")],
            services: [0x1808], provider: "manual", pairing: .any, quirks: [.clockShowsBaseTime])
        let plain = Catalogue()
        for (catalogue, times) in [
            (Catalogue(models: [odd]), ["06:05:00Z", "12:15:00Z", "06:02:00Z", "12:30:00Z"]),
            (plain, ["07:05:00Z", "13:15:00Z", "07:02:00Z", "13:30:00Z"]),
        ] {
            let replayed = try await replay(["quirks-reads-all"], catalogue: catalogue)
            let readings = replayed.new.flatMap(\.self).filter { $0.device.serial == "GM1-0043" }
            #expect(readings.compactMap { $0.time.instant?.description.suffix(9).description } == times)
            #expect(readings.allSatisfy { $0.time.basis == .corrected })
        }
    }

    // MARK: OneTouch

    @Test("OneTouch: one question for each record, by numbers that its answers do not carry")
    func oneTouchProtocol() throws {
        let contact = try #require(try RecordedConversation("quirks-onetouch").contacts.last)
        let asked = try contact.written(to: OneTouch.questions).filter { $0 != OneTouch.acknowledgement }
            .map { try OneTouchFrame(decoding: $0).payload }
        let questions: [OneTouchQuestion] = [.time, .newest, .count] + (31...35).map { .record($0) }
        #expect(asked == questions.map(\.payload))
        let answers = contact.sent(OneTouch.answers).filter { $0 != OneTouch.acknowledgement }
        #expect(answers.count == 8 && contact.handles[Self.controlPoint] == nil && contact.handles[0x2A18] == nil)
        // Each answer is acknowledged before the next question.
        let places = contact.sends(OneTouch.answers).filter {
            contact.pdus[$0].value != OneTouch.acknowledgement
        }
        for place in places {
            let next = try #require(contact.writes(to: OneTouch.questions).first { $0 > place })
            #expect(contact.pdus[next].value == OneTouch.acknowledgement)
        }
    }

    @Test(
        "promise 2: OneTouch: a second replay brings nothing, a later capture what is new, each record with its number")
    func oneTouchReplay() async throws {
        let captures = ["quirks-onetouch", "quirks-onetouch", "onetouch-second-delivery", "onetouch-second-delivery"]
        let replayed = try await replay(captures)
        #expect(replayed.new.map { $0.compactMap(\.record.sequence) } == [[31, 32, 33, 34, 35], [], [36, 37], []])
        #expect(replayed.readings.count == 7)
        for reading in replayed.readings {
            // The lab's values: number 31 is 91 mg/dL at 08:31, and so on.
            let number = try #require(reading.record.sequence)
            guard case .glucose(let value) = reading.record.value else { continue }
            #expect(
                value.concentration == Quantity(ExactDecimal(significand: Int64(number) + 60), .milligramsPerDecilitre))
            #expect(reading.record.baseTime == WallTime("2026-11-20T08:\(number):00"))
        }
    }
}

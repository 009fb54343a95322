import Foundation
import GRDB
import HealthReadings
import Testing

@testable import ReadingStore

@Suite("Erasing a person")
struct ErasureTests {
    /// Whether the octets stand anywhere in the files of a store.
    static func contains(_ octets: [UInt8], in directory: String) throws -> Bool {
        try FileManager.default.contentsOfDirectory(atPath: directory).contains { name in
            let data = try Data(contentsOf: URL(fileURLWithPath: directory + "/" + name))
            return data.range(of: Data(octets)) != nil
        }
    }

    /// A frame that is kept as it came and that nobody could mistake: a malformed one of the given filling.
    static func mark(_ number: Int, filling: UInt8) -> Frame {
        // Numbers out of order make pages of the index over payloads split, and leave octets behind in the halves.
        let scattered = UInt16(truncatingIfNeeded: number &* 40_503)
        return Frame(
            format: FrameFormat(characteristic: 0x2A18),
            payload: [UInt8(scattered >> 8), UInt8(scattered & 255)] + [UInt8](repeating: filling, count: 24),
            receivedAt: Build.instant("2026-11-21T10:00:00Z"), ordinal: number)
    }

    @Test("no octet of an erased person's frames is left in any file of the store")
    func octets() async throws {
        let harness = try await Harness(encryption: .off())
        let marked = [UInt8](repeating: 0xA7, count: 16)
        for round in 0..<4 {
            try await harness.contact((0..<500).map { Self.mark(round * 500 + $0, filling: 0xA7) })
        }
        try await harness.contact((1...200).map { Build.glucose(UInt16($0), "2026-11-20T12:30:00", 95, ordinal: $0) })
        #expect(try Self.contains(marked, in: harness.directory))
        let person = try await harness.store.currentUser()
        #expect(try Self.contains(Array("white_bear".utf8), in: harness.directory))

        let before = try await harness.store.statistics()
        let erasure = try await harness.store.eraseUser(person.key)
        #expect(erasure.readings == before.readings.values.reduce(0, +) && erasure.readings >= 200)
        #expect(erasure.frames == before.frames && erasure.frames >= 2200 && erasure.contacts == before.contacts)
        #expect(try !Self.contains(marked, in: harness.directory))
        #expect(try !Self.contains(Array("white_bear".utf8), in: harness.directory))
        let statistics = try await harness.store.statistics()
        #expect(statistics.readings.isEmpty && statistics.frames == 0 && statistics.contacts == 0)
        #expect(statistics.waiting == 0 && statistics.waitingContexts == 0)
        #expect(try await harness.store.verify().isEmpty)
    }

    @Test("no row of an erased person is left in any table, and nothing that was noted of them is in any file")
    func everything() async throws {
        let harness = try await Harness(encryption: .off())
        let store = harness.store
        let user = try await store.currentUser().key
        try await SealingTests.fill(harness)
        try await store.enter(EntryTests.entry("5.6", note: "before breakfast"))
        try await store.add([ImportTests.weight("155.4", at: 0)])
        let first = try #require(try await harness.all().first)
        try await store.leaveOut([first.id], reason: "hands not washed", by: "page")
        let share = StorePerson.Share(address: 0xC000_0000_1810, slot: 2)
        try await store.setPeople([
            StorePerson(clientUserID: "white_bear", timeZone: "Europe/Berlin", shares: [share])
        ])
        try await store.setServerUserID("5f0c7f4e-0000-4000-8000-000000000001", of: user)
        try await store.setSource(ConnectedSource(provider: "polar_ble", status: .connected), user: user)
        try await store.setZoneAtServer("Asia/Kolkata", of: user)
        try await store.setConsent(.weight, granted: false, of: user)
        try await store.subscribe(as: "tool-of-the-bear", to: ChangeScope(person: user), from: .beginning).end()
        try await store.setUnknownToServer(true, user: user, resource: .heartRate, provider: "wahoo_ble")
        try await store.setRefusedWhole(true, user: user, resource: .spo2, provider: "nonin_ble")
        try await store.reofferRefused(user: user, resource: .weight, provider: "renpho_ble")

        let noted = [
            "white_bear", "before breakfast", "device S200", "hands not washed", "a pressure of 127", "5f0c7f4e",
            "polar_ble", "Asia/Kolkata", "tool-of-the-bear", "wahoo_ble", "nonin_ble", "renpho_ble",
        ]
        for words in noted { #expect(try Self.contains(Array(words.utf8), in: harness.directory), "\(words)") }
        try await store.eraseUser(user)
        for words in noted { #expect(try !Self.contains(Array(words.utf8), in: harness.directory), "\(words)") }
        let tables = try await store.read { db in
            try String.fetchAll(db, sql: "SELECT name FROM sqlite_schema WHERE type = 'table'").filter { table in
                try db.columns(in: table).contains { $0.name == "user" }
            }
        }
        #expect(tables.count > 9, "\(tables)")
        for table in tables {
            let rows = try await store.read { db in
                try Int.fetchOne(db, sql: "SELECT count(*) FROM \(table) WHERE user = ?", arguments: [user.rawValue])
            }
            #expect(rows == 0, "\(table)")
        }
        #expect(try await store.verify().isEmpty)
    }

    @Test("devices stay known without a bond, and the current user has no name")
    func whatStays() async throws {
        let harness = try await Harness()
        try await harness.contact([Build.glucose(1, "2026-11-20T12:30:00"), Build.context(1, meal: 3)])
        try await harness.store.notePairing(of: Build.device(), as: .proven)
        let person = try await harness.store.currentUser()
        try await harness.store.setSource(
            ConnectedSource(provider: "accuchek_ble", status: .connected), user: person.key)
        try await harness.store.eraseUser(person.key)
        let device = try #require(try await harness.store.devices().first)
        #expect(!device.isPaired && !device.isProven && device.readings == 0 && device.lastSequence == nil)
        #expect(device.description.address == Build.device().address)
        let current = try await harness.store.currentUser()
        #expect(current.clientUserID.isEmpty && current.serverUserID == nil && current.timeZone == "Europe/Berlin")
        #expect(try await harness.store.users().count == 1)
        #expect(try await harness.store.sources(user: current.key).isEmpty)
        await #expect(throws: StoreError.unknown("user 999")) {
            try await harness.store.eraseUser(UserKey(rawValue: 999))
        }
        // Read again, it is a reading like any other.
        #expect(try await harness.contact([Build.glucose(1, "2026-11-20T12:30:00")]).map(\.name) == ["new"])
        #expect(try await harness.store.verify().isEmpty)
    }

    @Test("an erased person's devices are barred: no bond that is found, only pairing on purpose lifts it")
    func barred() async throws {
        let harness = try await Harness()
        let (mine, other) = (Build.device(), Build.device(0xC000_0000_1809))
        try await harness.store.notePairing(of: mine, as: .proven)
        try await harness.contact([Build.glucose(1, "2026-11-20T12:30:00")])
        try await harness.store.eraseUser(harness.store.currentUser().key)
        try await harness.store.notePairing(of: other, as: .paired)
        // What reconciling the bonds and a contact do.
        try await harness.store.notePairing(of: mine, as: .proven)
        try await harness.store.notePairing(of: mine, as: .paired)
        #expect(try await harness.store.pairings().map(\.isBarred) == [true, false])
        #expect(try await harness.store.pairings().map(\.state) == [.unpaired, .paired])
        #expect(try await harness.store.devices().map(\.isBarred) == [true, false])
        try await harness.store.notePairing(of: mine, as: .unpaired)
        #expect(try await harness.store.pairings()[0].isBarred)
        try await harness.store.admit(mine, as: .paired)
        try await harness.store.notePairing(of: mine, as: .proven)
        #expect(try await harness.store.pairings().map(\.isBarred) == [false, false])
        #expect(try await harness.store.pairings().map(\.state) == [.proven, .paired])
    }

    @Test("two addresses that turn out to be one device are barred where either was, until it is paired")
    func barredUnderAnotherAddress() async throws {
        let harness = try await Harness()
        var (old, new) = (Build.device(), Build.device(0xC000_0000_1809))
        (old.serial, new.serial) = ("00001808", nil)
        try await harness.store.notePairing(of: old, as: .proven)
        try await harness.store.eraseUser(harness.store.currentUser().key)
        try await harness.store.notePairing(of: new, as: .proven)
        new.serial = old.serial
        try await harness.contact([], device: new)
        let pairing = try #require(try await harness.store.pairings().first)
        #expect(pairing.isBarred && pairing.state == .unpaired && pairing.addresses.count == 2)
        try await harness.store.admit(new, as: .proven)
        #expect(try await harness.store.pairings().map(\.state) == [.proven])
        #expect(try await harness.store.pairings().map(\.isBarred) == [false])
    }

    @Test("another person's readings stay whole, also those whose meter was read again meanwhile")
    func others() async throws {
        // Sealed, the octets that have to go would be in no file in any case.
        let harness = try await Harness(encryption: .off())
        let first = try await harness.store.currentUser()
        try await harness.contact([Build.glucose(1, "2026-11-20T12:30:00"), Build.context(1, meal: 3)])
        try await harness.store.setCurrentUser("brown_bear", timeZone: "UTC")
        let second = try await harness.store.currentUser()
        // The same meter, read for the other: a second frame of the first one's record, and a record of one's own.
        try await harness.contact(
            [Build.glucose(1, "2026-11-20T12:30:00", offset: 5), Build.glucose(2, "2026-11-20T13:30:00", 101)],
            at: "2026-11-21T10:59:00Z")
        try await harness.contact(
            [Self.mark(1, filling: 0xB3)], device: Build.device(0xC000_0000_1809), at: "2026-11-21T11:00:00Z")
        #expect(try Self.contains([UInt8](repeating: 0xB3, count: 16), in: harness.directory))

        try await harness.store.eraseUser(second.key)
        #expect(try await harness.all().map(\.record.sequence) == [1])
        #expect(try await harness.store.verify().isEmpty)
        #expect(try !Self.contains([UInt8](repeating: 0xB3, count: 16), in: harness.directory))
        let current = try await harness.store.currentUser()
        #expect(current.clientUserID.isEmpty)
        try await harness.store.eraseUser(first.key)
        #expect(try await harness.all().isEmpty)
        #expect(try await harness.store.currentUser().key == current.key)
        #expect(try await harness.store.statistics().frames == 0)
        #expect(try await harness.store.verify().isEmpty)
    }

    @Test("a contact that goes on while its person is erased ends with an error, and keeps nothing")
    func ongoing() async throws {
        let harness = try await Harness()
        let contact = try await harness.store.beginContact(
            with: Build.device(), at: Build.instant("2026-11-21T09:59:00Z"), clock: nil, batteryPercent: nil)
        _ = try await harness.store.append([Build.glucose(1, "2026-11-20T12:30:00")], of: contact)
        try await harness.store.eraseUser(harness.store.currentUser().key)
        await #expect(throws: StoreError.self) {
            try await harness.store.append([Build.glucose(2, "2026-11-20T13:30:00")], of: contact)
        }
        #expect(try await harness.store.statistics().frames == 0)
    }

    @Test("devices of others keep their bond: those assigned to them, and those they used last")
    func pairings() async throws {
        let harness = try await Harness()
        let addresses: [UInt64] = [0xC000_0000_1801, 0xC000_0000_1802, 0xC000_0000_1803]
        for address in addresses {
            try await harness.store.notePairing(of: Build.device(address), as: .proven)
        }
        let first = try await harness.store.currentUser()
        try await harness.contact([Build.glucose(1, "2026-11-20T12:30:00")], device: Build.device(addresses[0]))
        try await harness.contact([Build.glucose(2, "2026-11-20T12:30:00")], device: Build.device(addresses[1]))
        try await harness.store.setCurrentUser("brown_bear", timeZone: "UTC")
        let second = try await harness.store.currentUser()
        try await harness.contact([Build.glucose(3, "2026-11-20T12:30:00")], device: Build.device(addresses[1]))
        // The first is no longer current: what nobody is assigned to belongs to the second.
        try await harness.store.eraseUser(first.key)
        #expect(try await harness.store.devices().map(\.isPaired) == [true, true, true])
        try await harness.store.setCurrentUser("black_bear", timeZone: "UTC")
        try await harness.contact([Build.glucose(4, "2026-11-20T12:30:00")], device: Build.device(addresses[0]))
        try await harness.store.eraseUser(harness.store.currentUser().key)
        // The third was never used: it was the current user's, who is gone.
        #expect(try await harness.store.devices().map(\.isPaired) == [false, true, false])
        try await harness.store.eraseUser(second.key)
        #expect(try await harness.store.devices().map(\.isPaired) == [false, true, false])
    }

    @Test(
        "a meter of which a person has a slot, or all, is barred with them: its memory still has their records",
        arguments: [nil, 2] as [UInt8?])
    func shares(slot: UInt8?) async throws {
        let harness = try await Harness()
        let store = harness.store
        let (cuff, other) = (Build.device(0xC000_0000_1810), Build.device(0xC000_0000_1811))
        for device in [cuff, other] { try await store.notePairing(of: device, as: .proven) }
        try await store.setPeople([
            StorePerson(
                clientUserID: "brown_bear", timeZone: "UTC", shares: [.init(address: 0xC000_0000_1810, slot: slot)])
        ])
        try await harness.contact([Build.pressure(127, "2026-11-21T08:00:00", user: 2)], device: cuff)
        #expect(try await harness.all().map(\.person) == ["brown_bear"])
        // With a slot, the contact was the current person's.
        let brown = try #require(try await store.user("brown_bear"))
        try await store.eraseUser(brown.key)
        #expect(try await store.pairings().map(\.isBarred) == [true, false])
        // A bond that is found lifts nothing.
        try await store.notePairing(of: cuff, as: .proven)
        #expect(try await store.pairings().map(\.state) == [.unpaired, .proven])
        #expect(try await store.verify().isEmpty)
    }

    @Test("a meter that is another person's whole stays paired, unless it measured the one who is erased before")
    func othersWhole() async throws {
        let harness = try await Harness()
        let store = harness.store
        let addresses: [UInt64] = [0xC000_0000_1810, 0xC000_0000_1811, 0xC000_0000_1812]
        let devices = addresses.map { Build.device($0) }
        for device in devices { try await store.notePairing(of: device, as: .proven) }
        // One of them has a reading of the current person, and one had, which was pruned.
        try await harness.contact([Build.pressure(127, "2026-11-21T07:00:00")], device: devices[2])
        try await PruneTests.deliver(store)
        try await store.prune(olderThan: .zero)
        try await harness.contact([Build.pressure(128, "2026-11-21T07:30:00")], device: devices[1])
        let shares = addresses.map { StorePerson.Share(address: $0, slot: nil) }
        try await store.setPeople([StorePerson(clientUserID: "brown_bear", timeZone: "UTC", shares: shares)])
        for device in devices {
            try await harness.contact(
                [Build.pressure(118, "2026-11-21T08:00:00")], device: device, at: "2026-11-21T10:59:00Z")
        }
        try await store.eraseUser(store.currentUser().key)
        #expect(try await store.pairings().map(\.isBarred) == [false, true, true])
        #expect(try await store.pairings().map(\.state) == [.proven, .unpaired, .unpaired])
        #expect(try await harness.all().map(\.person) == ["brown_bear", "brown_bear", "brown_bear"])
        #expect(try await store.verify().isEmpty)
    }

    @Test("what made no reading goes with the person whose the meter is whole, and not with the current one")
    func framesOfWhole() async throws {
        let harness = try await Harness(encryption: .off())
        let store = harness.store
        let address: UInt64 = 0xC000_0000_1810
        try await store.setPeople([
            StorePerson(clientUserID: "brown_bear", timeZone: "UTC", shares: [.init(address: address, slot: nil)])
        ])
        try await harness.contact([Self.mark(1, filling: 0xC5)], device: Build.device(address))
        let marked = [UInt8](repeating: 0xC5, count: 16)
        try await store.eraseUser(store.currentUser().key)
        #expect(try await store.statistics().frames == 1)
        #expect(try Self.contains(marked, in: harness.directory))
        let brown = try #require(try await store.user("brown_bear"))
        try await store.eraseUser(brown.key)
        #expect(try await store.statistics().frames == 0)
        #expect(try !Self.contains(marked, in: harness.directory))
        #expect(try await store.verify().isEmpty)
    }

    @Test("numbers are never given twice: a reader that goes on does not write into the next contact")
    func numbers() async throws {
        let harness = try await Harness()
        let person = try await harness.store.currentUser()
        func begin() async throws -> Contact {
            try await harness.store.beginContact(
                with: Build.device(), at: Build.instant("2026-11-21T09:59:00Z"), clock: nil, batteryPercent: nil)
        }
        let old = try await begin()
        try await harness.store.eraseUser(person.key)
        let new = try await begin()
        #expect(new.id > old.id)
        await #expect(throws: StoreError.self) {
            try await harness.store.append([Build.glucose(1, "2026-11-20T12:30:00")], of: old)
        }
        #expect(try await harness.all().isEmpty)
        #expect(try await harness.store.currentUser().key.rawValue > person.key.rawValue)
    }

    @Test("whoever follows the readings is told, and an erased person can be erased again")
    func followers() async throws {
        let harness = try await Harness()
        try await harness.contact([Build.glucose(1, "2026-11-20T12:30:00")])
        let batches = harness.store.committedReadings()
        try await harness.store.eraseUser(harness.store.currentUser().key)
        #expect(await batches.first { _ in true }?.isEmpty == true)
        let again = try await harness.store.eraseUser(harness.store.currentUser().key)
        #expect(again == Erasure())
        #expect(try await harness.store.users().count == 1)
    }
}

#if DEBUG && compiler(>=6.3)  // Earlier exit tests capture nothing.
    @Suite("Death while a person is erased")
    struct ErasureCrashTests {
        static func work(_ directory: String) async throws {
            let harness = try await Harness(directory, encryption: .off())
            try await harness.contact((0..<500).map { ErasureTests.mark($0, filling: 0xA7) })
            try await harness.contact([Build.glucose(1, "2026-11-20T12:30:00")])
            try await harness.store.notePairing(of: Build.device(), as: .proven)
            // Into the file, where octets outlast their rows.
            try harness.store.close()
        }

        static func erase(_ directory: String) async throws {
            let harness = try await Harness(directory, encryption: .off())
            try await harness.store.eraseUser(harness.store.currentUser().key)
        }

        @Test(
            "promise 10: killed before the commit everything is there; after it, opening the store writes its files anew",
            arguments: ["erase.before-commit", "erase.after-commit"])
        func kill(point: String) async throws {
            let directory = Harness.newDirectory()
            try await Self.work(directory)
            await #expect(processExitsWith: .signal(SIGKILL)) {
                [directory = directory as String, point = point as String] in
                setenv("HEALTHRELAY_CRASH_AT", point, 1)
                try await ErasureCrashTests.erase(directory)
            }
            let store = try await Harness.open(directory, encryption: .off())
            let isErased = point == "erase.after-commit"
            #expect(try await store.statistics().frames == (isErased ? 0 : 501))
            // Barred with the erasing or not at all: a bond that is found at the next start lifts nothing.
            try await store.notePairing(of: Build.device(), as: .paired)
            #expect(try await store.pairings().map(\.isBarred) == [isErased])
            #expect(try await store.pairings().map(\.state.isPaired) == [!isErased])
            #expect(try await store.verify().isEmpty)
            try store.close()
            #expect(try ErasureTests.contains([UInt8](repeating: 0xA7, count: 16), in: directory) == !isErased)
        }
    }
#endif

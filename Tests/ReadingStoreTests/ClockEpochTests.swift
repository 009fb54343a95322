import HealthReadings
import Testing

@testable import ReadingStore

/// What is known of a device's clock across contacts, changes of its user's zone, and changes of the clock.
@Suite struct ClockEpochTests {
    /// A contact at an instant, in which the device's clock shows a wall time.
    @discardableResult
    private func contact(_ harness: Harness, _ instant: String, shows wall: String, _ frames: [Frame] = []) async throws
        -> [FrameOutcome]
    {
        try await harness.contact(
            frames, at: instant, clock: ClockReading(deviceTime: Build.wall(wall), readAt: Build.instant(instant)))
    }

    private func time(_ harness: Harness, of sequence: UInt16) async throws -> String? {
        try await harness.all().first { $0.record.sequence == sequence }?.time.instant?.description
    }

    private func drift(_ harness: Harness) async throws -> Double {
        try #require(await harness.store.devices().first?.driftPartsPerMillion)
    }

    @Test("drift is told across whole minutes, and across a change of the user's zone")
    func drift() async throws {
        let harness = try await Harness()
        // 140, 155 and 170 seconds ahead: two minutes, then three.
        try await contact(harness, "2026-11-01T09:00:00Z", shows: "2026-11-01T10:02:20")
        try await contact(harness, "2026-11-11T09:00:00Z", shows: "2026-11-11T10:02:35")
        #expect(abs(try await drift(harness) - 17.4) < 0.1)
        try await contact(harness, "2026-11-21T09:00:00Z", shows: "2026-11-21T10:02:50")
        #expect(abs(try await drift(harness) - 17.4) < 0.1)
        // From the 21st on the user lives in India, and the meter's clock goes on as before.
        try await harness.store.setCurrentUser("white_bear", timeZone: "Asia/Kolkata")
        try await contact(harness, "2026-12-01T09:00:00Z", shows: "2026-12-01T10:03:05")
        #expect(abs(try await drift(harness) - 17.4) < 0.1)
        #expect(try await harness.store.devices().first?.clock?.differenceSeconds == 185 - 16_200)
        // Set: what it did before says nothing any more.
        try await contact(harness, "2026-12-02T09:00:00Z", shows: "2026-12-02T14:30:00")
        #expect(try await harness.store.devices().first?.driftPartsPerMillion == nil)
    }

    @Test("drift is told across the end of summer time, which the device does not follow")
    func driftInAutumn() async throws {
        let harness = try await Harness()
        try await contact(harness, "2026-10-20T09:00:00Z", shows: "2026-10-20T11:00:00")
        try await contact(harness, "2026-10-30T09:00:00Z", shows: "2026-10-30T11:00:09")
        #expect(abs(try await drift(harness) - 10.4) < 0.1)
    }

    @Test(
        "a record made before a reset is placed by the clock before it, also where that has drifted on by a minute since"
    )
    func lateRecordAfterDrift() async throws {
        let harness = try await Harness()
        try await contact(harness, "2026-11-01T09:00:00Z", shows: "2026-11-01T10:00:00")
        // Reset to 2020, and cut before it has sent what it has; a minute of drift later it sends that.
        try await contact(harness, "2026-11-10T09:00:00Z", shows: "2020-01-01T00:30:00")
        try await contact(
            harness, "2026-11-20T09:00:00Z", shows: "2020-01-11T00:31:00",
            [
                Build.glucose(1, "2026-11-05T08:00:00", at: "2026-11-20T09:00:01Z"),
                Build.glucose(2, "2020-01-05T00:30:00", at: "2026-11-20T09:00:01Z"),
            ])
        #expect(try await time(harness, of: 1) == "2026-11-05T07:00:00Z")
        #expect(try await time(harness, of: 2) == "2026-11-14T08:59:00Z")
    }

    @Test("a change of the user's zone is no change of the clock: records from before are placed where they were made")
    func zoneChange() async throws {
        let harness = try await Harness()
        try await contact(harness, "2026-11-01T09:00:00Z", shows: "2026-11-01T10:00:00")
        try await harness.store.setCurrentUser("white_bear", timeZone: "Asia/Kolkata")
        try await contact(
            harness, "2026-11-22T09:00:00Z", shows: "2026-11-22T10:00:00",
            [
                Build.glucose(1, "2026-11-01T06:00:00", at: "2026-11-22T09:00:01Z"),
                Build.glucose(2, "2026-11-22T09:30:00", at: "2026-11-22T09:00:01Z"),
            ])
        #expect(try await time(harness, of: 1) == "2026-11-01T05:00:00Z")
        #expect(try await time(harness, of: 2) == "2026-11-22T08:30:00Z")
    }

    @Test("a clock that was set to the user's new zone was changed, though it is right as before")
    func zoneAndClockChange() async throws {
        let harness = try await Harness()
        try await contact(harness, "2026-11-01T09:00:00Z", shows: "2026-11-01T10:00:00")
        try await harness.store.setCurrentUser("white_bear", timeZone: "Asia/Kolkata")
        try await contact(
            harness, "2026-11-22T09:00:00Z", shows: "2026-11-22T14:30:00",
            [
                Build.glucose(1, "2026-11-01T06:00:00", at: "2026-11-22T09:00:01Z"),
                Build.glucose(2, "2026-11-22T14:00:00", at: "2026-11-22T09:00:01Z"),
            ])
        #expect(try await time(harness, of: 1) == "2026-11-01T05:00:00Z")
        #expect(try await time(harness, of: 2) == "2026-11-22T08:30:00Z")
    }

    @Test("a clock that cannot be read after its user's zone has changed is still where it was")
    func zoneChangeUnread() async throws {
        let harness = try await Harness()
        try await contact(harness, "2026-11-01T09:00:00Z", shows: "2026-11-01T10:10:00")
        try await harness.store.setCurrentUser("white_bear", timeZone: "Asia/Kolkata")
        try await harness.contact(
            [Build.glucose(1, "2026-11-22T09:40:00", at: "2026-11-22T09:00:01Z")], at: "2026-11-22T09:00:00Z")
        #expect(try await time(harness, of: 1) == "2026-11-22T08:30:00Z")
    }

    @Test("a clock that was reset twice, and cut both times, has its record of before placed by the clock of before")
    func resetTwice() async throws {
        let harness = try await Harness()
        try await contact(harness, "2026-11-01T09:00:00Z", shows: "2026-11-01T10:00:00")
        try await contact(harness, "2026-11-10T09:00:00Z", shows: "2020-01-01T00:30:00")
        try await contact(
            harness, "2026-11-20T09:00:00Z", shows: "2020-01-01T00:20:00",
            [Build.glucose(1, "2026-11-05T08:00:00", at: "2026-11-20T09:00:01Z")])
        #expect(try await time(harness, of: 1) == "2026-11-05T07:00:00Z")
        #expect(try await harness.all().first?.excluded == nil)
    }

    @Test(
        "promise 7: what was measured before a battery change keeps its clock, though the clock was set before it is read"
    )
    func setAfterReset() async throws {
        let harness = try await Harness()
        // 37 minutes fast; then its battery is changed, and the owner has it set, which reads it before and after.
        try await contact(harness, "2026-11-01T09:00:00Z", shows: "2026-11-01T10:37:00")
        for (instant, wall) in [
            ("2026-11-10T09:00:00Z", "2000-01-01T00:05:00"), ("2026-11-10T09:00:05Z", "2026-11-10T10:00:05"),
        ] {
            try await contact(harness, instant, shows: wall)
        }
        try await contact(
            harness, "2026-11-10T10:00:00Z", shows: "2026-11-10T11:00:00",
            [
                Build.glucose(1, "2026-11-05T08:37:00", at: "2026-11-10T10:00:01Z"),
                Build.glucose(2, "2000-01-01T00:04:00", at: "2026-11-10T10:00:01Z"),
                Build.glucose(3, "2026-11-10T10:30:00", at: "2026-11-10T10:00:01Z"),
            ])
        #expect(try await time(harness, of: 1) == "2026-11-05T07:00:00Z")
        #expect(try await time(harness, of: 2) == "2026-11-10T08:59:00Z")
        #expect(try await time(harness, of: 3) == "2026-11-10T09:30:00Z")
    }

    @Test("a clock that was compared while the gateway's was ahead tells nothing once that is known")
    func setAside() async throws {
        let harness = try await Harness()
        // Two hours ahead: the meter is right, and seems to be slow.
        try await contact(harness, "2026-11-21T12:00:00Z", shows: "2026-11-21T11:00:00")
        _ = try await harness.store.setContactsAside(after: Build.instant("2026-11-21T10:02:00Z"))
        #expect(try await harness.store.devices().first?.clock == nil)
        try await contact(
            harness, "2026-11-21T14:00:00Z", shows: "2026-11-21T15:00:00",
            [Build.glucose(1, "2026-11-21T12:00:00", at: "2026-11-21T14:00:01Z")])
        #expect(try await time(harness, of: 1) == "2026-11-21T11:00:00Z")
        #expect(try await harness.all().first?.time.uncertaintyMinutes == nil)
    }

    @Test("what still comes in a contact whose clock was compared so is not placed by that once it is known")
    func setAsideMeanwhile() async throws {
        let harness = try await Harness()
        let start = Build.instant("2026-11-21T12:00:00Z")
        // Two hours ahead: the meter is right, and seems to be slow.
        let contact = try await harness.store.beginContact(
            with: Build.device(), at: start,
            clock: ClockReading(deviceTime: Build.wall("2026-11-21T11:00:00"), readAt: start), batteryPercent: nil)
        let first = Build.glucose(1, "2026-11-21T09:00:00", at: "2026-11-21T12:00:01Z")
        _ = try await harness.store.append([first], of: contact)
        _ = try await harness.store.setContactsAside(after: Build.instant("2026-11-21T10:02:00Z"))
        let second = Build.glucose(2, "2026-11-21T09:30:00", at: "2026-11-21T10:00:02Z")
        _ = try await harness.store.append([second], of: contact)
        try await harness.store.endContact(contact, ContactSummary(isComplete: true, received: 2))
        #expect(try await time(harness, of: 1) == "2026-11-21T10:00:00Z")
        #expect(try await time(harness, of: 2) == "2026-11-21T08:30:00Z")
    }

    @Test("a time zone that was chosen while the gateway's clock was ahead is in force once that is known")
    func zoneInTheFuture() async throws {
        let directory = Harness.newDirectory()
        let ahead = try await Harness.open(directory, now: Build.instant("2030-01-01T00:00:00Z"))
        try await ahead.setCurrentUser("white_bear", timeZone: "Asia/Kolkata")
        try ahead.close()
        let harness = try await Harness(directory)
        _ = try await harness.store.setContactsAside(after: Build.instant("2026-11-21T12:02:00Z"))
        try await harness.contact(
            [Build.glucose(1, "2026-11-22T09:30:00", at: "2026-11-22T05:00:00Z")], at: "2026-11-22T05:00:00Z")
        #expect(try await time(harness, of: 1) == "2026-11-22T04:00:00Z")
    }

    @Test("a contact that was cut while the gateway's clock was ahead says nothing once that is known")
    func cutInTheFuture() async throws {
        let harness = try await Harness()
        let frame = Build.glucose(1, "2026-11-21T08:00:00")
        try await harness.contact([frame], at: "2027-11-21T09:59:00Z", isComplete: false)
        _ = try await harness.store.setContactsAside(after: Build.instant("2026-11-21T12:02:00Z"))
        func begin(_ start: String) async throws -> Contact {
            try await harness.store.beginContact(
                with: Build.device(), at: Build.instant(start), clock: nil, batteryPercent: nil)
        }
        let first = try await begin("2026-11-22T09:59:00Z")
        #expect(try await harness.store.lastRecord(of: first)?.followsCompleteTransfer == false)
        #expect(try await harness.store.previousSummary(before: first)?.isComplete == false)
        try await harness.store.endContact(first, ContactSummary(isComplete: true, received: 1))
        let second = try await begin("2026-11-23T09:59:00Z")
        #expect(try await harness.store.lastRecord(of: second)?.followsCompleteTransfer == true)
        #expect(try await harness.store.previousSummary(before: second)?.isComplete == true)
    }

    private func lead(
        _ harness: Harness, _ instant: String, shows wall: String, of device: DeviceDescription = Build.device()
    ) async throws -> Int64? {
        try await harness.store.newLead(
            ClockReading(deviceTime: Build.wall(wall), readAt: Build.instant(instant)), of: device)
    }

    @Test("a device has a new lead where it is ahead, and was not ahead by as much when its clock was last read")
    func newLead() async throws {
        let harness = try await Harness()
        #expect(try await lead(harness, "2026-11-01T08:00:00Z", shows: "2026-11-01T15:00:00") == nil, "not known")
        try await harness.contact(at: "2026-11-01T08:00:00Z")
        #expect(try await lead(harness, "2026-11-01T08:00:00Z", shows: "2026-11-01T15:00:00") == nil, "never read")
        try await contact(harness, "2026-11-01T09:00:00Z", shows: "2026-11-01T10:00:00")
        #expect(try await lead(harness, "2026-11-02T09:00:00Z", shows: "2026-11-02T16:00:00") == 21_600)
        #expect(try await lead(harness, "2026-11-02T09:00:00Z", shows: "2026-11-02T10:01:00") == 60)
        #expect(try await lead(harness, "2026-11-02T09:00:00Z", shows: "2026-11-02T04:00:00") == -21_600)
        // It was ahead by as much before.
        try await contact(harness, "2026-11-03T09:00:00Z", shows: "2026-11-03T16:00:00")
        #expect(try await lead(harness, "2026-11-04T09:00:00Z", shows: "2026-11-04T16:00:20") == 20)
        #expect(try await lead(harness, "2026-11-04T09:00:00Z", shows: "2026-11-04T17:00:00") == 3600)
        // It was behind, and is right.
        try await contact(harness, "2026-11-05T09:00:00Z", shows: "2026-11-05T01:00:00")
        #expect(try await lead(harness, "2026-11-06T09:00:00Z", shows: "2026-11-06T10:00:00") == 0)
    }

    @Test("a device that does not follow its person's clocks to winter time, or into another zone, has no new lead")
    func noNewLead() async throws {
        let harness = try await Harness()
        try await contact(harness, "2026-10-20T09:00:00Z", shows: "2026-10-20T11:00:00")
        #expect(try await lead(harness, "2026-10-30T09:00:00Z", shows: "2026-10-30T11:00:00") == 0)
        try await contact(harness, "2026-11-20T09:00:00Z", shows: "2026-11-20T10:00:00")
        try await harness.store.setCurrentUser("white_bear", timeZone: "America/New_York")
        #expect(try await lead(harness, "2026-12-01T09:00:00Z", shows: "2026-12-01T10:00:00") == 0)
        #expect(try await lead(harness, "2026-12-01T09:00:00Z", shows: "2026-12-01T16:00:00") == 21_600)
    }

    @Test("a device is known by its serial number under another address, and has the clock that it had")
    func newLeadOfAlias() async throws {
        let harness = try await Harness()
        let (first, second) = (
            Build.device(serial: "SN1808"), Build.device(0xC000_0000_1809, serial: "SN1808")
        )
        try await harness.contact(
            device: first, at: "2026-11-01T09:00:00Z",
            clock: ClockReading(
                deviceTime: Build.wall("2026-11-01T10:00:00"), readAt: Build.instant("2026-11-01T09:00:00Z")))
        #expect(
            try await lead(harness, "2026-11-02T09:00:00Z", shows: "2026-11-02T16:00:00", of: second) == 21_600)
        // Paired anew, under the address alone.
        try await harness.store.notePairing(of: Build.device(0xC000_0000_1809), as: .paired)
        #expect(
            try await lead(harness, "2026-11-02T09:00:00Z", shows: "2026-11-02T16:00:00", of: second) == 21_600)
        #expect(try await harness.store.devices().count == 2, "looking for it joins nothing")
    }

    @Test("a meter that is one person's whole, and whose clock cannot be read, shows that person's time")
    func zoneOfWhole() async throws {
        let harness = try await Harness()
        let address = try #require(Build.device().address)
        try await harness.store.setPeople([
            StorePerson(
                clientUserID: "brown_bear", timeZone: "America/New_York",
                shares: [.init(address: address.bits, slot: nil)])
        ])
        try await harness.contact([Build.glucose(1, "2026-11-20T09:30:00")])
        #expect(try await time(harness, of: 1) == "2026-11-20T14:30:00Z")
    }
}

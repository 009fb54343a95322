import DeviceReports
import GATTClient
import GATTProfiles
import HealthDevices
import HealthReadings
import Testing

/// Reports of the devices in the repository's captures: what they keep, and what they don't.
@Suite(.timeLimit(.minutes(5))) struct ReportTests {
    @Test(
        "a report that is replayed brings as many readings, with the same flags, digits and order",
        arguments: Recorded.names)
    func structure(_ name: String) async throws {
        for (number, contact) in try await Recorded.contacts(name).enumerated() {
            let report = ModelReport.made(of: contact.exchange, seed: UInt64(number) + 1)
            let again = try ModelReport(reading: Array(report.document.text.utf8))
            #expect(again == report, "\(name): what is read back is not what was written")
            // The exchange itself is whole: replayed as it is, it brings what the capture brought.
            let plain = try await Recorded.replay(contact.exchange, model: Recorded.model(name))
            #expect(plain.shapes == contact.brought.shapes, "\(name), contact \(number), plain")
            let brought = try await Recorded.replay(again.exchange, model: Recorded.model(name))
            #expect(brought.shapes == contact.brought.shapes, "\(name), contact \(number)")
            #expect(brought.malformed == contact.brought.malformed, "\(name), contact \(number)")
            // One number may be the same by chance, and all of several not.
            if brought.numbers.count > 2 { #expect(brought.numbers != contact.brought.numbers, "\(name)") }
        }
    }

    @Test(
        "of a report's steps kinds, handles, lengths and refusals stay; short times between records too",
        arguments: Recorded.names)
    func steps(_ name: String) async throws {
        for contact in try await Recorded.contacts(name) {
            let made = ModelReport.made(of: contact.exchange, seed: 7).exchange
            #expect(made.characteristics == contact.exchange.characteristics)
            #expect(made.steps.count == contact.exchange.steps.count)
            for (one, other) in zip(contact.exchange.steps, made.steps) {
                #expect(one.milliseconds == other.milliseconds && one.action.handle == other.action.handle)
                #expect(one.action.octets?.count == other.action.octets?.count)
                guard let handle = one.action.handle, let old = one.action.octets, let new = other.action.octets,
                    contact.exchange.characteristic(handle)?.uuid == 0x2A18, old.count >= 13
                else { continue }
                // Flags and number; exponent, type and location.
                #expect(old.prefix(3) == new.prefix(3))
                let place = 10 + (old[0] & 1 != 0 ? 2 : 0)
                if old[0] & 2 != 0, old.count >= place + 3 {
                    #expect(old[place + 1] & 0xF0 == new[place + 1] & 0xF0 && old[place + 2] == new[place + 2])
                }
            }
        }
        for contact in try await Recorded.contacts(name) {
            let made = ModelReport.made(of: contact.exchange, seed: 8).exchange
            let brought = try await Recorded.replay(made, model: Recorded.model(name))
            func gaps(_ readings: [Reading]) -> [Int64] {
                let times = readings.compactMap { $0.record.baseTime?.secondsSinceEpoch }.filter { $0 > 1_400_000_000 }
                    .sorted()
                return zip(times, times.dropFirst()).map { $1 - $0 }
            }
            // A maker's minutes are rounded down after they were moved. More than an hour becomes more than an hour.
            func isKept(_ old: Int64, _ new: Int64) -> Bool {
                old <= 3660 && abs(old - new) <= 60 || old > 3540 && new >= 3540
            }
            let (old, new) = (gaps(contact.brought.readings), gaps(brought.readings))
            #expect(old.count == new.count && zip(old, new).allSatisfy(isKept), "\(name): \(old), \(new)")
        }
    }

    @Test("no value, name, serial number, address or time survives", arguments: Recorded.names)
    func secrets(_ name: String) async throws {
        for contact in try await Recorded.contacts(name) {
            let report = ModelReport.made(of: contact.exchange, seed: 3)
            let text = report.document.text
            let seen = report.lines.joined(separator: "\n")
            var secrets: [String] = []
            if let address = contact.exchange.advertisement.address {
                let octets = (0..<6).map { UInt8(truncatingIfNeeded: address.bits >> (8 * $0)) }
                secrets += [address.description, octets.hexadecimal(), Array(octets.reversed()).hexadecimal()]
            }
            for reading in contact.brought.readings {
                if let serial = reading.device.serial, serial.count > 3, serial.contains(where: { $0 != "0" }) {
                    secrets += [serial, Array(serial.utf8).hexadecimal()]
                }
                if let time = reading.record.baseTime, time.date.year >= 2010 {
                    secrets.append(DateTime(time).encoded.hexadecimal())
                }
            }
            for step in contact.exchange.steps {
                guard case .value(let handle, let octets) = step.action, octets.count >= 10,
                    let uuid = contact.exchange.characteristic(handle)?.uuid,
                    [0x2A18, 0x2A35, 0x2AA7].contains(uuid)
                else { continue }
                // A record without a number and without a time has nothing to hide.
                let hasTime = uuid == 0x2A18 ? octets[3..<10].contains { $0 != 0 } : octets.count > 10
                if hasTime { secrets.append(octets.hexadecimal()) }
            }
            for secret in Set(secrets) {
                #expect(!text.contains(secret) && !seen.contains(secret), "\(name): \(secret)")
            }
        }
    }

    @Test("two reports of a device have no value in common")
    func different() async throws {
        let contact = try #require(try await Recorded.contacts("glucose-first-delivery").first)
        let reports = (0..<2).map { _ in Anonymiser().anonymous(contact.exchange).exchange }
        #expect(reports[0].start != reports[1].start && reports[0].advertisement != reports[1].advertisement)
        func values(_ exchange: Exchange) -> Set<[UInt8]> {
            Set(
                exchange.steps.compactMap { step in
                    if case .value(_, let octets) = step.action, octets.count > 12 { octets } else { nil }
                })
        }
        #expect(values(reports[0]).isDisjoint(with: values(reports[1])) && values(reports[0]).count > 10)
    }

    @Test("month 13 is January where the numbers' order is looked at")
    func orderOfMonths() async throws {
        for contact in try await Recorded.contacts("quirks-caresens") {
            let seen = QuirkEvidence(contact.exchange).seen
            #expect(seen[.monthThirteen] != nil && seen[.numbersOutOfOrder] == nil, "\(seen)")
        }
    }

    @Test(
        "a quirk that a capture shows is seen, and still to be seen in the report",
        arguments: [
            ("quirks-caresens", Quirk.sendsTwice), ("quirks-caresens", .monthThirteen),
            ("quirks-caresens", .mealSixIsKetone), ("quirks-taidoc", .numbersByAge),
            ("quirks-myglucose", .numbersOutOfOrder), ("quirks-bm85", .bigEndianPulse),
            ("quirks-bm96", .reservedBits), ("quirks-onetouch", .oneTouchProtocol),
            ("omron-memory", .batteryReadsZero),
        ])
    func quirks(_ name: String, _ quirk: Quirk) async throws {
        var found = 0
        for contact in try await Recorded.contacts(name) {
            let (before, after) = (
                QuirkEvidence(contact.exchange), QuirkEvidence(ModelReport.made(of: contact.exchange, seed: 5).exchange)
            )
            #expect(before == after, "\(name)")
            found += after.seen[quirk] ?? 0
        }
        #expect(found > 0, "\(name) does not show \(quirk.rawValue)")
    }
}

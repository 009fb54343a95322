import DeviceReports
import Foundation
import GATTClient
import GATTProfiles
import HealthDevices
import HealthReadings
import Testing

/// Reports of exchanges that a test makes up: what devices and owners of other models could have sent.
@Suite(.timeLimit(.minutes(5))) struct CraftedReportTests {
    private static func time(_ octets: [UInt8]) -> WallTime? {
        DateTime(
            year: UInt16(octets[0]) | UInt16(octets[1]) << 8, month: octets[2], day: octets[3], hour: octets[4],
            minute: octets[5], second: octets[6]
        ).wallTime
    }

    private static func exchange(
        _ uuid: BluetoothUUID, service: BluetoothUUID, _ actions: [Exchange.Action], name: String? = "Nobody 12345678"
    ) -> Exchange {
        var exchange = Exchange(
            Advertisement(
                address: DeviceAddress("C0:11:22:33:44:55"), name: name, services: [service],
                manufacturerData: [0x1234: [1, 2, 3]], isPaired: true, seenAt: Instant(seconds: 1_790_000_000)),
            start: Instant(seconds: 1_790_000_000))
        exchange.characteristics = [
            Characteristic(uuid: uuid, service: service, valueHandle: 9, properties: [.read, .write, .notify])
        ]
        exchange.steps = actions.enumerated().map { .init(Int64($0.offset), $0.element) }
        return exchange
    }

    @Test(
        "what is not understood becomes random octets of the same length, equal where it was equal, and the report says so"
    )
    func unknown() throws {
        let uuid = try #require(BluetoothUUID("12345678-0000-1000-8000-00aabbccddee"))
        let secret: [UInt8] = Array("Ada Lovelace".utf8)
        let result = Anonymiser(using: Dice(state: 1)).anonymous(
            Self.exchange(
                uuid, service: 0xFF00,
                [
                    .read(9, .done(secret)), .write(9, secret, expectsResponse: true, .refused(0x80)),
                    .value(9, secret), .value(9, [1]),
                ]))
        let values = result.exchange.steps.compactMap(\.action.octets)
        #expect(values.map(\.count) == [12, 12, 12, 1] && Set(values.prefix(3)).count == 1 && values[0] != secret)
        #expect(result.withheld == [Anonymiser.Withheld(uuid: uuid, values: 4, octets: 37)])
        guard case .write(_, _, true, .refused(0x80)) = result.exchange.steps[1].action else {
            Issue.record("the refusal is gone")
            return
        }
        #expect(result.exchange.advertisement.name == "Xxxxxx 00000000")
        #expect(result.exchange.advertisement.manufacturerData == [0x1234: [0, 0, 0]])
        #expect(result.exchange.advertisement.address != DeviceAddress("C0:11:22:33:44:55"))
    }

    @Test("an Omron's key becomes zeros, and its records other ones whose sums hold")
    func omronKey() throws {
        let key = [UInt8](1...16)
        let exchange = Self.exchange(
            Omron.key, service: 0xFE4A,
            [.write(9, [0x01] + key, expectsResponse: true, .done([])), .value(9, [0x81, 0x00] + key.prefix(4))])
        let result = Anonymiser(using: Dice(state: 1)).anonymous(exchange)
        #expect(result.exchange.steps[0].action.octets == [0x01] + key.map { _ in 0 })
        #expect(result.exchange.steps[1].action.octets == [0x81, 0, 0, 0, 0, 0])
        #expect(result.withheld.isEmpty)
    }

    @Test("a checksum is made right again, and one that was wrong stays wrong", arguments: [UInt8(0), 1])
    func checksums(_ wrong: UInt8) throws {
        // Size, flags, 120 mg/dL, minute 5, checksum.
        var octets = ContinuousGlucoseChecksum.appended(to: [8, 0, 120, 0, 5, 0])
        octets[7] ^= wrong
        let result = Anonymiser(using: Dice(state: 4)).anonymous(
            Self.exchange(0x2AA7, service: 0x181F, [.value(9, octets)]))
        let made = try #require(result.exchange.steps[0].action.octets)
        let expected = ContinuousGlucoseChecksum.appended(to: Array(made.dropLast(2)))
        #expect(made.prefix(2) == [8, 0] && made[4..<6].elementsEqual([5, 0]))
        #expect(made[6...].elementsEqual(expected[6...]) == (wrong == 0))
    }

    @Test("what two values of one weighing both say stays equal: a gateway joins them in the report, too")
    func weighings() throws {
        func time(_ day: UInt8) -> DateTime {
            DateTime(year: 2026, month: 9, day: day, hour: 7, minute: 15, second: 0)
        }
        func first(_ day: UInt8) -> [UInt8] {
            BodyCompositionMeasurement(
                rawBodyFat: 225, timeStamp: time(day), userID: 2, fields: [.basalMetabolism: 7000], goesOn: true
            ).encoded
        }
        let second = BodyCompositionMeasurement(rawBodyFat: 225, fields: [.weight: 15_000], goesOn: true).encoded
        let weight = WeightMeasurement(rawWeight: 15_000, timeStamp: time(10), userID: 2).encoded
        var exchange = Self.exchange(
            0x2A9C, service: 0x181B,
            [
                .value(9, first(10)), .value(9, second), .value(11, weight), .value(9, first(12)), .value(9, second),
            ])
        exchange.characteristics.append(
            Characteristic(uuid: 0x2A9D, service: 0x181D, valueHandle: 11, properties: [.notify]))
        for seed in 1...20 {
            let made = Anonymiser(using: Dice(state: UInt64(seed))).anonymous(exchange).exchange.steps
                .compactMap(\.action.octets)
            let packets = try [0, 1, 3, 4].map { try BodyCompositionMeasurement(decoding: made[$0]) }
            let whole = try #require(packets[0].joined(with: packets[1]), "seed \(seed)")
            #expect(packets[2].joined(with: packets[3]) != nil, "seed \(seed)")
            let beside = try WeightMeasurement(decoding: made[2])
            #expect(whole.fields[.weight] == beside.rawWeight && whole.completed(by: beside) == whole, "seed \(seed)")
        }
    }

    @Test("how a checksum is wrong says nothing of what it was of")
    func wrongChecksum() throws {
        // Two zeros stand where the checksum is: of each of these values, all but one result would otherwise be another's.
        let octets: [UInt8] = [8, 0, 120, 0, 5, 0, 0, 0]
        let found = (0..<200).map { seed -> Set<Int> in
            let result = Anonymiser(using: Dice(state: UInt64(seed) + 1)).anonymous(
                Self.exchange(0x2AA7, service: 0x181F, [.value(9, octets)]))
            let made = result.exchange.steps[0].action.octets ?? []
            let right = ContinuousGlucoseChecksum.appended(to: Array(made.dropLast(2)))
            return [Int(made[6] ^ right[6]) | Int(made[7] ^ right[7]) << 8]
        }
        #expect(Set(found).count > 150)
    }

    @Test(
        "a date of an unset clock, or with a year of two digits, is another; one of zeros stays",
        arguments: [0, 26, 2000, 2009] as [UInt16])
    func oddYears(_ year: UInt16) throws {
        func record(_ date: [UInt8]) -> [UInt8] { [0x02, 120, 0, 80, 0, 0xFF, 0x07] + date }
        let date: [UInt8] = [UInt8(truncatingIfNeeded: year), UInt8(year >> 8), 11, 21, 22, 13, 5]
        let unknown = [UInt8](repeating: 0, count: 7)
        let result = Anonymiser(using: Dice(state: 9)).anonymous(
            Self.exchange(0x2A35, service: 0x1810, [.value(9, record(date)), .value(9, record(unknown))]))
        let made = result.exchange.steps.compactMap(\.action.octets).map { Array($0[7..<14]) }
        #expect(made[0] != date && made[0][2...] != date[2...])
        #expect(made[1] == unknown)
        let shown = UInt16(made[0][0]) | UInt16(made[0][1]) << 8
        #expect(year < 1970 ? shown == year : (2000..<2010).contains(shown) && Self.time(made[0]) != nil)
    }

    @Test(
        "records stay in order and before the device's clock, whatever it shows; longer times between them are others",
        arguments: [
            "2026-09-21T12:00:00", "2026-08-10T12:00:00", "2026-09-25T12:00:00", "2000-01-05T09:00:00",
            "2019-01-01T00:10:00", "2009-06-30T20:00:00",
        ])
    func beforeClock(_ clock: String) throws {
        let now = try #require(WallTime(clock))
        // Hours, and three minutes, before the clock; and one ahead of it.
        let records = [3000, 800, 799, 60, 12, 11.95, -100].map { now.secondsSinceEpoch - Int64($0 * 3600) }
        for seed in 1...10 {
            var exchange = Self.exchange(
                0x2A35, service: 0x1810,
                [.read(11, .done(DateTime(now).encoded + [0, 0, 1]))]
                    + records.map {
                        .value(
                            9, [0x02, 120, 0, 80, 0, 0xFF, 0x07] + DateTime(WallTime(secondsSinceEpoch: $0)).encoded)
                    })
            exchange.characteristics.append(
                Characteristic(uuid: 0x2A2B, service: 0x1805, valueHandle: 11, properties: [.read]))
            exchange.start = try #require(Instant(rfc3339: "2026-09-21T10:00:00Z"))
            let made = Anonymiser(using: Dice(state: UInt64(seed))).anonymous(exchange).exchange.steps
                .compactMap(\.action.octets)
            let shown = try #require(Self.time(made[0])).secondsSinceEpoch
            let times = try made.dropFirst().map { try #require(Self.time(Array($0[7..<14]))).secondsSinceEpoch }
            #expect(times == times.sorted() && Set(times).count == times.count, "\(clock), seed \(seed)")
            #expect(times[5] < shown && times[6] > shown, "\(clock), seed \(seed): \(times), \(shown)")
            #expect(times[2] - times[1] == 3600 && times[5] - times[4] == 180 && times[1] - times[0] > 3600)
            #expect(shown - times[5] != 43_020 && times[1] - times[0] != 2200 * 3600)
            #expect(times.allSatisfy { ($0 < 1_262_304_000) == clock.hasPrefix("200") })
        }
    }

    @Test("a time that cannot be stays one, and tells nothing else")
    func impossibleTimes() throws {
        func made(_ date: [UInt8]) -> [UInt8] {
            let result = Anonymiser(using: Dice(state: 1)).anonymous(
                Self.exchange(0x2A35, service: 0x1810, [.value(9, [0x02, 120, 0, 80, 0, 0xFF, 0x07] + date)]))
            return Array(result.exchange.steps[0].action.octets?[7..<14] ?? [])
        }
        #expect(made([0xEA, 0x07, 11, 21, 24, 10, 0]) == [0xE4, 0x07, 1, 1, 24, 0, 0])
        #expect(made([0xEA, 0x07, 11, 31, 7, 42, 9]) == [0xE4, 0x07, 2, 30, 0, 0, 0])
        #expect(made([0xEA, 0x07, 11, 40, 7, 60, 99]) == [0xE4, 0x07, 1, 32, 0, 60, 60])
        #expect(made([0xD0, 0x07, 2, 30, 7, 42, 9]) == [0xD0, 0x07, 2, 30, 0, 0, 0])
        // A month that cannot be is a mark of some meters: it stays, and the rest becomes other.
        #expect(made([0xEA, 0x07, 13, 21, 7, 42, 9])[2] == 13)
    }

    /// A contact with a glucose meter whose records have these dates, and numbers from 1 on.
    private static func glucose(_ dates: [[UInt8]]) -> Exchange {
        let records = dates.enumerated().map { number, date -> Exchange.Action in
            .value(9, [0x02, UInt8(number + 1), 0] + date + [95, 0xB0, 0x11])
        }
        return exchange(0x2A18, service: 0x1808, records)
    }

    @Test("records of month 13 are read as January: in order, and as far from others as they were up to an hour")
    func monthThirteen() throws {
        let dates: [[UInt8]] = [
            [0xE8, 0x07, 13, 31, 23, 50, 0], [0xE8, 0x07, 2, 1, 0, 10, 0], [0xE8, 0x07, 6, 15, 8, 0, 0],
            [0xE9, 0x07, 12, 31, 23, 40, 0], [0xEA, 0x07, 13, 1, 0, 5, 30], [0xEA, 0x07, 1, 9, 7, 0, 0],
            [0xEA, 0x07, 13, 9, 7, 20, 0], [0xEA, 0x07, 13, 28, 12, 0, 0], [0xEA, 0x07, 3, 4, 9, 0, 0],
        ]
        func gaps(_ dates: [[UInt8]]) throws -> [Int64] {
            let times = try dates.map { date -> Int64 in
                let read: [UInt8] = date[2] == 13 ? Array(date[..<2]) + [1] + Array(date[3...]) : date
                return try #require(Self.time(read)).secondsSinceEpoch
            }
            return zip(times, times.dropFirst()).map { $1 - $0 }
        }
        let exchange = Self.glucose(dates)
        let old = try gaps(dates)
        for seed in 1...50 {
            let result = Anonymiser(using: Dice(state: UInt64(seed))).anonymous(exchange).exchange
            let made = result.steps.compactMap(\.action.octets).map { Array($0[3..<10]) }
            #expect(made.map { $0[2] == 13 } == dates.map { $0[2] == 13 }, "seed \(seed)")
            let new = try gaps(made)
            #expect(zip(old, new).allSatisfy { $0 <= 3600 ? $1 == $0 : $1 > 3600 }, "seed \(seed): \(new)")
            #expect(QuirkEvidence(result) == QuirkEvidence(exchange), "seed \(seed)")
        }
    }

    @Test("times that cannot be show no quirk, neither as they were nor in the report")
    func impossibleEvidence() {
        let exchange = Self.glucose([
            [0xEA, 0x07, 1, 2, 7, 0, 0], [0xEE, 0x07, 2, 30, 7, 0, 0], [0xEA, 0x07, 3, 1, 7, 0, 0],
            [0xDF, 0x07, 17, 5, 24, 0, 0], [0xEA, 0x07, 3, 2, 7, 0, 0], [0xEA, 0x07, 4, 31, 7, 0, 0],
        ])
        #expect(QuirkEvidence(exchange).seen.isEmpty)
        for seed in 1...20 {
            let made = Anonymiser(using: Dice(state: UInt64(seed))).anonymous(exchange).exchange
            #expect(QuirkEvidence(made) == QuirkEvidence(exchange), "seed \(seed)")
        }
    }

    @Test("the empty record behind another stays one")
    func emptyPartner() {
        let partner: [UInt8] = [0x02, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0x11]
        let exchange = Self.exchange(0x2A18, service: 0x1808, [.value(9, partner)])
        for seed in 1...50 {
            let made = Anonymiser(using: Dice(state: UInt64(seed))).anonymous(exchange).exchange
            #expect(made.steps[0].action.octets == partner, "seed \(seed)")
            #expect(QuirkEvidence(made).seen == [.emptyPartners: 1])
        }
    }

    @Test("when a record was measured does not follow from when the report was made")
    func unrelatedTimes() throws {
        func record(_ day: UInt8) -> [UInt8] { [0x02, 120, 0, 80, 0, 0xFF, 0x07, 0xEA, 0x07, 9, day, 7, 42, 10] }
        var shifts: Set<Int64> = []
        for seed in 1...20 {
            var exchange = Self.exchange(
                0x2A35, service: 0x1810, [.value(9, record(10)), .value(9, record(12)), .value(9, record(12))])
            exchange.start = try #require(Instant(rfc3339: "2026-09-21T10:00:00Z"))
            let result = Anonymiser(using: Dice(state: UInt64(seed))).anonymous(exchange)
            let times = try result.exchange.steps.compactMap(\.action.octets).map { octets in
                try #require(Self.time(Array(octets[7..<14]))).secondsSinceEpoch
            }
            #expect(times[0] < times[1] && times[1] == times[2] && times[1] < result.exchange.start.seconds)
            shifts.insert(result.exchange.start.seconds - times[1])
        }
        #expect(shifts.count == 20)
    }

    @Test(
        "a Microlife that names its side otherwise, or has an impossible date, keeps nothing of its owner",
        arguments: [UInt8(0x31), 0x3A])
    func microlife(_ side: UInt8) throws {
        let head = [UInt8](repeating: 0, count: 37)
        let records: [UInt8] =
            [0x8D, 0x5D, 0x4D, 26, 11, 20, 7, 42, 0, 0] + [0x8D, 0x5D, 0x4D, 26, 0, 20, 7, 42, 0, 0]
        let body = head + records
        let message: [UInt8] = [0x4D, side, 0, UInt8(body.count + 2), 0x00] + body
        let sent = message + [message.reduce(0, &+)]
        let actions = stride(from: 0, to: sent.count, by: 20).map {
            Exchange.Action.value(9, Array(sent[$0..<min($0 + 20, sent.count)]))
        }
        let result = Anonymiser(using: Dice(state: 3)).anonymous(
            Self.exchange(Microlife.answers, service: 0xFFF0, actions))
        let made = result.exchange.steps.compactMap(\.action.octets).flatMap(\.self)
        let frame = try MicrolifeFrame(decoding: made)
        #expect(frame.side == side && frame.data.count == body.count)
        if side == 0x3A {
            #expect(frame.data[40..<45] != [26, 11, 20, 7, 42] && frame.data[50..<55].elementsEqual([20, 0, 1, 0, 0]))
        } else {
            #expect(frame.data.allSatisfy { $0 == 0 })
        }
        #expect(!made.hexadecimal().contains("8d5d4d"))
    }

    @Test("pieces of a Viatom's list that come late, twice or not at all put no octet of a record in another's place")
    func viatom() throws {
        let owner: [UInt8] = [171, 0, 141, 0, 151, 0]
        let list =
            [UInt8](repeating: 0, count: 10)
            + (0..<20).flatMap { number -> [UInt8] in
                [UInt8(number), 0xAB, 0x60, 0x6A, 7, 0, 0, 0, 0, 0, 0, 0, 0] + owner + [77, 0]
                    + [UInt8](repeating: 0, count: 16)
            }
        func ask(_ offset: Int, _ number: UInt8) -> Exchange.Action {
            let payload = (0..<4).map { UInt8(truncatingIfNeeded: offset >> (8 * $0)) }
            return .write(
                8, ViatomFrame(command: 0xF3, direction: 0, number: number, payload: payload).encoded,
                expectsResponse: false, .done([]))
        }
        func answer(_ offset: Int, _ number: UInt8) -> Exchange.Action {
            let part = Array(list[offset..<min(offset + 200, list.count)])
            return .value(9, ViatomFrame(command: 0xF3, direction: 1, number: number, payload: part).encoded)
        }
        var exchange = Self.exchange(
            Viatom.answers, service: 0xFFF0,
            [
                ask(0, 1), answer(0, 1), answer(0, 1), ask(200, 2), answer(200, 2), ask(400, 3),
                .value(9, [0xA5, 0xF3, 0x0C, 1]),
                ask(600, 4), answer(600, 4), answer(400, 3), answer(0, 9),
            ])
        exchange.characteristics.insert(
            Characteristic(uuid: Viatom.requests, service: 0xFFF0, valueHandle: 8, properties: [.write]), at: 0)
        let result = Anonymiser(using: Dice(state: 3)).anonymous(exchange)
        let text = result.exchange.steps.compactMap(\.action.octets).map { $0.hexadecimal() }.joined(separator: " ")
        for part in ["ab00", "8d00", "9700", "ab606a"] { #expect(!text.contains(part), "\(part) in \(text)") }
        // Both first answers have the same records, and the one that nobody asked for has none.
        let made = result.exchange.steps.compactMap(\.action.octets)
        #expect(made[1] == made[2] && made[1].count == 208)
        #expect(try ViatomFrame(decoding: made[10]).payload.allSatisfy { $0 == 0 })
        #expect(try ViatomFrame(decoding: made[9]).payload.contains { $0 != 0 })
    }

    @Test("a Viatom's answer behind which another begins in the same piece stays whole")
    func viatomTrailing() throws {
        let list =
            [UInt8](repeating: 0, count: 10)
            + (0..<5).flatMap { number -> [UInt8] in
                [UInt8(number), 0xAB, 0x60, 0x6A, 7] + [UInt8](repeating: 0, count: 8) + [
                    171, 0, 141, 0, 151, 0, 77, 0,
                ]
                    + [UInt8](repeating: 0, count: 16)
            }
        let answer = ViatomFrame(command: 0xF3, direction: 1, number: 1, payload: list).encoded
        let sent = answer + answer.prefix(50)
        var exchange = Self.exchange(
            Viatom.answers, service: 0xFFF0,
            [
                .write(
                    8, ViatomFrame(command: 0xF3, direction: 0, number: 1, payload: [0, 0, 0, 0]).encoded,
                    expectsResponse: false, .done([])), .value(9, Array(sent[..<100])), .value(9, Array(sent[100...])),
            ])
        exchange.characteristics.insert(
            Characteristic(uuid: Viatom.requests, service: 0xFFF0, valueHandle: 8, properties: [.write]), at: 0)
        let result = Anonymiser(using: Dice(state: 3)).anonymous(exchange)
        let made = result.exchange.steps.dropFirst().compactMap(\.action.octets).flatMap(\.self)
        let frame = try ViatomFrame(decoding: Array(made[..<answer.count]))
        #expect(frame.payload.count == list.count && frame.payload[23] != 171 && frame.payload[23] > 100)
        #expect(made[answer.count...].allSatisfy { $0 == 0 } && made.count == sent.count)
    }

    @Test("an O2Ring's answers and names are told to be withheld; its other questions stay")
    func o2ring() {
        let list = Array(#"{"CurTIME":"2026-08-17,23:29:30","FileList":"20260817225251,"}"#.utf8)
        let answer: [UInt8] = [0x55, 0x00, 0xFF, 0, 0, UInt8(list.count), 0] + list + [0xED]
        let name = Array("20260817225251".utf8)
        let opening: [UInt8] = [0xAA, 0x03, 0xFC, 0, 0, 15, 0] + name + [0x00, 0xD6]
        let questions: [[UInt8]] = [
            [0xAA, 0x14, 0xEB, 0, 0, 0, 0, 0xC6], [0xAA, 0x04, 0xFB, 1, 0, 0, 0, 0x7C],
        ]
        // A piece of a recording may begin as a message of another Viatom does.
        let piece: [UInt8] = [0xA5, 97, 61, 0, 96, 62, 0, 97]
        let sent: [[UInt8]] = [questions[0], Array(opening[..<20]), Array(opening[20...]), questions[1]]
        let came = stride(from: 0, to: answer.count, by: 20).map { Array(answer[$0..<min($0 + 20, answer.count)]) }
        let all = sent + came + [piece]
        let actions = all.enumerated().map { place, octets -> Exchange.Action in
            place < sent.count ? .write(8, octets, expectsResponse: false, .done([])) : .value(9, octets)
        }
        var exchange = Self.exchange(Viatom.answers, service: 0xFFF0, actions)
        exchange.characteristics.insert(
            Characteristic(uuid: Viatom.requests, service: 0xFFF0, valueHandle: 8, properties: [.write]), at: 0)
        let result = Anonymiser(using: Dice(state: 1)).anonymous(exchange)
        let made = result.exchange.steps.compactMap(\.action.octets)
        #expect(made[0] == questions[0] && made[3] == questions[1])
        for (old, new) in zip(all, made) where !questions.contains(old) {
            #expect(new != old && new.count == old.count && new.contains { $0 != 0 }, "\(old) became \(new)")
        }
        #expect(
            result.withheld == [
                Anonymiser.Withheld(uuid: Viatom.answers, values: 5, octets: answer.count + piece.count),
                Anonymiser.Withheld(uuid: Viatom.requests, values: 2, octets: opening.count),
            ])
    }

    @Test("records without a number that are others stay others, and a stream's equal values become others")
    func distinct() {
        let values = (0..<10).map { [UInt8(0), UInt8(110 + $0), 1, 0, 0xFF] }
        func made(_ uuid: BluetoothUUID, _ values: [[UInt8]]) -> [[UInt8]] {
            Anonymiser(using: Dice(state: 1)).anonymous(
                Self.exchange(uuid, service: 0x1809, values.map { .value(9, $0) })
            ).exchange.steps.compactMap(\.action.octets)
        }
        #expect(Set(made(0x2A1C, values)).count == 10)
        let stream = made(
            0x2A37, [[0, 70], [0, 70], [0, 71]] + (0..<40).map { _ in [0, 70] }.flatMap { [$0, [0, 71]] })
        #expect(stream[0] == stream[1] && Set(stream).count > 10)
    }

    @Test("names that the catalogue does not know become templates, but for words that the device says of its model")
    func names() {
        func made(_ name: String, model: String = "") -> String? {
            var exchange = Self.exchange(0x2A24, service: 0x180A, [.read(9, .done(Array(model.utf8)))], name: name)
            exchange.characteristics[0] = Characteristic(
                uuid: 0x2A24, service: 0x180A, valueHandle: 9, properties: [.read])
            return Anonymiser(using: Dice(state: 1)).anonymous(exchange).exchange.advertisement.name
        }
        #expect(made("Ada Lovelace's iPhone") == "Xxx Xxxxxxxx'x xXxxxx")
        #expect(made("ZETA 7F3A", model: "Zeta X 12") == "ZETA 0X0X")
        #expect(made("ZETA 7F3A") == "XXXX 0X0X")
    }

    @Test("what stands behind the defined octets of a feature does not stay, nor a maker's data of unknown format")
    func defined() {
        let trailing = Array("ADA".utf8)
        for (uuid, kept): (BluetoothUUID, [UInt8]) in [
            (0x2A50, [1, 2, 0, 3, 0, 4, 0]), (0x2A49, [1, 0]), (0x2A19, [80]), (0x2A38, [1]),
            (0x2BF3, [0, 2, 4, 74, 2, 0, 5, 74, 2, 0]),
        ] {
            let made = Anonymiser(using: Dice(state: 1)).anonymous(
                Self.exchange(uuid, service: 0x1810, [.read(9, .done(kept + trailing))]))
            #expect(made.exchange.steps[0].action.octets == kept + [0, 0, 0], "\(uuid)")
        }
        var exchange = Self.exchange(0x2A35, service: 0x1810, [])
        exchange.advertisement.manufacturerData = [0x020E: [9, 1, 0x93, 0x5F, 0x47, 0x1A, 0x0B, 0x14, 7, 42, 0x77]]
        let made = Anonymiser(using: Dice(state: 1)).anonymous(exchange).exchange.advertisement
        #expect(made.manufacturerData == [0x020E: [9, 1] + [UInt8](repeating: 0, count: 9)])
    }

    @Test("the device's address does not stay in a UUID or a text, whatever stands between its octets")
    func addresses() throws {
        let own = try #require(BluetoothUUID("12345678-0000-1000-8000-c01122334455"))
        var exchange = Self.exchange(own, service: own, [])
        exchange.characteristics.append(
            Characteristic(uuid: 0x2A26, service: 0x180A, valueHandle: 11, properties: [.read]))
        exchange.characteristics.append(
            Characteristic(uuid: 0x2A25, service: 0x180A, valueHandle: 13, properties: [.read]))
        exchange.steps = [
            .init(0, .read(11, .done(Array("v1 C0:11:22:33:44:55 sn 778xq9".utf8)))),
            .init(0, .read(13, .done(Array("AB-778XQ9".utf8)))),
            .init(0, .read(15, .done(Array("v2 N778XQ [5]".utf8)))),
        ]
        exchange.characteristics.append(
            Characteristic(uuid: 0x2A28, service: 0x180A, valueHandle: 15, properties: [.read]))
        let report = ModelReport.made(of: exchange, seed: 1)
        for text in [report.document.text, report.lines.joined(separator: "\n")] {
            #expect(!text.contains("c01122334455") && !text.contains(Array("778".utf8).hexadecimal()), "\(text)")
            #expect(!text.contains("C0:11:22") && !text.contains(Array("C0:11".utf8).hexadecimal()), "\(text)")
        }
    }

    @Test("a battery level that bluetoothd shows beside the table, and a long notification, can be read back")
    func readBack() throws {
        var exchange = Self.exchange(0x2A35, service: 0x1810, [.value(9, [UInt8](repeating: 1, count: 514))])
        exchange.characteristics.insert(
            Characteristic(uuid: 0x2A19, service: 0x180F, valueHandle: 0, properties: nil), at: 0)
        let report = ModelReport.made(of: exchange, seed: 1)
        #expect(try ModelReport(reading: Array(report.document.text.utf8)) == report)
    }

    @Test("a user's name, a consent code and a time zone do not stay")
    func userData() {
        let consent = Anonymiser(using: Dice(state: 2)).anonymous(
            Self.exchange(0x2A9F, service: 0x181C, [.write(9, [2, 1, 0x39, 0x30], expectsResponse: true, .done([]))]))
        #expect(consent.exchange.steps[0].action.octets == [2, 0, 0, 0])
        let zone = Anonymiser(using: Dice(state: 2)).anonymous(
            Self.exchange(0x2A0F, service: 0x1805, [.read(9, .done([22, 4])), .read(9, .done([0x80, 0xFF]))]))
        #expect(zone.exchange.steps.map(\.action.octets) == [[0, 0], [0x80, 0xFF]])
        let name = Anonymiser(using: Dice(state: 2)).anonymous(
            Self.exchange(0x2A8A, service: 0x181C, [.read(9, .done(Array("Ada".utf8)))]))
        #expect(name.withheld.count == 1 && name.exchange.steps[0].action.octets != Array("Ada".utf8))
    }

    @Test(
        "octets that are no report are refused with the place",
        arguments: [
            ("", "JSON"), ("[]", "report"), ("{}", "report"), (#""report":"x""#, "report"),
            (#""version":2"#, "version"), (#""started_at":"now""#, "started_at"),
            (#""steps":[{"ms":0,"do":"read","handle":8}]"#, "steps[0].handle"),
            (#""steps":[{"ms":0,"do":"dance","handle":9}]"#, "steps[0].do"),
            (#""steps":[{"ms":0,"do":"read","handle":9,"octets":"0"}]"#, "steps[0].octets"),
            (#""steps":[{"ms":0,"do":"read","handle":9,"octets":"zz"}]"#, "steps[0].octets"),
            (#""steps":[{"ms":5,"do":"disable","handle":9},{"ms":4,"do":"disable","handle":9}]"#, "steps[1].ms"),
            (#""steps":[{"ms":0,"do":"disconnect","by":"me"}]"#, "steps[0].by"),
            (#""characteristics":[{"service":null,"uuid":"x","handle":9,"properties":null}]"#, "characteristics[0]"),
        ])
    func malformed(_ change: String, _ place: String) throws {
        let text = ModelReport.made(of: Self.exchange(0x2A18, service: 0x1808, [.value(9, [0, 1, 0])]), seed: 1)
            .document.text
        var changed = change
        if let key = change.split(separator: ":").first, change.hasPrefix(#"""#) {
            let pattern = try Regex(key.description + #":("[^"]*"|\d+|\[.*?\](?=,"|\}$))"#)
            changed = text.replacing(pattern) { _ in change }
        }
        #expect {
            _ = try ModelReport(reading: Array(changed.utf8))
        } throws: { error in
            (error as? ModelReportError)?.description.contains(place) == true
        }
    }
}

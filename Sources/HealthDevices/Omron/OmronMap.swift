import HealthReadings

/// What stands where in the memory of an Omron monitor whose layout need not be known: its records are found by their sums.
///
/// What may be shown of it is made here: records with other values in their place, the index, and how much is blank.
/// Everything else stays hidden, since nobody knows whose it is.
struct OmronMap: Sendable, Hashable {
    /// Records that stand one behind the other.
    struct Run: Sendable, Hashable {
        let layout: OmronRecordLayout
        /// Where the first stands.
        let address: UInt16
        /// The octets of each.
        let slots: [[UInt8]]
        /// How many blank slots follow.
        let blankSlots: Int

        /// How many records there are.
        var count: Int { slots.count }
        fileprivate var octets: Range<Int> { Int(address)..<(Int(address) + slots.count * layout.length) }
    }

    /// How the octets of a part of the memory may be shown.
    enum Content: Sendable, Hashable {
        /// As they are: the index.
        case index([UInt8])
        /// Each octet is this one.
        case blank(UInt8)
        /// Not at all.
        case hidden
        /// The monitor does not let them be read, with its code.
        case refused(UInt8)
    }

    /// Octets beside the records.
    struct Area: Sendable, Hashable {
        let address: UInt16
        var count: Int
        let content: Content
    }

    /// Where settings begin in the models that are known: the index first, then the clock at one of these places.
    static let settings: [UInt16] = [0x0010, 0x0260, 0x0F74]
    private static let clocks: [Range<UInt16>] = [0x14..<0x1E, 0x2C..<0x3C, 0x30..<0x40]
    /// Octets that are asked for: what lies behind the last record of any model that is known.
    static let size = 0x1500
    /// Octets of a request: as many as every model answers.
    static let step = 0x10

    private var octets: [UInt8?] = Array(repeating: nil, count: size)
    private var refusals: [UInt8?] = Array(repeating: nil, count: size)

    mutating func note(_ found: [UInt8], at address: UInt16) {
        for (place, octet) in found.enumerated() where Int(address) + place < Self.size {
            octets[Int(address) + place] = octet
        }
    }

    mutating func noteRefusal(_ code: UInt8, at address: UInt16, count: Int) {
        for place in Int(address)..<min(Int(address) + count, Self.size) { refusals[place] = code }
    }

    /// Whether nothing was read.
    var isEmpty: Bool { octets.allSatisfy { $0 == nil } }

    private func octets(_ range: Range<Int>) -> [UInt8]? {
        guard range.lowerBound >= 0, range.upperBound <= Self.size else { return nil }
        let found = octets[range].compactMap(\.self)
        return found.count == range.count ? found : nil
    }

    // MARK: Records

    /// The runs of records, by their addresses. Of runs that overlap, the one with more records counts.
    var runs: [Run] {
        var found: [Run] = []
        for length in [14, 16] {
            for order in OmronRecordLayout.Order.allCases {
                found += runs(of: OmronRecordLayout(length: length, order: order))
            }
        }
        var taken: [Run] = []
        for run in found.sorted(by: { ($0.count, $1.address) > ($1.count, $0.address) })
        where !taken.contains(where: { $0.octets.overlaps(run.octets) }) {
            taken.append(run)
        }
        return taken.sorted { $0.address < $1.address }
    }

    private func runs(of layout: OmronRecordLayout) -> [Run] {
        var (runs, known): ([Run], Set<Int>) = ([], [])
        for found in stride(from: 0, to: Self.size - layout.length, by: 2)
        where !known.contains(found) && isRecord(at: found, layout) {
            // Beside a record, a slot whose sum and date hold is one too, whatever its pressures are.
            var address = found
            while record(at: address - layout.length, layout) != nil { address -= layout.length }
            var (slots, blanks, place): ([[UInt8]], Int, Int) = ([], 0, address)
            while record(at: place, layout) != nil, let slot = octets(place..<(place + layout.length)) {
                slots.append(slot)
                known.insert(place)
                place += layout.length
            }
            while let slot = octets(place..<(place + layout.length)), OmronRecordLayout.isEmpty(slot) {
                blanks += 1
                place += layout.length
            }
            runs.append(Run(layout: layout, address: UInt16(address), slots: slots, blankSlots: blanks))
        }
        return runs
    }

    /// The record that stands at an address: the sum holds, the date can be, and it is no clock.
    private func record(at address: Int, _ layout: OmronRecordLayout) -> OmronRecord? {
        let place = address..<(address + layout.length)
        guard let octets = octets(place), let record = try? layout.record(octets),
            !clocksFound.contains(where: { $0.overlaps(place) })
        else { return nil }
        return record
    }

    /// Whether octets are certainly a record: the pressures are a person's too.
    private func isRecord(at address: Int, _ layout: OmronRecordLayout) -> Bool {
        guard let record = record(at: address, layout) else { return false }
        return (50...300).contains(record.systolic) && (20...220).contains(record.diastolic)
            && record.systolic > UInt16(record.diastolic)
    }

    /// The models whose layout these records agree with.
    static func models(of runs: [Run], in catalogue: Catalogue) -> [String] {
        guard !runs.isEmpty else { return [] }
        return catalogue.models.filter { model in
            guard let memory = model.omronMemory else { return false }
            return runs.allSatisfy { run in
                run.layout.length == memory.layout.length && memory.layout.orders.contains { $0 == run.layout.order }
                    && run.slots.indices.allSatisfy { slot in
                        memory.user(at: run.address + UInt16(slot * run.layout.length)) != nil
                    }
            }
        }.map(\.id)
    }

    // MARK: Beside the records

    /// What stands beside these records, as far as it was read.
    func areas(beside runs: [Run]) -> [Area] {
        let indexes = Self.settings.compactMap { settings -> Range<Int>? in
            let whole = Int(settings)..<(Int(settings) + OmronIndex.length)
            guard !runs.contains(where: { $0.octets.overlaps(whole) }), let octets = octets(whole) else { return nil }
            let length = Self.lengthOfIndex(octets)
            return length == 0 ? nil : whole.prefix(length)
        }
        var areas: [Area] = []
        var place = 0
        while place < Self.size {
            if let run = runs.first(where: { $0.octets.contains(place) }) {
                place = run.octets.upperBound
            } else if let index = indexes.first(where: { $0.lowerBound == place }), let octets = octets(index) {
                areas.append(Area(address: UInt16(place), count: index.count, content: .index(octets)))
                place = index.upperBound
            } else {
                if let content = content(at: place) {
                    if let last = areas.last, last.content == content, Int(last.address) + last.count == place {
                        areas[areas.count - 1].count += 1
                    } else {
                        areas.append(Area(address: UInt16(place), count: 1, content: content))
                    }
                }
                place += 1
            }
        }
        return areas
    }

    /// `nil` for what was not read.
    private func content(at place: Int) -> Content? {
        if let code = refusals[place] { return .refused(code) }
        switch octets[place] {
        case nil: return nil
        case 0xFF?: return .blank(0xFF)
        case 0x00?: return .blank(0x00)
        default: return .hidden
        }
    }

    /// How many octets look like an index: cursors and counts, and nothing that could be anything of a person. Some models
    /// have four words, others eight; 0 if there is no index.
    private static func lengthOfIndex(_ octets: [UInt8]) -> Int {
        guard octets.contains(where: { $0 != 0 }) else { return 0 }
        let lengths = OmronRecordLayout.Order.allCases.map { order in
            let words = OmronWords(octets, order)
            guard (0..<2).allSatisfy({ words[$0] & 0xFF <= 100 }) else { return 0 }
            let others = (0..<words.count).prefix { words[$0] & 0x3F00 == 0 }.count
            return others == words.count ? 2 * others : others >= 4 ? 8 : 0
        }
        return lengths.max() ?? 0
    }

    /// Where the clock stands, by its sum.
    var clock: UInt16? { clocksFound.first.map { UInt16($0.lowerBound) } }

    private var clocksFound: [Range<Int>] {
        var found: [Range<Int>] = []
        for settings in Self.settings {
            for clock in Self.clocks {
                let range = Int(settings + clock.lowerBound)..<Int(settings + clock.upperBound)
                guard let octets = octets(range) else { continue }
                for order in OmronRecordLayout.Order.allCases
                where ((try? OmronWords(octets, order).clock()) ?? nil) != nil {
                    found.append(range)
                }
            }
        }
        return found
    }
}

extension OmronMap {
    /// The times of the records of these runs, moved to an hour from each other from the beginning of 2020 on, in their
    /// order.
    static func hourly(_ runs: [Run]) -> (WallTime) -> WallTime {
        let times = runs.flatMap { run in run.slots.compactMap { (try? run.layout.record($0))??.time } }
        let order = Dictionary(uniqueKeysWithValues: Set(times).sorted().enumerated().map { ($1, $0) })
        return { time in WallTime(secondsSinceEpoch: 1_577_836_800 + 3600 * Int64(order[time] ?? 0)) }
    }

    /// The records of the runs, with other pressures, pulses and times. Flags and numbers stay, pressures that are no
    /// person's become such, and the sums hold.
    ///
    /// - Parameters:
    ///   - generator: what the values are taken from; they cannot be had back of it.
    ///   - moving: gives another time for that of a record, of the years 2000 … 2063.
    static func disguised(
        _ runs: [Run], using generator: inout some RandomNumberGenerator, moving: (WallTime) -> WallTime
    ) -> [Run] {
        runs.map { run in
            let readOrder = run.layout.order ?? .highFirst
            // Beside the sum stands nothing, the sum, or the sum with a constant of the unit, which becomes another. An octet that
            // has nothing to do with the sum becomes any.
            let constants = Set(run.slots.compactMap { OmronWords($0, readOrder).constantOfSum })
            let constant =
                constants == [0] ? 0 : constants.count == 1 ? UInt8.random(in: 1...0xFF, using: &generator) : nil
            let slots = run.slots.map { octets in
                let time = (try? run.layout.record(octets))??.time ?? WallTime(secondsSinceEpoch: 1_577_836_800)
                return disguised(OmronWords(octets, readOrder), at: moving(time), constant: constant, &generator)
            }
            return Run(layout: run.layout, address: run.address, slots: slots, blankSlots: run.blankSlots)
        }
    }

    private static func disguised(
        _ words: OmronWords, at time: WallTime, constant: UInt8?, _ generator: inout some RandomNumberGenerator
    ) -> [UInt8] {
        var new = (0..<words.count).map { words[$0] }
        let (diastolic, systolic, pulse) = (words[0] >> 8, words[0] & 0xFF, words[1] & 0xFF)
        // Pressures that are no person's remain so, and 0 stays: nothing was measured.
        let lows: ClosedRange<UInt16> = diastolic > systolic + OmronRecord.systolicOffset ? 200...229 : 60...89
        let low = diastolic == 0 ? 0 : UInt16.random(in: lows, using: &generator)
        let high = diastolic == 0 && systolic == 0 ? 0 : UInt16.random(in: 75...114, using: &generator)
        let rate = pulse == 0 ? 0 : UInt16.random(in: 55...94, using: &generator)
        let (date, clock) = (time.date, time.timeOfDay)
        func part(_ value: Int, _ bits: UInt16) -> UInt16 { UInt16(clamping: value) << bits }
        new[0] = low << 8 | high
        new[1] = words[1] & 0xC000 | part(date.year - 2000, 8) & 0x3F00 | rate
        new[2] = words[2] & 0xC000 | part(date.month, 10) | part(date.day, 5) | part(clock.hour, 0)
        new[3] = words[3] & 0xF000 | part(clock.minute, 6) | part(clock.second, 0)
        if new.count > 5 { new[4] = words[4] & 0x00FF | (words[4] & 0xFF00 == 0 ? 0 : 0x0100) }
        // What the others say isn't known, but for the running number in the first octet of the sixth.
        for place in new.indices.dropFirst(5) { new[place] = 0 }
        var made = new.flatMap { word -> [UInt8] in
            let pair = [UInt8(word >> 8), UInt8(truncatingIfNeeded: word)]
            return words.order == .highFirst ? pair : pair.reversed()
        }
        if made.count > 12 { made[10] = words.octets[10] }
        let sum = OmronWords(made, words.order).sum
        made[words.placeOfSum] = sum
        if words.constantOfSum != nil {
            made[words.placeBesideSum] = constant.map { sum ^ $0 } ?? UInt8.random(in: 1...0xFF, using: &generator)
        }
        return made
    }
}

import GATTClient
import GATTProfiles
import HealthDevices
import HealthReadings

/// What is replaced in makers' own protocols that this gateway speaks. Their messages keep their lengths, and get checks
/// that are right; what is not understood of them becomes zeros.
struct OwnProtocols {
    let times: ReplacedTimes
    let chance: Chance
    /// Records that were replaced, so that equal records stay equal.
    private var records: [[UInt8]: [UInt8]] = [:]
    private var people: [UInt32: UInt32] = [:]

    init(_ times: ReplacedTimes, _ chance: Chance) { (self.times, self.chance) = (times, chance) }

    /// The octets of the steps whose values are messages of such a protocol, by the place of the step.
    mutating func replaced(_ exchange: Exchange) -> [Int: [UInt8]] {
        let uuids = Dictionary(
            exchange.characteristics.map { ($0.valueHandle, $0.uuid) }, uniquingKeysWith: { first, _ in first })
        let steps = exchange.steps.enumerated().compactMap { place, step -> OwnStep? in
            guard let octets = step.action.octets, let uuid = step.action.handle.flatMap({ uuids[$0] }) else {
                return nil
            }
            return OwnStep(place: place, uuid: uuid, octets: octets)
        }
        return oneTouch(steps).merging(microlife(steps)) { first, _ in first }
            .merging(viatom(steps)) { first, _ in first }.merging(omron(steps)) { first, _ in first }
            .merging(commands(steps)) { first, _ in first }
    }

    private static func word(_ octets: ArraySlice<UInt8>) -> UInt32 {
        octets.reversed().reduce(0) { $0 << 8 | UInt32($1) }
    }

    private static func octets(_ word: UInt32, _ count: Int) -> [UInt8] {
        (0..<count).map { UInt8(truncatingIfNeeded: word >> (8 * UInt32($0))) }
    }

    private func number(_ number: ReplacedNumber, _ value: UInt32, highest: Int) -> UInt32 {
        var generator = chance
        return UInt32(number.mantissa(Int(value), exponent: 0, highest: highest, using: &generator))
    }

    /// Cuts octets as the pieces were that they replace.
    private static func pieces(_ octets: [UInt8], like steps: [OwnStep]) -> [Int: [UInt8]] {
        var (rest, found) = (octets[...], [Int: [UInt8]]())
        for step in steps {
            let part = rest.prefix(step.octets.count)
            found[step.place] = part + [UInt8](repeating: 0, count: step.octets.count - part.count)
            rest = rest.dropFirst(step.octets.count)
        }
        return found
    }

    // MARK: OneTouch

    private mutating func oneTouch(_ steps: [OwnStep]) -> [Int: [UInt8]] {
        var found: [Int: [UInt8]] = [:]
        for step in steps where step.uuid == OneTouch.questions || step.uuid == OneTouch.answers {
            if step.octets == OneTouch.acknowledgement {
                found[step.place] = step.octets
            } else if let frame = try? OneTouchFrame(decoding: step.octets) {
                let payload =
                    step.uuid == OneTouch.questions ? question(frame.payload) : answer(frame.payload)
                found[step.place] = OneTouchFrame(payload: payload).encoded
            }
        }
        return found
    }

    private func moved(_ octets: ArraySlice<UInt8>, of subject: ReplacedTimes.Subject) -> [UInt8] {
        Self.octets(times.count(Self.word(octets), from: OneTouch.epoch, of: subject), 4)
    }

    private func question(_ payload: [UInt8]) -> [UInt8] {
        switch (payload.first, payload.count) {
        case (0x20, 6): [0x20, payload[1]] + moved(payload[2...], of: .clock)
        case (0x20, 2), (0x0A, 3), (0x27, 2), (0xB3, 3): payload
        default: payload.prefix(1) + payload.dropFirst().map { _ in 0 }
        }
    }

    private mutating func answer(_ payload: [UInt8]) -> [UInt8] {
        // Anything but 06 is a refusal with its code.
        guard payload.first == 0x06 else { return payload.prefix(2) + payload.dropFirst(2).map { _ in 0 } }
        let octets = Array(payload.dropFirst())
        switch octets.count {
        case 0, 2: return payload
        // The number of the newest record, or a clock, which has counted further.
        case 4: return Self.word(octets[...]) <= 0xFFFF ? payload : [0x06] + moved(octets[...], of: .clock)
        case OneTouchRecord.length:
            let value = number(.milligrams, Self.word(octets[4..<6]), highest: 0xFFFF)
            return [0x06]
                + equal(octets, moved(octets[0..<4], of: .record) + Self.octets(value, 2) + [octets[6]] + [0, 0, 0, 0])
        default: return [0x06] + octets.map { _ in 0 }
        }
    }

    /// What an equal record was replaced by, or this.
    private mutating func equal(_ record: [UInt8], _ made: [UInt8]) -> [UInt8] {
        if let known = records[record] { return known }
        records[record] = made
        return made
    }

    // MARK: Microlife

    private mutating func microlife(_ steps: [OwnStep]) -> [Int: [UInt8]] {
        var (found, pieces, waiting): ([Int: [UInt8]], MicrolifePieces, [OwnStep]) = ([:], MicrolifePieces(), [])
        for step in steps {
            if step.uuid == Microlife.requests, let frame = try? MicrolifeFrame(decoding: step.octets) {
                // What this gateway asks has the number of a user, and nothing else.
                let keeps = [0x00, 0x04, 0x05].contains(frame.command)
                found[step.place] = frame.replacing(keeps ? frame.data : frame.data.map { _ in 0 }).encoded
                (pieces, waiting) = (MicrolifePieces(), [])
            } else if step.uuid == Microlife.answers {
                waiting.append(step)
                guard let message = pieces.take(step.octets) else { continue }
                if let frame = try? MicrolifeFrame(decoding: message) {
                    found.merge(Self.pieces(microlifeAnswer(frame).encoded, like: waiting)) { first, _ in first }
                }
                waiting = []
            }
        }
        return found
    }

    private mutating func microlifeAnswer(_ frame: MicrolifeFrame) -> MicrolifeFrame {
        let (data, head, length) = (frame.data, 37, 10)
        // What stands where is known of the present generation alone.
        guard frame.side == 0x3A else { return frame.replacing(data.map { _ in 0 }) }
        guard frame.command == 0x00, data.count >= head else {
            // The number of users is all that is known to be the model's.
            return frame.replacing(data.enumerated().map { [0, 49].contains($0) && data.count > 49 ? $1 : 0 })
        }
        var made = [UInt8](repeating: 0, count: head)
        for place in [0, 2, 3] { made[place] = data[place] }
        if data.count == head { for place in 7..<head where data[place] != 0 { made[place] = 1 } }
        for start in stride(from: head, to: data.count, by: length) {
            let record = Array(data[start..<min(start + length, data.count)])
            made += record.count == length ? microlifeRecord(record) : record.map { _ in 0 }
        }
        return frame.replacing(made)
    }

    private mutating func microlifeRecord(_ octets: [UInt8]) -> [UInt8] {
        guard octets.contains(where: { $0 != 0 }), octets.contains(where: { $0 != 0xFF }) else { return octets }
        func value(_ number: ReplacedNumber, _ place: Int) -> UInt8 {
            UInt8(self.number(number, UInt32(octets[place]), highest: 0xFF))
        }
        var made = [
            value(.systolic(inKilopascal: false), 0), value(.diastolic(inKilopascal: false), 1), value(.rate, 2),
        ]
        let parts = octets[3..<8].map(Int.init)
        let time = WallTime(
            year: 2000 + parts[0], month: parts[1], day: parts[2], hour: parts[3], minute: parts[4], second: 0)
        if let moved = time.map(times.record) {
            let (date, clock) = (moved.date, moved.timeOfDay)
            made += [date.year - 2000, date.month, date.day, clock.hour, clock.minute].map { UInt8(clamping: $0) }
        } else {
            made += Self.impossible(parts)
        }
        return equal(octets, made + [octets[8], 0])
    }

    /// A time that is as impossible as this one: year, month, day, hour and minute.
    private static func impossible(_ parts: [Int]) -> [UInt8] {
        func part(_ place: Int, _ possible: ClosedRange<Int>, _ beyond: UInt8) -> UInt8 {
            possible.contains(parts[place]) ? UInt8(possible.lowerBound) : parts[place] == 0 ? 0 : beyond
        }
        let other = [
            parts[0] == 0 ? 0 : 20, part(1, 1...12, 13), part(2, 1...31, 32), part(3, 0...23, 24), part(4, 0...59, 60),
        ]
        // Each is possible, and together they are no day of the year.
        return other == [other[0], 1, 1, 0, 0] ? [other[0], 2, 30, 0, 0] : other
    }

    // MARK: Viatom

    /// A message that came in pieces.
    private struct ViatomMessage {
        var steps: [OwnStep]
        var octets: [[UInt8]]
        /// Where the octets of a list belong that it has, by the message.
        var places: [Int: (list: Int, offset: Int)] = [:]
    }

    /// The longest list that is believed.
    private static let longestList = 1 << 20

    private mutating func viatom(_ steps: [OwnStep]) -> [Int: [UInt8]] {
        // An O2Ring has the same characteristics. A piece doesn't say whose it is, so the first message decides.
        let first = steps.first { $0.uuid == Viatom.requests } ?? steps.first { $0.uuid == Viatom.answers }
        guard first?.octets.first == ViatomFrame.start else { return o2ring(steps) }
        var (found, pieces): ([Int: [UInt8]], ViatomPieces) = ([:], ViatomPieces())
        var (messages, lists): ([ViatomMessage], [[UInt8?]]) = ([], [[]])
        // Pieces of messages that are whole, and of one that may go on.
        var (waiting, whole): ([OwnStep], [[UInt8]]) = ([], [])
        // What was asked for, by the number of the message that asked.
        var asked: [UInt8: (list: Int, offset: Int)] = [:]
        func settle() {
            guard !waiting.isEmpty else { return }
            // What follows whole messages is none, and becomes zeros.
            let rest = waiting.flatMap(\.octets).dropFirst(whole.reduce(0) { $0 + $1.count })
            var message = ViatomMessage(steps: waiting, octets: whole + [Array(rest)])
            for (number, octets) in message.octets.enumerated() {
                // An answer may come late or twice: it belongs where it was asked for.
                guard let frame = try? ViatomFrame(decoding: octets), frame.command == 0xF3,
                    let (list, offset) = asked[frame.number]
                else { continue }
                message.places[number] = (list, offset)
                let missing = offset + frame.payload.count - lists[list].count
                lists[list] += [UInt8?](repeating: nil, count: max(0, missing))
                for (place, octet) in frame.payload.enumerated() { lists[list][offset + place] = octet }
            }
            messages.append(message)
            (waiting, whole) = ([], [])
        }
        for step in steps {
            if step.uuid == Viatom.requests {
                settle()
                pieces = ViatomPieces()
                guard let frame = try? ViatomFrame(decoding: step.octets) else { continue }
                // A list's name, where to read on, and nothing else; another command's payload is not understood.
                let keeps = [0xE1, 0xF2, 0xF3, 0xF4].contains(frame.command)
                found[step.place] = Self.frame(frame, keeps ? frame.payload : frame.payload.map { _ in 0 }).encoded
                if frame.command == 0xF2 { (lists, asked) = (lists + [[]], [:]) }
                let offset = Int(Self.word(frame.payload.prefix(4)))
                if frame.command == 0xF3, frame.payload.count == 4, offset <= Self.longestList {
                    asked[frame.number] = (lists.count - 1, offset)
                }
            } else if step.uuid == Viatom.answers {
                waiting.append(step)
                whole += pieces.take(step.octets)
                if whole.reduce(0, { $0 + $1.count }) == waiting.reduce(0, { $0 + $1.octets.count }) { settle() }
            }
        }
        settle()
        // Records lie across the messages that bring them: a list is replaced as a whole, then cut as it came.
        let others = lists.map { viatomList($0) }
        for message in messages {
            let made = message.octets.enumerated().flatMap { number, octets -> [UInt8] in
                guard let frame = try? ViatomFrame(decoding: octets) else { return octets.map { _ in 0 } }
                var payload = viatomAnswer(frame)
                if let (list, offset) = message.places[number] {
                    payload = Array(others[list][offset..<(offset + frame.payload.count)])
                }
                return Self.frame(frame, payload).encoded
            }
            found.merge(Self.pieces(made, like: message.steps)) { first, _ in first }
        }
        return found
    }

    /// What stays of an O2Ring, which has a BP2's characteristics and another protocol: the questions that name no
    /// recording. Names and answers are not understood here.
    private func o2ring(_ steps: [OwnStep]) -> [Int: [UInt8]] {
        func isWithoutName(_ octets: [UInt8]) -> Bool {
            octets.count == 8 && octets[0] == 0xAA && [0x04, 0x05, 0x14, 0x17].contains(octets[1])
                && octets[2] == ~octets[1]
        }
        return Dictionary(
            steps.compactMap { step in
                step.uuid == Viatom.requests && isWithoutName(step.octets) ? (step.place, step.octets) : nil
            }, uniquingKeysWith: { first, _ in first })
    }

    /// What replaces a list. A record of which an octet is missing becomes zeros.
    private mutating func viatomList(_ octets: [UInt8?]) -> [UInt8] {
        var made = octets.prefix(ViatomPressure.head).map { _ in UInt8(0) }
        for start in stride(from: ViatomPressure.head, to: octets.count, by: ViatomPressure.length) {
            let part = octets[start..<min(start + ViatomPressure.length, octets.count)]
            let record = part.compactMap(\.self)
            made += record.count == ViatomPressure.length ? viatomRecord(record) : part.map { _ in 0 }
        }
        return made
    }

    private static func frame(_ frame: ViatomFrame, _ payload: [UInt8]) -> ViatomFrame {
        ViatomFrame(command: frame.command, direction: frame.direction, number: frame.number, payload: payload)
    }

    private func viatomAnswer(_ frame: ViatomFrame) -> [UInt8] {
        let payload = frame.payload
        switch frame.command {
        case 0xF2 where payload.count == 4: return payload
        case 0xE1 where payload.count >= 31:
            var made = payload.map { _ in UInt8(0) }
            for (place, octet) in times.dateTime(Array(payload[24..<31]), of: .clock).enumerated() {
                made[24 + place] = octet
            }
            return made
        default: return payload.map { _ in 0 }
        }
    }

    private mutating func viatomRecord(_ octets: [UInt8]) -> [UInt8] {
        guard octets.count == ViatomPressure.length, octets.contains(where: { $0 != 0 }),
            octets.contains(where: { $0 != 0xFF })
        else { return octets }
        func value(_ number: ReplacedNumber, _ place: Int, _ count: Int) -> [UInt8] {
            let sent = Self.word(octets[place..<(place + count)])
            return Self.octets(self.number(number, sent, highest: 1 << (8 * count) - 1), count)
        }
        let person = person(Self.word(octets[4..<8]))
        var replaced: [UInt8] = Self.octets(times.count(Self.word(octets[0..<4]), from: 0, of: .record), 4)
        replaced += Self.octets(person, 4)
        // Whether it is the mean of three. The seconds between them and the status are not the model's alone.
        replaced += [octets[8] <= 1 ? octets[8] : 0, 0, 0, 0, 0]
        replaced += value(.systolic(inKilopascal: false), 13, 2)
        replaced += value(.diastolic(inKilopascal: false), 15, 2)
        replaced += value(.mean(inKilopascal: false), 17, 2)
        replaced += value(.rate, 19, 1)
        replaced.append(octets[20] & 3)
        replaced += [UInt8](repeating: 0, count: 16)
        return replaced
    }

    /// Another number for a maker's number of a person: each person's own. 0, which is nobody, stays.
    private mutating func person(_ number: UInt32) -> UInt32 {
        guard number != 0 else { return 0 }
        if let known = people[number] { return known }
        var generator = chance
        let free = (9...249).filter { other in !people.values.contains(UInt32(other)) }
        let other = UInt32(free.randomElement(using: &generator) ?? 249)
        people[number] = other
        return other
    }

    // MARK: Omron

    private func omron(_ steps: [OwnStep]) -> [Int: [UInt8]] {
        var found: [Int: [UInt8]] = [:]
        var answers: [(steps: [OwnStep], frame: OmronFrame)] = []
        var waiting: [OwnStep] = []
        func settle() {
            // Pieces come on several channels, in any order; one of each channel makes a message.
            let pieces = waiting.sorted { $0.channel < $1.channel }
            if let frame = try? OmronFrame(decoding: pieces.flatMap(\.octets)) { answers.append((pieces, frame)) }
            waiting = []
        }
        for step in steps {
            if step.uuid == Omron.key {
                // Kind and outcome stay; the key, which is in every message, does not.
                let kept = step.octets.first.map { $0 & 0x80 != 0 ? 2 : 1 } ?? 0
                found[step.place] = step.octets.prefix(kept) + step.octets.dropFirst(kept).map { _ in 0 }
            } else if step.uuid == Omron.requests {
                settle()
                guard let frame = try? OmronFrame(decoding: step.octets) else { continue }
                // This gateway only asks; what another host writes into the memory is its own.
                found[step.place] =
                    frame.data.isEmpty
                    ? step.octets
                    : OmronFrame(
                        .read, address: frame.address, count: frame.count, data: frame.data.map { _ in 0 }
                    ).encoded
            } else if Omron.answers.contains(step.uuid) {
                if waiting.contains(where: { $0.uuid == step.uuid }) { settle() }
                waiting.append(step)
            }
        }
        settle()
        var memory = OmronDisguise()
        for answer in answers where answer.frame.kind == OmronFrame.Kind.hasRead.rawValue {
            memory.note(answer.frame.data, at: answer.frame.address)
        }
        var generator = chance
        memory.settle(using: &generator, moving: times.record)
        for (steps, frame) in answers {
            var made = frame
            made.data =
                frame.kind == OmronFrame.Kind.hasRead.rawValue
                ? memory.octets(frame.data.count, at: frame.address) : frame.data.map { _ in 0 }
            found.merge(Self.pieces(made.encoded, like: steps)) { first, _ in first }
        }
        return found
    }

    // MARK: Commands

    /// Commands that are written as they are, to any device of their model.
    private static let commands: [BluetoothUUID: Set<[UInt8]>] = [
        // A&D: send all records again.
        BluetoothUUID(high: 0x233B_F001_5A34_1B6D, low: 0x975C_000D_5690_ABE4): [[0x02, 0x00, 0xE1]],
        // QardioArm: start, stop.
        BluetoothUUID(high: 0x583C_B5B3_875D_40ED, low: 0x9098_C39E_B0C1_983D): [[0xF1, 0x01], [0xF1, 0x02]],
    ]

    private func commands(_ steps: [OwnStep]) -> [Int: [UInt8]] {
        Dictionary(
            steps.compactMap { step in
                Self.commands[step.uuid]?.contains(step.octets) == true ? (step.place, step.octets) : nil
            }, uniquingKeysWith: { first, _ in first })
    }
}

/// A value of a characteristic that may belong to a maker's own protocol.
private struct OwnStep {
    let place: Int
    let uuid: BluetoothUUID
    let octets: [UInt8]
    /// Which of an Omron's channels it is.
    var channel: Int { Omron.answers.firstIndex(of: uuid) ?? 0 }
}

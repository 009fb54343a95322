import GATTClient
import GATTProfiles
import HealthDevices
import HealthReadings

/// Takes out of an exchange whose device it is, and what it measured.
///
/// Values and times become others, from random numbers that nobody keeps: they cannot be had back. What makes a model what
/// it is stays: handles, flags, units, lengths, exponents, special values, status, numbers of records, the order and the
/// moments of all steps, and what the device refused. Checksums are made right again, or wrong if they were.
public struct Anonymiser {
    /// What came out.
    public struct Result: Sendable, Hashable {
        /// The exchange with other values.
        public var exchange: Exchange
        /// The values whose fields are not known, and which are random octets now.
        public var withheld: [Withheld]

        /// Creates a result.
        public init(exchange: Exchange, withheld: [Withheld]) {
            self.exchange = exchange
            self.withheld = withheld
        }
    }

    /// Values of a characteristic of which nothing was kept but their lengths.
    public struct Withheld: Sendable, Hashable {
        /// The characteristic.
        public var uuid: BluetoothUUID
        /// How many values.
        public var values: Int
        /// How many octets they have together.
        public var octets: Int

        /// Creates a count of values.
        public init(uuid: BluetoothUUID, values: Int, octets: Int) {
            (self.uuid, self.values, self.octets) = (uuid, values, octets)
        }

        fileprivate mutating func add(_ count: Int) {
            values += 1
            octets += count
        }
    }

    private struct Value: Hashable {
        let uuid: BluetoothUUID
        let octets: [UInt8]
    }

    private struct Replacement {
        let octets: [UInt8]
        let isUnderstood: Bool
    }

    /// What is sent while it is measured, several times a second: the same value becomes another each time but the first in a row, or
    /// the course of a stream would stay.
    /// Beside what the profiles read, the intermediate pressure of a cuff and the intermediate temperature.
    private static let live = Set(ServiceProfile.live + [0x2A36, 0x2A1E])

    private let catalogue: Catalogue
    private let chance: Chance

    /// Creates an anonymiser.
    ///
    /// - Parameters:
    ///   - catalogue: tells what of a name is the model's.
    ///   - generator: what replaces values is taken from. Whoever can repeat it has the values back.
    public init(
        catalogue: Catalogue = Catalogue(),
        using generator: any RandomNumberGenerator & Sendable = SystemRandomNumberGenerator()
    ) {
        self.catalogue = catalogue
        chance = Chance(generator)
    }

    /// The exchange with other values. Each call uses other random numbers, so that two reports of a device have nothing in
    /// common that the model does not have.
    public func anonymous(_ exchange: Exchange) -> Result {
        let times = ReplacedTimes(using: chance)
        // The times of all records have to be known before one of them is replaced.
        _ = replaced(exchange, times)
        times.settle(around: exchange.start)
        return replaced(exchange, times)
    }

    private func replaced(_ exchange: Exchange, _ times: ReplacedTimes) -> Result {
        var generator = chance
        let original = exchange.advertisement
        let disguise = Disguise(address: original.address, serials: texts(.serialNumber, of: exchange))
        let known = [.manufacturerName, .modelNumber].flatMap { texts($0, of: exchange) }.map(disguise.text)
        var made = exchange
        made.start = times.instant(exchange.start).flooredToSecond
        made.advertisement = advertisement(original, disguise, known, times)
        made.advertisement.seenAt = made.start
        for place in made.characteristics.indices {
            let characteristic = exchange.characteristics[place]
            made.characteristics[place] = Characteristic(
                uuid: Self.uuid(characteristic.uuid, disguise),
                service: characteristic.service.map { Self.uuid($0, disguise) },
                valueHandle: characteristic.valueHandle, properties: characteristic.properties)
        }

        var own = OwnProtocols(times, chance)
        let ofMakers = own.replaced(exchange)
        let standard = StandardValues(times: times, chance: chance)
        var (replacements, taken): ([Value: Replacement], Set<Value>) = ([:], [])
        var last: [BluetoothUUID: [UInt8]] = [:]
        var withheld: [BluetoothUUID: Withheld] = [:]
        var weighings = Weighings()
        for (place, step) in exchange.steps.enumerated() {
            guard let handle = step.action.handle, let octets = step.action.octets, !octets.isEmpty else { continue }
            let uuid = exchange.characteristic(handle)?.uuid ?? BluetoothUUID(high: 0, low: UInt64(handle))
            let value = Value(uuid: uuid, octets: octets)
            var other: Replacement
            if let found = ofMakers[place] {
                other = Replacement(octets: found, isUnderstood: true)
            } else if let found = replacements[value], last[uuid] == octets || !Self.live.contains(uuid) {
                // The same value is the same again: devices that send each twice are known by that.
                other = found
            } else {
                func another() -> Replacement {
                    let found = text(octets, of: uuid, disguise, known) ?? standard.replaced(octets, of: uuid)
                    return Replacement(
                        octets: found ?? octets.map { _ in UInt8.random(in: 0...255, using: &generator) },
                        isUnderstood: found != nil)
                }
                // Others become others, if there are enough: a record that has no number is known by its value.
                var found = another()
                for _ in 0..<16 where taken.contains(Value(uuid: uuid, octets: found.octets)) { found = another() }
                taken.insert(Value(uuid: uuid, octets: found.octets))
                (other, replacements[value]) = (found, found)
            }
            let matched = weighings.matched(other.octets, with: octets, of: uuid)
            if matched != other.octets {
                other = Replacement(octets: matched, isUnderstood: other.isUnderstood)
                replacements[value] = other
            }
            last[uuid] = octets
            if !other.isUnderstood {
                let shown = Self.uuid(uuid, disguise)
                withheld[shown, default: Withheld(uuid: shown, values: 0, octets: 0)].add(octets.count)
            }
            made.steps[place].action = step.action.replacing(other.octets)
        }
        return Result(exchange: made, withheld: withheld.values.sorted { $0.uuid.description < $1.uuid.description })
    }

    /// What a device says of itself in such a text.
    private func texts(_ kind: DeviceInformationString.Kind, of exchange: Exchange) -> [String] {
        exchange.values.filter { exchange.characteristic($0.handle)?.uuid.assignedNumber == kind.rawValue }
            .map { DeviceInformationString(decoding: $0.octets).text }
    }

    /// A UUID without the device's address in it.
    private static func uuid(_ uuid: BluetoothUUID, _ disguise: Disguise) -> BluetoothUUID {
        guard uuid.assignedNumber == nil else { return uuid }
        return BluetoothUUID(littleEndian: disguise.octets(uuid.littleEndian)) ?? uuid
    }

    // MARK: Advertisement

    private func advertisement(
        _ original: Advertisement, _ disguise: Disguise, _ known: [String], _ times: ReplacedTimes
    ) -> Advertisement {
        var made = original
        made.address = original.address.map(address)
        made.name = original.name.map { name($0, disguise, known) }
        made.services = original.services.map { Self.uuid($0, disguise) }
        // What a maker says of its own may be a measurement. Omron's has counters alone.
        made.manufacturerData = Dictionary(
            uniqueKeysWithValues: original.manufacturerData.map { company, octets in
                (
                    company,
                    company == OmronAdvertisement.company
                        ? disguise.octets(OmronAdvertisement.shown(octets)) : octets.map { _ in 0 }
                )
            })
        made.serviceData = Dictionary(
            original.serviceData.map { service, octets in
                (Self.uuid(service, disguise), scale(octets, of: service, times) ?? octets.map { _ in 0 })
            }, uniquingKeysWith: { first, _ in first })
        return made
    }

    /// Another address of the same kind.
    private func address(_ original: DeviceAddress) -> DeviceAddress {
        var generator = chance
        let kind = original.bits & 0xC000_0000_0000
        return DeviceAddress(
            bits: original.kind == .random
                ? kind | UInt64.random(in: 1...0x3FFF_FFFF_FFFE, using: &generator)
                : UInt64.random(in: 1...0xFFFF_FFFF_FFFE, using: &generator), kind: original.kind)
    }

    /// A name without whose device it is. What the catalogue knows of it stays, and so do words that the device also says of its
    /// maker and model; of the rest, letters and digits become others.
    func name(_ name: String, _ disguise: Disguise, _ known: [String]) -> String {
        let ofModel = catalogue.models.flatMap(\.names).filter { $0.matches(name) }.map(\.text.count).max() ?? 0
        let kept = name.lowercased().hasPrefix("blesmart_") ? 17 : ofModel
        let words = Set(known.flatMap { $0.lowercased().split { !$0.isLetter && !$0.isNumber } })
        let word = /[\p{L}\p{N}]+/.matchingSemantics(.unicodeScalar)
        let rest = String(disguise.text(name).dropFirst(kept)).replacing(word) { match in
            words.contains(Substring(match.output.lowercased())) && match.output.contains(where: \.isLetter)
                ? String(match.output) : Disguise.template(String(match.output))
        }
        return String(name.prefix(kept)) + rest
    }

    /// What Xiaomi's scales advertise: flags stay, weight, impedance and time are others.
    private func scale(_ octets: [UInt8], of service: BluetoothUUID, _ times: ReplacedTimes) -> [UInt8]? {
        var fields = ReplacedFields(octets, times, chance)
        let weight = ReplacedNumber(60...85, within: 1...300, scale: 0.005)
        switch (service.assignedNumber, octets.count) {
        case (0x181B, 13):
            fields.keep(2)
            fields.dateTime()
            if octets[9...10].elementsEqual([0xFE, 0xFF]) || octets[9...10].elementsEqual([0xFD, 0xFF]) {
                fields.keep(2)
            } else {
                fields.word(ReplacedNumber(400...600, within: 1...3000))
            }
            fields.word(weight)
        case (0x181D, 10):
            fields.keep()
            fields.word(weight)
            fields.dateTime()
        default: return nil
        }
        return fields.octets
    }

    // MARK: Texts

    /// `nil` for a characteristic that is no text.
    private func text(
        _ octets: [UInt8], of uuid: BluetoothUUID, _ disguise: Disguise, _ known: [String]
    ) -> [UInt8]? {
        guard let number = uuid.assignedNumber else { return nil }
        let kind = DeviceInformationString.Kind(rawValue: number)
        // The system identifier is made of the address, and the certifications are octets.
        if number == 0x2A23 || number == 0x2A2A { return octets.map { _ in 0 } }
        guard kind != nil || number == 0x2A00 else { return nil }
        let string = DeviceInformationString(decoding: octets)
        guard string.isFaithful else { return octets.map { _ in 0 } }
        let made =
            switch kind {
            case .serialNumber: Disguise.template(string.text)
            case nil: name(string.text, disguise, known)
            // A serial number may begin with the model's.
            case .manufacturerName, .modelNumber: disguise.text(string.text)
            default: disguise.strictText(string.text)
            }
        let found = Array(made.utf8.prefix(octets.count))
        return found + [UInt8](repeating: 0, count: octets.count - found.count)
    }
}

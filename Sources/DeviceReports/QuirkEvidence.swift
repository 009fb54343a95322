import GATTClient
import GATTProfiles
import HealthDevices
import HealthReadings

/// The quirks that an exchange shows, and how often.
///
/// Only what the octets prove: a quirk that is not among these may still be the device's.
public struct QuirkEvidence: Sendable, Hashable {
    /// What was seen how often; nothing that was not seen.
    public private(set) var seen: [Quirk: Int] = [:]

    /// Looks through an exchange.
    public init(_ exchange: Exchange) {
        let uuids = Dictionary(
            exchange.characteristics.map { ($0.valueHandle, $0.uuid) }, uniquingKeysWith: { first, _ in first })
        if exchange.characteristics.contains(where: { $0.uuid == OneTouch.questions }) { note(.oneTouchProtocol) }
        var last: (handle: UInt16, octets: [UInt8])?
        var request: [UInt8] = []
        var numbers: [(sequence: UInt16, time: WallTime)] = []
        for step in exchange.steps {
            guard let handle = step.action.handle, let uuid = uuids[handle]?.assignedNumber else { continue }
            switch step.action {
            case .value(_, let octets):
                if [0x2A18, 0x2A34, 0x2A35].contains(uuid), let last, last.handle == handle, last.octets == octets {
                    note(.sendsTwice)
                }
                last = (handle, octets)
                switch uuid {
                case 0x2A18 where octets.count >= 10:
                    if octets[5] == 13 { note(.monthThirteen) }
                    if GlucoseMeasurement.isEmptyPartner(octets) {
                        note(.emptyPartners)
                    } else if let time = Self.time(Array(octets[3..<10])) {
                        numbers.append((UInt16(octets[1]) | UInt16(octets[2]) << 8, time))
                    }
                case 0x2A34 where Self.meal(octets) == 6: note(.mealSixIsKetone)
                case 0x2A35: notePressure(octets)
                case 0x2A52:
                    if octets.first == 6 { noteOrder(numbers) }
                    if octets.first == 6 { numbers = [] }
                    let isRefused = octets.count >= 4 && octets[0] == 6 && [2, 4, 5, 9].contains(octets[3])
                    if isRefused, request.starts(with: [1, 3]) {
                        note(.readsAll)
                    }
                default: break
                }
            case .write(_, let octets, _, let outcome):
                if uuid == 0x2A52 { (request, numbers) = (octets, []) }
                if [0x2A2B, 0x2A08].contains(uuid), case .refused = outcome { note(.refusesClock) }
            case .read(_, .done(let octets)):
                if uuid == 0x2A19, octets == [0] { note(.batteryReadsZero) }
            case .read, .enable, .disable, .disconnect: break
            }
        }
        noteOrder(numbers)
    }

    private mutating func note(_ quirk: Quirk) { seen[quirk, default: 0] += 1 }

    /// The time of a record, with month 13 as January; `nil` for one that cannot be, which has no place in an order.
    private static func time(_ octets: [UInt8]) -> WallTime? {
        guard var time = try? DateTime(decoding: octets) else { return nil }
        if time.month == 13 { time.month = 1 }
        // No device is as old as 1970, and a report keeps the year of such a time but not its order.
        guard let shown = time.wallTime, shown.secondsSinceEpoch >= 0 else { return nil }
        return shown
    }

    /// The meal of a context; `nil` if it has none.
    private static func meal(_ octets: [UInt8]) -> UInt8? {
        guard let flags = octets.first, flags & 0x02 != 0 else { return nil }
        let place = 3 + (flags & 0x80 != 0 ? 1 : 0) + (flags & 0x01 != 0 ? 3 : 0)
        return octets.indices.contains(place) ? octets[place] : nil
    }

    private mutating func notePressure(_ octets: [UInt8]) {
        guard let flags = octets.first else { return }
        if StandardValues.bigEndianPulse(octets) != nil { note(.bigEndianPulse) }
        let place = 7 + (flags & 0x02 != 0 ? 7 : 0) + (flags & 0x04 != 0 ? 2 : 0) + (flags & 0x08 != 0 ? 1 : 0)
        let status =
            flags & 0x10 != 0 && octets.count >= place + 2
            ? UInt16(octets[place]) | UInt16(octets[place + 1]) << 8 : 0
        if flags & 0xE0 != 0 || status & 0xFFC0 != 0 { note(.reservedBits) }
    }

    private mutating func noteOrder(_ numbers: [(sequence: UInt16, time: WallTime)]) {
        guard numbers.count >= 3 else { return }
        let pairs = zip(numbers, numbers.dropFirst())
        let (first, last) = (numbers[0].sequence, numbers[numbers.count - 1].sequence)
        let falls = pairs.allSatisfy { $0.sequence >= $1.sequence } && first > last
        let isMixed = pairs.contains { $0.sequence < $1.sequence && $1.time < $0.time }
        if first == 0, last > 0, pairs.allSatisfy({ $0.sequence <= $1.sequence && $0.time >= $1.time }) {
            // The newest comes first.
            note(.numbersByAge)
        } else if !falls, isMixed {
            note(.numbersOutOfOrder)
        }
    }
}

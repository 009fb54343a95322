import Foundation
import HealthReadings
import ReadingFormats
import ReadingStore

/// What was measured last, by meter, person and kind: what the broker is to keep for whoever looks later.
///
/// A newer reading takes the place of an older one and never the other way round, unless the newer one is taken back. What
/// the broker keeps from earlier counts as well: a reading that this store has pruned, or that it had before it was put back
/// from a copy, is not overwritten by an older one.
struct Board: Sendable {
    /// A meter of one person.
    struct Meter: Sendable {
        var device: DeviceDescription
        var person: String
        var newest: [ReadingKind: DeliveredReading]
    }

    /// What the broker keeps of a reading that is not on the board.
    struct Kept: Sendable {
        var measuredAt: Instant
        var reading: String
        /// Whether it has a weight, or what one could be computed from.
        var revealsWeight: Bool
    }

    let naming: Naming
    let place: MQTTPlace
    let sender: MQTTSender
    private(set) var meters: [String: Meter] = [:]
    /// By state topic: readings that the broker keeps and that are newer than what is on the board.
    private var kept: [String: Kept] = [:]
    /// State topics of what may not be shown: its person no longer consents, or it is not selected, or it is ignored.
    private var concealed: Set<String> = []
    /// Batteries by meter's id, in per cent.
    private var batteries: [String: UInt8] = [:]
    /// How many people the store knows.
    private var peopleCount = 1
    /// The meter and person that an id was made for last.
    private var last: (device: DeviceDescription, person: String, id: String)?

    init(naming: Naming, place: MQTTPlace, sender: MQTTSender) {
        self.naming = naming
        self.place = place
        self.sender = sender
    }

    private var topics: HomeAssistant.Topics { naming.topics }

    // MARK: What is known

    /// Shows a reading if none is newer. One that would not be delivered now takes everything of its kind off.
    mutating func show(_ delivered: DeliveredReading) {
        let (reading, kind) = (delivered.reading, delivered.reading.kind)
        let id = id(of: reading.device, person: delivered.person)
        let topic = topics.state(of: id, kind)
        guard delivered.hold == nil else {
            conceal(kind, of: id)
            return
        }
        concealed.remove(topic)
        if let present = meters[id]?.newest[kind], present.timestamp > delivered.timestamp { return }
        if let kept = kept[topic] {
            guard kept.measuredAt <= delivered.timestamp else { return }
            self.kept[topic] = nil
        }
        var meter = meters[id] ?? Meter(device: reading.device, person: delivered.person, newest: [:])
        meter.device = reading.device
        meter.newest[kind] = delivered
        meters[id] = meter
    }

    /// Takes off what may not be shown, also of readings that were pruned here.
    mutating func conceal(_ devices: ShownDevices, of people: [StoreUser]) {
        guard !devices.areWhole else { return }
        let shown = Set(meters.keys).union(kept.keys.compactMap(Self.id(in:)))
        for person in people {
            // Devices without an address are one meter if they are of one model.
            var places: [String: [Int]] = [:]
            for (place, device) in devices.devices.enumerated() {
                for id in naming.ids(of: device, person: person.clientUserID) where shown.contains(id) {
                    places[id, default: []].append(place)
                }
            }
            for (id, places) in places {
                for kind in ReadingKind.delivered
                where places.allSatisfy({ devices.isHeld(kind, at: $0, of: person.key) }) {
                    conceal(kind, of: id)
                }
                if !devices.mayWeigh(person.key) { withholdWeight(of: id) }
            }
        }
    }

    private mutating func conceal(_ kind: ReadingKind, of id: String) {
        let topic = topics.state(of: id, kind)
        concealed.insert(topic)
        kept[topic] = nil
        meters[id]?.newest[kind] = nil
        if meters[id]?.newest.isEmpty == true { meters[id] = nil }
    }

    /// Takes the weight off that came with a body composition.
    private mutating func withholdWeight(of id: String) {
        if let composition = meters[id]?.newest[.bodyComposition]?.reading {
            meters[id]?.newest[.bodyComposition]?.reading = composition.withholdingWeight
        }
        let topic = topics.state(of: id, .bodyComposition)
        if kept[topic]?.revealsWeight == true { conceal(.bodyComposition, of: id) }
    }

    /// The id of a meter and a person. A backlog is mostly one meter's.
    private mutating func id(of device: DeviceDescription, person: String) -> String {
        if let last, last.device == device, last.person == person { return last.id }
        let id = naming.id(of: device, person: person)
        last = (device, person, id)
        return id
    }

    /// Notes what the broker keeps for a state's topic.
    mutating func note(_ payload: [UInt8], at topic: String) {
        guard let state = try? JSONDecoder().decode(KeptState.self, from: Data(payload)),
            let time = state.measuredAt.flatMap(Instant.init(rfc3339:)), let reading = state.reading,
            !concealed.contains(topic)
        else { return }
        let known = meters.lazy.flatMap { id, meter in meter.newest.map { (id, $0.key, $0.value) } }
            .first { topics.state(of: $0.0, $0.1) == topic }
        if let known, known.2.timestamp >= time { return }
        let members = (try? JSONSerialization.jsonObject(with: Data(payload)) as? [String: Any]) ?? [:]
        kept[topic] = Kept(
            measuredAt: time, reading: reading,
            revealsWeight: VitalValue.Part.allCases.contains { part in
                part.revealsWeight && members[part.name].map { !($0 is NSNull) } ?? false
            })
    }

    /// Takes readings off, and puts in their place the newest that are left.
    mutating func takeBack(_ readings: Set<ReadingID>, newest: [DeliveredReading]) {
        let names = Set(readings.map(\.description))
        kept = kept.filter { !names.contains($0.value.reading) }
        for (id, meter) in meters {
            meters[id]?.newest = meter.newest.filter { !readings.contains($0.value.reading.id) }
            if meters[id]?.newest.isEmpty == true { meters[id] = nil }
        }
        for reading in newest where !readings.contains(reading.reading.id) { show(reading) }
    }

    /// Whether one of these readings is shown.
    func shows(anyOf readings: Set<ReadingID>) -> Bool {
        let names = Set(readings.map(\.description))
        return kept.values.contains { names.contains($0.reading) }
            || meters.values.contains { $0.newest.values.contains { readings.contains($0.reading.id) } }
    }

    /// Notes which devices and people there are, and takes off what belongs to others.
    ///
    /// - Returns: the ids that meters may have.
    mutating func note(_ devices: [StoredDevice], _ people: [StoreUser]) -> Set<String> {
        let names = people.map(\.clientUserID)
        peopleCount = names.count { !$0.isEmpty }
        batteries = [:]
        var known: Set<String> = []
        for device in devices {
            for person in names {
                // Of a meter that is barred since somebody was erased, others may still have readings.
                let ids = naming.ids(of: device, person: person).filter { !device.isBarred || meters[$0] != nil }
                known.formUnion(ids)
                guard let percent = device.batteryPercent else { continue }
                for id in ids where meters[id] != nil { batteries[id] = percent }
            }
        }
        meters = meters.filter { known.contains($0.key) }
        kept = kept.filter { topic, _ in Self.id(in: topic).map(known.contains) ?? false }
        return known
    }

    // MARK: What the broker is to keep

    /// The messages that the broker is to keep, by topic. Readings it is known to keep are not among them.
    func messages() -> [String: String] {
        var messages: [String: String] = [:]
        let gateway = GatewayFacts(id: topics.node, version: sender.version)
        if place.isForHomeAssistant {
            messages[topics.gateway] = HomeAssistant.discovery(ofGateway: gateway, topics: topics).text
        }
        let names = self.names()
        for (id, meter) in meters {
            for (kind, delivered) in meter.newest {
                let topic = topics.state(of: id, kind)
                guard kept[topic] == nil, let state = try? HomeAssistant.state(of: delivered.reading) else { continue }
                messages[topic] = marked(state)
            }
            if let percent = batteries[id] {
                messages[topics.battery(of: id)] = marked(HomeAssistant.state(battery: percent))
            }
            guard place.isForHomeAssistant else { continue }
            messages[topics.discovery(of: id)] =
                HomeAssistant.discovery(
                    of: HomeAssistant.Meter(
                        id: id, name: names[id] ?? "Meter", facts: facts(of: meter.device),
                        hasBattery: batteries[id] != nil, newest: meter.newest.values.map(\.reading)),
                    topics: topics, gateway: gateway
                ).text
        }
        return messages
    }

    /// A state with whose it is: another gateway may publish under the same topic.
    private func marked(_ state: JSONValue) -> String {
        guard case .object(let members) = state else { return state.text }
        return JSONValue.object(members + [.init("gateway", .string(topics.node))]).text
    }

    /// Whether a state that the broker keeps is one of this gateway's.
    func isOurs(_ payload: [UInt8]) -> Bool {
        (try? JSONDecoder().decode(KeptState.self, from: Data(payload)))?.gateway == topics.node
    }

    /// Whether what the broker keeps for a topic, and is not among ``messages()``, is to be removed.
    ///
    /// - Parameter known: the ids that meters may have.
    func isObsolete(_ topic: String, known: Set<String>) -> Bool {
        if topic.hasPrefix("homeassistant/") {
            guard place.isForHomeAssistant else { return true }
            guard let id = known.first(where: { topics.discovery(of: $0) == topic }) else {
                return topic != topics.gateway
            }
            return isConcealed(id)
        }
        if kept[topic] != nil { return false }
        guard let id = Self.id(in: topic) else { return false }
        // A battery that is not known any more, of a meter that is, still is the last one that was.
        return !known.contains(id) || !topic.hasSuffix("/battery") || isConcealed(id)
    }

    /// Whether nothing of a meter may be shown any more. Of one whose readings were only pruned, the broker keeps the last.
    private func isConcealed(_ id: String) -> Bool {
        let states = topics.states(of: id)
        return meters[id] == nil && concealed.contains { $0.hasPrefix(states) }
            && !kept.keys.contains { $0.hasPrefix(states) }
    }

    /// The meter's id in a state's topic.
    private static func id(in topic: String) -> String? {
        let levels = topic.split(separator: "/")
        return levels.count >= 3 ? String(levels[levels.count - 2]) : nil
    }

    /// What people call each meter: with the person if there are several people, with a part of the id if that is not enough.
    private func names() -> [String: String] {
        let names = meters.mapValues { meter in
            let facts = facts(of: meter.device)
            let model = facts.model ?? meter.device.model ?? "Meter"
            let brand = facts.manufacturer.flatMap { model.hasPrefix($0) ? nil : $0 + " " } ?? ""
            return brand + model + (peopleCount > 1 && !meter.person.isEmpty ? " (\(meter.person))" : "")
        }
        let counts = Dictionary(grouping: names.values) { $0 }.mapValues(\.count)
        return names.reduce(into: [:]) { result, entry in
            result[entry.key] =
                counts[entry.value, default: 1] > 1 ? "\(entry.value) \(entry.key.prefix(4))" : entry.value
        }
    }

    private func facts(of device: DeviceDescription) -> DeviceFacts {
        device.model.flatMap(sender.facts) ?? DeviceFacts()
    }
}

/// What of a state tells which reading it is.
private struct KeptState: Decodable {
    var measuredAt: String?
    var reading: String?
    var gateway: String?

    enum CodingKeys: String, CodingKey {
        case measuredAt = "measured_at"
        case reading = "reading_id"
        case gateway
    }
}

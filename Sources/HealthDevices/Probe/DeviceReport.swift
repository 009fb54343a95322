import GATTClient
import HealthReadings

/// What could safely be read of a device, so that its model can be added to the catalogue.
///
/// Nothing in it tells whose device it is, or what was measured: addresses, serial numbers and times are left out, names
/// have zeros for their numbers, and records have other values, with their flags and with sums that hold.
public struct DeviceReport: Sendable, Hashable {
    /// What became of a characteristic's value.
    public enum Finding: Sendable, Hashable {
        /// Its octets.
        case value([UInt8])
        /// A text.
        case text(String)
        /// It was read, and only how many octets it has is told: it belongs to this device, or to its owner.
        case hidden(count: Int)
        /// The device refused, with its code.
        case refused(UInt8)
        /// It could not be read for another reason.
        case failed(String)
    }

    /// A characteristic.
    public struct Attribute: Sendable, Hashable {
        /// What it is, and where.
        public var characteristic: Characteristic
        /// What became of its value; `nil` if it was not asked for.
        public var finding: Finding?
    }

    /// What became of the memory of a maker's own protocol.
    enum Memory: Sendable, Hashable {
        /// An Omron's: its layout by ``OmronMap``, with the records disguised, and the models that agree with it.
        case omron(stack: String, runs: [OmronMap.Run], areas: [OmronMap.Area], clock: UInt16?, models: [String])
        /// It was not read, by a published code and in a few words.
        case unread(ContactFailure)
    }

    /// The name, without its numbers.
    public var name: String?
    /// `public` or `random`.
    public var addressKind: String?
    /// The services it advertises.
    public var advertisedServices: [BluetoothUUID]
    /// What its maker adds to the advertisement, by company identifier.
    public var manufacturerData: [UInt16: [UInt8]]
    /// Received signal strength in dBm.
    public var rssi: Int8?
    /// Whether it is paired with this gateway, with a bond or, where such a device makes none, without.
    public var isPaired: Bool
    /// The catalogue's id of the model it is taken for now; `nil` if for none.
    public var model: String?
    /// How long the connection took to be made, in milliseconds.
    public var connectMilliseconds: Int64 = 0
    /// How long the characteristics took to be listed, in milliseconds.
    public var discoveryMilliseconds: Int64 = 0
    /// The characteristics, by their handles.
    public var attributes: [Attribute] = []
    /// The memory behind a maker's own protocol; `nil` if there is none that is known.
    var memory: Memory?
    /// Why the report ends early; `nil` if it does not.
    public var failure: ContactFailure?

    init(_ advertisement: Advertisement, model: String?) {
        addressKind = advertisement.address.map { $0.kind == .public ? "public" : "random" }
        advertisedServices = advertisement.services
        (rssi, isPaired, self.model) = (advertisement.rssi, advertisement.isPaired, model)
        name = advertisement.name
        manufacturerData = advertisement.manufacturerData
    }

    /// Leaves out what tells this device from others of its model.
    mutating func disguise(_ disguise: Disguise) {
        name = name.map(disguise.text)
        // Some scales advertise what they weigh. Omron's own part has counters alone.
        manufacturerData = Dictionary(
            uniqueKeysWithValues: manufacturerData.map { company, octets in
                let isKnown = company == OmronAdvertisement.company
                return (company, isKnown ? disguise.octets(octets) : octets.map { _ in 0 })
            })
        for place in attributes.indices {
            switch attributes[place].finding {
            case .value(let octets): attributes[place].finding = .value(disguise.octets(octets))
            case .text(let text): attributes[place].finding = .text(disguise.text(text))
            case .hidden, .refused, .failed, nil: break
            }
        }
    }
}

// MARK: As a document

extension DeviceReport {
    /// The version of ``document``: it grows when what it says is said in another way.
    public static let version = 1

    /// The report as JSON.
    public var document: JSONValue {
        .object([
            "report": .string("healthrelay.device"), "version": .integer(Int64(Self.version)),
            "name": .optional(name), "address_kind": .optional(addressKind),
            "advertised_services": .array(advertisedServices.map { .string($0.description) }),
            "manufacturer_data": .object(
                manufacturerData.sorted { $0.key < $1.key }.map {
                    JSONValue.Member($0.key.hexadecimal(), .string($0.value.hexadecimal()))
                }),
            "rssi": .optional(rssi), "paired": .bool(isPaired), "model": .optional(model),
            "connect_ms": .integer(connectMilliseconds), "discovery_ms": .integer(discoveryMilliseconds),
            "characteristics": .array(attributes.map(\.document)), "memory": memory?.document ?? .null,
            "error": .optional(failure?.code),
        ])
    }

    /// The report for people.
    public var lines: [String] {
        var lines = [
            "name             \(name ?? "-")",
            "model            \(model ?? "none of the catalogue")",
            "advertises       \(advertisedServices.map(\.description).joined(separator: " "))",
        ]
        for (company, octets) in manufacturerData.sorted(by: { $0.key < $1.key }) {
            lines.append("maker's data     \(company.hexadecimal()): \(octets.hexadecimal())")
        }
        lines.append("paired           \(isPaired ? "yes" : "no")")
        lines.append(
            "connected after  \(connectMilliseconds) ms, characteristics after \(discoveryMilliseconds) ms more")
        var service: BluetoothUUID?
        for attribute in attributes {
            if attribute.characteristic.service != service {
                service = attribute.characteristic.service
                lines.append("service \(service?.description ?? "-")")
            }
            lines.append("  \(attribute.line)")
        }
        lines += memory?.lines ?? []
        if let failure { lines.append("ended early: \(failure.description)") }
        return lines
    }
}

extension DeviceReport.Attribute {
    private var properties: [String] {
        CharacteristicProperties.names.filter { characteristic.properties?.contains($0.property) == true }.map(\.name)
    }

    fileprivate var document: JSONValue {
        var members: [JSONValue.Member] = [
            .init("service", .optional(characteristic.service?.description)),
            .init("uuid", .string(characteristic.uuid.description)),
            .init("handle", .integer(Int64(characteristic.valueHandle))),
            .init(
                "properties", characteristic.properties.map { _ in .array(properties.map(JSONValue.string)) } ?? .null),
        ]
        switch finding {
        case nil: break
        case .value(let octets): members.append(.init("octets", .string(octets.hexadecimal())))
        case .text(let text): members.append(.init("text", .string(text)))
        case .hidden(let count): members.append(.init("hidden_octets", .integer(Int64(count))))
        case .refused(let code): members.append(.init("refused", .integer(Int64(code))))
        case .failed(let words): members.append(.init("failed", .string(words)))
        }
        return .object(members)
    }

    fileprivate var line: String {
        let value =
            switch finding {
            case nil: ""
            case .value(let octets): "= \(octets.hexadecimal())"
            case .text(let text): "= \(text)"
            case .hidden(let count): "= \(count) octets, left out"
            case .refused(let code): "refused (0x\(code.hexadecimal()))"
            case .failed(let words): "not read: \(words)"
            }
        return "\(characteristic.uuid)  \(properties.joined(separator: ", "))  \(value)"
    }
}

extension DeviceReport.Memory {
    fileprivate var document: JSONValue {
        switch self {
        case .unread(let failure):
            return .object(["protocol": .string("omron"), "error": .string(failure.code)])
        case .omron(let stack, let runs, let areas, let clock, let models):
            return .object([
                "protocol": .string("omron"), "link": .string(stack), "clock": .optional(clock?.hexadecimal()),
                "models": .array(models.map(JSONValue.string)),
                "records": .array(runs.map(\.document)), "areas": .array(areas.map(\.document)),
            ])
        }
    }

    fileprivate var lines: [String] {
        switch self {
        case .unread(let failure): return ["memory: not read: \(failure.description)"]
        case .omron(let stack, let runs, let areas, let clock, let models):
            var lines = ["memory (\(stack)), with other values in the records"]
            lines += runs.map { run in
                "  \(run.address.hexadecimal())  \(run.count) records of \(run.layout.length) octets, "
                    + "\(run.layout.order == .lowFirst ? "low" : "high") octet first; \(run.blankSlots) blank slots follow"
            }
            lines += areas.map { "  \($0.address.hexadecimal())  \($0.words)" }
            if let clock { lines.append("  \(clock.hexadecimal())  the clock stands here") }
            lines.append(
                models.isEmpty
                    ? "  agrees with no layout of the catalogue"
                    : "  agrees with the layout of \(models.joined(separator: ", "))")
            return lines
        }
    }
}

extension OmronMap.Run {
    fileprivate var document: JSONValue {
        .object([
            "address": .string(address.hexadecimal()), "length": .integer(Int64(layout.length)),
            "order": .optional(layout.order?.rawValue), "blank_slots": .integer(Int64(blankSlots)),
            "slots": .array(slots.map { .string($0.hexadecimal()) }),
        ])
    }
}

extension OmronMap.Area {
    fileprivate var document: JSONValue {
        var members: [JSONValue.Member] = [
            .init("address", .string(address.hexadecimal())), .init("count", .integer(Int64(count))),
        ]
        switch content {
        case .index(let octets): members.append(.init("index", .string(octets.hexadecimal())))
        case .blank(let octet): members.append(.init("blank", .string(octet.hexadecimal())))
        case .hidden: members.append(.init("hidden", .bool(true)))
        case .refused(let code): members.append(.init("refused", .integer(Int64(code))))
        }
        return .object(members)
    }

    fileprivate var words: String {
        switch content {
        case .index(let octets): "index \(octets.hexadecimal())"
        case .blank(let octet): "\(count) octets, all \(octet.hexadecimal())"
        case .hidden: "\(count) octets, left out"
        case .refused(let code): "\(count) octets that cannot be read (0x\(code.hexadecimal()))"
        }
    }
}

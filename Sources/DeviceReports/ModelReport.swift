import GATTClient
import GATTProfiles
import HealthDevices
import HealthReadings

/// What proves a model: an exchange with a device, without anything of its owner.
///
/// It is made of an anonymous exchange alone, and can be read back: see ``init(reading:)``.
public struct ModelReport: Sendable, Hashable {
    /// How the contact ended, as the gateway saw it.
    public struct Course: Sendable, Hashable {
        /// Whether everything came that the device has.
        public var isComplete: Bool
        /// How many records came.
        public var records: Int
        /// The published code of what went wrong; `nil` if nothing did.
        public var error: String?

        /// Creates a course.
        public init(isComplete: Bool, records: Int, error: String? = nil) {
            self.isComplete = isComplete
            self.records = records
            self.error = error
        }
    }

    /// The version of the document: it grows when what it says is said in another way.
    public static let version = 1
    /// The `report` of the document.
    public static let kind = "healthrelay.device_report"
    static let mostCharacteristics = 1000

    /// The version of the program that made it.
    public var software: String
    /// The catalogue's id of the model that the device is taken for; `nil` if for none.
    public var model: String?
    /// What was said, with other values.
    public var exchange: Exchange
    /// The values that are random octets.
    public var withheld: [Anonymiser.Withheld]
    /// How the contact ended.
    public var course: Course

    /// Creates a report.
    public init(
        _ anonymous: Anonymiser.Result, model: String?, course: Course, software: String
    ) {
        self.software = software
        self.model = model
        exchange = anonymous.exchange
        withheld = anonymous.withheld
        self.course = course
    }

    init(
        exchange: Exchange, withheld: [Anonymiser.Withheld], model: String?, course: Course, software: String
    ) {
        (self.exchange, self.withheld, self.model) = (exchange, withheld, model)
        (self.course, self.software) = (course, software)
    }
}

// MARK: What follows from the exchange

extension ModelReport {
    /// A request to the record access control point, and what came of it.
    struct Procedure {
        var request: [UInt8]
        var answer: [UInt8]?
        var refused: UInt8?
        var values = 0
        var milliseconds: Int64 = 0
    }

    /// The requests to control points of records and sessions.
    var procedures: [Procedure] {
        let points: Set<BluetoothUUID> = [.recordAccess, 0x2AAC]
        var (found, began): ([Procedure], Int64) = ([], 0)
        for step in exchange.steps {
            guard let handle = step.action.handle, let uuid = exchange.characteristic(handle)?.uuid else { continue }
            switch step.action {
            case .write(_, let octets, _, let outcome) where points.contains(uuid):
                began = step.milliseconds
                var procedure = Procedure(request: octets)
                if case .refused(let code) = outcome { procedure.refused = code }
                found.append(procedure)
            case .value(_, let octets) where !found.isEmpty:
                let last = found.count - 1
                guard found[last].answer == nil else { continue }
                found[last].milliseconds = step.milliseconds - began
                if points.contains(uuid) { found[last].answer = octets } else { found[last].values += 1 }
            default: continue
            }
        }
        return found
    }

    /// The first value that was read of each characteristic, with what it is.
    private func read(_ wanted: (BluetoothUUID) -> Bool) -> [(uuid: BluetoothUUID, octets: [UInt8])] {
        var found: [(uuid: BluetoothUUID, octets: [UInt8])] = []
        for case .read(let handle, .done(let octets)) in exchange.steps.map(\.action) {
            guard let uuid = exchange.characteristic(handle)?.uuid, wanted(uuid),
                !found.contains(where: { $0.uuid == uuid })
            else { continue }
            found.append((uuid, octets))
        }
        return found.sorted { $0.uuid.description < $1.uuid.description }
    }

    private var information: [(name: String, text: String)] {
        read { $0.assignedNumber.flatMap(DeviceInformationString.Kind.init(rawValue:)) != nil }.compactMap { value in
            value.uuid.assignedNumber.flatMap(DeviceInformationString.Kind.init(rawValue:)).map {
                ($0.name, DeviceInformationString(decoding: value.octets).text)
            }
        }
    }

    private var features: [(uuid: BluetoothUUID, octets: [UInt8])] {
        read { StandardValues.features.contains($0) || $0 == 0x2A50 }
    }

    /// When the first value came unasked, and the longest silence between two; in milliseconds.
    private var pauses: (first: Int64?, longest: Int64?) {
        let first = exchange.steps.first?.milliseconds ?? 0
        let moments = exchange.steps.compactMap { step -> Int64? in
            if case .value = step.action { step.milliseconds - first } else { nil }
        }
        return (moments.first, zip(moments, moments.dropFirst()).map { $1 - $0 }.max())
    }

    private var duration: Int64? {
        guard let first = exchange.steps.first, let last = exchange.steps.last else { return nil }
        return last.milliseconds - first.milliseconds
    }

    private var endedBy: String? {
        for case .disconnect(let byDevice) in exchange.steps.map(\.action) { return byDevice ? "device" : "gateway" }
        return nil
    }

    private var quirks: [(quirk: Quirk, seen: Int)] {
        QuirkEvidence(exchange).seen.sorted { $0.key.rawValue < $1.key.rawValue }.map { ($0.key, $0.value) }
    }
}

// MARK: As a document

extension ModelReport {
    /// The report as JSON.
    public var document: JSONValue {
        let advertisement = exchange.advertisement
        let pauses = pauses
        return .object([
            "report": .string(Self.kind), "version": .integer(Int64(Self.version)), "software": .string(software),
            "model": .optional(model), "paired": .bool(advertisement.isPaired),
            "advertisement": advertisement.document,
            "information": .object(information.map { .init($0.name, .string($0.text)) }),
            "features": .object(features.map { .init($0.uuid.description, .string($0.octets.hexadecimal())) }),
            "characteristics": .array(exchange.characteristics.map(\.document)),
            "procedures": .array(procedures.map(\.document)),
            "quirks": .array(
                quirks.map {
                    .object(["quirk": .string($0.quirk.rawValue), "seen": .integer(Int64($0.seen))])
                }),
            "timings": .object([
                "connect_ms": .optional(exchange.connectMilliseconds),
                "discovery_ms": .optional(exchange.discoveryMilliseconds),
                "first_value_ms": .optional(pauses.first), "longest_pause_ms": .optional(pauses.longest),
                "contact_ms": .optional(duration),
            ]),
            "contact": .object([
                "complete": .bool(course.isComplete), "records": .integer(Int64(course.records)),
                "error": .optional(course.error), "ended_by": .optional(endedBy),
            ]),
            "withheld": .array(
                withheld.map {
                    .object([
                        "uuid": .string($0.uuid.description), "values": .integer(Int64($0.values)),
                        "octets": .integer(Int64($0.octets)),
                    ])
                }),
            "started_at": .string(exchange.start.flooredToSecond.description),
            "steps": .array(exchange.steps.map(\.document)),
        ])
    }

    /// The report for people, to look through before they give it away.
    public var lines: [String] {
        let advertisement = exchange.advertisement
        var lines = exchange.steps.map { "  \(line($0))" }
        if !lines.isEmpty { lines.insert("what was said, with other values, serial number and times:", at: 0) }
        func words(_ parts: [String]) -> String { parts.isEmpty ? "-" : parts.joined(separator: " ") }
        lines += [
            "name             \(advertisement.name ?? "-")", "model            \(model ?? "none of the catalogue")",
            "paired           \(advertisement.isPaired ? "yes" : "no")",
            "address          \(advertisement.address?.description ?? "-"), made up",
            "begun at         \(exchange.start.flooredToSecond), moved",
            "services         \(words(advertisement.services.map(\.description)))",
            "signal           \(advertisement.rssi.map { "\($0) dBm" } ?? "-")",
        ]
        for characteristic in exchange.characteristics {
            let properties = CharacteristicProperties.names.filter {
                characteristic.properties?.contains($0.property) == true
            }
            lines.append(
                "characteristic   \(characteristic.valueHandle) \(characteristic.uuid) of "
                    + "\(characteristic.service?.description ?? "-"): \(words(properties.map(\.name)))")
        }
        for (company, octets) in advertisement.manufacturerData.sorted(by: { $0.key < $1.key }) {
            lines.append("maker's data     \(company.hexadecimal()): \(octets.hexadecimal())")
        }
        for (service, octets) in advertisement.serviceData.sorted(by: { $0.key.description < $1.key.description }) {
            lines.append("service's data   \(service): \(octets.hexadecimal())")
        }
        lines += information.map { "\($0.name.replacing("_", with: " ")): \($0.text)" }
        lines.append(
            "\(exchange.characteristics.count) characteristics, \(exchange.steps.count) steps, "
                + "\(course.records) records\(course.error.map { ", ended early: \($0)" } ?? "")")
        let timings: [(name: String, milliseconds: Int64?)] = [
            ("connecting", exchange.connectMilliseconds), ("listing", exchange.discoveryMilliseconds),
            ("first value after", pauses.first), ("longest pause", pauses.longest), ("contact", duration),
        ]
        lines += timings.compactMap { name, milliseconds in
            milliseconds.map { "\(name)\(String(repeating: " ", count: max(1, 17 - name.count)))\($0) ms" }
        }
        lines += quirks.map { "seen \($0.seen) times: \($0.quirk.rawValue)" }
        lines += withheld.map { "\($0.uuid): not understood, \($0.values) values are random octets" }
        return lines
    }

    private func line(_ step: Exchange.Step) -> String {
        func name(_ handle: UInt16) -> String {
            exchange.characteristic(handle)?.uuid.description ?? handle.hexadecimal()
        }
        func words(_ outcome: Exchange.Outcome) -> String {
            switch outcome {
            case .done(let octets): octets.hexadecimal()
            case .refused(let code): "refused (0x\(code.hexadecimal()))"
            case .failed: "failed"
            }
        }
        let what =
            switch step.action {
            case .read(let handle, let outcome): "read \(name(handle)) \(words(outcome))"
            case .write(let handle, let octets, _, let outcome):
                "write \(name(handle)) \(octets.hexadecimal()) \(words(outcome))"
            case .enable(let handle, let outcome): "enable \(name(handle)) \(words(outcome))"
            case .disable(let handle): "disable \(name(handle))"
            case .value(let handle, let octets): "value \(name(handle)) \(octets.hexadecimal())"
            case .disconnect(let byDevice): byDevice ? "the device disconnects" : "the gateway disconnects"
            }
        return "\(step.milliseconds) ms  \(what)"
    }
}

extension BluetoothUUID {
    fileprivate static let recordAccess: BluetoothUUID = 0x2A52
}

extension Advertisement {
    fileprivate var document: JSONValue {
        .object([
            "name": .optional(name), "address": .optional(address?.description),
            "address_kind": .optional(address?.kind.rawValue),
            "services": .array(services.map { .string($0.description) }),
            "manufacturer_data": .object(
                manufacturerData.sorted { $0.key < $1.key }.map {
                    .init($0.key.hexadecimal(), .string($0.value.hexadecimal()))
                }),
            "service_data": .object(
                serviceData.sorted { $0.key.description < $1.key.description }.map {
                    .init($0.key.description, .string($0.value.hexadecimal()))
                }),
            "rssi": .optional(rssi),
        ])
    }
}

extension Characteristic {
    fileprivate var document: JSONValue {
        .object([
            "service": .optional(service?.description), "uuid": .string(uuid.description),
            "handle": .integer(Int64(valueHandle)),
            "properties": properties.map { properties in
                .array(
                    CharacteristicProperties.names.filter { properties.contains($0.property) }.map {
                        .string($0.name)
                    })
            } ?? .null,
        ])
    }
}

extension ModelReport.Procedure {
    fileprivate var document: JSONValue {
        .object([
            "request": .string(request.hexadecimal()), "answer": .optional(answer?.hexadecimal()),
            "refused": .optional(refused), "values": .integer(Int64(values)), "ms": .integer(milliseconds),
        ])
    }
}

extension Exchange.Step {
    fileprivate var document: JSONValue {
        func members(_ kind: String, _ handle: UInt16, _ octets: [UInt8]?, _ outcome: Exchange.Outcome?) -> JSONValue {
            var members: [JSONValue.Member] = [
                .init("ms", .integer(milliseconds)), .init("do", .string(kind)),
                .init("handle", .integer(Int64(handle))),
            ]
            if let octets { members.append(.init("octets", .string(octets.hexadecimal()))) }
            switch outcome {
            case .refused(let code): members.append(.init("refused", .integer(Int64(code))))
            case .failed: members.append(.init("failed", .bool(true)))
            case .done, nil: break
            }
            return .object(members)
        }
        switch action {
        case .read(let handle, let outcome):
            let octets: [UInt8]? = if case .done(let octets) = outcome { octets } else { nil }
            return members("read", handle, octets, outcome)
        case .write(let handle, let octets, let expectsResponse, let outcome):
            return members(expectsResponse ? "write" : "command", handle, octets, outcome)
        case .enable(let handle, let outcome): return members("enable", handle, nil, outcome)
        case .disable(let handle): return members("disable", handle, nil, nil)
        case .value(let handle, let octets): return members("value", handle, octets, nil)
        case .disconnect(let byDevice):
            return .object([
                "ms": .integer(milliseconds), "do": .string("disconnect"),
                "by": .string(byDevice ? "device" : "gateway"),
            ])
        }
    }
}

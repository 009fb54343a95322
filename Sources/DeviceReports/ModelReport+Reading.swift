import GATTClient
import HealthReadings

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// Why octets are no report of a device.
public struct ModelReportError: Error, Sendable, Hashable, CustomStringConvertible {
    /// What was expected, and where.
    public var description: String

    init(_ description: String) { self.description = description }
}

extension ModelReport {
    /// The longest file that is read as a report.
    public static let longest = 64 << 20
    /// A notification has three octets less than the link's largest packet, which BlueZ lets be 517: more than a value may have.
    private static let longestValue = 2048

    /// Whether a file that begins so may be a report: a JSON object, which no capture is.
    public static func mayBegin(_ octets: some Sequence<UInt8>) -> Bool {
        octets.first { ![0x20, 0x09, 0x0A, 0x0D].contains($0) } == UInt8(ascii: "{")
    }

    /// Reads a report's file.
    ///
    /// Quirks, procedures and timings follow from the steps again; what stands in the file about them is not looked at.
    ///
    /// - Throws: ``ModelReportError``.
    public init(reading octets: [UInt8]) throws(ModelReportError) {
        guard octets.count <= Self.longest else { throw ModelReportError("a report has at most 64 MiB") }
        let file: File
        do {
            let decoder = JSONDecoder()
            decoder.keyDecodingStrategy = .convertFromSnakeCase
            file = try decoder.decode(File.self, from: Data(octets))
        } catch let error as DecodingError {
            throw ModelReportError(Self.words(error))
        } catch {
            throw ModelReportError("expected a JSON object")
        }
        guard file.report == Self.kind else { throw ModelReportError("report: expected \"\(Self.kind)\"") }
        guard file.version == Self.version else {
            throw ModelReportError("version: expected \(Self.version), found \(file.version)")
        }
        var exchange = Exchange(try Self.advertisement(file), start: try Self.start(file))
        exchange.connectMilliseconds = file.timings.connectMs
        exchange.discoveryMilliseconds = file.timings.discoveryMs
        exchange.characteristics = try Self.characteristics(file.characteristics)
        exchange.steps = try Self.steps(file.steps, Set(exchange.characteristics.map(\.valueHandle)))
        var withheld: [Anonymiser.Withheld] = []
        for (place, one) in file.withheld.enumerated() {
            withheld.append(
                .init(uuid: try Self.uuid(one.uuid, "withheld[\(place)].uuid"), values: one.values, octets: one.octets))
        }
        self.init(
            exchange: exchange, withheld: withheld, model: file.model,
            course: Course(
                isComplete: file.contact.complete, records: file.contact.records, error: file.contact.error),
            software: file.software)
    }

    private static func words(_ error: DecodingError) -> String {
        let context: DecodingError.Context? =
            switch error {
            case .typeMismatch(_, let context), .valueNotFound(_, let context), .keyNotFound(_, let context),
                .dataCorrupted(let context):
                context
            @unknown default: nil
            }
        guard let path = context?.codingPath, !path.isEmpty else { return "expected the JSON object of a report" }
        let place = path.map { $0.intValue.map { "[\($0)]" } ?? $0.stringValue }.joined(separator: ".")
        return "\(place.prefix(120)): it is missing, or another kind of value was expected"
    }

    // MARK: Parts

    private static func octets(_ text: String, _ place: String) throws(ModelReportError) -> [UInt8] {
        guard text.utf8.count.isMultiple(of: 2), text.utf8.count <= 2 * longestValue else {
            throw ModelReportError("\(place): expected at most \(longestValue) octets in hexadecimal")
        }
        guard text.utf8.allSatisfy(\.isLowercaseHexadecimal), let octets = [UInt8](hexadecimal: text) else {
            throw ModelReportError("\(place): expected hexadecimal digits in lower case")
        }
        return octets
    }

    private static func uuid(_ text: String, _ place: String) throws(ModelReportError) -> BluetoothUUID {
        guard let uuid = BluetoothUUID(text) else { throw ModelReportError("\(place): expected a UUID") }
        return uuid
    }

    private static func start(_ file: File) throws(ModelReportError) -> Instant {
        guard let start = Instant(rfc3339: file.startedAt), (0...4_102_444_800).contains(start.seconds) else {
            throw ModelReportError("started_at: expected an RFC 3339 time between 1970 and 2100")
        }
        return start
    }

    private static func advertisement(_ file: File) throws(ModelReportError) -> Advertisement {
        let given = file.advertisement
        var address: DeviceAddress?
        if let text = given.address {
            let kind = given.addressKind.flatMap(DeviceAddress.Kind.init(rawValue:)) ?? .random
            guard let found = DeviceAddress(text, kind: kind) else {
                throw ModelReportError("advertisement.address: expected an address")
            }
            address = found
        }
        guard (given.name?.utf8.count ?? 0) <= 248 else {
            throw ModelReportError("advertisement.name: expected at most 248 octets")
        }
        var advertisement = Advertisement(
            address: address, name: given.name, rssi: given.rssi, isPaired: file.paired, seenAt: try start(file))
        for text in given.services { advertisement.services.append(try uuid(text, "advertisement.services")) }
        for (company, text) in given.manufacturerData {
            guard company.utf8.count == 4, let number = UInt16(company, radix: 16) else {
                throw ModelReportError("advertisement.manufacturer_data: expected companies of four digits")
            }
            advertisement.manufacturerData[number] = try octets(text, "advertisement.manufacturer_data")
        }
        for (service, text) in given.serviceData {
            advertisement.serviceData[try uuid(service, "advertisement.service_data")] = try octets(
                text, "advertisement.service_data")
        }
        return advertisement
    }

    private static func characteristics(_ given: [File.Attribute]) throws(ModelReportError) -> [Characteristic] {
        guard given.count <= mostCharacteristics else {
            throw ModelReportError("characteristics: expected at most \(mostCharacteristics)")
        }
        var found: [Characteristic] = []
        for (place, one) in given.enumerated() {
            // 0 is the battery level that bluetoothd shows beside the table.
            guard found.isEmpty || one.handle > found[place - 1].valueHandle else {
                throw ModelReportError("characteristics[\(place)].handle: expected a higher one than before")
            }
            var properties: CharacteristicProperties?
            if let names = one.properties {
                properties = []
                for name in names {
                    guard let known = CharacteristicProperties.names.first(where: { $0.name == name }) else {
                        throw ModelReportError("characteristics[\(place)].properties: unknown")
                    }
                    properties?.insert(known.property)
                }
            }
            var service: BluetoothUUID?
            if let text = one.service { service = try uuid(text, "characteristics[\(place)].service") }
            found.append(
                Characteristic(
                    uuid: try uuid(one.uuid, "characteristics[\(place)].uuid"), service: service,
                    valueHandle: one.handle, properties: properties))
        }
        return found
    }

    private static func steps(
        _ given: [File.Step], _ handles: Set<UInt16>
    ) throws(ModelReportError) -> [Exchange.Step] {
        guard given.count <= ExchangeRecorder.mostSteps else {
            throw ModelReportError("steps: expected at most \(ExchangeRecorder.mostSteps)")
        }
        var found: [Exchange.Step] = []
        found.reserveCapacity(given.count)
        for (place, one) in given.enumerated() {
            guard one.ms >= found.last?.milliseconds ?? 0, one.ms <= ExchangeRecorder.longestContact else {
                throw ModelReportError("steps[\(place)].ms: expected a time that is not before the last one")
            }
            found.append(.init(one.ms, try action(one, "steps[\(place)]", handles)))
        }
        return found
    }

    private static func action(
        _ step: File.Step, _ place: String, _ handles: Set<UInt16>
    ) throws(ModelReportError) -> Exchange.Action {
        if step.do == "disconnect" {
            guard let by = step.by, ["device", "gateway"].contains(by) else {
                throw ModelReportError("\(place).by: expected device or gateway")
            }
            return .disconnect(byDevice: by == "device")
        }
        guard let handle = step.handle, handles.contains(handle) else {
            throw ModelReportError("\(place).handle: expected that of a characteristic")
        }
        func given() throws(ModelReportError) -> [UInt8] { try octets(step.octets ?? "", "\(place).octets") }
        func outcome(_ octets: [UInt8] = []) -> Exchange.Outcome {
            if let code = step.refused { return .refused(code) }
            return step.failed == true ? .failed : .done(octets)
        }
        switch step.do {
        case "read": return .read(handle, outcome(try given()))
        case "write": return .write(handle, try given(), expectsResponse: true, outcome())
        case "command": return .write(handle, try given(), expectsResponse: false, outcome())
        case "enable": return .enable(handle, outcome())
        case "disable": return .disable(handle)
        case "value": return .value(handle, try given())
        default:
            throw ModelReportError(
                "\(place).do: expected read, write, command, enable, disable, value or disconnect")
        }
    }

    /// The document, with its keys in camel case.
    private struct File: Decodable {
        struct Advertised: Decodable {
            var name: String?
            var address: String?
            var addressKind: String?
            var services: [String]
            var manufacturerData: [String: String]
            var serviceData: [String: String]
            var rssi: Int8?
        }
        struct Attribute: Decodable {
            var service: String?
            var uuid: String
            var handle: UInt16
            var properties: [String]?
        }
        struct Timings: Decodable {
            var connectMs: Int64?
            var discoveryMs: Int64?
        }
        struct Contact: Decodable {
            var complete: Bool
            var records: Int
            var error: String?
        }
        struct Withheld: Decodable {
            var uuid: String
            var values: Int
            var octets: Int
        }
        struct Step: Decodable {
            var ms: Int64
            var `do`: String
            var handle: UInt16?
            var octets: String?
            var refused: UInt8?
            var failed: Bool?
            var by: String?
        }

        var report: String
        var version: Int
        var software: String
        var model: String?
        var paired: Bool
        var advertisement: Advertised
        var characteristics: [Attribute]
        var timings: Timings
        var contact: Contact
        var withheld: [Withheld]
        var startedAt: String
        var steps: [Step]
    }
}

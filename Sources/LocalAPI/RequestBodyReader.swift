import Foundation
import GatewaySettings
import GuardedServer
import HTTPTypes
import HealthReadings
import Hummingbird
import NIOCore
import NIOFoundationEssentialsCompat

extension Request {
    /// How much a body may hold.
    static let bodyLimit = ServerLimits().bodyOctets
    /// How long a body may take to come.
    static let bodyPatience: Duration = .seconds(10)

    /// The body as a JSON object.
    ///
    /// - Throws: ``APIRefusal``: 413 for one that is too large, 408 for one that does not come, 415 for another type and for
    ///   one that is compressed, 400 for what is no object.
    func object() async throws -> JSONObject {
        let octets = try await octets("application/json")
        guard let value = try? JSONSerialization.jsonObject(with: octets), let members = value as? [String: Any] else {
            throw APIRefusal.malformed("expected a JSON object")
        }
        return JSONObject(members)
    }

    /// The body as it came.
    ///
    /// - Parameter type: what it has to be.
    /// - Throws: ``APIRefusal``: 413, 408 and 415 as for an object, 400 for one that broke off.
    func octets(_ type: String) async throws -> Data {
        guard headers[.contentType].map({ $0.lowercased().hasPrefix(type) }) ?? false else {
            throw APIRefusal(
                .unsupportedMediaType, type == "application/json" ? "not_json" : "other_type",
                "expected a body of \(type)")
        }
        guard headers[.contentEncoding].map({ $0.lowercased() == "identity" }) ?? true else {
            var refusal = APIRefusal(.unsupportedMediaType, "encoded_body", "expected a body without Content-Encoding")
            refusal.headers[.acceptEncoding] = "identity"
            throw refusal
        }
        return try await withThrowingTaskGroup(of: Data?.self) { group in
            defer { group.cancelAll() }
            group.addTask { Data(try await octets(upTo: Self.bodyLimit, orElse: Self.tooLarge)) }
            group.addTask {
                try await Task.sleep(for: Self.bodyPatience)
                return nil
            }
            guard let first = try await group.next(), let octets = first else {
                throw APIRefusal.bodyTimedOut
            }
            return octets
        }
    }

    private static let tooLarge = APIRefusal(
        .contentTooLarge, "body_too_large", "a body may hold \(bodyLimit >> 10) KiB at most")
}

/// A JSON object that a client sent, asked for what it should hold.
struct JSONObject {
    private let members: [String: Any]

    init(_ members: [String: Any]) { self.members = members }

    /// A text; nil where it is absent or null.
    func text(_ key: String) throws -> String? {
        guard let value = members[key], !(value is NSNull) else { return nil }
        guard let text = value as? String else { throw APIRefusal.malformed("\(key): expected a text") }
        return text
    }

    /// A text that has to be there.
    func requiredText(_ key: String) throws -> String {
        guard let text = try text(key) else { throw APIRefusal.malformed("\(key): expected text, found nothing") }
        return text
    }

    /// A number, with the digits of a text, or as a JSON number is written shortest; nil where it is absent or null.
    func numeral(_ key: String) throws -> String? {
        guard let value = members[key], !(value is NSNull) else { return nil }
        if let text = value as? String { return text }
        guard let number = value as? NSNumber, !Self.isBool(number) else {
            throw APIRefusal.malformed("\(key): expected a number, or a text of one")
        }
        return number.stringValue
    }

    /// Refuses members of other names: what is misspelt would be left out in silence.
    func requireOnly(_ names: Set<String>) throws {
        guard let stray = members.keys.filter({ !names.contains($0) }).min() else { return }
        throw APIRefusal.malformed("there is no member '\(stray.prefix(40))'")
    }

    /// A whole number; nil where it is absent or null.
    func whole(_ key: String) throws -> Int? {
        guard let value = members[key], !(value is NSNull) else { return nil }
        guard let number = value as? NSNumber, !Self.isBool(number), let whole = Int(exactly: number) else {
            throw APIRefusal.malformed("\(key): expected a whole number")
        }
        return whole
    }

    /// Yes or no; nil where it is absent or null.
    func flag(_ key: String) throws -> Bool? {
        guard let value = members[key], !(value is NSNull) else { return nil }
        guard let number = value as? NSNumber, Self.isBool(number) else {
            throw APIRefusal.malformed("\(key): expected true or false")
        }
        return number.boolValue
    }

    /// Texts that have to be there.
    func requiredTexts(_ key: String) throws -> [String] {
        guard let texts = members[key] as? [String] else {
            throw APIRefusal.malformed("\(key): expected a list of texts")
        }
        return texts
    }

    /// An instant that has to be there.
    func requiredInstant(_ key: String) throws -> Instant {
        guard let instant = Instant(rfc3339: try requiredText(key)) else {
            throw APIRefusal.malformed("\(key): expected an instant such as 2026-11-20T12:30:00Z")
        }
        return instant
    }

    /// A list of texts; empty where it is absent or null.
    func texts(_ key: String) throws -> [String] {
        guard let value = members[key], !(value is NSNull) else { return [] }
        guard let texts = value as? [String] else { throw APIRefusal.malformed("\(key): expected a list of texts") }
        return texts
    }

    /// An object's texts by their names; empty where it is absent or null.
    func textsByName(_ key: String) throws -> [String: String] {
        guard let value = members[key], !(value is NSNull) else { return [:] }
        guard let texts = value as? [String: String] else {
            throw APIRefusal.malformed("\(key): expected texts by name")
        }
        return texts
    }

    /// What settings are given, by their keys; empty where it is absent or null.
    func settingValues(_ key: String) throws -> [String: SettingsChange.Value] {
        guard let value = members[key], !(value is NSNull) else { return [:] }
        guard let values = value as? [String: Any] else { throw APIRefusal.malformed("\(key): expected values by key") }
        return try values.mapValues { value in
            switch value {
            case let text as String: return .text(text)
            case let number as NSNumber:
                return .text(Self.isBool(number) ? (number.boolValue ? "true" : "false") : number.stringValue)
            case let list as [String]: return .list(list)
            case let map as [String: String]: return .map(map)
            default: throw APIRefusal.malformed("\(key): expected a text, a number, true, false, a list or a map")
            }
        }
    }

    private static func isBool(_ number: NSNumber) -> Bool {
        UInt8(truncatingIfNeeded: number.objCType.pointee) == UInt8(ascii: "c")
    }
}

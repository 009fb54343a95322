import Crypto
import Foundation
import HealthReadings
import ScriptedServer
import Synchronization

@testable import WebDestinations

/// A stand-in for a Nightscout site that is as strict as the real one (cgm-remote-monitor 15.0.7, API v1), and has its traps.
///
/// - An entry is told by (`sysTime`, `type`) alone; one that comes into a place that is taken is merged into it.
/// - `sysTime` is made of `dateString`, else of `date`; the offset is kept apart.
/// - An object that stands alone and has no `date` is answered with `200 []` and stored nowhere; an item of an array without
///   one is stored and never seen. A `date` in seconds is stored as January 1970.
/// - Without a `type` there is no key, so a repeat is another document.
/// - Unknown types and fields are stored as they come, texts without their markup. A `_id` that is no ObjectId goes.
/// - A query without a date finds the last four days alone.
/// - A missing permission is 401, as wrong credentials are. Each costs the address five seconds more.
/// - A wrong path, a double slash in front and a body that is no JSON are answered with a page.
final class NightscoutSite: Sendable {
    typealias Document = [String: AnswerJSON]

    struct Options: Sendable {
        var secret = "correct horse battery"
        /// Access tokens with what each may do: `api:entries:create`, …; `*` for everything.
        var tokens: [String: Set<String>] = [:]
        var bodyLimit = 50 << 20
        /// What a request costs for each failure of its address before it.
        var delay = Duration.milliseconds(1)
        /// Whether everybody may read (`AUTH_DEFAULT_ROLES`). Only then is a token with few permissions `OK` to `verifyauth`.
        var isReadable = true
        /// Whether notes have a place (the plugin `careportal`).
        var takesNotes = true
        /// It was reached without TLS and does not allow that.
        var redirects = false
        /// It is Nocturne: 201, fewer documents than were sent, and no field that it does not know.
        var isNocturne = false
        /// The database fails.
        var isBroken = false
    }

    struct State: Sendable {
        var options = Options()
        var entries: [Document] = []
        var treatments: [Document] = []
        var statuses: [Document] = []
        /// Failed authentications of the one address that asks.
        var failures = 0
        /// Answers of the next requests, before the site behaves.
        var next: [ScriptedAnswer] = []
        /// Whether the next answers are lost after the site has done what they were for.
        var losesAnswers = 0
        fileprivate var ids = 0
    }

    private let state: Mutex<State>
    private let now: Int64

    init(now: Int64 = 1_800_000_000_000, _ options: Options = Options()) {
        self.now = now
        var state = State()
        state.options = options
        self.state = Mutex(state)
    }

    var current: State { state.withLock(\.self) }
    func change(_ body: (inout State) -> Void) { state.withLock { body(&$0) } }

    /// The entries that the page shows, by what it shows.
    var shown: [String] { current.entries.compactMap(Self.shown) }

    private static func shown(_ entry: Document) -> String? {
        guard case .number(let date)? = entry["date"], date > 100_000_000_000 else { return nil }
        let time = String(Int64(date))
        if case .number(let value)? = entry["mbg"] { return time + " mbg " + String(Int(value)) }
        guard case .number(let value)? = entry["sgv"] else { return nil }
        return time + " sgv " + (value < 39 ? "?SN" : String(Int(value)))
    }

    func answer(_ request: ReceivedRequest) async -> ScriptedAnswer {
        let (answer, delay) = state.withLock { (state: inout State) -> (ScriptedAnswer, Duration) in
            let delay = state.options.delay * state.failures
            if !state.next.isEmpty { return (state.next.removeFirst(), delay) }
            let made = self.answer(request, &state)
            guard state.losesAnswers > 0 else { return (made, delay) }
            state.losesAnswers -= 1
            return (.cut, delay)
        }
        return delay > .zero ? .late(delay, answer) : answer
    }

    private static let page = ScriptedAnswer.other(
        404, "<!DOCTYPE html><html><body>Cannot find it</body></html>", type: "text/html; charset=utf-8")

    private func answer(_ request: ReceivedRequest, _ state: inout State) -> ScriptedAnswer {
        if state.options.redirects {
            return .json(307, "", headers: ["location": "https://ns.example\(request.path)"])
        }
        guard !request.path.hasPrefix("//"), request.path.hasPrefix("/api/v1/"),
            let components = URLComponents(string: request.path)
        else { return Self.page }
        let path = String(components.path.dropFirst("/api/v1/".count)).replacing(".json", with: "")
        let query = Dictionary(
            (components.queryItems ?? []).map { ($0.name, $0.value ?? "") }, uniquingKeysWith: { first, _ in first })
        let permissions = permissions(request, query, state)
        if path == "verifyauth" {
            let isKnown = permissions != nil
            if !isKnown { state.failures += 1 }
            let canRead = isKnown && (state.options.isReadable || permissions?.contains("*") == true)
            // The secret is no subject's.
            let isSubject = state.options.tokens[request.headers["api-secret"] ?? query["token"] ?? ""] != nil
            return .json(
                200,
                """
                {"status":200,"message":{"canRead":\(canRead),"canWrite":\(permissions?.contains("*") == true),\
                "isAdmin":false,"message":"\(canRead ? "OK" : "UNAUTHORIZED")",\
                "rolefound":"\(isSubject ? "FOUND" : "NOTFOUND")","permissions":"ROLE"}}
                """)
        }
        let parts = path.split(separator: "/").map(String.init)
        let isDeletion = request.method == "DELETE"
        let verb = isDeletion ? "delete" : request.method == "POST" ? "create" : "read"
        guard let collection = parts.first, ["entries", "treatments", "devicestatus", "status"].contains(collection)
        else { return Self.page }
        guard let permissions,
            permissions.contains("*")
                || permissions.contains("api:\(collection):\(verb)") && permissions.contains("api:\(collection):read")
        else {
            state.failures += 1
            return .json(401, #"{"status":401,"message":"Unauthorized","description":"Invalid/Missing"}"#)
        }
        if state.options.isBroken {
            return .json(500, #"{"status":500,"message":"Mongo Error","description":"no primary"}"#)
        }
        switch (request.method, collection) {
        case ("GET", "status"): return .json(200, #"{"status":"ok","name":"nightscout","version":"15.0.7"}"#)
        case ("GET", "entries"):
            return .json(200, AnswerJSON.array(found(state.entries, query, by: "date").map(AnswerJSON.object)).encoded)
        case ("GET", "treatments"):
            return .json(
                200, AnswerJSON.array(found(state.treatments, query, by: "created_at").map(AnswerJSON.object)).encoded)
        case ("DELETE", "entries") where parts.count == 2: return remove(parts[1], query, &state)
        case ("DELETE", "treatments") where parts.count == 2:
            let before = state.treatments.count
            state.treatments.removeAll { $0["_id"]?.text == parts[1] }
            return .json(200, #"{"n":\#(before - state.treatments.count),"ok":1}"#)
        case ("POST", "treatments") where !state.options.takesNotes: return Self.page
        case ("POST", _): return post(request, collection, isPreview: parts.last == "preview", &state)
        default: return Self.page
        }
    }

    /// What the credentials permit; `nil` if they are nobody's.
    private func permissions(
        _ request: ReceivedRequest, _ query: [String: String], _ state: State
    ) -> Set<String>? {
        let options = state.options
        let given = request.headers["api-secret"] ?? query["secret"]
        if let given, options.secret.count >= 12 {
            let octets = Data(options.secret.utf8)
            let hashes = [
                Insecure.SHA1.hash(data: octets).map { $0 }.hexadecimal(),
                SHA512.hash(data: octets).map { $0 }.hexadecimal(),
            ]
            if hashes.contains(given.lowercased()) { return ["*"] }
        }
        return (given ?? query["token"]).flatMap { options.tokens[$0] }
    }

    // MARK: Storing

    private func post(
        _ request: ReceivedRequest, _ collection: String, isPreview: Bool, _ state: inout State
    ) -> ScriptedAnswer {
        guard request.text.utf8.count <= state.options.bodyLimit else {
            return .other(413, "<html><pre>PayloadTooLargeError</pre></html>", type: "text/html; charset=utf-8")
        }
        guard request.headers["content-type"]?.hasPrefix("application/json") == true,
            let json = AnswerJSON(Array(request.text.utf8))
        else { return .other(400, "<html><pre>SyntaxError: Unexpected token</pre></html>", type: "text/html") }
        var documents: [Document]
        switch json {
        case .array(let elements): documents = elements.map(\.members)
        case .object(let document) where collection == "entries": documents = document["date"] == nil ? [] : [document]
        case .object(let document): documents = [document]
        default: documents = []
        }
        documents = documents.map { Self.purified($0) }
        guard !isPreview else { return .json(200, AnswerJSON.array(documents.map(AnswerJSON.object)).encoded) }
        for index in documents.indices {
            switch collection {
            case "entries": store(entry: &documents[index], &state)
            case "treatments": store(treatment: &documents[index], &state)
            default:
                documents[index]["_id"] = newID(&state)
                state.statuses.append(documents[index])
            }
        }
        if state.options.isNocturne { return .json(201, AnswerJSON.array([]).encoded) }
        return .json(200, AnswerJSON.array(documents.map(AnswerJSON.object)).encoded)
    }

    private func newID(_ state: inout State) -> AnswerJSON {
        state.ids += 1
        let digits = String(state.ids, radix: 16)
        return .text(String(repeating: "0", count: 24 - digits.count) + digits)
    }

    private func store(entry document: inout Document, _ state: inout State) {
        if state.options.isNocturne {
            let known: Set = ["type", "mbg", "sgv", "date", "dateString", "device", "direction", "noise", "sysTime"]
            document = document.filter { known.contains($0.key) }
        }
        if let id = document["_id"]?.text, id.utf8.count != 24 || !id.allSatisfy(\.isHexDigit) { document["_id"] = nil }
        var milliseconds = now
        var offset: Int64 = 0
        if let text = document["dateString"]?.text, let parsed = Self.parsed(text) {
            (milliseconds, offset) = parsed
        } else if case .number(let date)? = document["date"] {
            milliseconds = Int64(date)
        }
        document["sysTime"] = .text(Self.text(milliseconds))
        document["utcOffset"] = .number(Double(offset))
        if document["dateString"] != nil { document["dateString"] = document["sysTime"] }
        let key = document
        if document["type"] != nil,
            let place = state.entries.firstIndex(where: { $0["sysTime"] == key["sysTime"] && $0["type"] == key["type"] }
            )
        {
            state.entries[place].merge(document) { _, new in new }
            document = state.entries[place]
        } else {
            document["_id"] = newID(&state)
            state.entries.append(document)
        }
    }

    private func store(treatment document: inout Document, _ state: inout State) {
        let (milliseconds, offset) = document["created_at"]?.text.flatMap(Self.parsed) ?? (now, 0)
        document["created_at"] = .text(Self.text(milliseconds))
        document["utcOffset"] = .number(Double(offset))
        let new = document
        let place = state.treatments.firstIndex { old in
            if let id = new["identifier"] { return old["identifier"] == id }
            if let id = new["_id"] { return old["_id"] == id }
            return old["created_at"] == new["created_at"] && old["eventType"] == new["eventType"]
        }
        // A repeat replaces.
        document["_id"] = place.flatMap { state.treatments[$0]["_id"] } ?? newID(&state)
        if let place { state.treatments[place] = document } else { state.treatments.append(document) }
    }

    /// Texts lose their markup.
    private static func purified(_ document: Document) -> Document {
        document.mapValues { value in
            guard case .text(let text) = value else { return value }
            return .text(text.replacing(/<[^>]*>/, with: ""))
        }
    }

    // MARK: Finding

    private func found(_ documents: [Document], _ query: [String: String], by dateField: String) -> [Document] {
        var conditions = query.filter { $0.key.hasPrefix("find[") }
        if !conditions.keys.contains(where: { $0.hasPrefix("find[\(dateField)]") || $0.hasPrefix("find[_id]") }) {
            let begin = now - 4 * 86_400_000
            conditions["find[\(dateField)][$gte]"] = dateField == "date" ? "\(begin)" : Self.text(begin)
        }
        return documents.filter { document in
            conditions.allSatisfy { condition in
                let names = condition.key.split(whereSeparator: { "[]".contains($0) }).dropFirst().map(String.init)
                guard let field = names.first else { return false }
                return Self.holds(document[field], names.dropFirst().first ?? "$eq", condition.value)
            }
        }
    }

    private static func holds(_ value: AnswerJSON?, _ relation: String, _ text: String) -> Bool {
        switch value {
        case .number(let number)?:
            guard let other = Double(text) else { return false }
            return relation == "$gte" ? number >= other : relation == "$lte" ? number <= other : number == other
        case .text(let own)?:
            return relation == "$gte" ? own >= text : relation == "$lte" ? own <= text : own == text
        default: return false
        }
    }

    private func remove(_ type: String, _ query: [String: String], _ state: inout State) -> ScriptedAnswer {
        var conditions = query
        if type != "*" { conditions["find[type]"] = type }
        let doomed = Set(found(state.entries, conditions, by: "date").compactMap { $0["_id"]?.text })
        state.entries.removeAll { doomed.contains($0["_id"]?.text ?? "") }
        return .json(200, #"{"n":\#(doomed.count),"ok":1}"#)
    }

    // MARK: Time

    /// Milliseconds since 1970, and the offset in minutes.
    private static func parsed(_ text: String) -> (Int64, Int64)? {
        guard let instant = Instant(rfc3339: text) else { return nil }
        let zone = text.suffix(6)
        guard zone.first == "+" || zone.first == "-", let hours = Int64(zone.dropFirst().prefix(2)),
            let minutes = Int64(zone.suffix(2))
        else { return (instant.microseconds / 1000, 0) }
        return (instant.microseconds / 1000, (zone.first == "-" ? -1 : 1) * (hours * 60 + minutes))
    }

    private static func text(_ milliseconds: Int64) -> String {
        let fraction = String(1000 + milliseconds % 1000).suffix(3)
        return "\(WallTime(secondsSinceEpoch: milliseconds / 1000)).\(fraction)Z"
    }
}

extension AnswerJSON {
    /// The JSON again.
    var encoded: String { value.text }

    private var value: JSONValue {
        switch self {
        case .object(let members):
            .object(members.sorted { $0.key < $1.key }.map { .init($0.key, $0.value.value) })
        case .array(let elements): .array(elements.map(\.value))
        case .text(let text): .string(text)
        case .number(let number): .integer(Int64(number))
        case .bool(let value): .bool(value)
        case .null: .null
        }
    }
}

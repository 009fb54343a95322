import Crypto
import Foundation
import ScriptedServer
import Synchronization

/// A wear service and WHOOP's API in one, on a loopback socket, with a memory of its own that outlives it, and faults.
///
/// Written from the routes that Synheart's SDKs use and from WHOOP's public documentation; it shares nothing with the client.
public final class EmulatedCloud: Sendable {
    /// What goes wrong with the next request whose path has a certain part.
    public enum Fault: Codable, Sendable, Hashable {
        /// A status, with `Retry-After` if it is given.
        case status(Int, retryAfter: String? = nil)
        /// A portal's page in place of JSON.
        case html
        /// The connection ends before the request is carried out.
        case cut
        /// The request is carried out, and the connection ends before the answer.
        case cutAfter
        /// The request is carried out, and the connection ends in the middle of the answer.
        case half
        /// The page says that there is more, at the place where it begins itself.
        case lyingCursor
        /// The page has no records, and says that there is more, under a cursor that was not there before.
        case emptyPage
    }

    /// What the person does on the vendor's page.
    public enum Decision: String, Codable, Sendable {
        case accept, deny, wrongState
    }

    /// What it remembers.
    public struct State: Codable, Sendable {
        struct Code: Codable, Sendable {
            var redirect: String
            var challenge: String
            var isUsed = false
        }

        /// Records by vendor and collection (`whoop/sleep`), newest first, as JSON.
        public var records: [String: [String]] = [:]
        /// What the person does.
        public var decision = Decision.accept
        /// How many seconds an access token is good for.
        public var lifetime = 3600
        /// How many milliseconds the answer with new tokens takes.
        public var renewalDelay: UInt32 = 0
        /// Whether codes have expired when they are exchanged.
        public var codesExpire = false
        /// The most records of a page.
        public var pageSize = 25
        /// Collections that answer 501.
        public var unsupported: Set<String> = []
        /// Faults, each used once, in order, with the part of the path that it waits for.
        public var faults: [String] = []
        /// Requests by method and path.
        public var requests: [String] = []
        /// The users of the wear service that are connected.
        public var connected: Set<String> = []
        /// How often tokens were renewed.
        public var renewals = 0
        /// How often a refresh token came that was used before: all tokens are revoked then.
        public var reuses = 0
        var codes: [String: Code] = [:]
        var access: [String: Double] = [:]
        var refresh: String?
        var usedRefresh: Set<String> = []
        var number = 0
        var faultKinds: [Fault] = []

        /// Nothing.
        public init() {}

        /// Adds a fault.
        public mutating func fail(_ path: String, _ fault: Fault, times: Int = 1) {
            for _ in 0..<times {
                faults.append(path)
                faultKinds.append(fault)
            }
        }

        /// Revokes every token, as a person does in the vendor's app.
        public mutating func revokeAll() {
            access = [:]
            refresh = nil
        }

        /// Lets access tokens expire; they can be renewed.
        public mutating func expireAccess() { access = [:] }

        mutating func next(_ name: String) -> String {
            number += 1
            return "\(name)-\(number)-\(UUID().uuidString.lowercased())"
        }

        /// Forgets the faults that are left.
        public mutating func forgetFaults() { (faults, faultKinds) = ([], []) }

        mutating func takeFault(_ path: String) -> Fault? {
            guard let place = faults.firstIndex(where: { path.contains($0) }) else { return nil }
            faults.remove(at: place)
            return faultKinds.remove(at: place)
        }
    }

    private let memory: Mutex<State>
    private let file: URL?
    private let address = Mutex("")

    private init(_ state: State, _ file: URL?) {
        memory = Mutex(state)
        self.file = file
    }

    /// Where it is: `http://127.0.0.1:4711`.
    public var url: String { address.withLock(\.self) }

    /// What it remembers now.
    public var state: State { memory.withLock(\.self) }

    /// Changes what it remembers.
    public func change(_ body: (inout State) -> Void) {
        memory.withLock { body(&$0) }
        keep()
    }

    private func keep() {
        guard let file, let data = try? JSONEncoder().encode(state) else { return }
        try? data.write(to: file, options: .atomic)
    }

    /// Runs one for as long as `body` does.
    ///
    /// - Parameters:
    ///   - state: what it remembers, unless the file does.
    ///   - file: where its memory is kept.
    ///   - body: is given it.
    public static func with<Value: Sendable>(
        _ state: State = State(), file: URL? = nil, _ body: @Sendable (EmulatedCloud) async throws -> Value
    ) async throws -> Value {
        let kept = file.flatMap { try? Data(contentsOf: $0) }
            .flatMap { try? JSONDecoder().decode(State.self, from: $0) }
        let cloud = EmulatedCloud(kept ?? state, file)
        return try await ScriptedServer.with { request in
            defer { cloud.keep() }
            let answer = cloud.answer(request)
            if request.path.contains("oauth2/token") { usleep(cloud.state.renewalDelay * 1000) }
            return answer
        } body: { server in
            cloud.address.withLock { $0 = server.baseURL }
            return try await body(cloud)
        }
    }

    /// How many requests had this in their method and path.
    public func count(_ part: String) -> Int { state.requests.count { $0.contains(part) } }

    /// Opens a page as a browser does; gives the query of where it is sent.
    public func follow(_ page: String) -> String {
        let query = Self.fields(String(page.split(separator: "?", maxSplits: 1).last ?? ""))
        let answer = memory.withLock { Self.redirect(query, query["vendor"] == "garmin", &$0) }
        guard case .json(_, _, let headers) = answer, let target = headers["location"] else { return "" }
        return String(target.split(separator: "?", maxSplits: 1).last ?? "")
    }

    // MARK: Answers

    private func answer(_ request: ReceivedRequest) -> ScriptedAnswer {
        let parts = request.path.split(separator: "?", maxSplits: 1)
        let path = String(parts.first ?? "")
        let query = Self.fields(parts.count == 2 ? String(parts[1]) : "")
        return memory.withLock { state in
            state.requests.append("\(request.method) \(request.path)")
            let fault = state.takeFault(path)
            switch fault {
            case .status(let status, let wait):
                return .json(
                    status, #"{"message":"injected"}"#, headers: wait.map { ["retry-after": $0] } ?? [:])
            case .html: return .other(200, "<!DOCTYPE html><title>Portal</title>", type: "text/html")
            case .cut: return .cut
            case .cutAfter, .half, .lyingCursor, .emptyPage, nil: break
            }
            let answer = Self.answer(request, path, query, &state, url, fault)
            switch (fault, answer) {
            case (.cutAfter, _): return .cut
            case (.half, .json(let status, let text, _)): return .half(status, String(text.prefix(text.count / 2)))
            default: return answer
            }
        }
    }

    private static func answer(
        _ request: ReceivedRequest, _ path: String, _ query: [String: String], _ state: inout State, _ url: String,
        _ fault: Fault?
    ) -> ScriptedAnswer {
        let names = path.split(separator: "/").map(String.init)
        switch (request.method, names.first, names.dropFirst().first) {
        case ("GET", "v1", _) where path.hasSuffix("/oauth/authorize"):
            guard request.headers["x-app-id"] == query["app_id"], query["code_challenge_method"] == "S256" else {
                return .json(400, #"{"code":"invalid_request","message":"no app, or no PKCE"}"#)
            }
            let page =
                "\(url)/page?vendor=\(names[1])&redirect_uri=\(encoded(query["redirect_uri"] ?? ""))"
                + "&state=\(encoded(query["state"] ?? ""))&code_challenge=\(query["code_challenge"] ?? "")"
            return .json(200, #"{"authorization_url":"\#(page)"}"#)
        case ("GET", "page", _): return redirect(query, query["vendor"] == "garmin", &state)
        case ("GET", "oauth", _):
            guard query["response_type"] == "code", query["code_challenge_method"] == "S256",
                query["scope"]?.contains("offline") == true
            else { return .json(400, #"{"error":"invalid_request"}"#) }
            return redirect(query, false, &state)
        case ("POST", "v1", _) where path.hasSuffix("/oauth/callback"):
            let body = (try? JSONSerialization.jsonObject(with: Data(request.body))) as? [String: String] ?? [:]
            guard take(body["code"], body["redirect_uri"], body["code_verifier"], &state) else {
                return .json(400, #"{"error":"invalid_grant","error_description":"code expired or used before"}"#)
            }
            let user = "user-of-\(names[1])"
            state.connected.insert(user)
            return .json(200, #"{"status":"connected","user_id":"\#(user)"}"#)
        case ("DELETE", "v1", _):
            guard let user = query["user_id"], state.connected.remove(user) != nil else {
                return .json(404, #"{"code":"not_found","message":"no such user"}"#)
            }
            return .json(200, #"{"status":"disconnected"}"#)
        case ("GET", "v1", _) where names.count == 5:
            guard state.connected.contains(names[3]) else {
                return .json(401, #"{"code":"token_expired","message":"reconnect"}"#)
            }
            return page("\(names[1])/\(names[4])", query, query["cursor"], "cursor", &state, fault)
        case ("POST", "oauth", _): return token(fields(request.text), &state)
        case ("DELETE", "developer", _):
            guard isAuthorized(request, state) else { return .json(401, "{}") }
            state.revokeAll()
            return .json(204, "")
        case ("GET", "developer", _):
            guard isAuthorized(request, state) else { return .json(401, #"{"message":"Authorization was not valid"}"#) }
            let collections = ["activity/sleep": "sleep", "activity/workout": "workouts", "cycle": "cycles"]
            let name = names.dropFirst(2).joined(separator: "/")
            return page("whoop/\(collections[name] ?? name)", query, query["nextToken"], "next_token", &state, fault)
        default: return .json(404, #"{"message":"no such route"}"#)
        }
    }

    private static func isAuthorized(_ request: ReceivedRequest, _ state: State) -> Bool {
        let token = (request.headers["authorization"] ?? "").dropFirst("Bearer ".count)
        return state.access[String(token)].map { $0 > Date().timeIntervalSince1970 } ?? false
    }

    /// Sends the browser to where the client listens.
    private static func redirect(
        _ query: [String: String], _ isExchanged: Bool, _ state: inout State
    ) -> ScriptedAnswer {
        let target = query["redirect_uri"] ?? ""
        let own = "state=\(encoded(query["state"] ?? ""))"
        let end: String
        switch state.decision {
        case .deny: end = "error=access_denied&error_description=The+person+said+no&\(own)"
        case .wrongState: end = "code=stolen&state=another"
        case .accept where isExchanged:
            // As Garmin's does: the service exchanges the code itself, and encodes the state in its own way.
            state.connected.insert("user-of-garmin")
            end = "success=true&user_id=user-of-garmin"
        case .accept:
            let code = state.next("code")
            state.codes[code] = State.Code(redirect: target, challenge: query["code_challenge"] ?? "")
            end = "code=\(code)&\(own)"
        }
        return .json(302, "{}", headers: ["location": "\(target)?\(end)"])
    }

    private static func take(_ code: String?, _ redirect: String?, _ verifier: String?, _ state: inout State) -> Bool {
        guard let code, var known = state.codes[code], !known.isUsed, !state.codesExpire, known.redirect == redirect,
            let verifier
        else { return false }
        let hash = Data(SHA256.hash(data: Data(verifier.utf8))).base64EncodedString()
        let challenge = hash.replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
        known.isUsed = true
        state.codes[code] = known
        return challenge == known.challenge
    }

    private static func token(_ form: [String: String], _ state: inout State) -> ScriptedAnswer {
        guard form["client_id"] == "client", form["client_secret"] == "client-secret" else {
            return .json(401, #"{"error":"invalid_client"}"#)
        }
        let invalid = ScriptedAnswer.json(400, #"{"error":"invalid_grant","error_description":"not good any more"}"#)
        switch form["grant_type"] {
        case "authorization_code":
            guard take(form["code"], form["redirect_uri"], form["code_verifier"], &state) else { return invalid }
        case "refresh_token":
            guard let token = form["refresh_token"], token == state.refresh else {
                if let token = form["refresh_token"], state.usedRefresh.contains(token) {
                    state.reuses += 1
                    state.revokeAll()
                }
                return invalid
            }
            state.usedRefresh.insert(token)
            state.renewals += 1
        default: return .json(400, #"{"error":"unsupported_grant_type"}"#)
        }
        let (access, refresh) = (state.next("access"), state.next("refresh"))
        state.access = [access: Date().timeIntervalSince1970 + Double(state.lifetime)]
        state.refresh = refresh
        return .json(
            200,
            #"{"access_token":"\#(access)","refresh_token":"\#(refresh)","expires_in":\#(state.lifetime),"token_type":"bearer","scope":"offline"}"#
        )
    }

    private static func page(
        _ key: String, _ query: [String: String], _ cursor: String?, _ name: String, _ state: inout State,
        _ fault: Fault?
    ) -> ScriptedAnswer {
        if state.unsupported.contains(key) { return .json(501, #"{"message":"delivered by webhooks"}"#) }
        let all = (state.records[key] ?? []).filter { record in
            guard let start = query["start"], let end = query["end"], let time = time(of: record) else { return true }
            return start <= time && time <= end
        }
        let offset = cursor.flatMap { Int($0.dropFirst()) } ?? 0
        let size = min(query["limit"].flatMap { Int($0) } ?? state.pageSize, state.pageSize)
        let part = fault == .emptyPage ? [] : Array(all.dropFirst(offset).prefix(size))
        let next =
            switch fault {
            case .lyingCursor: "\"o\(offset)\""
            // One zero more: another cursor for the same place.
            case .emptyPage: "\"o0\(cursor.map { $0.dropFirst() } ?? "")\""
            default: offset + part.count < all.count ? "\"o\(offset + part.count)\"" : "null"
            }
        return .json(
            200,
            #"{"vendor":"\#(key.prefix { $0 != "/" })","records":[\#(part.joined(separator: ","))],"\#(name)":\#(next)}"#
        )
    }

    /// The time of a record, as the queries write it.
    private static func time(of record: String) -> String? {
        let object = (try? JSONSerialization.jsonObject(with: Data(record.utf8))) as? [String: Any]
        if let text = object?["start"] as? String ?? object?["created_at"] as? String { return text }
        guard let seconds = object?["startTimeInSeconds"] as? Double else { return nil }
        return Date(timeIntervalSince1970: seconds).formatted(.iso8601)
    }

    private static func fields(_ text: String) -> [String: String] {
        Dictionary(
            text.split(separator: "&").compactMap { pair in
                let parts = pair.split(separator: "=", maxSplits: 1)
                guard parts.count == 2 else { return nil }
                let value = parts[1].replacing("+", with: " ")
                return (String(parts[0]), value.removingPercentEncoding ?? String(value))
            }
        ) { first, _ in first }
    }

    private static func encoded(_ text: String) -> String {
        text.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? text
    }
}

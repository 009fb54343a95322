import HealthReadings
import NIOHTTP1
import OutgoingHTTP

/// What a phone gives at pairing.
public struct PhonePairing: Sendable, Hashable {
    /// The token for every later request.
    public var token: PhoneToken
    /// When it expires, by the phone's clock.
    public var expiresAt: Instant
}

/// What a phone says of itself.
public struct PhoneStatus: Sendable, Hashable {
    /// `ok`.
    public var status: String
    /// The version of the routes: `1`.
    public var version: String
    /// The phone's name.
    public var deviceName: String
    /// The types that its owner shares.
    public var enabledTypes: [String]
    /// The phone's clock.
    public var serverTime: Instant
}

/// The server of an iOS Health Sync App.
///
/// It speaks TLS 1.3 with a self-signed certificate whose fingerprint was read from the phone's QR code.
///
///     let payload = try PairingPayload(json: text)
///     let phone = HealthSyncPhone(payload)
///     let pairing = try await phone.pair(payload.code, as: "gateway")
///     let status = try await phone.status(pairing.token)
public struct HealthSyncPhone: Sendable {
    let server: PinnedServer
    let limits: HealthSyncLimits

    /// Makes a client; nothing is connected yet.
    ///
    /// - Parameters:
    ///   - host: the phone's name or address, without brackets.
    ///   - port: the port, which the app chooses anew whenever it starts to share.
    ///   - fingerprint: the only certificate to trust.
    ///   - limits: what requests may take.
    public init(
        host: String, port: Int, fingerprint: CertificateFingerprint, limits: HealthSyncLimits = HealthSyncLimits()
    ) {
        server = PinnedServer(host: host, port: port, fingerprint: fingerprint)
        self.limits = limits
    }

    /// Makes a client of what a QR code holds.
    public init(_ payload: PairingPayload, limits: HealthSyncLimits = HealthSyncLimits()) {
        self.init(host: payload.host, port: payload.port, fingerprint: payload.fingerprint, limits: limits)
    }

    /// Pairs (`POST /api/v1/pair`). It is sent once: a code is good for five tries, and an answer that was lost may have used
    /// it.
    ///
    /// - Parameter name: what the phone is told of who pairs.
    /// - Throws: ``HealthSyncError``, ``HealthSyncError/Kind/pairingRefused`` for a code that is wrong, used or expired.
    public func pair(_ code: String, as name: String) async throws -> PhonePairing {
        let body = JSONValue.object(["code": .string(code), "clientName": .string(name)])
        let request = PhoneRequest(method: .POST, path: "/api/v1/pair", body: Array(body.text.utf8))
        let answer = try await PinnedExchange.send(request, to: server, limits)
        let reader = PhoneAnswerReader(request.route, secrets: [code])
        guard answer.status == 200 else {
            var error = reader.error(of: answer)
            if answer.status == 400 || answer.status == 401 || answer.status == 403 { error.kind = .pairingRefused }
            throw error
        }
        return try reader.pairing(answer)
    }

    /// What the phone says of itself (`GET /api/v1/status`).
    ///
    /// - Throws: ``HealthSyncError``.
    public func status(_ token: PhoneToken) async throws -> PhoneStatus {
        let (reader, answer) = try await exchange(PhoneRequest(method: .GET, path: "/api/v1/status", token: token))
        return try reader.status(answer)
    }

    /// The types that the phone's owner shares (`GET /api/v1/health/types`).
    ///
    /// - Throws: ``HealthSyncError``.
    public func types(_ token: PhoneToken) async throws -> [String] {
        let (reader, answer) = try await exchange(
            PhoneRequest(method: .GET, path: "/api/v1/health/types", token: token))
        return try reader.types(answer)
    }

    /// One page of samples (`POST /api/v1/health/data`), newest first. ``HealthSyncFetch`` puts pages together.
    func page(_ query: PageQuery, _ token: PhoneToken) async throws -> SamplePage {
        let request = PhoneRequest(
            method: .POST, path: "/api/v1/health/data", token: token, body: Array(query.document.text.utf8))
        let (reader, answer) = try await send(request)
        guard answer.status == 200 || answer.status == 423 else {
            var error = reader.error(of: answer)
            if error.kind == .typeNotEnabled { error.detail = query.types.joined(separator: ", ") }
            throw error
        }
        return try reader.page(answer)
    }

    private func exchange(_ request: PhoneRequest) async throws -> (PhoneAnswerReader, PhoneAnswer) {
        var pause = limits.pause
        var retries = 0
        while true {
            do {
                let (reader, answer) = try await send(request)
                guard answer.status == 200 else { throw reader.error(of: answer) }
                return (reader, answer)
            } catch let error as HealthSyncError where error.isPassing && retries < limits.retries {
                retries += 1
                try await Task.sleep(for: pause)
                pause *= 2
            }
        }
    }

    private func send(_ request: PhoneRequest) async throws -> (PhoneAnswerReader, PhoneAnswer) {
        let reader = PhoneAnswerReader(request.route, secrets: request.token.map { [$0.value] } ?? [])
        return (reader, try await PinnedExchange.send(request, to: server, limits))
    }
}

/// What a page is asked for.
struct PageQuery: Sendable, Hashable {
    var types: [String]
    /// Both ends are included, in whole seconds: the app's decoder takes no fractions.
    var start: Instant
    var end: Instant
    var limit: Int
    var offset: Int

    var document: JSONValue {
        .object([
            "startDate": .string(start.flooredToSecond.description),
            "endDate": .string(end.flooredToSecond.description), "types": .array(types.map(JSONValue.string)),
            "limit": .integer(Int64(limit)), "offset": .integer(Int64(offset)),
        ])
    }
}

/// A page of samples, as the phone sent it.
struct SamplePage: Sendable {
    var samples: [HealthSyncSample]
    var hasMore: Bool
}

/// Reads what a phone answered.
struct PhoneAnswerReader: Sendable {
    let route: String
    /// Masked wherever the phone echoes them.
    let secrets: [String]

    init(_ route: String, secrets: [String]) {
        self.route = route
        self.secrets = secrets
    }

    func pairing(_ answer: PhoneAnswer) throws(HealthSyncError) -> PhonePairing {
        let root = try json(answer)
        guard let token = root["token"]?.text.flatMap(PhoneToken.init) else { throw unexpected("token", answer) }
        guard let expiresAt = root["expiresAt"]?.text.flatMap({ Instant(rfc3339: $0) }) else {
            throw unexpected("expiresAt", answer)
        }
        return PhonePairing(token: token, expiresAt: expiresAt)
    }

    func status(_ answer: PhoneAnswer) throws(HealthSyncError) -> PhoneStatus {
        let root = try json(answer)
        guard let status = root["status"]?.text else { throw unexpected("status", answer) }
        guard let version = root["version"]?.text else { throw unexpected("version", answer) }
        guard let name = root["deviceName"]?.text.flatMap({ ServerText.oneLine($0, masking: secrets) }) else {
            throw unexpected("deviceName", answer)
        }
        guard let time = root["serverTime"]?.text.flatMap({ Instant(rfc3339: $0) }) else {
            throw unexpected("serverTime", answer)
        }
        return PhoneStatus(
            status: status, version: version, deviceName: name, enabledTypes: try types(root, answer), serverTime: time)
    }

    func types(_ answer: PhoneAnswer) throws(HealthSyncError) -> [String] { try types(try json(answer), answer) }

    private func types(_ root: JSONNode, _ answer: PhoneAnswer) throws(HealthSyncError) -> [String] {
        guard let elements = root["enabledTypes"]?.elements else { throw unexpected("enabledTypes", answer) }
        var types: [String] = []
        for element in elements {
            guard let type = element.text, HealthSyncType.isName(type) else {
                throw unexpected("enabledTypes", answer)
            }
            if !types.contains(type) { types.append(type) }
        }
        return types
    }

    func page(_ answer: PhoneAnswer) throws(HealthSyncError) -> SamplePage {
        let root = try json(answer)
        guard let status = root["status"]?.text else { throw unexpected("status", answer) }
        let words = root["message"]?.text.flatMap { ServerText.oneLine($0, masking: secrets) }
        switch status {
        case "ok" where answer.status == 200: break
        case "locked": throw HealthSyncError(.locked, route: route, status: answer.status, detail: words)
        case "noPermission": throw HealthSyncError(.noPermission, route: route, status: answer.status, detail: words)
        case "error": throw HealthSyncError(.phoneFailed, route: route, status: answer.status, detail: words)
        default: throw unexpected("status", answer)
        }
        guard let elements = root["samples"]?.elements else { throw unexpected("samples", answer) }
        var samples: [HealthSyncSample] = []
        samples.reserveCapacity(elements.count)
        for (place, element) in elements.enumerated() {
            do throws(HealthSyncSample.Malformed) {
                samples.append(try HealthSyncSample(element, in: answer.body))
            } catch {
                throw HealthSyncError(
                    .unexpectedAnswer, route: route, status: answer.status, detail: "samples[\(place)].\(error.reason)")
            }
        }
        // Both came with the second version of the app; the first one had one page and no more.
        let hasMore = root["hasMore"]
        guard hasMore == nil || hasMore?.flag != nil else { throw unexpected("hasMore", answer) }
        if let count = root["returnedCount"], count.integer != samples.count {
            throw HealthSyncError(
                .unexpectedAnswer, route: route, status: answer.status,
                detail: "returnedCount: expected the number of samples, \(samples.count), found another")
        }
        return SamplePage(samples: samples, hasMore: hasMore?.flag ?? false)
    }

    /// The error that a status other than 200 is.
    func error(of answer: PhoneAnswer) -> HealthSyncError {
        let kind: HealthSyncError.Kind =
            switch answer.status {
            case 300..<400: .redirected
            case 401: .tokenExpired
            case 403: .typeNotEnabled
            case 408: .timeout
            case 413, 431: .payloadTooLarge
            case 423: .locked
            case 429: .rateLimitExceeded
            case 500...: .serverError
            default: .refused
            }
        return HealthSyncError(
            kind, route: route, status: answer.status, detail: words(of: answer),
            retryAfter: answer.headers.first(name: "retry-after").flatMap(RetryAfter.delay))
    }

    /// The app refuses in plain text; a gateway that serves the same routes, in JSON.
    private func words(of answer: PhoneAnswer) -> String? {
        let type = answer.headers.first(name: "content-type")
        if let root = try? JSONReader.read(answer.body) {
            let text = root["message"]?.text ?? root["error"]?["message"]?.text ?? root["error"]?.text
            return text.flatMap { ServerText.oneLine($0, masking: secrets) }
        }
        guard !answer.body.isEmpty else { return nil }
        guard type?.hasPrefix("text/plain") == true else {
            return ServerText.summary(of: answer.body, type: type, masking: secrets)
        }
        return ServerText.oneLine(String(decoding: answer.body.prefix(400), as: UTF8.self), masking: secrets)
    }

    private func json(_ answer: PhoneAnswer) throws(HealthSyncError) -> JSONNode {
        let root: JSONNode
        do throws(JSONFailure) {
            root = try JSONReader.read(answer.body)
        } catch {
            throw failure(error, answer)
        }
        guard root.members != nil else { throw unexpected("an object", answer) }
        return root
    }

    private func failure(_ failure: JSONFailure, _ answer: PhoneAnswer) -> HealthSyncError {
        // Where the answer's length isn't told, a connection that broke looks like the end of the answer.
        guard !failure.endsEarly || answer.body.isEmpty else {
            return HealthSyncError(
                .connectionLost, route: route, status: answer.status,
                detail: "the JSON ends early, at byte \(failure.offset)")
        }
        // What was found may be a sample, or a token: only what is no JSON from its first byte is shown.
        let type = answer.headers.first(name: "content-type")
        let found =
            failure.offset == 0 ? ", found " + ServerText.summary(of: answer.body, type: type, masking: secrets) : ""
        return HealthSyncError(
            .notJSON, route: route, status: answer.status,
            detail: "expected \(failure.expected) at byte \(failure.offset)" + found)
    }

    private func unexpected(_ key: String, _ answer: PhoneAnswer) -> HealthSyncError {
        HealthSyncError(
            .unexpectedAnswer, route: route, status: answer.status, detail: "\(key) is missing or cannot be read")
    }
}

/// Reads octets as a phone's answer, good and bad, and as a QR code's text: the entry for fuzzing.
///
/// - Returns: which promise is broken; `nil`: none.
package func readHealthSyncAnswer(_ octets: [UInt8]) -> String? {
    let status = [200, 400, 401, 403, 423, 429, 500][Int(octets.first ?? 0) % 7]
    let reader = PhoneAnswerReader("GET /", secrets: ["fuzz-secret"])
    for body in [octets, Array(octets.dropFirst())] {
        let answer = PhoneAnswer(
            status: status, headers: ["retry-after": String(decoding: body.prefix(16), as: UTF8.self)], body: body)
        _ = reader.error(of: answer)
        _ = try? reader.pairing(answer)
        _ = try? reader.status(answer)
        _ = try? reader.types(answer)
        if let page = try? reader.page(PhoneAnswer(status: 200, headers: [:], body: body)) {
            for sample in page.samples where HealthSyncSample(json: sample.json) != sample {
                return "what is kept of a sample reads as another one"
            }
        }
        _ = try? PairingPayload(json: String(decoding: body, as: UTF8.self))
        _ = CertificateFingerprint(String(decoding: body, as: UTF8.self))
        _ = HealthSyncSample(json: body)
    }
    return nil
}

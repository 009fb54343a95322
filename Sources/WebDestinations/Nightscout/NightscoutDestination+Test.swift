import HealthReadings
import NIOHTTP1
import OutgoingHTTP
import ReadingDelivery

extension NightscoutDestination {
    /// Asks whom the site takes the credentials for, and lets it check an upload that it does not store. Whether notes may be
    /// created is asked by uploading none.
    public func test() async -> [Finding] {
        let client = client.impatient
        var findings = WebFindings(client.server)
        func ask(_ method: HTTPMethod, _ path: String, body: String? = nil) async throws(DeliveryFailure) -> HTTPAnswer
        {
            var request = WebRequest(method: method, url: url(path), route: "\(method.rawValue) /\(path)")
            request.headers = headers
            if let body {
                request.headers.append(("content-type", Masked("application/json")))
                request.body = Array(body.utf8)
            }
            return try await client.send(request)
        }
        do throws(DeliveryFailure) {
            let verified = try await ask(.GET, "api/v1/verifyauth")
            guard verified.isGood, !verified.isPage, let json = verified.json else {
                let mend = verified.isPage ? "set `url` to the site's address, without a path of its API" : nil
                return findings.failed(client.failure(of: verified, "GET /api/v1/verifyauth"), mend: mend)
            }
            // Refused credentials are answered with 200 too. `OK` means that everything may be read: a token that is known, but
            // permits a few things alone, is `UNAUTHORIZED` where the site's own default role may not read.
            let answer = json["message"] ?? json
            guard answer["message"]?.text == "OK" || answer["rolefound"]?.text == "FOUND" else {
                return findings.failed(
                    DeliveryFailure(
                        .destination, code: "authentication_failed",
                        message: "GET /api/v1/verifyauth: the site does not accept the secret or token",
                        needsPerson: true),
                    mend: "compare it with the site's API_SECRET, or the token with its admin tools")
            }
            let status = try await ask(.GET, "api/v1/status.json")
            if let version = status.json?["version"]?.text.flatMap(client.oneLine) {
                findings.words[.address] = "\(client.server.host) answers: Nightscout \(version)"
            }
            let preview = try await ask(.POST, "api/v1/entries/preview", body: "[]")
            switch preview.status {
            case 200..<300 where !preview.isPage: findings.words[.permission] = "entries may be created"
            case 401, 403:
                return findings.failed(
                    DeliveryFailure(
                        .destination, code: "forbidden",
                        message: "POST /api/v1/entries/preview: the token may not create entries", needsPerson: true),
                    mend: "give the token's role the permission api:entries:create")
            default: findings.unproven[.permission] = "the site cannot check an upload without storing it"
            }
            guard deliversBloodPressure else { return findings.all() }
            let notes = try await ask(.POST, "api/v1/treatments", body: "[]")
            guard !notes.isGood || notes.isPage else { return findings.all() }
            let failure = Self.aboutNotes(client.failure(of: notes, "POST /api/v1/treatments"))
            guard failure.scope == .target, [401, 403, 404].contains(notes.status) else {
                findings.unproven[.permission] = "the site does not say whether notes may be created"
                return findings.all()
            }
            let mend =
                failure.needsPerson
                ? "give the token's role these permissions" : "have the site's owner enable the plugin careportal"
            return findings.failed(
                failure, at: .permission, mend: mend + ", or set `blood_pressure_notes: false`")
        } catch {
            return findings.failed(error)
        }
    }
}

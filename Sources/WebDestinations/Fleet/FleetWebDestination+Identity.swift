import FleetDelivery
import FleetDocuments
import HealthReadings
import OutgoingHTTP
import ReadingDelivery

/// Connections to all hosts that show one certificate.
struct FleetWay: Sendable {
    /// Whose certificate it is; `nil`: the settings say how the gateway proves itself, and that never changes.
    let identity: FleetIdentity?
    let clients: [WebClient]
}

extension DeliveryFailure {
    /// Whether the collector does not take who sends: another certificate may do.
    var refusesIdentity: Bool { code == "authentication_failed" }
}

extension FleetWebDestination {
    /// The ways to try, the newest certificate first. Connections of certificates that are gone close.
    func currentWays() throws(DeliveryFailure) -> [FleetWay] {
        guard let enrolment = place.credential.enrolment else {
            if ways.isEmpty {
                ways = [way(nil, place.credential.identity, secrets: place.credential.token.map { [$0] } ?? [])]
            }
            return ways
        }
        ways = enrolment.identities().compactMap { identity in
            if let way = ways.first(where: { $0.identity == identity }) { return way }
            let files = identity.files
            return HTTPIdentity(certificate: files.certificate, key: files.privateKey).map { way(identity, $0) }
        }
        guard ways.isEmpty else { return ways }
        throw DeliveryFailure(
            .destination, code: "not_enrolled",
            message:
                "this gateway has no certificate of the fleet: `healthrelay fleet enrol --token-file FILE` gets one",
            needsPerson: true)
    }

    private func way(_ identity: FleetIdentity?, _ shown: HTTPIdentity?, secrets: [Masked] = []) -> FleetWay {
        FleetWay(
            identity: identity,
            clients: place.servers.map { server in
                let connections = HTTPConnections(
                    limits, authorities: server.authorities ?? identity?.files.authorities, identity: shown)
                return WebClient(server, secrets: secrets, connections: connections, logger: logger)
            })
    }

    /// Sends a document to a host as the newest identity that it lets in.
    func exchange(
        _ document: JSONValue, _ part: FleetTopic.Part, at host: Int
    ) async throws(DeliveryFailure) -> HTTPAnswer {
        var refusal: (way: FleetWay, failure: DeliveryFailure)?
        let ways = try currentWays()
        for (index, way) in ways.enumerated() {
            do throws(DeliveryFailure) {
                let answer = try await exchange(document, part, at: host, by: way)
                settle(way, after: refusal)
                return answer
            } catch {
                if error.refusesIdentity {
                    refusal = refusal ?? (way, error)
                } else {
                    // With TLS 1.3 a certificate is refused after the request was sent, and the connection may be cut
                    // before the reason is read: then the older certificate is tried, and nothing is held against the newer.
                    let mayBeRefusal = error.code == "no_connection" && error.mayHaveArrived
                    guard mayBeRefusal, index + 1 < ways.count else { throw error }
                }
            }
        }
        throw refusal?.failure ?? DeliveryFailure(.destination, code: "no_connection", message: "no host is given")
    }

    /// Sends a document to a host over one way.
    func exchange(
        _ document: JSONValue, _ part: FleetTopic.Part, at host: Int, by way: FleetWay
    ) async throws(DeliveryFailure) -> HTTPAnswer {
        let client = way.clients[host]
        let answer = try await client.send(request(document, part, client))
        guard answer.isGood else { throw failure(of: answer, part.rawValue, client) }
        return answer
    }

    /// Notes what a host has taken.
    func settle(_ way: FleetWay, after refusal: (way: FleetWay, failure: DeliveryFailure)?) {
        guard let identity = way.identity, let enrolment = place.credential.enrolment else { return }
        guard let refusal, let refused = refusal.way.identity else {
            return enrolment.accepted(identity)
        }
        enrolment.refused(refused, because: refusal.failure.message)
    }

    private func request(_ document: JSONValue, _ part: FleetTopic.Part, _ client: WebClient) -> WebRequest {
        var octets: [UInt8] = []
        document.write(into: &octets)
        var request = WebRequest(
            url: client.server.url + "/v1/\(part.rawValue)", route: "POST /v1/\(part.rawValue)", body: octets)
        request.headers = [("content-type", Masked("application/json"))]
        if let token = place.credential.token {
            request.headers.append(("authorization", Masked("Bearer \(token.value)")))
        }
        return request
    }

    private func failure(of answer: HTTPAnswer, _ part: String, _ client: WebClient) -> DeliveryFailure {
        var failure = client.failure(of: answer, "POST /v1/\(part)")
        // Other destinations have one address, a fleet has several.
        failure.message = failure.message.replacing("`url`", with: "`hosts`")
        let code = answer.json?["error"]?["code"]?.text ?? answer.json?["code"]?.text
        if answer.status == 403, let code, ["certificate_revoked", "certificate_names_no_gateway"].contains(code) {
            failure.code = "authentication_failed"
        }
        // It is not the readings that the centre cannot take.
        if answer.status == 422, let code, ["newer_schema", "other_key", "seal_broken"].contains(code) {
            (failure.scope, failure.code, failure.needsPerson) = (.destination, code, true)
        }
        return failure
    }
}

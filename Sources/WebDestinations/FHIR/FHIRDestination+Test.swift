import Foundation
import HealthReadings
import NIOHTTP1
import OutgoingHTTP
import ReadingDelivery
import ReadingFormats

extension FHIRDestination {
    /// Asks the server what it is, asks for a token, and looks for the patients. Nothing is written.
    ///
    /// Whether Observations may be written is not proven: a server checks that only when it stores one.
    public func test() async -> [Finding] {
        let client = client.impatient
        var findings = WebFindings(client.server)
        do throws(DeliveryFailure) {
            let statement = try await statement(client)
            if let words = statement["fhirVersion"]?.text.flatMap(client.oneLine) {
                guard words.hasPrefix("4.0.") || words == "4.0" else {
                    return findings.failed(
                        DeliveryFailure(
                            .destination, code: "wrong_version",
                            message: "GET /metadata: expected FHIR 4.0 (R4), found FHIR \(words)", needsPerson: true),
                        at: .address, mend: "set `url` to the server's address for R4")
                }
                findings.words[.address] = "\(client.server.host) answers: FHIR \(words)"
            }
            if let missing = Self.missing(in: statement) {
                return findings.failed(
                    DeliveryFailure(
                        .destination, code: "not_supported", message: "GET /metadata: \(missing)", needsPerson: true),
                    at: .address)
            }
            let token = try await token(&findings)
            findings.unproven[.permission] = Self.unprovenPermission
            // One that nothing has: what the server has of anybody is not asked for.
            do throws(DeliveryFailure) {
                _ = try await search(
                    "Observation", [(Self.uuidSystem, "urn:uuid:\(UUID().uuidString.lowercased())")], by: client)
            } catch {
                guard error.code == "forbidden" else { throw error }
                findings.unproven[.permission] =
                    "the credentials may not search for Observations, which taking readings back needs"
            }
            if let scope = token?.scope, !Self.mayCreate(scope) {
                return findings.failed(
                    DeliveryFailure(
                        .destination, code: "forbidden",
                        message:
                            "the token does not permit to create Observations: it was granted for \(client.oneLine(scope) ?? "nothing")",
                        needsPerson: true),
                    mend: "have the server's owner grant the client \(Credential.standardScope)")
            }
            return try await lookForPatients(findings, client)
        } catch {
            let mend =
                error.code == "not_found" || error.code == "not_json"
                ? "set `url` to the server's base, under which `/metadata` is" : nil
            return findings.failed(error, mend: mend)
        }
    }

    private static let unprovenPermission =
        "cannot be proven without writing: a server checks the permission only when it stores an Observation"

    /// The server's CapabilityStatement, asked for without credentials as the standard has it.
    private func statement(_ client: WebClient) async throws(DeliveryFailure) -> AnswerJSON {
        let route = "GET /metadata"
        var request = WebRequest(method: .GET, url: client.server.address.joined("metadata"), route: route)
        request.headers = [("accept", Masked(ReadingFormat.fhir.mediaType))]
        var (answer, asker) = (try await client.send(request), client)
        if answer.status == 401 || answer.status == 403 {
            request.headers = []
            (answer, asker) = try await send(request, by: client)
        }
        guard answer.isGood, !answer.isPage else { throw asker.failure(of: answer, route) }
        guard let json = answer.json, json["resourceType"]?.text == "CapabilityStatement" else {
            throw DeliveryFailure(
                .destination, code: "not_json", message: "\(route): the answer is no CapabilityStatement",
                serverSaid: asker.said(answer))
        }
        return json
    }

    /// What delivery needs and the server says that it does not have; `nil` where it says nothing of it.
    private static func missing(in statement: AnswerJSON) -> String? {
        guard let rest = statement["rest"]?.elements.first(where: { $0["mode"]?.text == "server" }) else { return nil }
        if let interactions = rest["interaction"]?.elements, !interactions.isEmpty,
            !interactions.contains(where: { $0["code"]?.text == "transaction" })
        {
            return "the server takes no transactions"
        }
        let observation = rest["resource"]?.elements.first { $0["type"]?.text == "Observation" }
        if observation?["conditionalCreate"]?.bool == false {
            return "the server supports no conditional creates of Observations, so it would store a repeated one twice"
        }
        return nil
    }

    private func token(_ findings: inout WebFindings) async throws(DeliveryFailure) -> FHIRTokens.Token? {
        let token = try await tokens.current()
        if token == nil { findings.words[.credentials] = "none are set, and the server asks for none" }
        return token
    }

    /// Whether one of the granted scopes, of SMART 1 or 2, covers the creation of Observations.
    static func mayCreate(_ scopes: String) -> Bool {
        scopes.split(separator: " ").contains { scope in
            let parts = scope.split(separator: "/")
            guard parts.count == 2, parts[0] == "system" else { return false }
            let words = parts[1].prefix { $0 != "?" }.split(separator: ".")
            guard words.count == 2, words[0] == "Observation" || words[0] == "*" else { return false }
            return words[1] == "write" || words[1] == "*"
                || words[1].allSatisfy("cruds".contains) && words[1].contains("c")
        }
    }

    private func lookForPatients(
        _ findings: WebFindings, _ client: WebClient
    ) async throws(DeliveryFailure) -> [Finding] {
        for (person, patient) in patients.sorted(by: { $0.key < $1.key }) {
            let found: [AnswerJSON]
            do throws(DeliveryFailure) {
                found = try await search("Patient", [(patient.system, patient.value)], by: client)
            } catch {
                guard error.code == "forbidden" || error.code == "not_found" else { throw error }
                return findings.all()
            }
            guard found.count == 1 else {
                return findings.failed(
                    DeliveryFailure(
                        .destination, code: "no_patient",
                        message:
                            "the server has \(found.isEmpty ? "no Patient" : "\(found.count) Patients") with the identifier of \(person)",
                        needsPerson: true),
                    at: .permission, mend: "compare `patients` with the identifiers at the server")
            }
        }
        return findings.all()
    }
}

import FleetDelivery
import FleetDocuments
import Foundation
import GatewaySettings
import HealthReadings
import Logging
import OutgoingHTTP
import ReadingDelivery
import ReadingStore

/// The arguments of `fleet`.
public enum FleetOperation: Codable, Sendable, Hashable {
    /// Gets a certificate with the content of a token's file.
    ///
    /// `url` is used in place of the file's, and `destination` may be left out if there is only one of the kind.
    case enrol(ticket: String, url: String?, destination: String?)
    case status
}

/// `fleet`: this gateway's membership in a fleet.
struct FleetRunner {
    let gateway: Gateway
    let json: Bool
    let output: any OperationOutput

    func run(_ operation: FleetOperation) async throws {
        switch operation {
        case .enrol(let ticket, let url, let destination): try await enrol(ticket, url, destination)
        case .status: try await status()
        }
    }

    private func enrol(_ text: String, _ url: String?, _ destination: String?) async throws {
        let ticket: EnrolmentTicket
        do throws(FleetDocumentError) { ticket = try EnrolmentTicket(Array(text.utf8)) } catch {
            throw Problem("token_file_damaged", .badData, "the token's file can't be used: \(error)")
        }
        let name = try self.name(destination)
        if let wanted = gateway.settings.destination(name)?["gateway"], wanted != ticket.gateway.description {
            throw Problem(
                "gateway_differs", .configuration,
                "the token is for \(ticket.gateway), and destinations.\(name).gateway is \(wanted)",
                hint: "take `gateway` out of the settings: the certificate says it")
        }
        let folder = EnrolmentFolder(state: gateway.store.directory, destination: name)
        let address = try EnrolmentExchange.address(url ?? ticket.url).base
        let now = await gateway.clock.judgingTime()
        let isNew = try await EnrolmentDesk(folder, now: now).enrol(ticket, url: address)
        if isNew {
            gateway.logger.notice("the gateway has enrolled", metadata: ["destination": "\(name)"])
            if let worker = try? gateway.destinations.require(name).worker { await worker.forgetFailures() }
        }
        guard let record = folder.record else { return }
        if json {
            try await output.data(record.summary(of: name, at: now, [.init("is_new", .bool(isNew))]).text)
        } else {
            try await output.data(
                "\(isNew ? "enrolled" : "was enrolled already") as \(record.gateway): certificate until "
                    + "\(record.current.until), renewed by itself from \(record.current.renewsAt)")
        }
        if gateway.settings.destination(name) == nil {
            try await output.note(
                "the settings name no destination \(name) yet: add {name: \(name), kind: fleet, hosts: [...]}")
        }
    }

    /// The destination that is meant.
    private func name(_ destination: String?) throws(Problem) -> String {
        let fleets = gateway.settings.destinations.filter { $0.kind == .fleet }.map(\.name)
        if let destination {
            guard DestinationSetting.isName(destination) else {
                throw Problem.usage("--destination: expected a name of the characters a-z, 0-9, _ and -")
            }
            if let other = gateway.settings.destination(destination), other.kind != .fleet {
                throw Problem.usage("\(destination) is no destination of the kind fleet")
            }
            return destination
        }
        guard fleets.count < 2 else {
            throw Problem.usage(
                "there are several fleets: \(fleets.joined(separator: ", "))", hint: "say which one with --destination")
        }
        return fleets.first ?? "fleet"
    }

    private func status() async throws {
        let now = await gateway.clock.judgingTime()
        let state = gateway.store.directory
        let all = EnrolmentFolder.destinations(in: state).compactMap { name in
            EnrolmentFolder(state: state, destination: name).record.map { (name, $0) }
        }
        guard !json else {
            return try await output.data(
                JSONValue.object(["enrolments": .array(all.map { $1.summary(of: $0, at: now) })]).text)
        }
        for (name, record) in all {
            try await output.data(
                "\(name): \(record.gateway), certificate by \(record.current.issuer) until \(record.current.until)")
            if let next = record.nextRenewal(at: now) { try await output.data("  next renewal at \(next)") }
            if let problem = record.problem(at: now) { try await output.data("  \(problem)") }
        }
        if all.isEmpty { try await output.note("not enrolled: `healthrelay fleet enrol --token-file FILE`") }
    }
}

extension EnrolmentRecord {
    /// `{destination, gateway, …}` as the commands print it.
    func summary(of destination: String, at now: Instant, _ more: [JSONValue.Member] = []) -> JSONValue {
        .object(
            [
                .init("destination", .string(destination)), .init("gateway", .string(gateway)),
                .init("url", .string(url)), .init("state", .string(state(at: now).rawValue)),
                .init("issuer", .string(current.issuer)), .init("serial", .string(current.serial)),
                .init("not_before", .string(current.from.description)),
                .init("not_after", .string(current.until.description)),
                .init("next_renewal", .optional(nextRenewal(at: now)?.flooredToSecond.description)),
                .init("keeps_previous", .bool(previous != nil)),
                .init("problem", .optional(problem(at: now))),
            ] + more)
    }
}

extension Gateway {
    /// Renews the certificates of the fleets that it has enrolled in, if it is time, and has the centre prove each new one.
    ///
    /// - Returns: what a log is told of each destination that something was done for.
    package func renewEnrolments() async -> [(destination: String, failure: Problem?)] {
        let now = await clock.judgingTime()
        var results: [(destination: String, failure: Problem?)] = []
        for name in EnrolmentFolder.destinations(in: store.directory) {
            let folder = EnrolmentFolder(state: store.directory, destination: name)
            do {
                if try await EnrolmentDesk(folder, now: now).renewIfDue() { results.append((name, nil)) }
            } catch is CancellationError {
                return results
            } catch {
                results.append((name, Problem(describing: error) ?? .unexpected(error)))
            }
            // Also after a restart: the former certificate stays until the new one is proven.
            guard folder.record?.previous != nil, folder.record?.refusal == nil,
                let fleet = destinations.links.first(where: { $0.name == name })?.open?.destination
                    as? any ProvesIdentity
            else { continue }
            _ = await fleet.proveIdentity()
        }
        return results
    }

    /// How long it is until the next renewal is tried, between a second and this.
    ///
    /// Gateways that started together also look together: what spreads their renewals would be lost if each waited for its next
    /// look.
    package func waitForRenewal(atMost most: Duration) async -> Duration {
        let now = await clock.judgingTime()
        let next = EnrolmentFolder.destinations(in: store.directory).compactMap { name in
            EnrolmentFolder(state: store.directory, destination: name).record?.nextRenewal(at: now)
        }.filter { $0 > now }.min()
        guard let next else { return most }
        return max(.seconds(1), min(most, .microseconds(next.microseconds - now.microseconds)))
    }
}

import Foundation
import GatewaySettings
import Logging
import VitalClient

/// Proves that a Vital-compatible server can be delivered to, as far as that is possible without leaving a reading there.
struct DestinationTest {
    /// What is looked at, in the order in which a request gets there.
    private enum Stage: Int, CaseIterable {
        case address, certificate, credentials, permission

        var name: String { "\(self)" }
    }

    /// Where to deliver; `nil` if there is neither a key nor a sign-in token.
    let connection: VitalConnection?
    let clientUserID: String?
    let logger: Logger

    func findings() async -> [DestinationFinding] {
        guard let connection else {
            let problem = Problem(
                "no_server_key", .configuration, "neither a key nor a sign-in token is set",
                hint: "put the key into a file (mode 0600) and name it: `api_key_file` of the destination")
            return [bad("settings", problem)] + untried(from: .address)
        }
        let settings = DestinationFinding(name: "settings", ok: true, found: "can be used")
        do {
            try await ask(connection)
        } catch {
            return [settings] + findings(of: error, connection)
        }
        return [settings] + good(upTo: .permission, connection) + [Self.delivery]
    }

    /// Asks for a user or their sources: that makes nothing.
    private func ask(_ connection: VitalConnection) async throws {
        var limits = VitalAPI.Limits()
        limits.connecting = .seconds(5)
        limits.call = .seconds(10)
        let api = VitalAPI(
            server: connection.server, credentials: connection.credentials, limits: limits,
            authorities: connection.authorities, logger: logger)
        do {
            if let user = try await api.signedInUserID() {
                _ = try await api.connectedSources(of: user)
            } else {
                _ = try await api.resolveUser(clientUserID: clientUserID ?? "healthrelay-test")
            }
        } catch let error as VitalError where error.kind == .notFound {
            // It answered and took the key: that it has no such user yet is no fault.
        }
    }

    private func findings(of error: any Error, _ connection: VitalConnection) -> [DestinationFinding] {
        let problem = Problem(describing: error) ?? .unexpected(error)
        let stage: Stage =
            switch (error as? VitalError)?.kind {
            case .untrustedServer: .certificate
            case .authenticationFailed, .tokenExpired: .credentials
            case .forbidden: .permission
            default: .address
            }
        let before = Stage(rawValue: stage.rawValue - 1)
        return (before.map { good(upTo: $0, connection) } ?? []) + [bad(stage.name, problem)]
            + untried(from: Stage(rawValue: stage.rawValue + 1))
    }

    private func good(upTo last: Stage, _ connection: VitalConnection) -> [DestinationFinding] {
        let server = connection.server
        return Stage.allCases.filter { $0.rawValue <= last.rawValue }.map { stage in
            switch stage {
            case .address: DestinationFinding(name: stage.name, ok: true, found: "\(server.host) answers")
            case .certificate where !server.baseURL.lowercased().hasPrefix("https:"):
                DestinationFinding(name: stage.name, ok: nil, found: "plain http has no certificate")
            case .certificate: DestinationFinding(name: stage.name, ok: true, found: "is trusted")
            case .credentials: DestinationFinding(name: stage.name, ok: true, found: "are accepted")
            case .permission: DestinationFinding(name: stage.name, ok: true, found: "users may be asked for")
            }
        }
    }

    private func bad(_ name: String, _ problem: Problem) -> DestinationFinding {
        DestinationFinding(name: name, ok: false, found: problem.message, mend: problem.hint, status: problem.status)
    }

    private func untried(from first: Stage?) -> [DestinationFinding] {
        let stages = first.map { first in Stage.allCases.filter { $0.rawValue >= first.rawValue } } ?? []
        return stages.map { DestinationFinding(name: $0.name, ok: nil, found: "not tried") } + [Self.delivery]
    }

    private static let delivery = DestinationFinding(
        name: "delivery", ok: nil,
        found: "cannot be proven without leaving a reading there: the first post shows whether the key may post")
}

import ReadingDelivery
import ReadingStore
import VitalClient

extension VitalDestination {
    /// What is looked at, in the order in which a request gets there.
    private enum Stage: Int, CaseIterable {
        case address, certificate, credentials, permission

        var name: String { "\(self)" }
    }

    /// Proves that the server can be delivered to, as far as that is possible without leaving anything there: asks for the
    /// current person, or for their sources.
    public func test() async -> [Finding] {
        do { try await ask() } catch { return findings(of: error) }
        return good(upTo: .permission) + [Self.delivery]
    }

    private func ask() async throws {
        var limits = VitalAPI.Limits()
        limits.connecting = .seconds(5)
        limits.call = .seconds(10)
        let api = api.limited(to: limits)
        let person = (try? await store.currentUser().clientUserID) ?? ""
        do {
            if let user = try await api.signedInUserID() {
                _ = try await api.connectedSources(of: user)
            } else {
                _ = try await api.resolveUser(clientUserID: person.isEmpty ? "healthrelay-test" : person)
            }
        } catch let error as VitalError where error.kind == .notFound {
            // It answered and took the key: that it has no such user yet is no fault.
        }
    }

    private func findings(of error: any Error) -> [Finding] {
        let stage: Stage =
            switch (error as? VitalError)?.kind {
            case .untrustedServer: .certificate
            case .authenticationFailed, .tokenExpired: .credentials
            case .forbidden: .permission
            default: .address
            }
        let before = Stage(rawValue: stage.rawValue - 1).map(good) ?? []
        let bad = Finding(stage.name, isGood: false, found: "\(error)", cause: error)
        let untried = Stage.allCases.filter { $0.rawValue > stage.rawValue }
            .map { Finding($0.name, isGood: nil, found: "not tried") }
        return before + [bad] + untried + [Self.delivery]
    }

    private func good(upTo last: Stage) -> [Finding] {
        Stage.allCases.filter { $0.rawValue <= last.rawValue }.map { stage in
            switch stage {
            case .address: Finding(stage.name, isGood: true, found: "\(api.server.host) answers")
            case .certificate where !api.server.baseURL.lowercased().hasPrefix("https:"):
                Finding(stage.name, isGood: nil, found: "plain http has no certificate")
            case .certificate: Finding(stage.name, isGood: true, found: "is trusted")
            case .credentials: Finding(stage.name, isGood: true, found: "are accepted")
            case .permission: Finding(stage.name, isGood: true, found: "users may be asked for")
            }
        }
    }

    private static let delivery = Finding(
        "delivery", isGood: nil,
        found: "cannot be proven without leaving a reading there: the first post shows whether the key may post")
}

import OutgoingHTTP
import ReadingDelivery

/// What `destination test` looks at, in the order in which a request gets there.
enum WebStage: Int, CaseIterable, Sendable {
    case address, certificate, credentials, permission

    var name: String { "\(self)" }

    /// The stage at which a failure ended a request.
    init(_ failure: DeliveryFailure) {
        self =
            switch failure.code {
            case "untrusted_server": .certificate
            case "authentication_failed", "no_token_endpoint": .credentials
            case "forbidden": .permission
            default: .address
            }
    }
}

/// Builds the findings of a test.
struct WebFindings {
    let server: WebServer
    /// What was found good at a stage, where it is not what is always said.
    var words: [WebStage: String] = [:]
    /// What cannot be proven at a stage.
    var unproven: [WebStage: String] = [:]

    init(_ server: WebServer) { self.server = server }

    /// Everything is as it has to be.
    func all() -> [Finding] { WebStage.allCases.map(good) }

    /// A request failed: what lies before the failure is good, and what lies behind it was not tried.
    func failed(_ failure: DeliveryFailure, at stage: WebStage? = nil, mend: String? = nil) -> [Finding] {
        let stage = stage ?? WebStage(failure)
        return WebStage.allCases.map { other in
            if other.rawValue < stage.rawValue { return good(other) }
            guard other == stage else { return Finding(other.name, isGood: nil, found: "not tried") }
            let words = failure.message + (failure.serverSaid.map { ": \($0)" } ?? "")
            return Finding(other.name, isGood: false, found: words, mend: mend, cause: failure)
        }
    }

    private func good(_ stage: WebStage) -> Finding {
        if let words = unproven[stage] { return Finding(stage.name, isGood: nil, found: words) }
        if let words = words[stage] { return Finding(stage.name, isGood: true, found: words) }
        switch stage {
        case .address: return Finding(stage.name, isGood: true, found: "\(server.host) answers")
        case .certificate where !server.address.isSecure:
            return Finding(stage.name, isGood: nil, found: "plain http has no certificate")
        case .certificate: return Finding(stage.name, isGood: true, found: "is trusted")
        case .credentials: return Finding(stage.name, isGood: true, found: "are accepted")
        case .permission: return Finding(stage.name, isGood: true, found: "readings may be written")
        }
    }
}

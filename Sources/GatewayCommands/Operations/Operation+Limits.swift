import Foundation
import GatewaySettings

extension OperationRequest {
    /// Reads what a client of the control socket sent.
    ///
    /// - Throws: `Problem` with status 65.
    init(reading message: Data) throws(Problem) {
        do {
            self = try JSONDecoder().decode(OperationRequest.self, from: message)
        } catch {
            throw Problem(
                "malformed_operation", .badData, "expected an operation as JSON: \(Self.reason(error))",
                hint: "if the command and the gateway have different versions, restart the gateway")
        }
    }

    /// Where the message differs from an operation, without anything of what stands in it.
    private static func reason(_ error: any Error) -> String {
        guard let error = error as? DecodingError else { return "the message is not JSON" }
        let context: DecodingError.Context? =
            switch error {
            case .typeMismatch(_, let context), .valueNotFound(_, let context), .keyNotFound(_, let context),
                .dataCorrupted(let context):
                context
            @unknown default: nil
            }
        guard let path = context?.codingPath.filter({ $0.intValue == nil }), !path.isEmpty else {
            return "the message is not an operation"
        }
        return "\(path.map(\.stringValue).joined(separator: ".").prefix(120)) cannot be used"
    }
}

extension Operation {
    /// Refuses numbers that no command sends: they come over the control socket from any program that may open it.
    ///
    /// - Throws: `Problem` with status 64.
    func requireUsableNumbers() throws(Problem) {
        let year = 366 * 86_400.0
        switch self {
        case .metrics(let metrics): try Self.require(metrics.maxAge, "max-age", from: 1, upTo: 100 * year)
        case .heartRate(let figures):
            try Self.require(Double(figures.interval), "interval", from: 1, upTo: 86_400)
            try Self.require(Double(figures.window), "window", from: 10, upTo: 86_400)
        case .store(.prune(let seconds)): try Self.require(seconds, "older-than", upTo: 100 * year)
        case .device(let operation):
            switch operation {
            case .scan(let scan):
                if let seconds = scan.seconds { try Self.require(seconds, "for", upTo: year) }
            case .pair(let pair): try Self.require(pair.seconds, "wait", upTo: year)
            case .setClock(let setting): try Self.require(setting.seconds, "wait", upTo: year)
            case .probe(let probe): try Self.require(probe.seconds, "wait", upTo: year)
            case .report(let report): try Self.require(report.seconds, "wait", upTo: year)
            case .read(let read): try Self.require(read.seconds, "wait", upTo: year)
            case .measure(let measurement): try Self.require(measurement.seconds, "wait", upTo: 600)
            case .record(let recording):
                if let seconds = recording.seconds { try Self.require(seconds, "for", upTo: year) }
                if let interval = recording.interval {
                    try Self.require(Double(interval), "interval", from: 1, upTo: 86_400)
                }
                if let window = recording.window {
                    try Self.require(Double(window), "hrv-window", from: 30, upTo: 3600)
                }
            case .watch(_, let window, _):
                if let window { try Self.require(Double(window), "window", from: 5, upTo: 86_400) }
            case .unpair, .list, .monitor: break
            }
        case .sensor(.read(_, let seconds)): try Self.require(seconds, "wait", upTo: year)
        case .healthSync(.discover(let seconds)): try Self.require(seconds, "for", from: 1, upTo: 600)
        case .healthSync(.pair(let invitation)): try Self.requirePort(invitation.port)
        case .healthSync(.status(let choice)), .healthSync(.types(let choice)): try Self.requirePort(choice.port)
        case .healthSync(.fetch(let request)): try Self.requirePort(request.phone.port)
        case .cloud(.connect(let connection)): try Self.require(Double(connection.wait), "wait", from: 1, upTo: 86_400)
        case .source(.link(_, let wait)): try Self.require(Double(wait), "wait", upTo: 86_400)
        case .client(.audit(let limit)):
            guard (1...10_000).contains(limit) else { throw Self.unusable("limit", "1 to 10000") }
        // The store checks what a query asks for.
        case .query, .cloud, .healthSync, .importing, .summary, .report, .entry, .move, .figures, .figureLink,
            .subscriber, .identity, .auth,
            .connect,
            .user,
            .source, .sync,
            .destination, .fleet, .settings, .store, .backup,
            .consent, .client,
            .page, .setupToken, .doctor:
            break
        }
    }

    private static func require(
        _ seconds: Double, _ name: String, from least: Double = 0, upTo most: Double
    ) throws(Problem) {
        // Never true for a number that is none.
        guard (least...most).contains(seconds) else {
            throw unusable(name, "\(Int(least)) to \(Int(most)) seconds")
        }
    }

    private static func requirePort(_ port: Int?) throws(Problem) {
        guard port.map((1...65535).contains) ?? true else { throw unusable("port", "1 to 65535") }
    }

    private static func unusable(_ name: String, _ expected: String) -> Problem {
        Problem.usage("--\(name): expected \(expected)")
    }
}

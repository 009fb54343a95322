import HealthReadings
import NIOHTTP1
import OutgoingHTTP
import ReadingDelivery

extension WebhookDestination {
    /// Checks the host's addresses and the certificate with a request for the head alone, which is not signed: an event would be
    /// taken for one.
    public func test() async -> [Finding] {
        var findings = WebFindings(server)
        findings.unproven = [
            .credentials: "the secret cannot be proven without sending an event: the first one shows whether it fits",
            .permission: "cannot be proven without sending an event",
        ]
        let request = WebRequest(method: .HEAD, url: server.url, route: "HEAD \(server.host)")
        do throws(DeliveryFailure) {
            let (answer, client) = try await send(request)
            // Many receivers refuse every request but POST, some of them as not implemented.
            switch answer.status {
            case 501: return findings.all()
            case 300..<400, 410, 500...: return findings.failed(client.failure(of: answer, request.route))
            default: return findings.all()
            }
        } catch {
            return findings.failed(error)
        }
    }
}

import HealthReadings
import NIOHTTP1
import OutgoingHTTP
import ReadingDelivery
import ReadingFormats

extension InfluxDBDestination {
    /// Writes nothing: a request without a line. The server looks at who asks, at the database and at the permission before it
    /// looks for lines.
    public func test() async -> [Finding] {
        var findings = WebFindings(client.server)
        if headers.isEmpty { findings.words[.credentials] = "none are set, and the server asks for none" }
        findings.words[.permission] = "the \(placeName) takes readings"
        findings.unproven[.permission] = Self.takesAnything
        let client = client.impatient
        let request = writeRequest([])
        do throws(DeliveryFailure) {
            let answer = try await client.send(request)
            // Version 2 says that there is nothing to write; that is the last thing that it looks at.
            let isEmpty = answer.status == 400 && client.said(answer)?.contains("writing requires points") == true
            guard isEmpty || answer.isGood && !answer.isPage else {
                var failure = client.failure(of: answer, request.route)
                guard answer.status == 404, !answer.isPage else { return findings.failed(failure) }
                failure.message = "\(request.route): there is no such \(placeName) (status 404)"
                return findings.failed(
                    failure, at: .permission, mend: "create the \(placeName), or name another in the settings")
            }
            // VictoriaMetrics takes every database and every user: it says nothing of either.
            let isInfluxDB = isEmpty || answer.headers.contains(name: "x-influxdb-build")
            if isInfluxDB { findings.unproven[.permission] = nil }
            return findings.all()
        } catch {
            return findings.failed(error)
        }
    }

    private static let takesAnything =
        "the server takes the request, and not every server says by that that the database exists"
}

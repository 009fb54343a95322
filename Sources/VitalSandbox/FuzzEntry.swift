/// Feeds octets to everything here that reads a request body: forms, gzip, JSON, and each body's validation. Never
/// traps.
package func fuzzSandboxBody(_ octets: [UInt8]) {
    _ = FormFields(String(decoding: octets, as: UTF8.self))["token"]
    let inflated = (try? inflateGzip(octets, limit: 1 << 20)) ?? octets
    guard let json = try? JSONTextParser.parse(inflated) else { return }
    _ = try? UserBody(json, creating: true)
    _ = try? SourceBody(json)
    _ = try? LinkTokenBody(json)
    _ = try? TimeseriesBody(json, resource: .glucose, maximumItems: 1000)
    _ = try? TimeseriesBody(json, resource: .bloodPressure, maximumItems: 1000)
    _ = try? BodySummaryBody(json, maximumItems: 1000)
    for kind in Vocabulary.summaries { _ = try? SummaryBody(json, kind: kind, maximumItems: 1000) }
    _ = json.text
}

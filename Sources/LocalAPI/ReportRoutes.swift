import GatewayCommands
import GatewaySettings
import GuardedServer
import HTTPTypes
import HealthReadings
import Hummingbird
import LocalAccess
import OutgoingHTTP
import ReadingStore

/// `/api/v1/reports/{kind}`: what `report` writes, for one person.
struct ReportRoutes {
    let gateway: Gateway
    let consents: ConsentRules
    let isLocked: @Sendable () -> Bool
    /// A report of years takes a processor for seconds, and a PDF a program of its own.
    private let turnstile = Turnstile(width: 2, mostWaiting: 32)
    private let shelf = ReportShelf()

    /// What a report may be asked for, beside its person.
    private static let parameters = [
        "from", "to", "period", "format", "language", "paper", "protocol", "unit", "ranges", "line", "without_flagged",
        "csv_style", "bom",
    ]

    init(gateway: Gateway, consents: ConsentRules, isLocked: @escaping @Sendable () -> Bool) {
        (self.gateway, self.consents, self.isLocked) = (gateway, consents, isLocked)
    }

    func add(to routes: GuardedRoutes) {
        routes.get("/api/v1/reports/{kind}", .view) { request, context, audience in
            try ReadingRoutes.requireUnlocked(isLocked())
            let form = try Form(request, kind: context.parameters.require("kind")).restricted(to: context.caller.link)
            // Asked for by the household, a report is the current user's: it belongs to one person.
            let person = if let user = audience.user { user } else { try await gateway.store.currentUser() }
            guard try await consents.kinds(of: person.key).contains(form.operation.kind.readings) else {
                throw ConsentRules.refusal
            }
            do {
                return try await turnstile.pass { try await response(form, of: person) }
            } catch is Turnstile.Full {
                var refusal = APIRefusal(
                    .serviceUnavailable, "busy", "too many reports are being made", hint: "try again")
                refusal.headers[.retryAfter] = "5"
                throw refusal
            } catch let problem as Problem where problem.status == .usage {
                // The command's flags are this route's parameters.
                throw APIRefusal.malformed(problem.message.replacing("--", with: ""))
            }
        }
    }

    private func response(_ form: Form, of person: StoreUser) async throws -> Response {
        let report = try await ReportDesk(gateway, shelf: shelf).report(form.operation, of: person)
        var octets = report.octets(form.operation.format)
        if form.kind == .pdf { octets = try await ReportPDF.make(of: octets) }
        // A year is a tenth of its size; a PDF is compressed as it is.
        let packed = form.takesGzip && form.kind != .pdf ? Gzip.compress(octets, saving: .octets) : nil
        var response = Response.octetsResponse(packed ?? octets, form.kind.type)
        if packed != nil { response.headers[.contentEncoding] = "gzip" }
        response.headers[.vary] = "accept-encoding"
        // Dates and the names of reports: nothing that a person typed.
        let name = "\(form.operation.kind.rawValue)-\(report.first)-\(report.last).\(form.kind.rawValue)"
        response.headers[.contentDisposition] = "inline; filename=\"\(name)\""
        if [.html, .svg, .fragment].contains(form.kind) {
            // It has its style within it, and runs nothing.
            response.headers[.contentSecurityPolicy] =
                "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; "
                + "form-action 'none'; sandbox"
        }
        return response
    }

    /// A request for a report.
    private struct Form {
        enum Kind: String {
            case html, svg, json, csv, pdf, fragment

            var type: String {
                switch self {
                case .html, .fragment: "text/html; charset=utf-8"
                case .svg: "image/svg+xml"
                case .json: "application/json"
                case .csv: "text/csv; charset=utf-8"
                case .pdf: "application/pdf"
                }
            }
        }

        var operation: ReportOperation
        let kind: Kind
        /// Whether the caller takes an answer that is compressed.
        let takesGzip: Bool

        init(_ request: Request, kind name: String) throws {
            guard let about = ReportOperation.Kind(rawValue: name) else {
                throw APIRefusal(
                    .notFound, "no_such_report", "there is no such report",
                    hint: "expected \(ReportOperation.Kind.allCases.map(\.rawValue).joined(separator: ", "))")
            }
            try request.requireParameters(among: ReportRoutes.parameters + ["person", "user"])
            let parameters = request.uri.queryParameters
            func text(_ name: String) -> String? { parameters[name[...]].map(String.init) }
            guard let kind = Kind(rawValue: text("format") ?? "html") else {
                throw APIRefusal.malformed("format: expected html, svg, json, csv, pdf or fragment")
            }
            let flagged = text("without_flagged") ?? "false"
            guard ["true", "false"].contains(flagged) else {
                throw APIRefusal.malformed("without_flagged: expected true or false")
            }
            let mark = text("bom") ?? "false"
            guard ["true", "false"].contains(mark) else { throw APIRefusal.malformed("bom: expected true or false") }
            self.kind = kind
            takesGzip = request.takesGzip
            operation = ReportOperation(about)
            (operation.from, operation.to, operation.period) = (text("from"), text("to"), text("period"))
            operation.language = text("language")
            (operation.paper, operation.unit) = (text("paper"), text("unit"))
            (operation.ranges, operation.line) = (text("ranges"), text("line"))
            operation.protocolName = text("protocol") ?? operation.protocolName
            operation.csvStyle = text("csv_style") ?? operation.csvStyle
            operation.withoutFlagged = flagged == "true"
            operation.csvMark = mark == "true"
            operation.format =
                switch kind {
                case .html: .html
                case .svg: .svg
                case .json: .json
                case .csv: .csv
                case .pdf: .pages
                case .fragment: .fragment
                }
        }

        /// Leaves what a read-only link shows: its own days up to today, on pages.
        func restricted(to link: AccessClient?) throws -> Form {
            guard let link else { return self }
            var form = self
            guard ![.json, .csv].contains(kind) else {
                throw APIRefusal(.forbidden, "link_shows_figures_only", "a read-only link gives no files of data")
            }
            let asked = operation.period.flatMap { $0.hasSuffix("d") ? Int($0.dropLast()) : nil }
            guard operation.from == nil, operation.to == nil, let days = link.days, asked ?? days <= days else {
                throw APIRefusal(
                    .forbidden, "outside_of_link", "this link shows the last \(link.days ?? 0) days")
            }
            if asked == nil { form.operation.period = "\(days)d" }
            // What lies before the period is outside.
            form.operation.comparesBefore = false
            form.operation.showsReadings = false
            return form
        }
    }
}

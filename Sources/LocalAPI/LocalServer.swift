import GatewayCommands
import GatewaySettings
import GuardedServer
import HTTPTypes
import HealthReadings
import Hummingbird
import HummingbirdCore
import LocalAccess
import Logging
import NIOCore
import ReadingStore
import ServiceLifecycle

/// The gateway's page and its local API, on one address.
///
/// On loopback it speaks without TLS, anywhere else TLS 1.3 with its own certificate. Everywhere it lets in browsers
/// with a session and programs that have been paired; with `http.local: trusted`, also whoever comes over loopback.
package struct LocalServer {
    let gateway: Gateway
    let door: AccessPoint
    let hub: APIEventHub
    let counters: RequestCounters
    /// Whether the store's key is not there.
    let isLocked: @Sendable () -> Bool
    let logger: Logger
    let limits: ServerLimits
    /// How many readings one request of the Health Sync app looks through.
    let mostReadings: Int

    /// Makes it; nothing listens yet.
    ///
    /// - Parameters:
    ///   - isLocked: whether the store's key is missing.
    ///   - mostReadings: how many readings one request of the Health Sync app looks through.
    package init(
        gateway: Gateway, door: AccessPoint, hub: APIEventHub, counters: RequestCounters,
        isLocked: @escaping @Sendable () -> Bool, logger: Logger, limits: ServerLimits = ServerLimits(),
        mostReadings: Int? = nil
    ) {
        self.gateway = gateway
        self.door = door
        self.hub = hub
        self.counters = counters
        self.isLocked = isLocked
        self.logger = logger
        self.limits = limits
        self.mostReadings = mostReadings ?? HealthSyncRoutes.mostReadings
    }

    /// The server.
    ///
    /// - Parameter started: told the page's address once it listens.
    package func service(started: @escaping @Sendable (String) async -> Void) -> some Service {
        let door = door
        return RestingServer(
            router: router(), address: .hostname(door.listen.host, port: door.listen.port), logger: logger,
            guarding: ServerGuard(certificates: door.certificates, limits: limits)
        ) { channel in
            door.port = channel.localAddress?.port ?? door.listen.port
            await started(door.pageAddress)
        }
    }

    func router() -> Router<APIContext> { guarded().router }

    /// The router, and what each of its routes states.
    func guarded() -> (router: Router<APIContext>, permissions: [String: Permission]) {
        let consents = ConsentRules(store: gateway.store)
        let now = Instant.systemClock
        let router = Router(context: APIContext.self)
        router.add(middleware: PageHeaders())
        router.add(
            middleware: RefusalMiddleware<APIContext>(hint: "see /api/v1/openapi.json") { APIRefusal(describing: $0) })
        router.add(middleware: ProxyMiddleware(door: door))
        router.add(middleware: HostCheck(names: door.names))
        router.add(middleware: ClaimMiddleware(door: door))
        router.add(middleware: CallerMiddleware(door: door, counters: counters))

        let routes = GuardedRoutes(router.group(), entrance: Entrance(door: door, store: gateway.store))
        PageRoutes().add(to: routes)
        SetupRoutes(door: door).add(to: routes)
        HealthSyncRoutes(
            store: gateway.store, door: door, consents: consents, isLocked: isLocked, mostReadings: mostReadings
        ).add(to: routes)
        HealthRoutes(gateway: gateway, door: door, counters: counters, started: now, isLocked: isLocked).add(to: routes)
        SessionRoutes(door: door).add(to: routes)
        ReadingRoutes(store: gateway.store, consents: consents, isLocked: isLocked).add(to: routes)
        SummaryRoutes(gateway: gateway, consents: consents, isLocked: isLocked).add(to: routes)
        ReportRoutes(gateway: gateway, consents: consents, isLocked: isLocked).add(to: routes)
        EntryRoutes(gateway: gateway, consents: consents, isLocked: isLocked).add(to: routes)
        MoveRoutes(gateway: gateway, isLocked: isLocked).add(to: routes)
        FigureRoutes(gateway: gateway, consents: consents, isLocked: isLocked).add(to: routes)
        ViewRoutes(gateway: gateway, consents: consents, isLocked: isLocked).add(to: routes)
        OwnerRoutes(gateway: gateway, door: door).add(to: routes)
        RestoreRoutes(gateway: gateway, door: door).add(to: routes)
        SettingsRoutes(gateway: gateway, door: door).add(to: routes)
        StateRoutes(gateway: gateway, started: now).add(to: routes)
        EventRoutes(
            hub: hub, counters: counters, clients: door.clients, time: door.time, store: gateway.store,
            consents: consents, cursors: EventCursors(door.clients)
        ).add(to: routes)
        PairingRoutes(gateway: gateway, door: door).add(to: routes)
        return (router, routes.permissions)
    }
}

/// The files the page is made of, and the document that describes the API.
struct PageRoutes {
    func add(to routes: GuardedRoutes) {
        let files: [(path: String, octets: [UInt8], type: String)] = [
            ("/", PackageResources.page_html, "text/html; charset=utf-8"),
            ("/page.css", PackageResources.page_css, "text/css; charset=utf-8"),
            ("/page.js", PackageResources.page_js, "text/javascript; charset=utf-8"),
            // One file: each that a page load asks for counts against what strangers may ask for.
            (
                "/words.js",
                PackageResources.words_js + PackageResources.languages_js + PackageResources.calls_js,
                "text/javascript; charset=utf-8"
            ),
            ("/reports.js", PackageResources.reports_js, "text/javascript; charset=utf-8"),
            ("/measure.js", PackageResources.measure_js, "text/javascript; charset=utf-8"),
            ("/figures.js", PackageResources.figures_js, "text/javascript; charset=utf-8"),
            ("/wall", PackageResources.wall_html, "text/html; charset=utf-8"),
            ("/wall.css", PackageResources.wall_css, "text/css; charset=utf-8"),
            ("/wall.js", PackageResources.wall_js, "text/javascript; charset=utf-8"),
            ("/pairing.js", PackageResources.pairing_js, "text/javascript; charset=utf-8"),
            ("/lang/de.json", PackageResources.de_json, "application/json"),
            ("/lang/fr.json", PackageResources.fr_json, "application/json"),
            ("/lang/es.json", PackageResources.es_json, "application/json"),
            ("/lang/ar.json", PackageResources.ar_json, "application/json"),
            ("/api/v1/openapi.json", PackageResources.openapi_json, "application/json"),
        ]
        PageFile.add(files, to: routes)
    }
}

/// Headers that keep the page to itself: no outside resource, no frame, no guessing of types.
struct PageHeaders: RouterMiddleware {
    typealias Context = APIContext

    func handle(
        _ request: Request, context: APIContext, next: (Request, APIContext) async throws -> Response
    ) async throws -> Response {
        var response = try await next(request, context)
        if response.headers[.contentSecurityPolicy] == nil {
            response.headers[.contentSecurityPolicy] =
                "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
                + "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
        }
        response.headers[.xContentTypeOptions] = "nosniff"
        response.headers[.referrerPolicy] = "no-referrer"
        response.headers[.permissionsPolicy] = "camera=(), microphone=(), geolocation=()"
        if response.headers[.cacheControl] == nil { response.headers[.cacheControl] = "no-store" }
        return response
    }
}

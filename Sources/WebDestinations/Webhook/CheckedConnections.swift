import Foundation
import HealthReadings
import OutgoingHTTP
import ReadingDelivery

/// Connections to a host whose every address was checked: the name is resolved once, and what was checked is connected to,
/// whatever the name says a moment later. The URL's host stays the TLS server's name and the `Host`.
actor CheckedConnections {
    /// Finds the addresses of a host.
    typealias Resolver = @Sendable (String) async throws -> [String]

    private let server: WebServer
    private let allowsPrivate: Bool
    private let limits: HTTPLimits
    private let resolve: Resolver
    private var known: (pools: [HTTPConnections], until: ContinuousClock.Instant)?

    /// How long an address is believed.
    private static let validity: Duration = .seconds(60)

    init(_ server: WebServer, allowsPrivate: Bool, limits: HTTPLimits, resolve: @escaping Resolver) {
        self.server = server
        self.allowsPrivate = allowsPrivate
        // Only the status of an answer counts.
        var limits = limits
        limits.cutsAnswers = true
        self.limits = limits
        self.resolve = resolve
    }

    /// A pool of connections for each address, in the order in which they are to be tried.
    func pools() async throws(DeliveryFailure) -> [HTTPConnections] {
        if let known, ContinuousClock.now < known.until { return known.pools }
        let host = server.host
        let addresses: [String]
        do {
            addresses = try await resolve(host)
        } catch {
            if error is CancellationError { throw DeliveryFailure(error) }
            throw DeliveryFailure(
                .destination, code: "no_connection", message: "\(host) has no address",
                serverSaid: (error as? HostNames.Unknown)?.words)
        }
        guard !addresses.isEmpty else {
            throw DeliveryFailure(.destination, code: "no_connection", message: "\(host) has no address")
        }
        if !allowsPrivate, let closed = addresses.first(where: { !PublicAddress.contains($0) }) {
            throw DeliveryFailure(
                .destination, code: "private_address",
                message:
                    "\(host) is \(closed == host ? "" : "at \(closed), ")an address inside this network; nothing is sent there, "
                    + "unless the destination has `allow_private: true`",
                needsPerson: true)
        }
        let pools = addresses.prefix(4).map { address in
            HTTPConnections(
                limits, authorities: server.authorities,
                addresses: Dictionary([host, host.lowercased()].map { ($0, address) }) { first, _ in first })
        }
        known = (Array(pools), ContinuousClock.now + Self.validity)
        return Array(pools)
    }

    /// Forgets what was resolved: nothing answers there.
    func forget() { known = nil }
}

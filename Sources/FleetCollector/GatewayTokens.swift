import FleetStore
import HealthReadings
import LocalAccess

/// Bearer tokens for gateways that have no certificate. A token is good for one gateway id; its SHA-256 is what is kept.
package struct GatewayTokens: Sendable {
    private let store: any CentralStore

    package init(store: any CentralStore) { self.store = store }

    /// Makes a token: 32 random bytes in hexadecimal.
    ///
    /// - Returns: the token, which can't be read again.
    package func make(for gateway: String, at now: Instant) async throws(CentralStoreError) -> String {
        let token = AccessToken()
        try await store.add(tokenDigest: token.digest.hexadecimal(), for: gateway, at: now)
        return token.text
    }

    /// The gateway that a token's bearer acts for; `nil`: nobody's.
    package func gateway(of token: String) async throws(CentralStoreError) -> String? {
        try await store.gateway(ofTokenDigest: AccessToken(text: token).digest.hexadecimal())
    }
}

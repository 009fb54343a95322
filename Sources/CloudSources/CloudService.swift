import HealthReadings
import OutgoingHTTP

/// Who is asked for a vendor's data, and as which app.
public struct CloudService: Sendable, Hashable {
    /// Whose routes the service has.
    public enum Contract: String, Sendable, Hashable, Codable {
        /// A wear service, as Synheart's SDKs use one: it keeps the vendor's tokens, and renews them.
        case wearService = "wear_service"
        /// The vendor itself; only WHOOP's public API is known.
        case vendor
    }

    /// Why a service can't be used.
    public struct Invalid: Error, Sendable, Hashable, CustomStringConvertible {
        /// What is wrong with its address.
        public var description: String
    }

    /// WHOOP's public API.
    public static let whoop = "https://api.prod.whoop.com"

    /// Whose routes it has.
    public let contract: Contract
    /// The app's id there: `app_id` of a wear service, `client_id` of a vendor.
    public let app: String
    /// The app's key or client secret; `nil` for an app without one.
    let secret: CloudSecret?
    let address: HTTPAddress

    /// Takes a service.
    ///
    /// - Parameters:
    ///   - contract: whose routes it has.
    ///   - url: where it is: of a wear service what comes before `/v1`, of WHOOP what comes before `/oauth` and `/developer`.
    ///   - app: the app's id there.
    ///   - secret: the app's key or client secret.
    /// - Throws: ``Invalid`` for what is no `https` URL; plain `http` is for this machine only.
    public init(_ contract: Contract, url: String, app: String, secret: CloudSecret?) throws(Invalid) {
        let address: HTTPAddress
        do throws(InvalidHTTPAddress) {
            // Some of the SDKs write the version into the base, and some into the routes.
            address = try HTTPAddress(url.hasSuffix("/v1") ? String(url.dropLast(3)) : url)
        } catch {
            throw Invalid(description: error.reason)
        }
        guard !address.isExposed else {
            throw Invalid(description: "tokens and health data would travel in the clear; its scheme has to be https")
        }
        self.contract = contract
        self.address = address
        self.app = app
        self.secret = secret
    }

    /// Where it is.
    public var url: String { address.base }
    /// Whether it is a wear service.
    public var isWearService: Bool { contract == .wearService }

    /// What the browser's redirect goes to: a wear service is told the address each time, so that its path can hold the
    /// state; a vendor knows the address beforehand.
    ///
    /// - Parameter state: the attempt's state.
    /// - Returns: the path, with a slash first.
    public func redirectPath(state: String) -> String { isWearService ? "/callback/\(state)" : "/callback" }
}

/// Words of a service, made fit for a terminal.
enum CloudText {
    static func oneLine(_ text: String, masking secrets: [String] = []) -> String? {
        ServerText.oneLine(text, masking: secrets)
    }
}

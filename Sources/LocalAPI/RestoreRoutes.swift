import Foundation
import GatewayCommands
import GatewaySettings
import GuardedServer
import HTTPTypes
import HealthReadings
import Hummingbird
import LocalAccess
import ReadingStore

/// `/api/v1/restore`: another gateway's backup, sent by an owner's browser into a gateway whose store is empty.
struct RestoreRoutes {
    private static let route = "/api/v1/restore"

    let gateway: Gateway
    let door: AccessPoint

    func add(to routes: GuardedRoutes) {
        routes.post(Self.route + "/pieces", .owner) { request, context, _ in
            let parameters = request.uri.queryParameters
            func number(_ name: Substring) throws -> Int64 {
                let values = parameters.filter { $0.key == name }
                guard values.count == 1, let number = Int64(values[0].value), number >= 0 else {
                    throw APIRefusal.malformed("\(name): expected a whole number")
                }
                return number
            }
            guard parameters.allSatisfy({ ["offset", "length"].contains($0.key) }) else {
                throw APIRefusal.malformed("expected offset and length alone")
            }
            let (offset, length) = (try number("offset"), try number("length"))
            let octets = Array(try await request.octets("application/octet-stream"))
            return try await Self.refusing {
                let received = try await gateway.restores.take(octets, at: offset, of: length)
                return Response.json(.object(["received": .integer(received), "length": .integer(length)]))
            }
        }
        routes.post(Self.route, .owner) { request, context, _ in
            let body = try await request.object()
            try body.requireOnly(["passphrase"])
            let passphrase = try body.requiredText("passphrase")
            return try await Self.refusing {
                try await gateway.restores.prepare(passphrase)
                guard gateway.requestRestart() else {
                    await gateway.restores.giveUp()
                    throw OwnerRoutes.cannotRestart
                }
                door.audit.note(
                    AuditEntry(
                        at: Date(), event: "restored", client: context.caller.client?.number, route: Self.route,
                        status: 202))
                return Response(status: .accepted)
            }
        }
    }

    /// A store that has readings is no fault of the gateway's, and its path is nobody's business.
    private static func refusing(_ body: () async throws -> Response) async throws -> Response {
        do {
            return try await body()
        } catch ExportError.storeNotEmpty {
            throw APIRefusal(
                .conflict, "store_not_empty",
                "this gateway has readings already, destinations are still to take some back, or its store is locked",
                hint: "a backup can only be put back into a gateway that is empty")
        }
    }
}

extension RestoreDesk {
    /// `{possible, received, outcome}`.
    var document: JSONValue {
        get async throws {
            let outcome: JSONValue =
                switch self.outcome {
                case nil: .null
                case .done(let readings)?:
                    .object(["readings": .integer(Int64(readings)), "error": .null])
                case .failed(let problem)?:
                    .object([
                        "readings": .null,
                        "error": .object([
                            "code": .string(problem.code), "message": .string(problem.message),
                            "hint": .optional(problem.hint),
                        ]),
                    ])
                }
            return .object([
                "possible": .bool(try await isPossible()), "received": .integer(received), "outcome": outcome,
            ])
        }
    }
}

import Hummingbird
import Logging
import NIOCore

/// Runs a route and tells what goes wrong in it as an ``APIRefusal``.
package struct RefusalMiddleware<Context: RequestContext>: RouterMiddleware {
    private let unknownRoute: APIRefusal
    private let describe: @Sendable (any Error) -> APIRefusal?

    /// - Parameters:
    ///   - hint: what who asks for an unknown route is told besides.
    ///   - describe: the refusal for an error of the modules below; `nil`: nobody is told what it was.
    package init(hint: String? = nil, describe: @escaping @Sendable (any Error) -> APIRefusal? = { _ in nil }) {
        unknownRoute = APIRefusal(.notFound, "not_found", "there is no such route", hint: hint)
        self.describe = describe
    }

    package func handle(
        _ request: Request, context: Context, next: (Request, Context) async throws -> Response
    ) async throws -> Response {
        do {
            return try await next(request, context)
        } catch {
            return try refusal(error, context).response(from: request, context: context)
        }
    }

    private func refusal(_ error: any Error, _ context: Context) -> APIRefusal {
        switch error {
        case let refusal as APIRefusal: return refusal
        case let error as any HTTPResponseError:
            return error.status == .notFound
                ? unknownRoute : APIRefusal(error.status, "refused", error.status.reasonPhrase)
        default:
            context.logger.debug("a request failed", metadata: ["error": "\(type(of: error))"])
            return describe(error)
                ?? APIRefusal(.internalServerError, "unexpected", "something unexpected happened")
        }
    }
}

/// What a request carries where the connection itself says who asks, by a certificate or an address.
package struct ChannelContext: RequestContext {
    package var coreContext: CoreRequestContextStorage
    package let channel: any Channel

    package init(source: ApplicationRequestContextSource) {
        coreContext = .init(source: source)
        channel = source.channel
    }
}

extension Request {
    /// The body as it came.
    ///
    /// - Parameters:
    ///   - most: how many octets it may have.
    ///   - tooLarge: thrown for more.
    /// - Throws: ``APIRefusal``, 400 for a body that broke off.
    package func octets(upTo most: Int, orElse tooLarge: APIRefusal) async throws -> [UInt8] {
        if let length = headers[.contentLength].flatMap(Int.init), length > most { throw tooLarge }
        do {
            return Array(try await body.collect(upTo: most).readableBytesView)
        } catch is NIOTooManyBytesError {
            throw tooLarge
        } catch let error where !(error is CancellationError) {
            // The connection broke, or what came is not framed as HTTP wants it.
            throw APIRefusal.malformed("the body could not be read")
        }
    }
}

import NIOCore
import NIOPosix
import NIOSSL

/// A listening socket on 127.0.0.1 that is there while a test's body runs.
enum Loopback {
    /// Binds, calls `body` with the port, and closes, whatever `body` does.
    ///
    /// - Parameters:
    ///   - tls: what it speaks TLS with; nil: it speaks none.
    ///   - serve: adds the handlers of a connection.
    static func with<Result: Sendable>(
        tls: NIOSSLContext?, serve: @escaping @Sendable (ChannelPipeline.SynchronousOperations) throws -> Void,
        body: @Sendable (Int) async throws -> Result
    ) async throws -> Result {
        let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.backlog, value: 64)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let pipeline = channel.pipeline.syncOperations
                    if let tls { try pipeline.addHandler(NIOSSLServerHandler(context: tls)) }
                    try serve(pipeline)
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        do {
            let result = try await body(channel.localAddress?.port ?? 0)
            try? await channel.close()
            return result
        } catch {
            try? await channel.close()
            throw error
        }
    }
}

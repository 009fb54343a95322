import CRabbitMQ
import Glibc
import OwnThread

/// A connection to one node of a broker through librabbitmq, with one channel.
///
/// librabbitmq's calls wait for the network. They run on a thread of the actor's own, never on the threads that tasks
/// share. A connection that broke stays broken; make another one.
package actor AMQPConnection {
    private let broker: AMQPBroker
    private let executor = ThreadExecutor(label: "amqp")
    private let hearsBlocking: Bool
    private var state: amqp_connection_state_t?
    /// Whether the broker has said that it reads nothing from this connection now.
    private var isBlockedNow = false

    private static let channel: amqp_channel_t = 1
    /// How long a connection may take to be made, and the broker to answer a request.
    private static let patience = 20

    /// - Parameter hearsBlocking: whether ``isBlocked()`` is asked of it. Such a connection only publishes.
    package init(to broker: AMQPBroker, hearsBlocking: Bool = false) {
        self.broker = broker
        self.hearsBlocking = hearsBlocking
    }

    isolated deinit {
        if let state { amqp_destroy_connection(state) }
        executor.stop()
    }

    /// How often both sides prove that they live, in seconds.
    package nonisolated var heartbeat: Int { broker.heartbeat }

    package nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    // MARK: The connection

    /// Connects and signs in.
    ///
    /// - Throws: ``AMQPError``.
    package func open() throws(AMQPError) {
        guard let state = amqp_new_connection() else { throw .lost("out of memory") }
        self.state = state
        do {
            try connect(state)
            try signIn(state)
            amqp_channel_open(state, Self.channel)
            try check(amqp_get_rpc_reply(state), "open a channel")
        } catch {
            drop()
            throw error
        }
    }

    private func connect(_ state: amqp_connection_state_t) throws(AMQPError) {
        let socket: OpaquePointer?
        if let tls = broker.tls {
            socket = amqp_ssl_socket_new(state)
            guard let socket else { throw .lost("out of memory") }
            amqp_ssl_socket_set_verify_peer(socket, 1)
            amqp_ssl_socket_set_verify_hostname(socket, 1)
            amqp_ssl_socket_set_ssl_versions(socket, AMQP_TLSv1_2, AMQP_TLSvLATEST)
            guard amqp_ssl_socket_set_cacert(socket, tls.authorityFile) == 0 else {
                throw .unusableFile(path: tls.authorityFile)
            }
            if let certificate = tls.certificateFile, let key = tls.privateKeyFile {
                guard amqp_ssl_socket_set_key(socket, certificate, key) == 0 else {
                    throw .unusableFile(path: certificate)
                }
            }
        } else {
            socket = amqp_tcp_socket_new(state)
        }
        guard let socket else { throw .lost("out of memory") }
        var patience = timeval(tv_sec: Self.patience, tv_usec: 0)
        let status = amqp_socket_open_noblock(socket, broker.host, Int32(broker.port), &patience)
        guard status == 0 else { throw .lost(Self.words(status)) }
        amqp_set_handshake_timeout(state, &patience)
        amqp_set_rpc_timeout(state, &patience)
        // A write to a host that vanished ends too.
        var limit = UInt32(Self.patience * 1000)
        setsockopt(
            amqp_get_sockfd(state), Int32(IPPROTO_TCP), TCP_USER_TIMEOUT, &limit, socklen_t(MemoryLayout<UInt32>.size))
    }

    private func signIn(_ state: amqp_connection_state_t) throws(AMQPError) {
        let reply =
            switch broker.credentials {
            case .password(let user, let password):
                healthrelay_amqp_sign_in(
                    state, broker.virtualHost, Int32(broker.heartbeat), hearsBlocking ? 1 : 0, user, password)
            case .certificate:
                // The broker takes the name from the certificate. librabbitmq fails where this text is empty.
                healthrelay_amqp_sign_in(
                    state, broker.virtualHost, Int32(broker.heartbeat), hearsBlocking ? 1 : 0, "certificate", nil)
            }
        do { try check(reply, "sign in") } catch .refused(403, let words) { throw .notPermitted(words) }
    }

    /// Ends the connection. What was delivered and not acknowledged goes back to its queue.
    package func close() {
        guard let state else { return }
        _ = amqp_connection_close(state, 200)
        drop()
    }

    /// Proves that this side lives while nothing is read: a broker ends a connection that is silent.
    package func beat() throws(AMQPError) {
        let status = healthrelay_amqp_beat(try opened())
        guard status == 0 else { throw .lost(Self.words(status)) }
    }

    /// Whether the broker takes nothing from this connection, because its disk or its memory is short. It says so once
    /// something was published.
    package func isBlocked() throws(AMQPError) -> Bool {
        let state = try opened()
        while true {
            amqp_maybe_release_buffers(state)
            var (frame, patience) = (amqp_frame_t(), timeval())
            let status = amqp_simple_wait_frame_noblock(state, &frame, &patience)
            if status == AMQP_STATUS_TIMEOUT.rawValue { return isBlockedNow }
            guard status == 0 else { throw .lost(Self.words(status)) }
            switch healthrelay_amqp_blocking(&frame) {
            case 1: isBlockedNow = true
            case 2: isBlockedNow = false
            default: throw .lost(Self.words(ofEnding: frame))
            }
        }
    }

    /// Breaks the connection off as a process that is killed does.
    package func breakOff() { drop() }

    private func drop() {
        if let state { amqp_destroy_connection(state) }
        state = nil
    }

    // MARK: Queues

    /// Declares a durable quorum queue that refuses what it has no room for, and binds it.
    ///
    /// A message of it may be delivered as often as it takes.
    ///
    /// - Parameter groupSize: on how many nodes the queue is kept.
    package func declare(
        queue: String, groupSize: Int, exchange: String, routingKey: String
    ) throws(AMQPError) {
        let state = try opened()
        try check(
            healthrelay_amqp_declare_quorum_queue(state, Self.channel, queue, Int32(groupSize)), "declare \(queue)")
        withBytes(queue, exchange, routingKey) { queue, exchange, key in
            _ = amqp_queue_bind(state, Self.channel, queue, exchange, key, amqp_empty_table)
        }
        try check(amqp_get_rpc_reply(state), "bind \(queue)")
    }

    /// Has a queue deliver its messages to ``next(most:within:)``.
    ///
    /// - Parameter prefetch: how many may be on their way and not acknowledged.
    package func consume(queue: String, prefetch: Int) throws(AMQPError) {
        let state = try opened()
        amqp_basic_qos(state, Self.channel, 0, UInt16(clamping: prefetch), 0)
        try check(amqp_get_rpc_reply(state), "limit the deliveries of \(queue)")
        // The consumer is named after its queue, so that a delivery says where it came from.
        withBytes(queue, queue, "") { queue, tag, _ in
            _ = amqp_basic_consume(state, Self.channel, queue, tag, 0, 0, 0, amqp_empty_table)
        }
        try check(amqp_get_rpc_reply(state), "consume \(queue)")
    }

    /// Waits for deliveries.
    ///
    /// - Parameters:
    ///   - most: how many are taken.
    ///   - octets: no more are taken once those taken have so many octets.
    ///   - time: how long the first may take to come; what has come by then is taken without waiting for more.
    /// - Returns: none where none came in time.
    package func next(
        most: Int, octets: Int = .max, within time: Duration
    ) throws(AMQPError) -> [AMQPDelivery] {
        let state = try opened()
        var (deliveries, sum): ([AMQPDelivery], Int) = ([], 0)
        while deliveries.count < most, sum < octets {
            amqp_maybe_release_buffers(state)
            var envelope = amqp_envelope_t()
            var patience =
                deliveries.isEmpty
                ? timeval(
                    tv_sec: Int(time.components.seconds),
                    tv_usec: Int(time.components.attoseconds / 1_000_000_000_000)) : timeval()
            let reply = amqp_consume_message(state, &envelope, &patience, 0)
            if reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION, reply.library_error == AMQP_STATUS_TIMEOUT.rawValue
            {
                return deliveries
            }
            if reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION,
                reply.library_error == AMQP_STATUS_UNEXPECTED_STATE.rawValue
            {
                // The broker says something else than a delivery: that it closes, or that the queue is gone.
                throw .lost(try ending(state))
            }
            try check(reply, "wait for a message")
            deliveries.append(
                AMQPDelivery(
                    tag: envelope.delivery_tag, queue: Self.text(envelope.consumer_tag),
                    routingKey: Self.text(envelope.routing_key), isRepeated: envelope.redelivered != 0,
                    body: Self.octets(envelope.message.body)))
            sum += envelope.message.body.len
            amqp_destroy_envelope(&envelope)
        }
        return deliveries
    }

    private func ending(_ state: amqp_connection_state_t) throws(AMQPError) -> String {
        var frame = amqp_frame_t()
        var patience = timeval(tv_sec: 1, tv_usec: 0)
        guard amqp_simple_wait_frame_noblock(state, &frame, &patience) == 0,
            frame.frame_type == UInt8(AMQP_FRAME_METHOD)
        else { return "the broker broke the protocol" }
        return Self.words(ofEnding: frame)
    }

    private static func words(ofEnding frame: amqp_frame_t) -> String {
        guard frame.frame_type == UInt8(AMQP_FRAME_METHOD) else { return "the broker broke the protocol" }
        var reply = amqp_rpc_reply_t()
        reply.reply_type = AMQP_RESPONSE_SERVER_EXCEPTION
        reply.reply = frame.payload.method
        var words = amqp_bytes_t()
        let code = healthrelay_amqp_refusal(reply, &words)
        return code > 0
            ? "the broker ended the connection: \(text(words)) (\(code))" : "the broker took the queue away"
    }

    /// Acknowledges a delivery and all before it.
    package func acknowledge(through tag: UInt64) throws(AMQPError) {
        let status = amqp_basic_ack(try opened(), Self.channel, tag, 1)
        guard status == 0 else { throw .lost(Self.words(status)) }
    }

    /// Publishes a message. The broker drops it where nobody listens.
    package func publish(_ body: [UInt8], exchange: String, routingKey: String) throws(AMQPError) {
        let state = try opened()
        let status = body.withUnsafeBytes { octets in
            let bytes = amqp_bytes_t(
                len: octets.count, bytes: octets.baseAddress.map(UnsafeMutableRawPointer.init(mutating:)))
            return withBytes(exchange, routingKey, "") { exchange, key, _ in
                amqp_basic_publish(state, Self.channel, exchange, key, 0, 0, nil, bytes)
            }
        }
        guard status == 0 else { throw .lost(Self.words(status)) }
    }

    // MARK: librabbitmq

    private func opened() throws(AMQPError) -> amqp_connection_state_t {
        guard let state else { throw .lost("the connection is closed") }
        return state
    }

    private func check(_ reply: amqp_rpc_reply_t, _ what: String) throws(AMQPError) {
        switch reply.reply_type {
        case AMQP_RESPONSE_NORMAL: return
        case AMQP_RESPONSE_SERVER_EXCEPTION:
            var words = amqp_bytes_t()
            let code = healthrelay_amqp_refusal(reply, &words)
            throw .refused(code: Int(code), "cannot \(what): \(Self.text(words))")
        default: throw .lost("cannot \(what): \(Self.words(reply.library_error))")
        }
    }

    /// Calls librabbitmq with texts that live as long as the call.
    private func withBytes<Result>(
        _ first: String, _ second: String, _ third: String,
        _ body: (amqp_bytes_t, amqp_bytes_t, amqp_bytes_t) -> Result
    ) -> Result {
        first.withCString { first in
            second.withCString { second in
                third.withCString { third in
                    body(amqp_cstring_bytes(first), amqp_cstring_bytes(second), amqp_cstring_bytes(third))
                }
            }
        }
    }

    private static func words(_ status: Int32) -> String { String(cString: amqp_error_string2(status)) }

    private static func octets(_ bytes: amqp_bytes_t) -> [UInt8] {
        Array(UnsafeRawBufferPointer(start: bytes.bytes, count: bytes.len))
    }

    private static func text(_ bytes: amqp_bytes_t) -> String { String(decoding: octets(bytes), as: UTF8.self) }
}

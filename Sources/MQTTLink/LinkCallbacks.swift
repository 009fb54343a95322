import CMosquitto

// The library calls these on the thread that called it, which is the session's own. They are free functions: a closure that
// is formed where an actor is would check for that actor.

private func session(_ context: UnsafeMutableRawPointer?) -> LinkSession? {
    context.map { Unmanaged<LinkSession>.fromOpaque($0).takeUnretainedValue() }
}

func onConnect(
    _ handle: OpaquePointer?, _ context: UnsafeMutableRawPointer?, _ code: Int32, _ flags: Int32,
    _ properties: OpaquePointer?
) { session(context)?.connected(code, properties) }

func onDisconnect(
    _ handle: OpaquePointer?, _ context: UnsafeMutableRawPointer?, _ code: Int32, _ properties: OpaquePointer?
) { session(context)?.disconnected(code, properties) }

func onPublish(
    _ handle: OpaquePointer?, _ context: UnsafeMutableRawPointer?, _ number: Int32, _ code: Int32,
    _ properties: OpaquePointer?
) { session(context)?.acknowledged(number, code, properties) }

func onSubscribe(
    _ handle: OpaquePointer?, _ context: UnsafeMutableRawPointer?, _ number: Int32, _ count: Int32,
    _ granted: UnsafePointer<Int32>?, _ properties: OpaquePointer?
) {
    guard let granted, count > 0 else { return }
    session(context)?.granted(number, granted[0], properties)
}

func onUnsubscribe(
    _ handle: OpaquePointer?, _ context: UnsafeMutableRawPointer?, _ number: Int32, _ properties: OpaquePointer?
) { session(context)?.withdrawn(number) }

func onMessage(
    _ handle: OpaquePointer?, _ context: UnsafeMutableRawPointer?, _ message: UnsafePointer<mosquitto_message>?,
    _ properties: OpaquePointer?
) {
    guard let message else { return }
    session(context)?.received(message.pointee, properties)
}

func onLog(
    _ handle: OpaquePointer?, _ context: UnsafeMutableRawPointer?, _ level: Int32, _ text: UnsafePointer<CChar>?
) {
    // Only errors: what it says of packets at other levels repeats topics.
    guard level == MOSQ_LOG_ERR, let text else { return }
    session(context)?.complained(String(cString: text))
}

/// Gives no passphrase: OpenSSL would ask for one on the terminal.
func refusePassphrase(
    _ buffer: UnsafeMutablePointer<CChar>?, _ size: Int32, _ isWriting: Int32, _ context: UnsafeMutableRawPointer?
) -> Int32 { 0 }

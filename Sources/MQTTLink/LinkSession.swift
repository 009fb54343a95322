import CMosquitto
import Glibc

/// A connection as its thread sees it. Nothing of it leaves the thread, so nothing of it is locked.
final class LinkSession {
    private struct Published {
        var answer: Answer<MQTTReceipt>
        var due: ContinuousClock.Instant
    }

    private struct Subscribed {
        var answer: Answer<MQTTMessage.Quality>
        var due: ContinuousClock.Instant
    }

    private struct Unsubscribed {
        var answer: Answer<Void>
        var due: ContinuousClock.Instant
    }

    private let thread: LinkThread
    private let plan: LinkPlan
    private var handle: OpaquePointer?
    private var isOpen = false
    private var isClosing = false
    /// Whether the broker has been reached: what ends the connection from now on is said by it.
    private var isReached = false
    /// Why the connection has ended; `nil` while it lives.
    private var ending: MQTTError?
    /// What the library has logged as an error of late.
    private var complaints: [String] = []
    /// Counts what came, to see whether there may be more.
    private var arrivals = 0
    private var window: Int
    /// Messages that wait for room in the window.
    private var waiting: [(message: MQTTMessage, answer: Answer<MQTTReceipt>)] = []
    private var published: [Int32: Published] = [:]
    private var subscribed: [Int32: Subscribed] = [:]
    private var unsubscribed: [Int32: Unsubscribed] = [:]

    init(_ thread: LinkThread, _ plan: LinkPlan) {
        self.thread = thread
        self.plan = plan
        window = max(1, min(plan.options.window, 65_535))
    }

    /// Connects, and serves the connection until it ends.
    ///
    /// - Returns: why it has ended.
    func run() -> MQTTError {
        connect()
        while ending == nil { serve() }
        let error = ending ?? .lost
        if let handle { mosquitto_destroy(handle) }
        thread.stop(error)
        for entry in waiting { entry.answer.settle(.failure(error)) }
        for entry in published.values { entry.answer.settle(.failure(error)) }
        for entry in subscribed.values { entry.answer.settle(.failure(error)) }
        for entry in unsubscribed.values { entry.answer.settle(.failure(error)) }
        return error
    }

    // MARK: Connecting

    private func connect() {
        MosquittoLibrary.prepare()
        let (broker, options) = (plan.broker, plan.options)
        guard !broker.host.isEmpty, !broker.host.utf8.contains(0), options.keepAlive >= 5, options.keepAlive <= 65_535
        else {
            return end(MQTTError(.invalidArgument, "cannot connect: the host or the keep-alive cannot be used"))
        }
        handle = mosquitto_new(options.clientID, true, Unmanaged.passUnretained(self).toOpaque())
        guard let handle else {
            return end(MQTTError(.invalidArgument, "cannot connect: the client id cannot be used"))
        }
        setCallbacks(handle)
        mosquitto_int_option(
            handle, MOSQ_OPT_PROTOCOL_VERSION, plan.version == .v5 ? MQTT_PROTOCOL_V5 : MQTT_PROTOCOL_V311)
        mosquitto_int_option(handle, MOSQ_OPT_TCP_NODELAY, 1)
        mosquitto_int_option(handle, MOSQ_OPT_SEND_MAXIMUM, Int32(window))
        if let credentials = broker.credentials {
            mosquitto_username_pw_set(handle, credentials.username, credentials.password)
        }
        if let will = options.will {
            let status = will.payload.withUnsafeBytes {
                mosquitto_will_set(
                    handle, will.topic, Int32($0.count), $0.baseAddress, will.quality.rawValue, will.isRetained)
            }
            guard status == MOSQ_ERR_SUCCESS.rawValue else { return fail(status, errno, "set the will at") }
        }
        guard setCertificates(handle) else { return }
        let properties = PropertyList()
        if plan.version == .v5 {
            properties.add(MQTT_PROP_RECEIVE_MAXIMUM, UInt16(clamping: max(1, options.buffer)))
            properties.add(MQTT_PROP_MAXIMUM_PACKET_SIZE, Self.largestPacket)
        }
        let status = mosquitto_connect_bind_v5(
            handle, broker.host, Int32(broker.port), Int32(options.keepAlive), nil, properties.first)
        let number = errno
        guard status == MOSQ_ERR_SUCCESS.rawValue else { return fail(status, number, "reach") }
        isReached = true
    }

    /// The largest packet a broker of MQTT 5 may send us.
    private static let largestPacket: UInt32 = 1 << 20

    /// - Returns: whether the connection may be made.
    private func setCertificates(_ handle: OpaquePointer) -> Bool {
        guard let tls = plan.broker.tls else { return true }
        let files = [tls.authorities, tls.certificate, tls.privateKey].compactMap(\.self)
        if let path = files.first(where: { access($0, R_OK) != 0 }) {
            end(MQTTError(.files, "cannot read \(path): \(MQTTError.words(errno))"))
            return false
        }
        guard (tls.certificate == nil) == (tls.privateKey == nil) else {
            end(MQTTError(.files, "a certificate needs its private key, and a private key its certificate"))
            return false
        }
        if tls.authorities == nil { mosquitto_int_option(handle, MOSQ_OPT_TLS_USE_OS_CERTS, 1) }
        guard tls.authorities != nil || tls.certificate != nil else { return true }
        // The library takes a certificate of ours only together with authorities.
        let status = mosquitto_tls_set(
            handle, tls.authorities, tls.authorities == nil ? Self.systemAuthorities : nil, tls.certificate,
            tls.privateKey, refusePassphrase)
        guard status == MOSQ_ERR_SUCCESS.rawValue else {
            end(MQTTError(.files, "cannot use the certificate files: \(String(cString: mosquitto_strerror(status)))"))
            return false
        }
        return true
    }

    private static let systemAuthorities = "/etc/ssl/certs"

    private func setCallbacks(_ handle: OpaquePointer) {
        mosquitto_connect_v5_callback_set(handle, onConnect)
        mosquitto_disconnect_v5_callback_set(handle, onDisconnect)
        mosquitto_publish_v5_callback_set(handle, onPublish)
        mosquitto_subscribe_v5_callback_set(handle, onSubscribe)
        mosquitto_unsubscribe_v5_callback_set(handle, onUnsubscribe)
        mosquitto_message_v5_callback_set(handle, onMessage)
        mosquitto_log_callback_set(handle, onLog)
    }

    // MARK: Serving

    /// One turn: what is asked, what has come, what is due.
    private func serve() {
        guard let handle else { return end(.lost) }
        var polled = (
            pollfd(fd: thread.bell, events: Int16(POLLIN), revents: 0),
            pollfd(fd: mosquitto_socket(handle), events: Int16(POLLIN), revents: 0)
        )
        // While TLS begins, what is to be written waits for what is to be read, and there is always room to write.
        let isBeginning = !isOpen && plan.broker.tls != nil
        if mosquitto_want_write(handle), !isBeginning { polled.1.events |= Int16(POLLOUT) }
        // The library looks at its keep-alive once a turn. It is asked more often while an answer is due.
        let isBusy = !isOpen || !published.isEmpty || !subscribed.isEmpty || !unsubscribed.isEmpty
        let patience: Int32 = isBeginning ? 200 : isBusy ? 1000 : 2500
        let count = withUnsafeMutableBytes(of: &polled) {
            poll($0.assumingMemoryBound(to: pollfd.self).baseAddress, 2, patience)
        }
        guard count >= 0 || errno == EINTR else {
            return end(MQTTError(.system, "cannot wait for the broker: \(MQTTError.words(errno))"))
        }
        if polled.0.revents != 0 {
            for command in thread.taken() { take(command, handle) }
            if ending != nil { return }
        }
        // Reading comes first: a broker that refuses us has said why before writing fails.
        if polled.1.revents & Int16(POLLIN | POLLHUP | POLLERR | POLLNVAL) != 0, !read(handle) { return }
        if mosquitto_want_write(handle) {
            let status = mosquitto_loop_write(handle, 1)
            let number = errno
            if status != MOSQ_ERR_SUCCESS.rawValue { return fail(status, number, "write to") }
        }
        let status = mosquitto_loop_misc(handle)
        let number = errno
        if status != MOSQ_ERR_SUCCESS.rawValue { return fail(status, number, "talk to") }
        publishWaiting(handle)
        let now = ContinuousClock.now
        if published.values.contains(where: { $0.due < now }) || subscribed.values.contains(where: { $0.due < now })
            || unsubscribed.values.contains(where: { $0.due < now })
        {
            end(MQTTError(.timedOut, "the broker does not acknowledge"))
        }
    }

    /// Reads what has come.
    ///
    /// - Returns: whether the connection lives.
    private func read(_ handle: OpaquePointer) -> Bool {
        var before: Int
        repeat {
            before = arrivals
            let status = mosquitto_loop_read(handle, 1)
            let number = errno
            guard status == MOSQ_ERR_SUCCESS.rawValue else {
                fail(status, number, isOpen ? "talk to" : "connect to")
                return false
            }
            // TLS may hold more than the socket shows.
        } while arrivals != before && ending == nil
        if ending == nil, mosquitto_socket(handle) < 0 { end(.lost) }
        // A broker with Nagle's algorithm holds its next answers back until the system has acknowledged this one, which takes
        // 40 ms if we send nothing ourselves.
        if ending == nil, waiting.isEmpty, !published.isEmpty { set(TCP_QUICKACK, true, of: mosquitto_socket(handle)) }
        return ending == nil
    }

    private func take(_ command: LinkThread.Command, _ handle: OpaquePointer) {
        switch command {
        // What was asked for in a row is published together, before whatever follows.
        case .publish(let message, let answer): waiting.append((message, answer))
        case .subscribe(let filter, let quality, let answer):
            publishWaiting(handle)
            subscribe(filter, quality, answer, handle)
        case .unsubscribe(let filter, let answer):
            publishWaiting(handle)
            unsubscribe(filter, answer, handle)
        case .close(let publishesWill):
            publishWaiting(handle)
            close(handle, publishesWill: publishesWill)
        }
    }

    private func publishWaiting(_ handle: OpaquePointer) {
        guard isOpen, !waiting.isEmpty, published.count < window else { return }
        // The library writes each message by itself. Several of them leave as one segment, not as one each.
        let socket = waiting.count > 1 ? mosquitto_socket(handle) : -1
        if socket >= 0 { set(TCP_CORK, true, of: socket) }
        defer { if socket >= 0 { set(TCP_CORK, false, of: socket) } }
        var taken = 0
        for (message, answer) in waiting {
            guard published.count < window, ending == nil else { break }
            taken += 1
            // Whoever asked no longer waits: nothing was sent, so nothing is.
            if !answer.isSettled { publish(message, answer, handle) }
        }
        waiting.removeFirst(taken)
    }

    /// Sets an option of TCP. It saves time alone, so nothing depends on whether the system takes it.
    private func set(_ option: Int32, _ isOn: Bool, of socket: Int32) {
        var value: Int32 = isOn ? 1 : 0
        setsockopt(socket, Int32(IPPROTO_TCP), option, &value, socklen_t(MemoryLayout<Int32>.size))
    }

    private func publish(_ message: MQTTMessage, _ answer: Answer<MQTTReceipt>, _ handle: OpaquePointer) {
        guard !message.topic.isEmpty, !message.topic.utf8.contains(0) else {
            return answer.settle(.failure(MQTTError(.invalidArgument, "cannot publish: the topic cannot be used")))
        }
        let properties = PropertyList()
        if plan.version == .v5, let type = message.contentType { properties.add(MQTT_PROP_CONTENT_TYPE, type) }
        var number: Int32 = 0
        let status = message.payload.withUnsafeBytes {
            mosquitto_publish_v5(
                handle, &number, message.topic, Int32(clamping: $0.count), $0.baseAddress, message.quality.rawValue,
                message.isRetained, properties.first)
        }
        let error = errno
        guard status == MOSQ_ERR_SUCCESS.rawValue else {
            if mosquitto_socket(handle) < 0 { fail(status, error, "publish to") }
            answer.settle(
                .failure(
                    ending ?? MQTTError(status: status, error, doing: "publish to", broker: plan.broker, complaints)))
            return
        }
        if message.quality == .atMostOnce { return answer.settle(.success(MQTTReceipt())) }
        published[number] = Published(answer: answer, due: .now + plan.options.answerTimeout)
    }

    private func subscribe(
        _ filter: String, _ quality: MQTTMessage.Quality, _ answer: Answer<MQTTMessage.Quality>, _ handle: OpaquePointer
    ) {
        var number: Int32 = 0
        let isUsable = !filter.isEmpty && !filter.utf8.contains(0)
        let status =
            isUsable
            ? mosquitto_subscribe_v5(handle, &number, filter, quality.rawValue, 0, nil) : MOSQ_ERR_INVAL.rawValue
        let error = errno
        guard status == MOSQ_ERR_SUCCESS.rawValue else {
            return answer.settle(
                .failure(MQTTError(status: status, error, doing: "subscribe at", broker: plan.broker, complaints)))
        }
        subscribed[number] = Subscribed(answer: answer, due: .now + plan.options.answerTimeout)
    }

    private func unsubscribe(_ filter: String, _ answer: Answer<Void>, _ handle: OpaquePointer) {
        var number: Int32 = 0
        let status =
            filter.utf8.contains(0)
            ? MOSQ_ERR_INVAL.rawValue : mosquitto_unsubscribe_v5(handle, &number, filter, nil)
        let error = errno
        guard status == MOSQ_ERR_SUCCESS.rawValue else {
            return answer.settle(
                .failure(MQTTError(status: status, error, doing: "unsubscribe at", broker: plan.broker, complaints)))
        }
        unsubscribed[number] = Unsubscribed(answer: answer, due: .now + plan.options.answerTimeout)
    }

    /// Says goodbye, and waits a little for it to be sent.
    private func close(_ handle: OpaquePointer, publishesWill: Bool) {
        isClosing = true
        // A broker of MQTT 3.1.1 publishes the will only if nobody says goodbye.
        if isOpen, !publishesWill || plan.version == .v5 {
            mosquitto_disconnect_v5(handle, publishesWill ? Int32(MQTT_RC_DISCONNECT_WITH_WILL_MSG.rawValue) : 0, nil)
            let deadline = ContinuousClock.now + .milliseconds(400)
            while mosquitto_socket(handle) >= 0, mosquitto_want_write(handle), ContinuousClock.now < deadline {
                var socket = pollfd(fd: mosquitto_socket(handle), events: Int16(POLLOUT), revents: 0)
                poll(&socket, 1, 50)
                guard mosquitto_loop_write(handle, 1) == MOSQ_ERR_SUCCESS.rawValue else { break }
            }
        }
        end(.closed)
    }

    // MARK: The end

    private func end(_ error: MQTTError) {
        guard ending == nil else { return }
        ending = isClosing ? .closed : error
    }

    private func fail(_ status: Int32, _ number: Int32, _ doing: String) {
        var error = MQTTError(status: status, number, doing: doing, broker: plan.broker, complaints)
        error.isWithoutAnswer = isReached && !isOpen
        // A connection that had been let in is lost, however the system or TLS puts it.
        if isOpen, [.unreachable, .timedOut, .tls].contains(error.kind) { error = .lost }
        end(error)
    }

    // MARK: What the library calls

    func connected(_ code: Int32, _ properties: OpaquePointer?) {
        arrivals += 1
        if let error = MQTTError(connect: code, plan.version, said: PropertyList.reason(properties)) {
            return end(error)
        }
        if let most = PropertyList.int16(properties, MQTT_PROP_RECEIVE_MAXIMUM), most > 0 {
            window = min(window, Int(most))
        }
        isOpen = true
        // It writes a line for each message, and what it has to say of a connection that is open says nothing new.
        if let handle { mosquitto_log_callback_set(handle, nil) }
        plan.opened.settle(.success(()))
    }

    func disconnected(_ code: Int32, _ properties: OpaquePointer?) {
        arrivals += 1
        // Below are the library's own codes, which its loop returns too.
        guard code >= 128 else { return }
        end(MQTTError(reason: code, to: MQTTError.connection, said: PropertyList.reason(properties)))
    }

    func acknowledged(_ number: Int32, _ code: Int32, _ properties: OpaquePointer?) {
        arrivals += 1
        guard let entry = published.removeValue(forKey: number) else { return }
        if code < 128 {
            entry.answer.settle(
                .success(MQTTReceipt(hasSubscribers: code == MQTT_RC_NO_MATCHING_SUBSCRIBERS.rawValue ? false : nil)))
        } else {
            entry.answer.settle(
                .failure(MQTTError(reason: code, to: "the message", said: PropertyList.reason(properties))))
        }
    }

    func granted(_ number: Int32, _ code: Int32, _ properties: OpaquePointer?) {
        arrivals += 1
        guard let entry = subscribed.removeValue(forKey: number) else { return }
        if code < 128 {
            entry.answer.settle(.success(code == 0 ? .atMostOnce : .atLeastOnce))
        } else {
            entry.answer.settle(
                .failure(MQTTError(reason: code, to: "the subscription", said: PropertyList.reason(properties))))
        }
    }

    func withdrawn(_ number: Int32) {
        arrivals += 1
        unsubscribed.removeValue(forKey: number)?.answer.settle(.success(()))
    }

    func received(_ message: mosquitto_message, _ properties: OpaquePointer?) {
        arrivals += 1
        guard let topic = message.topic else { return }
        let payload = UnsafeRawBufferPointer(start: message.payload, count: Int(max(0, message.payloadlen)))
        guard plan.room.enter(payload.count) else { return }
        let result = plan.messages.yield(
            MQTTMessage(
                topic: String(cString: topic), payload: Array(payload),
                quality: message.qos == 0 ? .atMostOnce : .atLeastOnce, isRetained: message.retain,
                contentType: PropertyList.text(properties, MQTT_PROP_CONTENT_TYPE)))
        if case .dropped(let oldest) = result { plan.room.leave(oldest.payload.count) }
    }

    func complained(_ words: String) {
        complaints.append(words)
        if complaints.count > 8 { complaints.removeFirst() }
    }
}

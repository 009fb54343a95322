import GATTClient
import HealthReadings

/// Requests to an Omron monitor's memory, and its answers.
///
/// What is written to a monitor is an ``OmronRequest``, and nothing else.
struct OmronLink {
    /// How long an answer may take, and how often it is asked for: fifteen seconds together.
    static let (patience, tries): (Duration, Int) = (.seconds(3), 5)
    /// How long a monitor needs after its notifications were enabled.
    static let pause: Duration = .milliseconds(750)
    /// How long a monitor may take to end the link after a session: three seconds, in captures of the maker's app.
    static let patienceForHangUp: Duration = .seconds(5)
    /// The silence that ends an answer.
    private static let quiet: Duration = .milliseconds(200)
    /// How often a monitor is asked to take a key, a second apart: it takes none before the link is encrypted.
    static let keyTries = 10
    /// What comes unasked for between a request and its answer, at most.
    private static let mostStrays = 64

    /// What came of a request.
    enum Reply {
        /// The memory's octets, and the message as it came.
        case answered([UInt8], message: [UInt8], at: Instant)
        /// The monitor does not let this be read, with its code.
        case refused(UInt8, message: [UInt8], at: Instant)
        /// The monitor has ended the session by itself, with its code: it answers nothing more.
        case ended(UInt8, message: [UInt8], at: Instant)
        /// What came was no message, again and again.
        case malformed(MalformedFrame, message: [UInt8], at: Instant)
    }

    let peripheral: any Peripheral
    let stack: OmronMemory.Stack
    private let requests: Characteristic
    private let answers: [Characteristic]
    private let key: Characteristic?

    /// - Returns: `nil` if the device has not what such a model offers.
    init?(_ peripheral: any Peripheral, _ characteristics: [Characteristic], stack: OmronMemory.Stack) {
        func find(_ uuid: BluetoothUUID) -> Characteristic? { characteristics.first { $0.uuid == uuid } }
        let answers = Omron.answers.prefix(stack.channels).compactMap(find)
        guard let requests = find(Omron.requests), answers.count == stack.channels else { return nil }
        key = find(Omron.key)
        guard stack == .bond || key != nil else { return nil }
        (self.peripheral, self.stack, self.requests, self.answers) = (peripheral, stack, requests, answers)
    }

    /// What is enabled for a session: the answers first, as some monitors want it.
    var notifying: [Characteristic] { answers + (stack == .bond ? [] : key.map { [$0] } ?? []) }

    /// How long the monitor may take to hang up after its session; `nil` if its notifications are stopped instead.
    ///
    /// The maker's app stops none on monitors without a key, and lets them end the link. Owners report that some of these
    /// lose their bond where a program stops them (hass-omron issue 91, pull requests 136 and 157).
    var farewell: Duration? { stack == .key ? nil : Self.patienceForHangUp }

    /// Lets the monitor come to itself. Nothing that comes meanwhile answers anything.
    func rest(_ duration: Duration = OmronLink.pause) async throws {
        _ = try await peripheral.nextValues(within: duration)
    }

    // MARK: The memory

    /// Asks until there is an answer.
    ///
    /// - Throws: ``TransferError`` where the monitor leaves or is silent; ``GATTError``.
    func ask(_ request: OmronRequest, received: Int, tries: Int = OmronLink.tries) async throws -> Reply {
        var exchange = OmronExchange(request, channels: stack.channels)
        var malformed: Reply?
        for _ in 0..<tries {
            try Task.checkCancellation()
            exchange.restart()
            try await write(request, received)
            if let reply = try await reply(to: &exchange, received, &malformed) { return reply }
        }
        if let malformed { return malformed }
        throw TransferError.timedOut(received: received)
    }

    /// Takes what comes until the answer is whole; `nil` after a silence, or where what came is no message.
    private func reply(
        to exchange: inout OmronExchange, _ received: Int, _ malformed: inout Reply?
    ) async throws -> Reply? {
        for _ in 0..<Self.mostStrays {
            switch try await peripheral.nextValues(within: Self.patience) {
            case .silence: return nil
            case .disconnected: throw TransferError.interrupted(received: received)
            case .values(let values):
                for value in values {
                    guard let channel = answers.firstIndex(where: { $0.uuid == value.uuid }) else { continue }
                    switch exchange.take(value.octets, on: channel) {
                    case .waiting: continue
                    case .answered(let frame, let message):
                        return .answered(frame.data, message: message, at: value.receivedAt)
                    case .refused(let code, let message):
                        return .refused(code, message: message, at: value.receivedAt)
                    case .ended(let code, let message):
                        return .ended(code, message: message, at: value.receivedAt)
                    case .malformed(let error, let message):
                        malformed = .malformed(error, message: message, at: value.receivedAt)
                        try await peripheral.drain(until: Self.quiet)
                        return nil
                    }
                }
            }
        }
        return nil
    }

    /// Does something in a session, and ends that whatever comes of it: a monitor that is left without shows an error and
    /// may refuse the next session.
    func inSession<Result>(_ body: () async throws -> Result) async throws -> Result {
        guard case .answered = try await ask(.start, received: 0) else {
            throw TransferError.refused(
                code: "omron_session_refused", description: "the monitor does not begin a session")
        }
        do {
            let result = try await body()
            await end()
            return result
        } catch {
            if case .interrupted? = error as? TransferError { throw error }
            await end()
            throw error
        }
    }

    /// Ends a session. That a monitor leaves instead of answering is usual.
    private func end() async {
        await shieldedFromCancellation { _ = try? await ask(.end, received: 0, tries: 1) }
    }

    // MARK: The key

    /// Shows the key, or asks for the echo, where the model wants that before a session.
    ///
    /// - Parameter key: `nil` in a replay, where the recorded session is open already.
    /// - Throws: ``TransferError/refused(code:description:)`` where the monitor has another key.
    func unlock(_ key: OmronKey?) async throws {
        let request: OmronRequest
        switch stack {
        case .bond: return
        case .bondAndEcho: request = .echo(Omron.token)
        case .key:
            guard let key else { return }
            request = .unlock(key)
        }
        switch try await keyAnswer(to: request) {
        case .accepted: return
        case .refused(let code) where stack == .key:
            throw TransferError.refused(
                code: "omron_key_refused",
                description: "the monitor knows another key than this gateway's (code \(code)); another program may "
                    + "have paired it since. Pair it again")
        // Some monitors without a key say nothing that makes sense, and begin the session all the same.
        case .refused, nil: return
        }
    }

    /// Has a monitor that is being paired store a key, and shows it that this has worked.
    ///
    /// - Throws: ``TransferError/refused(code:description:)`` where it takes none.
    func store(_ key: OmronKey) async throws {
        try await peripheral.whileNotifying(notifying) {
            try await rest()
            var answer: OmronKeyAnswer?
            for _ in 0..<Self.keyTries {
                answer = try await keyAnswer(to: .programKey)
                if answer == .accepted { break }
                try await rest(.seconds(1))
            }
            guard answer == .accepted, try await keyAnswer(to: .store(key)) == .accepted else {
                throw TransferError.refused(
                    code: "omron_key_not_taken",
                    description: "the monitor takes no key; hold its Bluetooth button until P blinks, and pair it again"
                )
            }
            try await inSession {}
        }
    }

    /// Writes a request about the key, once; `nil` after a silence.
    private func keyAnswer(to request: OmronRequest) async throws -> OmronKeyAnswer? {
        guard let key else { return nil }
        try await write(request, 0)
        for _ in 0..<Self.mostStrays {
            switch try await peripheral.nextValues(within: Self.patience) {
            case .silence: return nil
            case .disconnected: throw TransferError.interrupted(received: 0)
            case .values(let values):
                for value in values where value.uuid == key.uuid {
                    if let answer = request.keyAnswer(value.octets) { return answer }
                }
            }
        }
        return nil
    }

    // MARK: Writing

    /// The one place at which something is written to a monitor's own service.
    private func write(_ request: OmronRequest, _ received: Int) async throws {
        do {
            switch request.place {
            case .memory: try await peripheral.write(request.octets, to: requests, expectingResponse: false)
            case .key:
                guard let key else { return }
                try await peripheral.write(request.octets, to: key, expectingResponse: true)
            }
        } catch GATTError.disconnected {
            throw TransferError.interrupted(received: received)
        }
    }
}

import FleetDelivery
import FleetDocuments
import HealthReadings
import Logging
import MQTTLink
import ReadingDelivery
import ReadingStore

/// A connection to one of a fleet's brokers.
final class FleetLink: BrokerLink {
    let connection: MQTTConnection
    let gateway: GatewayID
    /// Whether the broker says that the gateway is gone when the connection is lost.
    let hasWill: Bool
    /// Takes what comes.
    var reader: Task<Void, Never>?

    init(connection: MQTTConnection, gateway: GatewayID, hasWill: Bool) {
        self.connection = connection
        self.gateway = gateway
        self.hasWill = hasWill
    }

    deinit { reader?.cancel() }

    /// The message with a document on one of the gateway's topics.
    func message(_ document: JSONValue, _ part: FleetTopic.Part) -> MQTTMessage {
        MQTTMessage(
            topic: FleetTopic(part, of: gateway).description, text: document.text, contentType: "application/json")
    }
}

extension FleetDestination {
    /// From now on a connection has a will, and receipts are taken as they come.
    public func willRun() async { isKept = true }

    /// Keeps the connection: receipts are taken, and the centre hears how the gateway is.
    ///
    /// - Throws: a `DeliveryFailure` when the connection is lost or cannot be made.
    public func run(_ context: DestinationContext) async throws {
        // The host may be the reason.
        try await keep(context, beside: [{ await self.report() }]) {
            nextHost = (nextHost + 1) % max(1, place.hosts.count)
        }
    }

    /// Sends the status in its rhythm and says what is missing, until the task is cancelled.
    private func report() async {
        let begun = ContinuousClock.now
        var due = begun + place.statusInterval
        while !Task.isCancelled {
            try? await Task.sleep(for: pace.tick)
            guard !Task.isCancelled, let link, link.connection.isOpen else { continue }
            if let isHeld = try? await isHeld(), isHeld {
                await link.connection.close(publishesWill: true)
                return
            }
            await tellProblems()
            // A cluster that loses a node may lose a subscription and keep the connection: the next host is asked anew.
            if let silentSince, ContinuousClock.now - max(silentSince, begun) >= pace.deafness {
                logger.notice("no receipt has come for long; the connection is made anew")
                return
            }
            guard ContinuousClock.now >= due else { continue }
            due = .now + place.statusInterval
            await sendStatus(link)
            if let key = try? await key() { try? await store.forgetConfirmedBatches(at: key) }
        }
    }

    /// Says what is wrong although batches are taken; nothing if all is well.
    func tellProblems() async {
        var problems = place.credentials?.problem.map { [$0] } ?? []
        if silentSince != nil, let key = try? await key(), let count = try? await store.handedOverCount(at: key),
            let others = try? await store.retractionCount(at: key), count + others == 0
        {
            silentSince = nil
        }
        if let failure = await trouble() {
            problems.append(
                "the centre could not store a batch: \(PrintableText.escaped(failure.message)) "
                    + "(\(PrintableText.escaped(failure.code)))")
        }
        if let silentSince, ContinuousClock.now - silentSince >= pace.silence {
            problems.append(
                "the broker acknowledges batches, and no receipt has come: nobody may be storing them. "
                    + "Check that the collector runs, and that the broker keeps \(FleetTopic.filter(.readings)) for it")
        }
        do {
            try await store.setWarnings(problems, of: try await key())
        } catch {
            logger.debug("a warning could not be noted", metadata: ["code": "\(DeliveryFailure(error).code)"])
        }
    }

    /// Opens ``link`` at the first host that lets the gateway in, the next one of the list first.
    func open() async throws {
        if let link {
            self.link = nil
            // A connection that has ended by itself says nothing good of its host.
            if !link.connection.isOpen { nextHost = (nextHost + 1) % max(1, place.hosts.count) }
            await link.connection.close()
        }
        let (gateway, hasWill) = (try await gateway(), isKept)
        let connection = try await connect(as: gateway, hasWill: hasWill)
        let link = FleetLink(connection: connection, gateway: gateway, hasWill: hasWill)
        link.reader = Task { [weak self] in
            for await message in connection.messages { await self?.take(message, of: gateway) }
        }
        self.link = link
        // QoS 0: what is missed is asked for, or comes again. QoS 1 would be a queue of the broker's for each gateway.
        // RabbitMQ 3.10 lets no gateway in whose queue was on a node that was killed, also once the node is back.
        for part in [FleetTopic.Part.receipts, .config] {
            try await connection.subscribe(to: FleetTopic(part, of: gateway).description, quality: .atMostOnce)
        }
        try await greet(link)
        if hasWill { await sendStatus(link) }
    }

    private func connect(as gateway: GatewayID, hasWill: Bool) async throws(MQTTError) -> MQTTConnection {
        var options = MQTTOptions(clientID: gateway.description)
        options.answerTimeout = pace.answer
        if hasWill {
            options.will = MQTTMessage(
                topic: FleetTopic(.status, of: gateway).description, text: FleetStatus.offline.document.text)
        }
        var failure = MQTTError(.invalidArgument, "cannot connect: no host is given")
        for _ in place.hosts {
            let host = nextHost
            // Asking for a newer version first would cost a connection each time.
            options.versions = versions[host] == .v311 ? [.v311, .v5] : [.v5, .v311]
            do throws(MQTTError) {
                let connection = try await open(place.hosts[host], options)
                versions[host] = connection.version
                return connection
            } catch {
                failure = error
                nextHost = (host + 1) % place.hosts.count
                if error.kind == .cancelled { break }
                logger.notice(
                    "a host of the fleet cannot be used",
                    metadata: ["host": "\(place.hosts[host].host):\(place.hosts[host].port)", "error": "\(error)"])
            }
        }
        throw failure
    }

    /// Asks the centre for receipts and the configuration.
    private func greet(_ link: FleetLink) async throws {
        let hello = try await reporter.hello(link.gateway, namesBatches: place.waitsForReceipt)
        try await link.connection.publish(link.message(hello.document, .hello))
    }

    /// Sends how the gateway is. Readings are delivered without it.
    private func sendStatus(_ link: FleetLink) async {
        do {
            let status = try await reporter.status(link.gateway)
            try await link.connection.publish(link.message(status.document, .status))
        } catch {
            logger.notice("the status could not be sent", metadata: ["code": "\(DeliveryFailure(error).code)"])
        }
    }

    private func take(_ message: MQTTMessage, of gateway: GatewayID) async {
        guard let topic = try? FleetTopic(message.topic), topic.gateway == gateway else { return }
        switch topic.part {
        case .receipts: await take(receipt: message.payload, of: gateway)
        case .config: await take(configuration: message.payload, of: gateway)
        case .readings, .status, .hello: break
        }
    }

    /// Takes the settings that the centre wants, and asks it again: its answer shows that they cut nothing off.
    private func take(configuration octets: [UInt8], of gateway: GatewayID) async {
        do throws(FleetDocumentError) {
            let wanted = try FleetConfiguration(octets, for: gateway)
            await sender.steering.heard(.answer)
            guard await sender.steering.take(wanted), let link, link.connection.isOpen else { return }
            await sendStatus(link)
            try? await greet(link)
        } catch {
            logger.notice("a configuration was not taken", metadata: ["code": "\(error.code)", "reason": "\(error)"])
        }
    }
}

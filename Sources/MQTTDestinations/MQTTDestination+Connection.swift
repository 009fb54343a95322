import HealthReadings
import Logging
import MQTTLink
import ReadingDelivery
import ReadingFormats
import ReadingStore

extension MQTTDestination {
    /// How often devices and consents are looked at without a reason.
    private static let interval: Duration = .seconds(60)
    /// How long an older version of the protocol is asked for first, after the broker has closed a connection that asked
    /// for a newer one.
    private static let versionMemory: Duration = .seconds(3600)
    /// How many bytes a message that the broker keeps of ours has at most, and all of them together. Whoever may publish there
    /// can have it keep anything under our topics.
    private static let (longestKept, mostKept) = (256 << 10, 8 << 20)

    /// From now on a connection has a will.
    public func willRun() async { isKept = true }

    /// Keeps the connection: what was measured last is there for whoever looks, and `TOPIC/status` is `online`.
    ///
    /// - Throws: a `DeliveryFailure` when the connection is lost or cannot be made.
    public func run(_ context: DestinationContext) async throws {
        try await keep(
            context,
            beside: [
                { await self.followStore() },
                {
                    while !Task.isCancelled {
                        try? await Task.sleep(for: Self.interval)
                        await self.settlePresent()
                    }
                },
            ])
    }

    /// Settles a while after something was stored: a meter's battery, or that somebody is gone.
    private func followStore() async {
        for await _ in store.committedReadings() {
            try? await Task.sleep(for: .seconds(2))
            guard !Task.isCancelled else { return }
            await settlePresent()
        }
        // The connection goes on without it.
        while !Task.isCancelled { try? await Task.sleep(for: .seconds(3600)) }
    }

    private func settlePresent() async {
        guard let link, link.connection.isOpen, !Task.isCancelled else { return }
        do {
            guard try await !isHeld() else { return await link.connection.close(publishesWill: true) }
            // Who may be shown may have changed.
            for reading in try await store.newestDelivered(at: try await key()) { link.board.show(reading) }
        } catch {
            logger.notice("what was delivered could not be read", metadata: ["code": "\(DeliveryFailure(error).code)"])
            return
        }
        await settle(link)
    }

    /// Opens ``link``, and publishes there what is to be kept.
    func open() async throws {
        if let link {
            self.link = nil
            await link.connection.close()
        }
        let naming = Naming(gateway: try await store.gatewayID(), base: place.topic)
        let newest = try await store.newestDelivered(at: try await key())
        let hasWill = isKept
        var options = MQTTOptions(clientID: naming.client(of: name))
        // A home may have thousands of devices, whose discovery comes at once.
        options.buffer = 10_000
        if hasWill {
            options.will = MQTTMessage(topic: naming.topics.status, text: "offline", isRetained: true)
        }
        if let version, version.spoken == .v311, ContinuousClock.now - version.at < Self.versionMemory {
            options.versions = [.v311, .v5]
        }
        let connection = try await MQTTConnection.open(place.broker, options)
        if version?.spoken != connection.version { version = (connection.version, .now) }
        var board = Board(naming: naming, place: place, sender: sender)
        for reading in newest { board.show(reading) }
        let link = Link(connection: connection, naming: naming, hasWill: hasWill, board: board)
        // The task ends with the connection; it does not keep the destination.
        link.reader = Task { [weak self] in
            for await message in connection.messages { await self?.take(message, from: connection) }
        }
        self.link = link
        await survey(link)
        if hasWill {
            try await connection.publish(
                MQTTMessage(topic: naming.topics.status, text: "online", isRetained: true))
        }
        await settle(link)
        // By now discovery points at the gateway's own status.
        if link.hasFormerStatus {
            _ = try? await connection.publish(
                MQTTMessage(topic: naming.topics.sharedStatus, text: "", isRetained: true))
            link.hasFormerStatus = false
        }
        if place.isForHomeAssistant, hasWill {
            // Without it, whoever restarts Home Assistant still finds what the broker keeps.
            _ = try? await connection.subscribe(to: HomeAssistant.Topics.birth, quality: .atMostOnce)
        }
    }

    // MARK: What the broker says

    private func take(_ message: MQTTMessage, from connection: MQTTConnection) {
        guard let link, link.connection === connection else { return }
        if message.topic == HomeAssistant.Topics.birth {
            guard message.text == HomeAssistant.Topics.isStarted, !message.isRetained else { return }
            link.birth?.cancel()
            let delay = Int.random(in: birthDelay)
            link.birth = Task { [weak self] in
                try? await Task.sleep(for: .milliseconds(delay))
                guard !Task.isCancelled else { return }
                await self?.announce(at: connection)
            }
        } else if message.isRetained {
            let topics = link.naming.topics
            link.keptCount += 1
            if message.topic.hasPrefix(topics.base + "/") || topics.isOwnDiscovery(message.topic) {
                let count = message.payload.count
                guard count <= Self.longestKept, count <= Self.mostKept - link.surveyedBytes else {
                    // It is somebody else's.
                    link.othersShareStatus = true
                    return
                }
                link.surveyedBytes += count
                link.survey?[message.topic] = message.payload
            } else if message.topic.hasPrefix(HomeAssistant.Topics.devices),
                pointsAtSharedStatus(message.payload, topics)
            {
                link.othersShareStatus = true
            }
        }
    }

    private func pointsAtSharedStatus(_ discovery: [UInt8], _ topics: HomeAssistant.Topics) -> Bool {
        String(decoding: discovery, as: UTF8.self).contains("\"\(topics.sharedStatus)\"")
    }

    /// Publishes everything again: Home Assistant has started and knows only what the broker keeps.
    private func announce(at connection: MQTTConnection) async {
        guard let link, link.connection === connection else { return }
        await settle(link, isWhole: true)
    }

    /// Asks what the broker keeps of an earlier connection, so that what is not wanted any more is removed and what is newer
    /// stays. A broker that does not let us read is not asked further.
    private func survey(_ link: Link) async {
        let topics = link.naming.topics
        let filters = [topics.allStates, topics.sharedStatus, HomeAssistant.Topics.allDiscoveries]
        link.survey = [:]
        var isAllowed = true
        for filter in filters {
            let isGiven = (try? await link.connection.subscribe(to: filter)) != nil
            if filter != topics.sharedStatus { isAllowed = isAllowed && isGiven }
        }
        // A broker sends what it keeps right after it has answered. Nothing says which message is the last.
        var (quiet, count) = (0, 0)
        for _ in 0..<60 where isAllowed && link.connection.isOpen {
            try? await Task.sleep(for: .milliseconds(50))
            quiet = link.keptCount == count ? quiet + 1 : 0
            count = link.keptCount
            if quiet >= 6 { break }
        }
        for filter in filters { try? await link.connection.unsubscribe(from: filter) }
        let found = link.survey ?? [:]
        link.survey = nil
        // It is this gateway's alone if nothing else points at it, and nobody else publishes under the topic.
        link.hasFormerStatus =
            found[topics.sharedStatus]?.isEmpty == false && !link.othersShareStatus
            && found.contains { topic, payload in
                place.isForHomeAssistant
                    ? topics.isOwnDiscovery(topic) && pointsAtSharedStatus(payload, topics)
                    : link.board.isOurs(payload)
            }
            && !found.contains { topic, payload in
                topic != topics.sharedStatus && !topics.isOwnDiscovery(topic) && !payload.isEmpty
                    && !link.board.isOurs(payload)
            }
        for (topic, payload) in found where !payload.isEmpty {
            guard topics.isOwnDiscovery(topic) || link.board.isOurs(payload) else { continue }
            link.retained[topic] = String(decoding: payload, as: UTF8.self)
            if topic.hasPrefix(place.topic + "/") { link.board.note(payload, at: topic) }
        }
    }
}

import FleetDelivery
import FleetDocuments
import HealthReadings
import MQTTLink
import ReadingDelivery
import ReadingStore

extension FleetDestination {
    /// Connects to each host beside the connection that delivers, and asks the centre to answer. No reading is sent.
    public func test() async -> [Finding] {
        let gateway: GatewayID
        do {
            gateway = try await self.gateway()
        } catch {
            let failure = DeliveryFailure(error)
            return [Finding("settings", isGood: false, found: failure.message, cause: failure)]
        }
        var findings: [Finding] = []
        var answering: MQTTConnection?
        for (index, host) in place.hosts.enumerated() {
            var options = MQTTOptions(clientID: Self.testClientID(of: gateway, at: index))
            options.openTimeout = .seconds(10)
            do throws(MQTTError) {
                let connection = try await open(host, options)
                findings.append(
                    Finding(
                        "address", isGood: true,
                        found: "\(host.host):\(host.port) lets \(gateway) in and speaks MQTT \(connection.version)"))
                if answering == nil { answering = connection } else { await connection.close() }
            } catch {
                findings += Finding.of(error)
            }
        }
        let people = await reporter.peopleFinding()
        guard let connection = answering else { return findings + [people].compactMap(\.self) }
        findings.append(await permission(connection, gateway))
        if place.waitsForReceipt { findings.append(await receipts()) }
        await connection.close()
        return findings + [people].compactMap(\.self)
    }

    private func permission(_ connection: MQTTConnection, _ gateway: GatewayID) async -> Finding {
        do throws(MQTTError) {
            for part in [FleetTopic.Part.receipts, .config] {
                try await connection.subscribe(to: FleetTopic(part, of: gateway).description, quality: .atMostOnce)
            }
            let hello = FleetHello(
                gateway: gateway, sentAt: sender.now(), version: sender.version,
                configuration: await sender.steering.state())
            let said = try await connection.publish(
                MQTTMessage(topic: FleetTopic(.hello, of: gateway).description, text: hello.document.text))
            if said.hasSubscribers == false {
                return Finding(
                    "permission", isGood: false,
                    found: "the gateway may publish, and nobody receives \(FleetTopic(.hello, of: gateway))",
                    mend: "check that the collector runs and is connected to this broker")
            }
            return Finding("permission", isGood: true, found: "the gateway may publish and subscribe")
        } catch {
            return Finding(
                "permission", isGood: false, found: "healthrelay/\(gateway)/#: \(error.message)",
                mend: error.kind == .notAuthorized
                    ? "let the broker's access list permit \(gateway) its own topics" : nil,
                cause: DeliveryFailure(error))
        }
    }

    /// What is known of receipts: a broker may acknowledge a batch that it throws away.
    private func receipts() async -> Finding {
        do {
            let key = try await key()
            let (waiting, last) = (
                try await store.handedOverCount(at: key), try await store.statistics(of: key).lastDelivery
            )
            let since = last.map { "the last receipt came at \($0.flooredToSecond)" } ?? "no receipt has come yet"
            guard waiting > 0 else {
                return Finding(
                    "receipts", isGood: last == nil ? nil : true,
                    found: last == nil
                        ? "\(since): the broker's acknowledgement does not prove that readings are stored"
                        : since)
            }
            return Finding(
                "receipts", isGood: nil, found: "\(waiting) readings were sent and have no receipt; \(since)",
                mend: "if this stays so, check that the collector runs and gets \(FleetTopic.filter(.readings))")
        } catch {
            let failure = DeliveryFailure(error)
            return Finding("receipts", isGood: nil, found: failure.message, cause: failure)
        }
    }
}

import MQTTLink
import ReadingDelivery
import ReadingFormats
import ReadingStore

extension MQTTDestination {
    /// Connects beside the connection that delivers, and publishes empty messages that nobody keeps.
    public func test() async -> [Finding] {
        let naming: Naming
        do {
            naming = Naming(gateway: try await store.gatewayID(), base: place.topic)
        } catch {
            let failure = DeliveryFailure(error)
            return [Finding("settings", isGood: false, found: failure.message, cause: failure)]
        }
        let connection: MQTTConnection
        do throws(MQTTError) {
            // Another client id: a broker closes the older one of two connections with the same.
            var options = MQTTOptions(clientID: naming.client(of: name + " test"))
            options.openTimeout = .seconds(10)
            connection = try await MQTTConnection.open(place.broker, options)
        } catch {
            return Finding.of(error)
        }
        var findings = [
            Finding(
                "address", isGood: true,
                found: "\(place.broker.host):\(place.broker.port) answers and speaks MQTT \(connection.version)")
        ]
        if place.broker.tls != nil {
            findings.append(
                Finding("certificate", isGood: true, found: "the certificate is trusted and names the host"))
        }
        findings.append(Finding("credentials", isGood: true, found: "the broker lets the gateway in"))
        var topics = [place.topic + "/readings/test", place.topic + "/devices/test/test", place.topic + "/test"]
        if place.isForHomeAssistant { topics.append(naming.topics.discovery(of: "test")) }
        findings.append(await permission(connection, topics))
        await connection.close()
        return findings
    }

    private func permission(_ connection: MQTTConnection, _ topics: [String]) async -> Finding {
        for topic in topics {
            do throws(MQTTError) {
                try await connection.publish(MQTTMessage(topic: topic, payload: []))
            } catch {
                let level = topic.hasPrefix("homeassistant/") ? "homeassistant/device/" : place.topic + "/"
                return Finding(
                    "permission", isGood: false, found: "\(level)#: \(error.message)",
                    mend: error.kind == .notAuthorized ? "let the broker's access list permit writing there" : nil,
                    cause: DeliveryFailure(error))
            }
        }
        return connection.version == .v5
            ? Finding("permission", isGood: true, found: "the gateway may publish")
            : Finding(
                "permission", isGood: nil,
                found: "MQTT 3.1.1 cannot tell: a broker may acknowledge a message that it throws away")
    }
}

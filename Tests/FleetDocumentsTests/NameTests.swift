import FleetDocuments
import Testing

@Suite("Names of a fleet")
struct NameTests {
    @Test(
        "a gateway's id is 1 to 23 letters, digits, underscores and hyphens",
        arguments: ["a", "GW_07-x", "aaaaaaaaaaaaaaaaaaaaaaa"])
    func goodID(_ text: String) throws {
        #expect(try GatewayID(text).description == text)
    }

    @Test(
        "anything else is no id, and the error says where",
        arguments: [
            ("", "an empty text"), ("a.b", "'.' at 1"), ("a b", "another character at 1"), ("ward/7", "'/' at 4"),
            ("gäste", "another character at 1"), ("aaaaaaaaaaaaaaaaaaaaaaaa", "24 characters"), ("+", "'+' at 0"),
        ])
    func badID(_ text: String, _ found: String) {
        #expect(
            throws: FleetDocumentError.unexpected(
                at: "gateway", expected: "1 to 23 characters of A-Z, a-z, 0-9, _ and -", found: found)
        ) { try GatewayID(text) }
        #expect(GatewayID(ifValid: text) == nil)
    }

    @Test("a topic reads back from MQTT and from a routing key", arguments: FleetTopic.Part.allCases)
    func topic(_ part: FleetTopic.Part) throws {
        let topic = FleetTopic(part, of: try GatewayID("ward-7"))
        #expect(topic.description == "healthrelay/ward-7/\(part.rawValue)")
        #expect(topic.routingKey == "healthrelay.ward-7.\(part.rawValue)")
        #expect(try FleetTopic(topic.description) == topic)
        #expect(try FleetTopic(routingKey: topic.routingKey) == topic)
        #expect(FleetTopic.filter(part) == "healthrelay/+/\(part.rawValue)")
        #expect(FleetTopic.bindingKey(part) == "healthrelay.*.\(part.rawValue)")
    }

    @Test(
        "another topic is none of a fleet",
        arguments: [
            "", "healthrelay", "healthrelay/ward-7", "healthrelay//readings", "other/ward-7/readings",
            "healthrelay/ward-7/readings/x", "healthrelay/ward.7/readings", "healthrelay/ward-7/secrets",
            "healthrelay/+/config",
        ])
    func badTopic(_ text: String) {
        #expect(throws: FleetDocumentError.self) { try FleetTopic(text) }
    }
}

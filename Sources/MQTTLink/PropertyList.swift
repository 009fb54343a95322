import CMosquitto
import Glibc

/// Properties of an MQTT 5 packet that is sent; freed with this object.
final class PropertyList {
    private(set) var first: OpaquePointer?

    deinit { mosquitto_property_free_all(&first) }

    func add(_ property: mqtt5_property, _ value: UInt16) {
        mosquitto_property_add_int16(&first, Int32(property.rawValue), value)
    }

    func add(_ property: mqtt5_property, _ value: UInt32) {
        mosquitto_property_add_int32(&first, Int32(property.rawValue), value)
    }

    func add(_ property: mqtt5_property, _ text: String) {
        mosquitto_property_add_string(&first, Int32(property.rawValue), text)
    }

    // MARK: Properties of a packet that came

    static func int16(_ list: OpaquePointer?, _ property: mqtt5_property) -> UInt16? {
        var value: UInt16 = 0
        return mosquitto_property_read_int16(list, Int32(property.rawValue), &value, false) == nil ? nil : value
    }

    static func text(_ list: OpaquePointer?, _ property: mqtt5_property) -> String? {
        var value: UnsafeMutablePointer<CChar>?
        guard mosquitto_property_read_string(list, Int32(property.rawValue), &value, false) != nil else { return nil }
        defer { free(value) }
        return value.map { String(cString: $0) }
    }

    /// The broker's words, without control characters and at most 200 characters.
    static func reason(_ list: OpaquePointer?) -> String? {
        guard let words = text(list, MQTT_PROP_REASON_STRING) else { return nil }
        let visible = words.unicodeScalars.filter { $0.properties.generalCategory != .control }
        return String(String.UnicodeScalarView(visible.prefix(200)))
    }
}

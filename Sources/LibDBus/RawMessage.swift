import CDBus

/// A message as the octets of the wire, without a connection.
enum RawMessage {
    /// Reads a message: what every octet of it may say is outside of our hands.
    ///
    /// - Returns: nil where libdbus does not take it for a message.
    static func read<Result>(_ octets: [UInt8], _ body: (borrowing OwnedMessage) -> Result) -> Result? {
        guard let count = Int32(exactly: octets.count) else { return nil }
        let message = octets.withUnsafeBytes { octets in
            octets.withMemoryRebound(to: CChar.self) { octets in
                octets.baseAddress.flatMap { dbus_message_demarshal($0, count, nil) }
            }
        }
        guard let owned = OwnedMessage(owning: message) else { return nil }
        return body(owned)
    }

    /// The values of a message; nil where it is none, or one that is not read.
    static func values(_ octets: [UInt8]) -> [DBusValue]? {
        read(octets) { try? ValueReader.arguments(of: $0.pointer) } ?? nil
    }

    /// The octets of a message, as a bus would send it for this sender.
    static func octets(of message: borrowing OwnedMessage, from sender: String? = nil) -> [UInt8] {
        if dbus_message_get_serial(message.pointer) == 0 { dbus_message_set_serial(message.pointer, 1) }
        if let sender, Name.bus.accepts(sender) { dbus_message_set_sender(message.pointer, sender) }
        var start: UnsafeMutablePointer<CChar>?
        var count: Int32 = 0
        guard dbus_message_marshal(message.pointer, &start, &count) != 0, let start else { return [] }
        defer { dbus_free(start) }
        return [UInt8](UnsafeRawBufferPointer(start: start, count: Int(count)))
    }
}

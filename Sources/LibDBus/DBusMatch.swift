/// Which signals are wanted: what is nil is not looked at (D-Bus Specification, "Match Rules").
///
/// Signals are matched on the bus, and again here: a peer that sends a signal straight to this connection, past the
/// bus's rules, is not heard under another's name.
public struct DBusMatch: Sendable, Hashable {
    /// Who sends: a unique name, or a well-known name, whose owner is then followed.
    public var sender: String?
    /// The object.
    public var path: String?
    /// The object or any below it; not together with ``path``.
    public var pathNamespace: String?
    /// The interface.
    public var interface: String?
    /// The signal's name.
    public var member: String?
    /// The first argument, a string.
    public var arg0: String?
    /// The first argument, a string or an object path: this; or below this, where this ends with `/`; or above this,
    /// where it ends with `/` itself.
    public var arg0Path: String?
    /// The first argument, a name: this, or one that begins with this and a dot.
    public var arg0Namespace: String?

    /// Makes a rule.
    public init(
        sender: String? = nil, path: String? = nil, pathNamespace: String? = nil, interface: String? = nil,
        member: String? = nil, arg0: String? = nil, arg0Path: String? = nil, arg0Namespace: String? = nil
    ) {
        self.sender = sender
        self.path = path
        self.pathNamespace = pathNamespace
        self.interface = interface
        self.member = member
        self.arg0 = arg0
        self.arg0Path = arg0Path
        self.arg0Namespace = arg0Namespace
    }

    /// The rule as the bus reads it.
    ///
    /// - Throws: ``DBusError/invalidArgument(_:)`` where a part is no name, no path or holds a NUL.
    func text() throws(DBusError) -> String {
        if path != nil, pathNamespace != nil {
            throw .invalidArgument("expected a path or a path namespace, found both")
        }
        let parts: [(key: String, value: String?, kind: Name)] = [
            ("sender", sender, .bus), ("path", path, .path), ("path_namespace", pathNamespace, .path),
            ("interface", interface, .interface), ("member", member, .member), ("arg0", arg0, .text),
            ("arg0path", arg0Path, .text), ("arg0namespace", arg0Namespace, .text),
        ]
        var text = "type='signal'"
        for part in parts {
            guard let value = part.value else { continue }
            try part.kind.check(value)
            // Between apostrophes nothing is special but the apostrophe itself.
            let quoted = value.unicodeScalars.split(separator: "'", omittingEmptySubsequences: false)
                .map { String($0) }.joined(separator: #"'\''"#)
            text += ",\(part.key)='\(quoted)'"
        }
        return text
    }

    /// The well-known name whose owner has to be followed.
    var followed: String? {
        sender.flatMap { $0.hasPrefix(":") || $0 == "org.freedesktop.DBus" ? nil : $0 }
    }
}
